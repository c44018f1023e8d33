/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* BBR v1 for struct_ops: the steps of Linux tcp_bbr.c, and of crates/cc/src/bbr_v1, in their order.
 *
 * A scheme includes this file and defines its hooks (own_…) and `struct own`, its state. Neutral hooks are named
 * standard_….
 *
 * Differences from tcp_bbr.c, all of them those of the Rust core:
 * - Rates are bytes per second instead of packets per microsecond with 24 fractional bits, and gains have 20 fractional
 *   bits instead of 8.
 * - Data in flight is not corrected for packets that the pacer still holds: without fq the stack sends one burst ahead
 *   at most.
 * - min_rtt expires by the clock of packets, not by jiffies. The long-term bandwidth has no limit on its interval beside
 *   rounds.
 */
#include "fixed.h"
#include "policer.h"

enum mode { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };
enum { PHASE_UP = 0, PHASE_DOWN = 1, PHASES = 8 };
enum {
	FULL_ROUNDS = 3, /* without growth by a quarter: the pipe is full */
	SLOT_ROUNDS = 5, /* of aggregation */
	EPOCH_SHIFT = 20, /* an epoch of aggregation ends after 2^20 packets */
	EXTRA_US = 100000, /* the cap on extra_acked, at the bandwidth */
	QUANTA = 3,
	QUANTUM_BYTES = 65535,
};

/* Set when the program is loaded. crates/live/src/kernel/programs/parameters.rs has the same layout. */
struct core_params {
	__u64 min_rtt_window; /* us */
	__u64 probe_rtt_duration; /* us; 0: ProbeRTT is never entered */
	__u32 high_gain;
	__u32 drain_gain;
	__u32 cwnd_gain;
	__u32 probe_up;
	__u32 probe_down;
	__u32 pacing_share;
	__u32 bw_window; /* round trips */
	__u32 lt_bw; /* flags */
	__u32 extra_acked;
	__u32 spare;
};

LOADED struct core_params core SEC(".rodata.core");

struct bbr {
	struct max_filter bw; /* by round trips */
	struct policer policer;
	__u64 full_bw;
	__u64 delivered_at;
	__u64 min_rtt_at;
	__u64 phase_since;
	__u64 probe_rtt_end; /* 0: inflight has not fallen yet */
	__u64 pacing_rate; /* before the application's limit */
	__u64 epoch_since;
	__u64 epoch_acked; /* bytes */
	__u64 extra[2];
	__u32 extra_rounds;
	__u32 min_rtt; /* us */
	__u32 round;
	__u32 next_delivered; /* the round ends when a packet sent at this count is acknowledged */
	__u32 prior_cwnd;
	__u32 quantum; /* packets */
	__u8 mode;
	__u8 phase;
	__u8 slot;
	__u8 full_rounds;
	__u8 full_reached;
	__u8 seen_srtt;
	__u8 round_start;
	__u8 conserving;
	__u8 idle_restart;
	__u8 round_done; /* of ProbeRTT */
	__u8 ca_state; /* at the last acknowledgement that delivered data, or timeout */
	struct own own;
};

#include "bbr_flow.h"

/* The hooks of a scheme, called at the points of the Rust policy of the same names. */
static void own_init(struct bbr *b, __u64 now, __u32 rtt);
static void own_observe(struct bbr *b, const struct ack *a);
static void own_enter_phase(struct bbr *b, __u8 phase);
static __u32 own_probe_gain(const struct bbr *b, __u8 phase);
static bool own_phase_done(const struct bbr *b, const struct ack *a);
static bool own_drain_done(const struct bbr *b, const struct ack *a);
static __u32 own_cwnd_gain(const struct bbr *b);

static __u64 bandwidth(const struct bbr *b)
{
	return b->policer.in_use ? b->policer.rate : max_get(&b->bw);
}

static bool lasted_min_rtt(const struct bbr *b)
{
	return b->min_rtt != NO_RTT && less(b->delivered_at, b->phase_since) > b->min_rtt;
}

