/* SPDX-License-Identifier: GPL-2.0 */
/* The events of the kernel's TCP for a scheme on bbr_core.h: its state, its counters, its programs.
 *
 * The state is in the storage of the socket (SK_STORAGE). The space of the socket for a scheme has only a mark that init
 * has run. If there is no memory for the state, the connection keeps cwnd and its pacing rate, and an error is counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bbr);
} flows SEC(".maps");

/* crates/live/src/kernel/programs/status.rs has the same layout. */
struct counters {
	__u64 opened;
	__u64 closed;
	__u64 acks;
	__u64 timeouts;
	__u64 errors;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* The parameters that were set, as text. Only processes read it. */
struct settings {
	char text[1024];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

static struct counters *counted(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&counters, &first);
}

#define COUNT(field)                           \
	do {                                   \
		struct counters *c = counted(); \
		if (c)                         \
			c->field++;            \
	} while (0)

static __u64 *started(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static struct bbr *flow_of(struct sock *sk)
{
	return *started(sk) ? bpf_sk_storage_get(&flows, sk, 0, 0) : 0;
}

SEC("struct_ops")
void BPF_PROG(bbr_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 mss = atleast(tp->mss_cache, 1), srtt = tp->srtt_us >> 3;
	struct bbr *b = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	*started(sk) = 1;
	COUNT(opened);
	if (!b) {
		COUNT(errors);
		return;
	}
	__builtin_memset(b, 0, sizeof(*b));
	b->mode = STARTUP;
	b->min_rtt = tp->rtt_min.s[0].v;
	b->min_rtt_at = tp->tcp_mstamp;
	b->delivered_at = tp->tcp_mstamp;
	b->prior_cwnd = tp->snd_cwnd;
	b->next_delivered = tp->delivered;
	b->ca_state = OPEN;
	b->seen_srtt = srtt != 0;
	start_pacing(sk, b, srtt ? srtt : 1000, mss);
	own_init(b, tp->tcp_mstamp, srtt);
	sk->sk_pacing_status = PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(bbr_release, struct sock *sk)
{
	if (!*started(sk))
		return;
	COUNT(closed);
	*started(sk) = 0;
	bpf_sk_storage_delete(&flows, sk);
}

SEC("struct_ops")
void BPF_PROG(bbr_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	struct ack a;

	/* The acknowledgement of the SYN precedes init. */
	if (!b)
		return;
	COUNT(acks);
	a.now = tp->tcp_mstamp;
	a.acked = rs->acked_sacked;
	a.lost = rs->losses;
	a.prior_in_flight = rs->prior_in_flight;
	a.in_flight = in_flight(tp);
	a.mss = atleast(tp->mss_cache, 1);
	a.rtt = rs->rtt_us < 0 || rs->rtt_us >= NO_RTT ? NO_RTT : rs->rtt_us;
	a.srtt = tp->srtt_us >> 3;
	a.sampled = rs->delivered >= 0 && rs->interval_us > 0;
	a.limited = a.sampled && rs->is_app_limited;
	a.delayed = rs->is_ack_delayed;
	if (a.acked)
		b->delivered_at = a.now;
	update_bandwidth(b, tp, rs, &a);
	update_aggregation(b, tp, &a);
	own_observe(b, &a);
	if (b->mode == PROBE_BW && own_phase_done(b, &a))
		begin_phase(b, (b->phase + 1) % PHASES);
	check_full(b, &a);
	check_drain(b, &a);
	update_min_rtt(b, tp, &a);
	set_pacing(sk, b, a.srtt, pacing_gain(b), a.mss);
	set_cwnd(b, tp, &a, BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state));
}

SEC("struct_ops")
void BPF_PROG(bbr_set_state, struct sock *sk, __u8 to)
{
	struct bbr *b = flow_of(sk);

	if (!b || to != LOSS)
		return;
	COUNT(timeouts);
	b->ca_state = LOSS;
	b->full_bw = 0;
	/* For the policer a timeout is a loss at the end of a round. */
	b->round_start = 1;
	sample_policer(b, (struct tcp_sock *)sk, 1, 0);
}

SEC("struct_ops")
void BPF_PROG(bbr_cwnd_event, struct sock *sk, enum tcp_ca_event what)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);

	if (!b || what != CA_EVENT_TX_START || !tp->app_limited)
		return;
	b->idle_restart = 1;
	b->epoch_since = tp->tcp_mstamp;
	b->epoch_acked = 0;
	/* The pipe is empty: pacing at the bandwidth fills it, and more would only queue. */
	if (b->mode == PROBE_BW)
		set_pacing(sk, b, 0, ONE, atleast(tp->mss_cache, 1));
	else if (b->mode == PROBE_RTT)
		leave_probe_rtt(b, tp, tp->tcp_mstamp);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);

	if (b)
		save_cwnd(b, tp);
	return tp->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	struct policer_sample s;

	if (b) {
		b->full_bw = 0;
		sample_of(b, tp, &s);
		policer_reset(&b->policer, &s);
	}
	return tp->snd_cwnd;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_min_tso_segs, struct sock *sk)
{
	return sk->sk_pacing_rate < SLOW ? 1 : 2;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_sndbuf_expand, struct sock *sk)
{
	/* BBR may provision 3 cwnd, as recovery needs one more. */
	return 3;
}

#define SCHEME(linux_name)                                 \
	SEC(".struct_ops.link")                            \
	struct tcp_congestion_ops scheme = {               \
		.ssthresh = (void *)bbr_ssthresh,     \
		.set_state = (void *)bbr_set_state,   \
		.cwnd_event = (void *)bbr_cwnd_event, \
		.min_tso_segs = (void *)bbr_min_tso_segs, \
		.cong_control = (void *)bbr_cong_control, \
		.undo_cwnd = (void *)bbr_undo_cwnd,   \
		.sndbuf_expand = (void *)bbr_sndbuf_expand, \
		.init = (void *)bbr_init,             \
		.release = (void *)bbr_release,       \
		.flags = NON_RESTRICTED,                   \
		.name = linux_name,                        \
	}
