/* SPDX-License-Identifier: GPL-2.0 */
/* The events of the kernel's TCP for a scheme on bbr_core.h. */

SEC("struct_ops")
void BPF_PROG(bbr_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 mss = atleast(tp->mss_cache, 1), srtt = tp->srtt_us >> 3;
	struct bbr *b = (struct bbr *)tp->inet_conn.icsk_ca_priv;
	struct rest *rest = open_flow(sk);

	if (!rest)
		return;
	__builtin_memset(b, 0, sizeof(*b));
	__builtin_memset(rest, 0, sizeof(*rest));
	b->mode = STARTUP;
	b->min_rtt = tp->rtt_min.s[0].v;
	b->min_rtt_at = tp->tcp_mstamp;
	b->delivered_at = tp->tcp_mstamp;
	b->next_delivered = tp->delivered;
	b->ca_state = OPEN;
	b->seen_srtt = srtt != 0;
	rest->prior_cwnd = tp->snd_cwnd;
	start_pacing(sk, b, srtt ? srtt : 1000, sk->sk_max_pacing_rate, mss);
	own_init(b, rest, tp->tcp_mstamp, srtt);
	sk->sk_pacing_status = PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(bbr_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct bbr *b = flow_of(sk);
	struct ack a;

	/* The acknowledgement of the SYN precedes init. */
	if (!b)
		return;
	COUNT(acks);
	read_ack(&a, sk, rs);
	if (a.acked)
		b->delivered_at = a.now;
	update_bandwidth(sk, b, &a);
	update_aggregation(sk, b, &a);
	own_observe(sk, b, &a);
	if (b->mode == PROBE_BW && own_phase_done(b, &a))
		begin_phase(b, (b->phase + 1) % PHASES);
	check_full(sk, b, &a);
	check_drain(sk, b, &a);
	update_min_rtt(sk, b, &a);
	if (a.srtt && !b->seen_srtt) {
		b->seen_srtt = 1;
		start_pacing(sk, b, a.srtt, a.most, a.mss);
	}
	set_pacing(sk, b, pacing_gain(b), a.most, a.mss);
	set_cwnd(sk, b, &a, BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state));
}

SEC("struct_ops")
void BPF_PROG(bbr_set_state, struct sock *sk, __u8 to)
{
	struct bbr *b = flow_of(sk);
	struct rest *rest;

	if (!b || to != LOSS)
		return;
	COUNT(timeouts);
	b->ca_state = LOSS;
	rest = stored_of(sk);
	if (rest)
		rest->full_bw = 0;
	/* In the detection of policers, a timeout is a loss at the end of a round. */
	b->round_start = 1;
	if (core.lt_bw)
		sample_policer(sk, b, 1, 0);
}

SEC("struct_ops")
void BPF_PROG(bbr_cwnd_event, struct sock *sk, enum tcp_ca_event what)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	struct rest *rest;

	if (!b || what != CA_EVENT_TX_START || !tp->app_limited)
		return;
	b->idle_restart = 1;
	b->epoch_since = tp->tcp_mstamp;
	b->epoch_acked = 0;
	/* The pipe is empty: pacing at the bandwidth fills it, and a higher rate would only build a queue. */
	if (b->mode == PROBE_BW)
		set_pacing(sk, b, ONE, sk->sk_max_pacing_rate, atleast(tp->mss_cache, 1));
	if (b->mode != PROBE_RTT)
		return;
	rest = stored_of(sk);
	if (rest)
		leave_probe_rtt(rest, b, tp, tp->tcp_mstamp);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	struct rest *rest = b ? stored_of(sk) : 0;

	if (rest)
		save_cwnd(rest, b, tp);
	return tp->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	struct rest *rest = b ? stored_of(sk) : 0;
	struct policer_sample s;

	if (rest) {
		rest->full_bw = 0;
		sample_of(b, tp, &s);
		policer_reset(&rest->policer, &s);
		note_policer(b, &rest->policer);
	}
	return tp->snd_cwnd;
}
