// SPDX-License-Identifier: GPL-2.0
/* A congestion control scheme of Linux whose decisions come from a process.
 *
 * Every acknowledgement, timeout, change of state and restart after idle time becomes one record in a ring buffer. The
 * process (crates/kernel/src/shim) answers with the newest decision per flow in a map: cwnd, pacing rate, ssthresh. The
 * decision is applied at the next event of the flow, or when the flow next tries to send. A decision names the last
 * record that it accounts for.
 *
 * - Recovery and timeouts change the limits immediately. Until a decision accounts for such an event, one packet is
 *   sent per packet delivered (packet conservation).
 * - After idle time at most the initial window is sent until a decision accounts for the restart.
 * - In a proportional rate reduction a decision states how many packets may be sent beyond those sent when the decision
 *   was made (prr_out), so a late decision never releases more packets than a timely decision. Below the target, one
 *   packet is also sent per packet delivered since the decision was made.
 * - If records stay unanswered for the longer of 200 ms and two smoothed round-trip times, the process counts as dead:
 *   cwnd grows and halves as in Reno, paced at twice cwnd per round trip. When decisions return, they apply again.
 *
 * A flow is identified by its local port: the name of the scheme is unique to one process, which assigns the ports.
 */
#include "program.h"

#include "fixed.h"
#include "protocol.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct decision);
} decisions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* State of a flow, in its socket's space for a scheme. */
struct state {
	__u64 sent; /* number of records sent */
	__u64 answered; /* last record that the newest decision seen accounts for */
	__u64 waiting_since; /* ns: time of the oldest record without an answer, or of the last answer */
	__u64 barrier; /* decisions that account only for records before this one are too old */
	__u64 ack_mstamp; /* time of the acknowledgement in progress */
	__u32 transitions;
	__u32 flags;
	__u32 burst;
	__u8 ca_state;
	__u8 started;
	__u8 fallback;
	__u8 reduced; /* a reduction began since the last record */
};

