// SPDX-License-Identifier: GPL-2.0
/* BBR v3 for struct_ops: the steps of draft-ietf-ccwg-bbr-06 in their order. The twin of crates/cc/src/schemes/bbr3.rs
 * with the core crates/cc/src/bbr_v2_v3. The head of bbr3.rs explains the scheme, its parameters and its symbols.
 *
 * Differences from the twin; all but the last exist because the kernel does not provide the information that the
 * program would need:
 * - The kernel does not report which packets were lost, nor the state of the connection when they were sent. A lost
 *   packet gets the state of the newest packet delivered, which was sent shortly after the lost packet, as in the shim
 *   (kernel/shim/flow.rs). The counts of packets lost and in flight when that packet was sent come from earlier
 *   acknowledgements. The flow remembers every acknowledgement while fewer than 128 packets are in flight, and at least
 *   64 acknowledgements per flight when more packets are in flight.
 * - Ranges of lost data are unknown: an acknowledgement that reveals loss counts as one range, as in Linux v3.
 * - There is no response to marks: on a connection without accurate ECN the receiver echoes a mark for a round trip, so
 *   the share of marks is unknown.
 * - Gains have 20 fractional bits. Shares (loss_thresh, beta, headroom) have 40 and are rounded up: below 2^40 bytes, a
 *   product that is a whole number is exact; with shares rounded down the product would come out one too low.
 */
#include "program.h"

/* For native/replay.c. */
#define V3

#include "bbr3_steps.h"

typedef struct bbr stored;

#include "bbr_host.h"

static struct bbr *flow_of(struct sock *sk)
{
	return *started(sk) ? stored_of(sk) : 0;
}

static void set_rate(struct sock *sk, struct bbr *b, __u64 rate, __u64 most, __u32 mss)
{
	__u32 quanta_per_second = USEC_PER_SEC / QUANTUM_US;
	__u32 limited = least_of(pace(sk, rate, most), (__u64)QUANTUM_BYTES * quanta_per_second);

	b->quantum = atleast(limited / (mss * quanta_per_second), QUANTUM_SEGMENTS) * mss;
}

/* Pacing before any bandwidth sample: the initial window per RTT, times the gain of Startup. */
static void start_pacing(struct sock *sk, struct bbr *b, __u32 rtt, __u32 mss)
{
	__u64 rate = times_gain(rate_of(b->initial_window, rtt), core.startup_gain);

	set_rate(sk, b, rate, sk->sk_max_pacing_rate, mss);
}

static void set_pacing(struct sock *sk, struct bbr *b, __u32 gain, __u64 most, __u32 mss)
{
	__u64 rate = times_gain(b->bw, times_gain(gain, core.pacing_share));

	/* Until the pipe is full the rate only rises. */
	if (b->full_reached || rate > sk->sk_pacing_rate)
		set_rate(sk, b, rate, most, mss);
}

static void apply_cwnd(struct tcp_sock *tp, const struct bbr *b, __u32 mss)
{
	__u32 cwnd = atleast(least_of(quotient(b->cwnd, mss, tp->snd_cwnd), 1U << 30), 1);

	tp->snd_cwnd = atmost(cwnd, tp->snd_cwnd_clamp);
}

SEC("struct_ops")
void BPF_PROG(bbr_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 mss = atleast(tp->mss_cache, 1), srtt = tp->srtt_us >> 3;
	struct bbr *b = open_flow(sk);

	if (!b)
		return;
	/* Flights need no clearing: they are valid only up to flights_noted. */
	__builtin_memset(b, 0, __builtin_offsetof(struct bbr, flights));
	b->min_rtt = tp->rtt_min.s[0].v;
	b->min_rtt_at = tp->tcp_mstamp;
	b->probe_rtt_min = b->min_rtt;
	b->probe_rtt_at = tp->tcp_mstamp;
	b->initial_window = (__u64)tp->snd_cwnd * mss;
	b->cwnd = b->initial_window;
	b->delivered = tp->delivered;
	b->next_delivered = tp->delivered;
	b->loss_round_delivered = tp->delivered;
	b->lost = tp->lost;
	b->sack = BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok) != 0;
	b->bounds.inflight_long = NO_BOUND;
	reset_short_term(b);
	b->probe_up_per_inc = NO_BOUND;
	b->seen_srtt = srtt != 0;
	note_flight(b, tp->delivered, in_flight(tp), 0);
	start_pacing(sk, b, srtt ? srtt : 1000, mss);
	sk->sk_pacing_status = PACING_NEEDED;
}

