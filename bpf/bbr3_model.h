/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* The model of BBR v3: what a flow knows about its path, and the formulas over it (crates/cc/src/bbr_v2_v3/model.rs).
 *
 * Amounts are bytes, as in the twin: with whole packets, each reduction of a bound would lose up to one packet by
 * rounding.
 */
#include "fixed.h"

enum mode { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };
enum { DOWN, CRUISE, REFILL, UP };
/* Relation of the arriving acknowledgements to a probe. */
enum { NO_PROBE, REFILLING, STARTING, FEEDBACK, STOPPING };
/* The state that a loss ended; it resumes if the loss proves spurious. */
enum { UNDO_NOTHING, UNDO_STARTUP, UNDO_UP };
/* Changes of the kernel's state since the last acknowledgement. They take effect after the losses that the current
 * acknowledgement reveals.
 */
enum { LEFT = 1, UNNECESSARY = 2, LOST = 4, MARKED = 8 };
enum {
	FLIGHTS = 256,
	/* Maximum number of entries per flight, half of FLIGHTS: inflight may halve before the flight is delivered. */
	PARTS = 128,
	MOST_UP_ROUNDS = 30,
	QUANTUM_US = 1000,
	QUANTUM_BYTES = 65536,
	QUANTUM_SEGMENTS = 2,
};

/* A bound that is not set. */
#define NO_BOUND (~0ULL)

/* Set when the program is loaded. crates/programs/src/parameters/v3.rs has the same layout. */
struct core_params {
	__u64 probe_wait; /* us, as all times */
	__u64 probe_wait_random;
	__u64 min_rtt_window;
	__u64 probe_rtt_interval;
	__u64 probe_rtt_duration; /* 0: ProbeRTT is never entered */
	__u64 extra_acked_cap; /* 0: no limit */
	/* Shares with 40 fractional bits. */
	__u64 loss_thresh;
	__u64 loss_prefix; /* loss_thresh / (1 - loss_thresh) */
	__u64 beta;
	__u64 headroom;
	__u64 full_bw_growth; /* the growth minus 1 */
	__u32 startup_gain;
	__u32 startup_cwnd_gain;
	__u32 drain_gain;
	__u32 up_gain;
	__u32 down_gain;
	__u32 cwnd_gain;
	__u32 up_cwnd_gain;
	__u32 probe_rtt_gain;
	__u32 pacing_share;
	__u32 offload_quanta;
	__u32 full_bw_rounds;
	__u32 startup_losses; /* 0: loss never ends Startup */
	__u32 drain_rounds; /* 0: no limit */
	__u32 probe_rounds;
	__u32 probe_rounds_random;
	__u32 extra_acked_window;
	__u32 extra_acked; /* flags */
	__u32 precaution;
	__u32 undo;
	__u32 spare;
};

LOADED struct core_params core SEC(".rodata.core");

/* The state of the connection at a delivered count, in packets. */
struct flight {
	__u32 delivered;
	__u32 lost;
	__u32 in_flight;
};

struct bounds {
	__u64 bw_short;
	__u64 inflight_short;
	__u64 inflight_long;
};