static struct state *state_of(struct sock *sk)
{
	return (struct state *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static void pace(struct sock *sk, __u64 rate)
{
	sk->sk_pacing_rate = least_of(rate, sk->sk_max_pacing_rate);
}

/* cwnd per round trip, times percent / 100. Linux sizes bursts by this rate for schemes that do not pace. */
static __u64 window_rate(const struct tcp_sock *tp, __u64 percent)
{
	__u64 srtt_us = tp->srtt_us >> 3;
	__u64 packets = atleast(tp->snd_cwnd, tp->packets_out);

	return packets * tp->mss_cache * 10000 * percent / (srtt_us ? srtt_us : 1000);
}

static void reno(struct sock *sk, struct state *st, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 cwnd = atleast(tp->snd_cwnd, 1), ssthresh = atleast(tp->snd_ssthresh, 2), count;

	if (st->ca_state == CWR || st->ca_state == RECOVERY) {
		cwnd = atmost(ssthresh, in_flight(tp) + 2 * atleast(acked, 1));
	} else if (cwnd < ssthresh) {
		cwnd = atmost(cwnd + acked, ssthresh);
	} else {
		count = tp->snd_cwnd_cnt + acked;
		if (count >= cwnd) {
			count -= cwnd;
			cwnd++;
		}
		tp->snd_cwnd_cnt = count;
	}
	tp->snd_cwnd = atleast(cwnd, 1);
	sk->sk_pacing_status = PACING_NEEDED;
	pace(sk, window_rate(tp, 200));
}

static void follow(struct sock *sk, struct state *st, const struct decision *d, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 cwnd = d->cwnd, left = d->prr_out + d->allowance;

	/* When the reduction ends, the scheme's cwnd applies immediately. */
	if ((d->flags & REDUCING) && (st->ca_state == CWR || st->ca_state == RECOVERY)) {
		/* A newer reduction resets prr_out. */
		left = tp->prr_out >= d->prr_out && left > tp->prr_out ? left - tp->prr_out : 0;
		left += in_flight(tp);
		/* The decision does not account for the packets that this event delivers: packet conservation applies
		 * to them below the target.
		 */
		cwnd = atleast(atmost(left + acked, cwnd), left);
	}
	tp->snd_cwnd = atleast(cwnd, 1);
	tp->snd_ssthresh = atleast(d->ssthresh, 2);
	st->burst = d->burst;
	if (d->flags & PACED) {
		sk->sk_pacing_status = PACING_NEEDED;
		pace(sk, d->pacing_rate);
	} else {
		sk->sk_pacing_status = PACING_NONE;
		pace(sk, window_rate(tp, tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120));
	}
}

static void note(struct state *st, const struct decision *d, struct counters *c, __u64 now)
{
	if (d->answers == st->answered)
		return;
	st->answered = d->answers;
	st->waiting_since = now;
	if (c)
		c->decisions++;
}

/* Applies the newest decision, or the rules for the time without decisions. */
static void apply(struct sock *sk, struct state *st, struct counters *c, __u32 port, __u64 now, __u32 acked,
		  __u32 room)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct decision *d = bpf_map_lookup_elem(&decisions, &port);
	__u64 patience = most_of((__u64)tp->srtt_us * 250, 200000000);

	if (d)
		note(st, d, c, now);
	st->fallback = !d || (st->answered < st->sent && now > st->waiting_since + patience);
	if (st->fallback) {
		if (c)
			c->fallbacks++;
		reno(sk, st, acked);
	} else if (d && d->answers >= st->barrier) {
		follow(sk, st, d, acked);
	} else {
		tp->snd_cwnd = atmost(atleast(tp->snd_cwnd, 1), in_flight(tp) + room);
	}
}

static void event(struct sock *sk, __u32 kind, __u32 ack_flags, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *st = state_of(sk);
	__u32 port = sk->__sk_common.skc_num;
	struct counters *c = bpf_map_lookup_elem(&counters, &port);
	__u64 now = bpf_ktime_get_ns();
	__u32 acked = rs ? rs->acked_sacked : 0;
	__u32 room = kind == START ? INITIAL_WINDOW : atleast(acked, 1);
	__u32 flags = st->flags;
	struct record *r;

	if (st->answered >= st->sent)
		st->waiting_since = now;
	if (st->reduced || kind == START)
		st->barrier = st->sent + 1;
	/* After a timeout the kernel has set cwnd. */
	if (kind != TIMEOUT && kind != CLOSE)
		apply(sk, st, c, port, now, acked, room);
	st->sent++;
	st->reduced = 0;
	st->flags = 0;
	if (c)
		c->calls++;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		/* The record was dropped, so the next record reports its flags and states. */
		st->flags = flags;
		if (c)
			c->drops++;
		return;
	}
	if (st->fallback)
		flags |= FALLBACK;
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		flags |= CWND_LIMITED;
	r->sequence = st->sent;
	r->applied = st->answered;
	r->time_ns = now;
	r->mstamp_us = tp->tcp_mstamp;
	r->first_tx_us = tp->first_tx_mstamp;
	r->bytes_sent = tp->bytes_sent;
	r->bytes_retrans = tp->bytes_retrans;
	r->pacing_rate = sk->sk_pacing_rate;
	r->port = port;
	r->kind = kind;
	r->transitions = st->transitions;
	r->ack_flags = ack_flags;
	if (rs) {
		r->prior_mstamp_us = rs->prior_mstamp;
		r->acked_sacked = rs->acked_sacked;
		r->losses = rs->losses;
		r->prior_delivered = rs->prior_delivered;
		r->sample_delivered = rs->delivered;
		r->interval_us = rs->interval_us;
		r->snd_interval_us = rs->snd_interval_us;
		r->rcv_interval_us = rs->rcv_interval_us;
		r->rtt_us = rs->rtt_us;
		r->prior_in_flight = rs->prior_in_flight;
		if (rs->is_app_limited)
			flags |= APP_LIMITED;
		if (rs->is_retrans)
			flags |= RETRANSMITTED;
		if (rs->is_ack_delayed)
			flags |= ACK_DELAYED;
		if (rs->prior_mstamp && rs->delivered >= 0)
			flags |= SAMPLED;
	} else {
		r->prior_mstamp_us = 0;
		r->acked_sacked = 0;
		r->losses = 0;
		r->prior_delivered = 0;
		r->sample_delivered = 0;
		r->interval_us = ~0U;
		r->snd_interval_us = 0;
		r->rcv_interval_us = 0;
		r->rtt_us = ~0U;
		r->prior_in_flight = in_flight(tp);
	}
	r->flags = flags;
	r->delivered = tp->delivered;
	r->delivered_ce = tp->delivered_ce;
	r->lost = tp->lost;
	r->packets_out = tp->packets_out;
	r->sacked_out = tp->sacked_out;
	r->lost_out = tp->lost_out;
	r->retrans_out = tp->retrans_out;
	r->snd_cwnd = tp->snd_cwnd;
	r->ssthresh = tp->snd_ssthresh;
	r->srtt_us = tp->srtt_us;
	r->rttvar_us = tp->rttvar_us;
	r->min_rtt_us = tp->rtt_min.s[0].v;
	r->mss = tp->mss_cache;
	r->snd_una = tp->snd_una;
	r->snd_nxt = tp->snd_nxt;
	r->prr_out = tp->prr_out;
	r->max_packets_out = tp->max_packets_out;
	r->app_limited = tp->app_limited;
	r->retransmits = tp->inet_conn.icsk_retransmits;
	r->reordering = tp->reordering;
	bpf_ringbuf_submit(r, 0);
	st->transitions = 0;
}

