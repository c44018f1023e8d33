/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* BBR v1 for struct_ops: the steps of Linux tcp_bbr.c, and of crates/cc/src/bbr_v1, in their order.
 *
 * A scheme includes this file and defines its hooks (own_…) and its state: `struct own`, of at most 12 bytes, for fast
 * access at every acknowledgement, and `struct own_rest`. The hooks of BBR v1 itself are named standard_….
 *
 * Differences from tcp_bbr.c, all shared with the Rust core:
 * - Rates are bytes per second instead of packets per microsecond with 24 fractional bits, and gains have 20 fractional
 *   bits instead of 8.
 * - Data in flight is not corrected for packets that still wait in the pacer: without fq the stack sends at most one
 *   burst ahead.
 * - min_rtt expires by the clock of packets, not by jiffies. The long-term bandwidth limits its interval by rounds only.
 *
 * Times are the lower 32 bits of microseconds, unlike those of the Rust core: ages wrap after 71 minutes. After a pause of
 * that length a filter may expire one window late.
 */
#include "fixed.h"
#include "policer.h"

/* No flow has 4 GiB of aggregation. */
#define EXTRA_MOST (~0U)

/* Rare work, kept out of the code of every acknowledgement. */
#define RARE static __attribute__((noinline))

enum mode { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };
enum { PHASE_UP = 0, PHASE_DOWN = 1, PHASES = 8 };
enum {
	FULL_ROUNDS = 3, /* rounds without growth by a quarter after which the pipe is full */
	SLOT_ROUNDS = 5, /* rounds per slot of the aggregation filter */
	EPOCH_SHIFT = 20, /* an epoch of aggregation ends after 2^20 packets */
	EXTRA_PARTS = 10, /* cwnd allows for at most the extra_acked of 1/10 s at the bandwidth */
	QUANTA = 3,
	QUANTUM_BYTES = 65535,
};

/* Set when the program is loaded. crates/programs/src/parameters.rs has the same layout. */
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

/* The state of a flow that most acknowledgements need, in the socket's space for a scheme. The rest of the state is in
 * the socket's storage, whose look-up costs a chain of cache misses.
 */
struct bbr {
	__u8 mode;
	/* The send quantum in packets; 0: the flow has not begun. open_flow sets only another byte, so a flow without
	 * memory never begins.
	 */
	__u8 quantum;
	__u8 phase;
	__u8 full_rounds;
	__u8 extra_rounds;
	__u8 ca_state; /* at the last timeout, or acknowledgement that delivered data */
	__u8 round_start;
	__u8 slot : 1; /* index of the current slot of extra */
	__u8 full_reached : 1;
	__u8 seen_srtt : 1;
	__u8 conserving : 1;
	__u8 idle_restart : 1;
	__u8 policed : 1; /* the policer's rate is in use */
	__u8 watched : 1; /* the policer samples */
	struct max_filter bw; /* window in round trips */
	__u32 round;
	__u32 next_delivered; /* the round ends when a packet sent at this count is acknowledged */
	__u32 delivered_at;
	__u32 phase_since;
	__u32 min_rtt; /* us */
	__u32 min_rtt_at;
	__u64 epoch_acked; /* bytes */
	__u32 epoch_since;
	__u32 extra[2]; /* bytes */
	struct own own;
};

_Static_assert(sizeof(struct bbr) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv), "the space for a scheme");

/* The rest of a flow's state, in the storage of the socket. */
struct rest {
	struct policer policer;
	__u64 full_bw;
	__u64 probe_rtt_end; /* 0: inflight has not fallen yet */
	__u32 prior_cwnd;
	__u8 round_done; /* flag: a round trip of ProbeRTT has ended */
	struct own_rest own;
};

typedef struct rest stored;

#include "bbr_flow.h"
#include "bbr_host.h"