/* The target cwnd at a rate: gain x BDP, extra bytes and three send quanta, rounded up to an even number of packets, and
 * two more while probing up.
 */
static __u32 target(const struct bbr *b, __u64 rate, __u32 gain, __u64 extra, __u32 mss)
{
	__u64 data = (__u64)INITIAL_WINDOW * mss, packets;

	if (b->min_rtt != NO_RTT)
		data = times_gain(bytes_over(rate, b->min_rtt), gain);
	packets = (data + extra + mss - 1) / mss + QUANTA * b->quantum;
	packets += packets & 1;
	if (b->mode == PROBE_BW && b->phase == PHASE_UP)
		packets += 2;
	return least_of(packets, 1U << 30);
}

/* The inflight of this many BDPs, in packets. Drain and the phases of ProbeBW end by it. */
static __u32 inflight_at(const struct bbr *b, __u32 gain, __u32 mss)
{
	return target(b, max_get(&b->bw), gain, 0, mss);
}

static __u32 pacing_gain(const struct bbr *b)
{
	switch (b->mode) {
	case STARTUP:
		return core.high_gain;
	case DRAIN:
		return core.drain_gain;
	case PROBE_BW:
		/* A policer would drop every probe. */
		return b->policer.in_use ? ONE : own_probe_gain(b, b->phase);
	default:
		return ONE;
	}
}

/* BBR v1's gain of a phase of ProbeBW. */
static __u32 standard_probe_gain(__u8 phase)
{
	return phase == PHASE_UP ? core.probe_up : phase == PHASE_DOWN ? core.probe_down : ONE;
}

static __u32 cwnd_gain(const struct bbr *b)
{
	switch (b->mode) {
	case PROBE_BW:
		return own_cwnd_gain(b);
	case PROBE_RTT:
		return ONE;
	default:
		return core.high_gain;
	}
}

static bool standard_phase_done(const struct bbr *b, const struct ack *a)
{
	bool full = lasted_min_rtt(b);
	__u32 gain = pacing_gain(b);

	if (gain > ONE)
		return full && (a->lost || a->prior_in_flight >= inflight_at(b, gain, a->mss));
	if (gain < ONE)
		return full || a->prior_in_flight <= inflight_at(b, ONE, a->mss);
	return full;
}

static bool standard_drain_done(const struct bbr *b, const struct ack *a)
{
	return a->in_flight <= inflight_at(b, ONE, a->mss);
}

static void begin_phase(struct bbr *b, __u8 phase)
{
	b->mode = PROBE_BW;
	b->phase = phase;
	b->phase_since = b->delivered_at;
	own_enter_phase(b, phase);
}

/* Enters ProbeBW at a random phase other than the draining one, so that flows do not probe in step. */
static void enter_probe_bw(struct bbr *b)
{
	begin_phase(b, (PHASES - bpf_get_prandom_u32() % (PHASES - 1)) % PHASES);
}

static void save_cwnd(struct bbr *b, const struct tcp_sock *tp)
{
	if (b->ca_state < RECOVERY && b->mode != PROBE_RTT)
		b->prior_cwnd = tp->snd_cwnd;
	else
		b->prior_cwnd = atleast(tp->snd_cwnd, b->prior_cwnd);
}

static void set_rate(struct sock *sk, struct bbr *b, __u64 rate, __u32 mss)
{
	__u64 bytes;

	rate = pace(sk, b, rate);
	bytes = least_of(rate >> 10, QUANTUM_BYTES);
	b->quantum = atmost(atleast(bytes / mss, rate < SLOW ? 1 : 2), 127);
}

/* Pacing before any bandwidth sample: cwnd per RTT, times the gain of Startup. */
static void start_pacing(struct sock *sk, struct bbr *b, __u32 rtt, __u32 mss)
{
	__u64 cwnd = (__u64)((struct tcp_sock *)sk)->snd_cwnd * mss;
	__u64 gain = times_gain(core.high_gain, core.pacing_share);

	set_rate(sk, b, times_gain(rate_of(cwnd, rtt), gain), mss);
}