SEC("struct_ops")
void BPF_PROG(shim_init, struct sock *sk)
{
	struct state *st = state_of(sk);

	st->sent = 0;
	st->answered = 0;
	st->barrier = 0;
	st->ack_mstamp = 0;
	st->transitions = 0;
	st->flags = 0;
	st->burst = 2;
	st->ca_state = OPEN;
	st->fallback = 0;
	st->reduced = 0;
	st->started = 1;
	event(sk, INIT, 0, 0);
}

SEC("struct_ops")
void BPF_PROG(shim_release, struct sock *sk)
{
	if (state_of(sk)->started)
		event(sk, CLOSE, 0, 0);
}

SEC("struct_ops")
void BPF_PROG(shim_in_ack_event, struct sock *sk, __u32 flags)
{
	state_of(sk)->ack_mstamp = ((struct tcp_sock *)sk)->tcp_mstamp;
}

SEC("struct_ops")
void BPF_PROG(shim_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct state *st = state_of(sk);

	/* The acknowledgement of the SYN precedes init. */
	if (!st->started)
		return;
	st->ack_mstamp = 0;
	event(sk, ACK, flag, rs);
}

SEC("struct_ops")
void BPF_PROG(shim_set_state, struct sock *sk, __u8 to)
{
	struct state *st = state_of(sk);
	__u8 from = st->ca_state;

	st->ca_state = to;
	if (!st->started || (from == to && to != LOSS))
		return;
	st->transitions = st->transitions << 4 | (to + 1);
	if (to >= CWR && (from < CWR || to == LOSS))
		st->reduced = 1;
	if (to == LOSS)
		event(sk, TIMEOUT, 0, 0);
	else if (st->ack_mstamp != ((struct tcp_sock *)sk)->tcp_mstamp)
		event(sk, STATE, 0, 0);
	/* During an acknowledgement, the record of the acknowledgement reports the change. */
}

SEC("struct_ops")
void BPF_PROG(shim_cwnd_event, struct sock *sk, enum tcp_ca_event what)
{
	struct state *st = state_of(sk);

	if (!st->started)
		return;
	if (what == CA_EVENT_TX_START)
		event(sk, START, 0, 0);
	else if (what == CA_EVENT_LOSS)
		st->flags |= LOSS_EVENT;
}

SEC("struct_ops")
__u32 BPF_PROG(shim_ssthresh, struct sock *sk)
{
	return atleast(((struct tcp_sock *)sk)->snd_cwnd / 2, 2);
}

SEC("struct_ops")
__u32 BPF_PROG(shim_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *st = state_of(sk);

	st->flags |= UNDO;
	return st->fallback ? atleast(tp->snd_cwnd, tp->prior_cwnd) : tp->snd_cwnd;
}

SEC("struct_ops")
__u32 BPF_PROG(shim_min_tso_segs, struct sock *sk)
{
	struct state *st = state_of(sk);
	__u32 port = sk->__sk_common.skc_num;
	struct decision *d;

	/* The kernel calls this before it sends: a decision that came since the last event applies now. */
	d = st->started && !st->fallback ? bpf_map_lookup_elem(&decisions, &port) : 0;
	if (d && d->answers != st->answered && d->answers >= st->barrier) {
		note(st, d, bpf_map_lookup_elem(&counters, &port), bpf_ktime_get_ns());
		follow(sk, st, d, 0);
	}
	return atleast(st->burst, 1);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops narrows = {
	.ssthresh = (void *)shim_ssthresh,
	.set_state = (void *)shim_set_state,
	.cwnd_event = (void *)shim_cwnd_event,
	.in_ack_event = (void *)shim_in_ack_event,
	.min_tso_segs = (void *)shim_min_tso_segs,
	.cong_control = (void *)shim_cong_control,
	.undo_cwnd = (void *)shim_undo_cwnd,
	.init = (void *)shim_init,
	.release = (void *)shim_release,
	.name = "narrows",
};