/* Notes the connection's state when the newest packet delivered was sent, and the losses that the acknowledgement
 * reveals.
 */
static void note_sample(struct bbr *b, struct ack *a, __u32 total)
{
	struct flight *last = &b->flights[(b->flights_noted - 1) % FLIGHTS];

	last->in_flight = atleast(last->in_flight, a->prior_in_flight);
	/* A timer may have declared losses since the last acknowledgement. */
	last->lost = total - a->lost;
	a->lost = total - b->lost;
	b->sample_in_flight = 0;
	b->sample_lost = 0;
	if (!a->sampled)
		return;
	find_flight(b, a->prior_delivered);
	b->sent_limited = a->limited;
	b->sample_in_flight = (__u64)b->sent_in_flight * a->mss;
	b->sample_lost = (__u64)(total - b->sent_lost) * a->mss;
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
	read_ack(&a, sk, rs);
	/* The kernel or another program has set cwnd, or the size of packets has changed. */
	if (tp->snd_cwnd != quotient(b->cwnd, a.mss, tp->snd_cwnd))
		b->cwnd = (__u64)tp->snd_cwnd * a.mss;
	b->cwnd_full = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	note_sample(b, &a, tp->lost);
	note_losses(b, a.now, tp->lost, a.mss);
	note_states(b, a.now);
	b->delivered = a.delivered;
	measure(b, &a);
	update_cycle(b, &a);
	if (check_probe_rtt(b, &a))
		tp->app_limited = atleast(a.delivered + a.in_flight, 1);
	if (b->loss_round_start) {
		b->bw_latest = a.rate;
		b->inflight_latest = (__u64)a.sample_delivered * a.mss;
		b->losses = 0;
	}
	b->bw = least_of(max_bw(b), b->bounds.bw_short);
	if (a.srtt && !b->seen_srtt) {
		b->seen_srtt = 1;
		start_pacing(sk, b, a.srtt, a.mss);
	}
	set_pacing(sk, b, pacing_gain(b), a.most, a.mss);
	set_cwnd(b, &a);
	if (b->recovery == OPEN)
		b->has_saved = 0;
	note_flight(b, a.delivered, a.in_flight, a.prior_in_flight);
	apply_cwnd(tp, b, a.mss);
}

SEC("struct_ops")
void BPF_PROG(bbr_set_state, struct sock *sk, __u8 to)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	__u32 mss = atleast(tp->mss_cache, 1);

	if (!b)
		return;
	if (to == RECOVERY)
		b->pending |= LOST;
	else if (to == CWR)
		b->pending |= MARKED;
	else if (to < CWR)
		b->pending = (b->pending & UNNECESSARY) | LEFT;
	if (to != LOSS)
		return;
	COUNT(timeouts);
	note_losses(b, tp->tcp_mstamp, tp->lost, mss);
	note_states(b, tp->tcp_mstamp);
	save_state(b);
	/* The cwnd that the kernel has set: one packet beyond those in flight. */
	b->cwnd = (__u64)tp->snd_cwnd * mss;
	b->recovery = LOSS;
	b->only_marked = 0;
	note_flight(b, tp->delivered, in_flight(tp), 0);
}

SEC("struct_ops")
void BPF_PROG(bbr_cwnd_event, struct sock *sk, enum tcp_ca_event what)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	__u32 mss = atleast(tp->mss_cache, 1);

	if (!b || what != CA_EVENT_TX_START || !tp->app_limited)
		return;
	b->idle_restart = 1;
	b->epoch_since = tp->tcp_mstamp;
	b->epoch_acked = 0;
	/* The pipe is empty: pacing at the bandwidth fills it, and a higher rate would only build a queue. */
	if (b->mode == PROBE_BW) {
		set_pacing(sk, b, ONE, sk->sk_max_pacing_rate, mss);
	} else if (b->mode == PROBE_RTT) {
		leave_probe_rtt(b, tp->tcp_mstamp);
		apply_cwnd(tp, b, mss);
	}
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_undo_cwnd, struct sock *sk)
{
	struct bbr *b = flow_of(sk);

	if (b)
		b->pending |= UNNECESSARY;
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SCHEME("bbr3");