static void set_pacing(struct sock *sk, struct bbr *b, __u32 srtt, __u32 gain, __u32 mss)
{
	__u64 rate;

	if (srtt && !b->seen_srtt) {
		b->seen_srtt = 1;
		start_pacing(sk, b, srtt, mss);
	}
	rate = times_gain(bandwidth(b), times_gain(gain, core.pacing_share));
	/* Until the pipe is full the rate only rises. */
	if (b->full_reached || rate > b->pacing_rate)
		set_rate(sk, b, rate, mss);
}

static void sample_of(const struct bbr *b, const struct tcp_sock *tp, struct policer_sample *s)
{
	s->at = b->delivered_at;
	s->delivered = tp->delivered;
	s->lost = tp->lost;
	s->mss = atleast(tp->mss_cache, 1);
	s->newly_lost = 0;
	s->app_limited = 0;
	s->round_start = b->round_start;
	s->in_probe_bw = b->mode == PROBE_BW;
}

static void sample_policer(struct bbr *b, const struct tcp_sock *tp, bool newly_lost, bool limited)
{
	struct policer_sample s;

	if (!core.lt_bw)
		return;
	sample_of(b, tp, &s);
	s.newly_lost = newly_lost;
	s.app_limited = limited;
	if (policer_update(&b->policer, &s))
		enter_probe_bw(b);
}

/* Step 1: rounds, the policer, the bandwidth filter. */
static void update_bandwidth(struct bbr *b, const struct tcp_sock *tp, const struct ack *a)
{
	b->round_start = 0;
	if (!a->sampled)
		return;
	if ((__s32)(a->prior_delivered - b->next_delivered) >= 0) {
		b->next_delivered = tp->delivered;
		b->round++;
		b->round_start = 1;
		b->conserving = 0;
	}
	sample_policer(b, tp, a->lost > 0, a->limited);
	/* A limited sample is only a lower bound. */
	if (!a->limited || a->rate >= max_get(&b->bw))
		max_update(&b->bw, core.bw_window, b->round, a->rate);
}

/* Step 2: the excess of acknowledged over expected data. */
static void update_aggregation(struct bbr *b, const struct tcp_sock *tp, const struct ack *a)
{
	__u64 expected, extra, acked = (__u64)a->acked * a->mss;
	__u32 slot;

	if (!core.extra_acked || !a->acked || !a->sampled)
		return;
	if (b->round_start && ++b->extra_rounds >= SLOT_ROUNDS) {
		b->extra_rounds = 0;
		b->slot ^= 1;
		b->extra[b->slot & 1] = 0;
	}
	slot = b->slot & 1;
	expected = bytes_over(bandwidth(b), less(a->now, b->epoch_since));
	if (b->epoch_acked <= expected || b->epoch_acked + acked >= (__u64)a->mss << EPOCH_SHIFT) {
		b->epoch_since = a->now;
		b->epoch_acked = 0;
		expected = 0;
	}
	b->epoch_acked += acked;
	extra = least_of(b->epoch_acked - expected, (__u64)tp->snd_cwnd * a->mss);
	b->extra[slot] = most_of(b->extra[slot], extra);
}

/* Step 4: the pipe is full after three round trips in a row without growth by a quarter. */
static void check_full(struct bbr *b, const struct ack *a)
{
	__u64 rate = max_get(&b->bw);

	if (b->full_reached || !b->round_start || a->limited)
		return;
	if (rate >= b->full_bw + b->full_bw / 4) {
		b->full_bw = rate;
		b->full_rounds = 0;
	} else {
		b->full_reached = ++b->full_rounds >= FULL_ROUNDS;
	}
}

/* Step 5. */
static void check_drain(struct bbr *b, const struct ack *a)
{
	if (b->mode == STARTUP && b->full_reached)
		b->mode = DRAIN;
	if (b->mode == DRAIN && own_drain_done(b, a))
		enter_probe_bw(b);
}