/* The hooks of a scheme, called where the Rust core calls the methods of the same names of its policy. */
static void own_init(struct bbr *b, struct rest *rest, __u32 now, __u32 rtt);
static void own_observe(struct sock *sk, struct bbr *b, const struct ack *a);
static void own_enter_phase(struct bbr *b, __u8 phase);
static __u32 own_probe_gain(const struct bbr *b, __u8 phase);
static bool own_phase_done(const struct bbr *b, const struct ack *a);
static bool own_drain_done(struct sock *sk, const struct bbr *b, const struct ack *a);
static __u32 own_cwnd_gain(const struct bbr *b);

/* The state of a flow; 0: the flow has not begun. */
static struct bbr *flow_of(struct sock *sk)
{
	struct bbr *b = (struct bbr *)((struct inet_connection_sock *)sk)->icsk_ca_priv;

	return b->quantum ? b : 0;
}

RARE __u64 policed_rate(struct sock *sk)
{
	struct rest *rest = stored_of(sk);

	return rest ? rest->policer.rate : 0;
}

static __u64 bandwidth(struct sock *sk, const struct bbr *b)
{
	return b->policed ? policed_rate(sk) : max_get(&b->bw);
}

static bool lasted_min_rtt(const struct bbr *b)
{
	return b->min_rtt != NO_RTT && b->delivered_at - b->phase_since > b->min_rtt;
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

/* The inflight of this many BDPs, in packets. This inflight decides when Drain and the phases of ProbeBW end. */
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
		return b->policed ? ONE : own_probe_gain(b, b->phase);
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

static void save_cwnd(struct rest *rest, const struct bbr *b, const struct tcp_sock *tp)
{
	if (b->ca_state < RECOVERY && b->mode != PROBE_RTT)
		rest->prior_cwnd = tp->snd_cwnd;
	else
		rest->prior_cwnd = atleast(tp->snd_cwnd, rest->prior_cwnd);
}

static void set_rate(struct sock *sk, struct bbr *b, __u64 rate, __u64 most, __u32 mss)
{
	__u32 bytes;

	rate = pace(sk, rate, most);
	bytes = least_of(rate >> 10, QUANTUM_BYTES);
	b->quantum = atmost(atleast(quotient(bytes, mss, b->quantum), rate < SLOW ? 1 : 2), 127);
}

/* Pacing before any bandwidth sample: cwnd per RTT, times the gain of Startup. */
static void start_pacing(struct sock *sk, struct bbr *b, __u32 rtt, __u64 most, __u32 mss)
{
	__u64 cwnd = (__u64)((struct tcp_sock *)sk)->snd_cwnd * mss;
	__u64 gain = times_gain(core.high_gain, core.pacing_share);

	set_rate(sk, b, times_gain(rate_of(cwnd, rtt), gain), most, mss);
}

static void set_pacing(struct sock *sk, struct bbr *b, __u32 gain, __u64 most, __u32 mss)
{
	__u64 rate = times_gain(bandwidth(sk, b), times_gain(gain, core.pacing_share));

	/* Until the pipe is full the rate only rises. */
	if (b->full_reached || rate > sk->sk_pacing_rate)
		set_rate(sk, b, rate, most, mss);
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

/* Copies the policer's flags that every acknowledgement reads. */
static void note_policer(struct bbr *b, const struct policer *p)
{
	b->policed = p->in_use;
	b->watched = p->sampling;
}

RARE void sample_policer(struct sock *sk, struct bbr *b, bool newly_lost, bool limited)
{
	struct rest *rest = stored_of(sk);
	struct policer_sample s;
	bool over;

	if (!rest)
		return;
	sample_of(b, (struct tcp_sock *)sk, &s);
	s.newly_lost = newly_lost;
	s.app_limited = limited;
	over = policer_update(&rest->policer, &s);
	note_policer(b, &rest->policer);
	if (over)
		enter_probe_bw(b);
}

/* Step 1: rounds, the policer, the bandwidth filter. */
static void update_bandwidth(struct sock *sk, struct bbr *b, const struct ack *a)
{
	b->round_start = 0;
	if (!a->sampled)
		return;
	if ((__s32)(a->prior_delivered - b->next_delivered) >= 0) {
		b->next_delivered = a->delivered;
		b->round++;
		b->round_start = 1;
		b->conserving = 0;
	}
	/* The policer begins to sample at a loss. */
	if (core.lt_bw && (a->lost || b->policed || b->watched))
		sample_policer(sk, b, a->lost > 0, a->limited);
	/* A limited sample is only a lower bound. */
	if (!a->limited || a->rate >= max_get(&b->bw))
		max_update(&b->bw, core.bw_window, b->round, a->rate);
}

static __u32 extra_of(const struct bbr *b)
{
	return b->slot ? b->extra[1] : b->extra[0];
}

static void set_extra(struct bbr *b, __u32 extra)
{
	if (b->slot)
		b->extra[1] = extra;
	else
		b->extra[0] = extra;
}

/* Step 2: the excess of acknowledged over expected data. */
static void update_aggregation(struct sock *sk, struct bbr *b, const struct ack *a)
{
	__u64 acked = (__u64)a->acked * a->mss, rate, most;
	__u32 us;

	if (!core.extra_acked || !a->acked || !a->sampled)
		return;
	if (b->round_start && ++b->extra_rounds >= SLOT_ROUNDS) {
		b->extra_rounds = 0;
		b->slot ^= 1;
		set_extra(b, 0);
	}
	rate = bandwidth(sk, b);
	us = (__u32)a->now - b->epoch_since;
	if (!exceeds(b->epoch_acked, rate, us) || b->epoch_acked + acked >= (__u64)a->mss << EPOCH_SHIFT) {
		b->epoch_since = a->now;
		b->epoch_acked = 0;
		us = 0;
	}
	b->epoch_acked += acked;
	/* Most excesses are below the largest excess of the window, and need no division. */
	if (!exceeds(less(b->epoch_acked, extra_of(b)), rate, us))
		return;
	most = least_of((__u64)((struct tcp_sock *)sk)->snd_cwnd * a->mss, EXTRA_MOST);
	set_extra(b, atleast(extra_of(b), least_of(b->epoch_acked - bytes_over(rate, us), most)));
}

/* Step 4: the pipe is full after three round trips in a row without growth by a quarter. */
RARE void end_startup_round(struct sock *sk, struct bbr *b)
{
	struct rest *rest = stored_of(sk);
	__u64 rate = max_get(&b->bw);

	if (!rest)
		return;
	if (rate >= rest->full_bw + rest->full_bw / 4) {
		rest->full_bw = rate;
		b->full_rounds = 0;
	} else {
		b->full_reached = ++b->full_rounds >= FULL_ROUNDS;
	}
}

static void check_full(struct sock *sk, struct bbr *b, const struct ack *a)
{
	if (!b->full_reached && b->round_start && !a->limited)
		end_startup_round(sk, b);
}

/* Step 5: Drain. */
static void check_drain(struct sock *sk, struct bbr *b, const struct ack *a)
{
	if (b->mode == STARTUP && b->full_reached)
		b->mode = DRAIN;
	if (b->mode == DRAIN && own_drain_done(sk, b, a))
		enter_probe_bw(b);
}

static void leave_probe_rtt(struct rest *rest, struct bbr *b, struct tcp_sock *tp, __u64 now)
{
	if (!rest->probe_rtt_end || now <= rest->probe_rtt_end)
		return;
	b->min_rtt_at = now;
	tp->snd_cwnd = atleast(tp->snd_cwnd, rest->prior_cwnd);
	if (b->full_reached)
		enter_probe_bw(b);
	else
		b->mode = STARTUP;
}

static void enter_probe_rtt(struct rest *rest, struct bbr *b, struct tcp_sock *tp)
{
	rest->probe_rtt_end = 0;
	rest->round_done = 0;
	b->mode = PROBE_RTT;
	save_cwnd(rest, b, tp);
}

RARE void probe_rtt(struct sock *sk, struct bbr *b, __u32 in_flight)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct rest *rest = stored_of(sk);

	if (!rest)
		return;
	if (b->mode != PROBE_RTT)
		enter_probe_rtt(rest, b, tp);
	/* Samples of a pipe that is kept empty are too low, so they are marked as application-limited. */
	tp->app_limited = atleast(tp->delivered + in_flight, 1);
	if (!rest->probe_rtt_end) {
		if (in_flight > MIN_WINDOW)
			return;
		rest->probe_rtt_end = tp->tcp_mstamp + core.probe_rtt_duration;
		rest->round_done = 0;
		b->next_delivered = tp->delivered;
		return;
	}
	rest->round_done |= b->round_start;
	if (rest->round_done)
		leave_probe_rtt(rest, b, tp, tp->tcp_mstamp);
}

/* Step 6: updates min_rtt, and enters ProbeRTT when min_rtt expires. */
static void update_min_rtt(struct sock *sk, struct bbr *b, const struct ack *a)
{
	bool expired = b->min_rtt != NO_RTT && (__u32)a->now - b->min_rtt_at > core.min_rtt_window;

	if (a->rtt != NO_RTT && (a->rtt <= b->min_rtt || (expired && !a->delayed))) {
		b->min_rtt = a->rtt;
		b->min_rtt_at = a->now;
	}
	if (b->mode == PROBE_RTT || (expired && core.probe_rtt_duration && !b->idle_restart))
		probe_rtt(sk, b, a->in_flight);
	if (a->acked)
		b->idle_restart = 0;
}

/* The cwnd from before the recovery or ProbeRTT that now ends. */
RARE __u32 prior_cwnd(struct sock *sk)
{
	struct rest *rest = stored_of(sk);

	return rest ? rest->prior_cwnd : 0;
}

/* Sets cwnd after loss and recovery. Returns whether this cwnd is final, so that no growth follows. */
static bool recover_or_restore(struct sock *sk, struct bbr *b, const struct ack *a, __u8 state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 cwnd = tp->snd_cwnd, before = b->ca_state;

	if (a->lost)
		cwnd = cwnd > a->lost ? cwnd - a->lost : 1;
	if (state == RECOVERY && before != RECOVERY) {
		/* Packet conservation for a round trip: a packet leaves for each one delivered. */
		b->conserving = 1;
		b->next_delivered = a->delivered;
		cwnd = a->in_flight + a->acked;
	} else if (state < RECOVERY && before >= RECOVERY) {
		b->conserving = 0;
		cwnd = atleast(cwnd, prior_cwnd(sk));
	}
	b->ca_state = state;
	if (b->conserving)
		cwnd = atleast(cwnd, a->in_flight + a->acked);
	tp->snd_cwnd = atleast(cwnd, 1);
	return b->conserving;
}

/* The extra bytes that cwnd allows for. */
static __u64 capped(__u64 extra, __u64 rate)
{
	return extra * EXTRA_PARTS <= rate ? extra : rate / EXTRA_PARTS;
}

/* Step 8: cwnd. */
static void set_cwnd(struct sock *sk, struct bbr *b, const struct ack *a, __u8 state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 extra = 0, rate;
	__u32 cwnd, goal;

	if (a->acked && !recover_or_restore(sk, b, a, state)) {
		rate = bandwidth(sk, b);
		if (core.extra_acked && b->full_reached)
			extra = capped(atleast(b->extra[0], b->extra[1]), rate);
		goal = target(b, rate, cwnd_gain(b), extra, a->mss);
		cwnd = tp->snd_cwnd;
		if (b->full_reached)
			cwnd = atmost(cwnd + a->acked, goal);
		else if (cwnd < goal || a->delivered < INITIAL_WINDOW)
			cwnd += a->acked;
		tp->snd_cwnd = atmost(atleast(cwnd, MIN_WINDOW), tp->snd_cwnd_clamp);
	}
	if (b->mode == PROBE_RTT)
		tp->snd_cwnd = atmost(tp->snd_cwnd, MIN_WINDOW);
}