struct bbr {
	struct max_filter extra; /* window in round trips */
	struct bounds bounds;
	struct bounds saved; /* the bounds before the current recovery */
	__u64 initial_window;
	__u64 cwnd;
	__u64 prior_cwnd;
	__u64 quantum;
	__u64 bw_previous; /* maximum of the previous cycle; bw_current: of this cycle */
	__u64 bw_current;
	__u64 bw; /* bandwidth limited by its bound, as of the last acknowledgement */
	__u64 bw_latest;
	__u64 inflight_latest;
	__u64 full_bw;
	__u64 min_rtt_at;
	__u64 probe_rtt_at;
	__u64 probe_rtt_end; /* 0: inflight has not fallen yet */
	__u64 cycle_at;
	__u64 probe_wait;
	__u64 probe_up_acked;
	__u64 probe_up_per_inc;
	__u64 epoch_since;
	__u64 epoch_acked;
	/* When an event other than an acknowledgement began a loss round or a round trip. Data delivered by the
	 * acknowledgement of that time still belongs to the previous round.
	 */
	__u64 loss_round_at;
	__u64 round_at;
	/* The flight of the newest packet that this acknowledgement delivered. 0: no sample. */
	__u64 sample_in_flight;
	__u64 sample_lost;
	__u32 min_rtt; /* us */
	__u32 probe_rtt_min;
	__u32 delivered; /* delivered count at the last acknowledgement */
	__u32 lost; /* total number of losses reported so far */
	__u32 round;
	__u32 next_delivered; /* the round ends when a packet sent at this count is acknowledged */
	__u32 loss_round_delivered;
	__u32 losses; /* acknowledgements in this loss round that reported loss */
	__u32 full_rounds;
	__u32 rounds_since_probe;
	__u32 probe_up_rounds;
	__u32 drain_round;
	/* The connection's state when the newest packet delivered was sent, in packets. */
	__u32 sent_in_flight;
	__u32 sent_lost;
	__u32 flights_noted;
	__u8 sent_limited;
	__u8 mode;
	__u8 phase;
	__u8 ack_phase;
	__u8 undo_state;
	__u8 recovery; /* OPEN, RECOVERY or LOSS */
	__u8 only_marked; /* the kernel responds to a mark, not to a loss */
	__u8 pending;
	__u8 sack;
	__u8 cwnd_full;
	__u8 full_now;
	__u8 full_reached;
	__u8 seen_srtt;
	__u8 round_start;
	__u8 round_done; /* flag: a round trip of ProbeRTT has ended */
	__u8 probe_rtt_expired;
	__u8 idle_restart;
	__u8 probe_samples;
	__u8 probe_too_high;
	__u8 probe_precautionary;
	__u8 loss_round_start;
	__u8 loss_in_round;
	__u8 has_saved;
	__u8 spare;
	struct flight flights[FLIGHTS];
};

#include "bbr_flow.h"

/* The product of a value and a share with 40 fractional bits, if the product is below 2^43. The product is computed
 * exactly and then rounded down.
 */
static __u64 times_share(__u64 value, __u64 share)
{
	return ((value >> 20) * share + ((value & 0xfffff) * share >> 20)) >> 20;
}

static __u64 max_bw(const struct bbr *b)
{
	return most_of(b->bw_previous, b->bw_current);
}

static bool in_phase(const struct bbr *b, __u8 phase)
{
	return b->mode == PROBE_BW && b->phase == phase;
}

/* Whether the flow sends faster than the known bandwidth in its state, or prepares to do so. In these states loss is
 * expected.
 */
static bool probes_bandwidth(const struct bbr *b)
{
	return b->mode == STARTUP || (b->mode == PROBE_BW && b->phase >= REFILL);
}

static __u32 pacing_gain(const struct bbr *b)
{
	switch (b->mode) {
	case STARTUP:
		return core.startup_gain;
	case DRAIN:
		return core.drain_gain;
	case PROBE_BW:
		return b->phase == UP ? core.up_gain : b->phase == DOWN ? core.down_gain : ONE;
	default:
		return ONE;
	}
}

static __u32 cwnd_gain(const struct bbr *b)
{
	switch (b->mode) {
	case PROBE_BW:
		return b->phase == UP ? core.up_cwnd_gain : core.cwnd_gain;
	case PROBE_RTT:
		return core.probe_rtt_gain;
	default:
		return core.startup_cwnd_gain;
	}
}

/* `gain` BDPs at a rate; before any sample of the RTT, the initial window. */
static __u64 bdps(const struct bbr *b, __u64 rate, __u32 gain)
{
	if (b->min_rtt == NO_RTT)
		return b->initial_window;
	return times_gain(least_of(bytes_over(rate, b->min_rtt), 1ULL << 40), gain);
}

static __u64 min_window(__u32 mss)
{
	return (__u64)MIN_WINDOW * mss;
}

/* Raises an amount of data to at least the bursts of sender and receiver, and adds two packets while probing up
 * (QuantizationBudget).
 */
static __u64 quantised(const struct bbr *b, __u64 data, __u32 mss)
{
	data = most_of(data, times_gain(b->quantum, core.offload_quanta));
	data = most_of(data, min_window(mss));
	return in_phase(b, UP) ? data + 2 * mss : data;
}

static __u64 inflight_at(const struct bbr *b, __u64 rate, __u32 mss)
{
	return quantised(b, bdps(b, rate, ONE), mss);
}

static __u64 extra_acked(const struct bbr *b)
{
	__u64 extra = max_get(&b->extra);

	if (core.extra_acked_cap && exceeds(extra, b->bw, core.extra_acked_cap))
		extra = bytes_over(b->bw, core.extra_acked_cap);
	return extra;
}

static __u64 target_inflight(const struct bbr *b)
{
	return least_of(bdps(b, b->bw, ONE), b->cwnd);
}