static void leave_probe_rtt(struct bbr *b, struct tcp_sock *tp, __u64 now)
{
	if (!b->probe_rtt_end || now <= b->probe_rtt_end)
		return;
	b->min_rtt_at = now;
	tp->snd_cwnd = atleast(tp->snd_cwnd, b->prior_cwnd);
	if (b->full_reached)
		enter_probe_bw(b);
	else
		b->mode = STARTUP;
}

static void continue_probe_rtt(struct bbr *b, struct tcp_sock *tp, const struct ack *a)
{
	/* Samples of a pipe that is kept empty are too low. */
	tp->app_limited = atleast(tp->delivered + a->in_flight, 1);
	if (!b->probe_rtt_end) {
		if (a->in_flight > MIN_WINDOW)
			return;
		b->probe_rtt_end = a->now + core.probe_rtt_duration;
		b->round_done = 0;
		b->next_delivered = tp->delivered;
		return;
	}
	b->round_done |= b->round_start;
	if (b->round_done)
		leave_probe_rtt(b, tp, a->now);
}

/* Step 6: min_rtt, and ProbeRTT when it expires. */
static void update_min_rtt(struct bbr *b, struct tcp_sock *tp, const struct ack *a)
{
	bool expired = b->min_rtt != NO_RTT && less(a->now, b->min_rtt_at) > core.min_rtt_window;

	if (a->rtt != NO_RTT && (a->rtt <= b->min_rtt || (expired && !a->delayed))) {
		b->min_rtt = a->rtt;
		b->min_rtt_at = a->now;
	}
	if (expired && core.probe_rtt_duration && !b->idle_restart && b->mode != PROBE_RTT) {
		b->mode = PROBE_RTT;
		b->probe_rtt_end = 0;
		b->round_done = 0;
		save_cwnd(b, tp);
	}
	if (b->mode == PROBE_RTT)
		continue_probe_rtt(b, tp, a);
	if (a->acked)
		b->idle_restart = 0;
}

/* cwnd after loss and recovery. Returns whether it is final: no growth follows. */
static bool recover_or_restore(struct bbr *b, struct tcp_sock *tp, const struct ack *a, __u8 state)
{
	__u32 cwnd = tp->snd_cwnd, before = b->ca_state;

	if (a->lost)
		cwnd = cwnd > a->lost ? cwnd - a->lost : 1;
	if (state == RECOVERY && before != RECOVERY) {
		/* Packet conservation for a round trip: a packet leaves for each one delivered. */
		b->conserving = 1;
		b->next_delivered = tp->delivered;
		cwnd = a->in_flight + a->acked;
	} else if (state < RECOVERY && before >= RECOVERY) {
		b->conserving = 0;
		cwnd = atleast(cwnd, b->prior_cwnd);
	}
	b->ca_state = state;
	if (b->conserving)
		cwnd = atleast(cwnd, a->in_flight + a->acked);
	tp->snd_cwnd = atleast(cwnd, 1);
	return b->conserving;
}

/* Step 8: cwnd. */
static void set_cwnd(struct bbr *b, struct tcp_sock *tp, const struct ack *a, __u8 state)
{
	__u64 extra = 0;
	__u32 cwnd, goal;

	if (a->acked && !recover_or_restore(b, tp, a, state)) {
		if (core.extra_acked && b->full_reached)
			extra = least_of(most_of(b->extra[0], b->extra[1]), bytes_over(bandwidth(b), EXTRA_US));
		goal = target(b, bandwidth(b), cwnd_gain(b), extra, a->mss);
		cwnd = tp->snd_cwnd;
		if (b->full_reached)
			cwnd = atmost(cwnd + a->acked, goal);
		else if (cwnd < goal || tp->delivered < INITIAL_WINDOW)
			cwnd += a->acked;
		tp->snd_cwnd = atmost(atleast(cwnd, MIN_WINDOW), tp->snd_cwnd_clamp);
	}
	if (b->mode == PROBE_RTT)
		tp->snd_cwnd = atmost(tp->snd_cwnd, MIN_WINDOW);
}