static __u64 inflight_with_headroom(const struct bbr *b, __u32 mss)
{
	__u64 bound = b->bounds.inflight_long;

	if (bound == NO_BOUND)
		return NO_BOUND;
	return most_of(less(bound, most_of(times_share(bound, core.headroom), mss)), min_window(mss));
}

/* Whether the flight lost too many bytes (IsInflightTooHigh). */
static bool is_too_high(const struct bbr *b, __u64 lost, __u64 inflight)
{
	return lost && (!b->sack || lost > times_share(inflight, core.loss_thresh));
}

/* The bound on inflight in the flow's state (BoundCwndForModel). */
static __u64 volume_bound(const struct bbr *b, __u32 mss)
{
	__u64 bound = NO_BOUND;

	if (b->mode == PROBE_RTT || in_phase(b, CRUISE))
		bound = inflight_with_headroom(b, mss);
	else if (b->mode == PROBE_BW)
		bound = b->bounds.inflight_long;
	return most_of(least_of(bound, b->bounds.inflight_short), min_window(mss));
}

/* cwnd in ProbeRTT, which is also the inflight at which the time of ProbeRTT begins to count. */
static __u64 probe_rtt_cwnd(const struct bbr *b, __u32 mss)
{
	return most_of(bdps(b, b->bw, core.probe_rtt_gain), min_window(mss));
}

static void save_cwnd(struct bbr *b)
{
	bool undisturbed = b->recovery == OPEN && b->mode != PROBE_RTT;

	b->prior_cwnd = undisturbed ? b->cwnd : most_of(b->prior_cwnd, b->cwnd);
}

static void restore_cwnd(struct bbr *b)
{
	b->cwnd = most_of(b->cwnd, b->prior_cwnd);
}

/* SaveStateUponLoss, once per recovery. */
static void save_state(struct bbr *b)
{
	save_cwnd(b);
	if (b->has_saved)
		return;
	b->undo_state = UNDO_NOTHING;
	b->saved = b->bounds;
	b->has_saved = 1;
}

static void restart_full_bw(struct bbr *b, __u64 rate)
{
	b->full_bw = rate;
	b->full_rounds = 0;
	b->full_now = 0;
}

static void reset_short_term(struct bbr *b)
{
	b->bounds.bw_short = NO_BOUND;
	b->bounds.inflight_short = NO_BOUND;
}

static void begin_phase(struct bbr *b, __u8 phase)
{
	b->mode = PROBE_BW;
	b->phase = phase;
}

static void start_down(struct bbr *b, __u64 now)
{
	b->loss_in_round = 0;
	b->bw_latest = 0;
	b->inflight_latest = 0;
	b->probe_up_per_inc = NO_BOUND;
	b->rounds_since_probe = bpf_get_prandom_u32() % (core.probe_rounds_random + 1);
	b->probe_wait = core.probe_wait + times_share(core.probe_wait_random, (__u64)bpf_get_prandom_u32() << 8);
	b->cycle_at = now;
	b->ack_phase = STOPPING;
	b->next_delivered = b->delivered;
	begin_phase(b, DOWN);
}

static void start_refill(struct bbr *b)
{
	reset_short_term(b);
	b->probe_up_rounds = 0;
	b->probe_up_acked = 0;
	b->probe_precautionary = 0;
	b->ack_phase = REFILLING;
	b->next_delivered = b->delivered;
	begin_phase(b, REFILL);
}

/* Raises the growth of inflight_long: 1, 2, 4 ... packets per round (RaiseInflightLongtermSlope). */
static void raise_slope(struct bbr *b, __u32 mss)
{
	b->probe_up_per_inc = most_of(b->cwnd >> (b->probe_up_rounds & 31), mss);
	b->probe_up_rounds = atmost(b->probe_up_rounds + 1, MOST_UP_ROUNDS);
}

static void start_up(struct bbr *b, const struct ack *a)
{
	b->probe_samples = 1;
	b->ack_phase = STARTING;
	b->next_delivered = b->delivered;
	restart_full_bw(b, a->rate);
	begin_phase(b, UP);
	raise_slope(b, a->mss);
}

/* Responds to a probe that lost too much at this inflight, once per probe (HandleInflightTooHigh). */
static void handle_too_high(struct bbr *b, __u64 now, __u64 inflight, bool limited)
{
	b->probe_too_high = 1;
	b->probe_samples = 0;
	if (!limited)
		b->bounds.inflight_long = most_of(inflight, times_share(target_inflight(b), core.beta));
	if (in_phase(b, UP)) {
		b->undo_state = UNDO_UP;
		start_down(b, now);
	}
}
