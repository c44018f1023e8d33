/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* BBR v3's steps at an acknowledgement: rounds and rates, Startup and Drain, the cycle of ProbeBW, ProbeRTT, cwnd. */
#include "bbr3_loss.h"

/* Lowers the short-term bounds, once per loss round with a loss (AdaptLowerBoundsFromCongestion). */
static void adapt_lower_bounds(struct bbr *b)
{
	struct bounds *to = &b->bounds;

	if (to->inflight_short == NO_BOUND)
		to->inflight_short = b->cwnd;
	if (to->bw_short == NO_BOUND)
		to->bw_short = max_bw(b);
	to->bw_short = most_of(most_of(b->bw_latest, times_share(to->bw_short, core.beta)), 1);
	to->inflight_short = most_of(b->inflight_latest, times_share(to->inflight_short, core.beta));
}

static void update_rounds(struct bbr *b, const struct ack *a)
{
	b->loss_round_start = 0;
	b->round_start = 0;
	if (b->loss_round_at == a->now)
		b->loss_round_delivered = a->delivered;
	if (b->round_at == a->now)
		b->next_delivered = a->delivered;
	b->loss_round_at = 0;
	b->round_at = 0;
	if (!a->sampled)
		return;
	b->bw_latest = most_of(b->bw_latest, a->rate);
	b->inflight_latest = most_of(b->inflight_latest, (__u64)a->sample_delivered * a->mss);
	if (reached(a->prior_delivered, b->loss_round_delivered)) {
		b->loss_round_delivered = a->delivered;
		b->loss_round_start = 1;
	}
	if (reached(a->prior_delivered, b->next_delivered)) {
		b->next_delivered = a->delivered;
		b->round++;
		b->rounds_since_probe++;
		b->round_start = 1;
	}
	/* A limited sample is only a lower bound. */
	if (!a->limited || a->rate >= max_bw(b))
		b->bw_current = most_of(b->bw_current, a->rate);
}

/* The excess of acknowledged over expected data. */
static void update_aggregation(struct bbr *b, const struct ack *a)
{
	__u64 expected, extra, acked = (__u64)a->acked * a->mss;

	if (!core.extra_acked || !a->acked || !a->sampled)
		return;
	expected = bytes_over(b->bw, less(a->now, b->epoch_since));
	if (b->epoch_acked <= expected) {
		b->epoch_since = a->now;
		b->epoch_acked = 0;
		expected = 0;
	}
	b->epoch_acked += acked;
	extra = least_of(b->epoch_acked - expected, b->cwnd);
	max_update(&b->extra, b->full_reached ? core.extra_acked_window : 1, b->round, extra);
}

/* Detects a plateau of the bandwidth, in every state (see full_now). */
static void check_full_bw(struct bbr *b, const struct ack *a)
{
	if (b->full_now || !b->round_start || a->limited)
		return;
	if (a->rate >= b->full_bw + times_share(b->full_bw, core.full_bw_growth)) {
		restart_full_bw(b, a->rate);
		return;
	}
	b->full_now = ++b->full_rounds >= core.full_bw_rounds;
	b->full_reached |= b->full_now;
}

/* Ends Startup if a whole round trip in recovery lost too much, reported by enough separate acknowledgements. */
static void check_startup_loss(struct bbr *b, const struct ack *a)
{
	bool loss;

	if (b->full_reached || !core.startup_losses || b->recovery != RECOVERY)
		return;
	if (b->sack)
		loss = b->loss_round_start && b->losses >= core.startup_losses &&
		       is_too_high(b, b->sample_lost, b->sample_in_flight);
	else
		loss = a->lost || b->losses;
	if (!loss)
		return;
	b->full_reached = 1;
	b->full_now = 1;
	b->bounds.inflight_long = most_of(bdps(b, b->bw, ONE), b->inflight_latest);
	b->undo_state = UNDO_STARTUP;
}

static void check_drain(struct bbr *b, const struct ack *a)
{
	bool too_long = core.drain_rounds && b->round > b->drain_round + core.drain_rounds;

	if (too_long || (__u64)a->in_flight * a->mss <= inflight_at(b, b->bw, a->mss))
		start_down(b, a->now);
}

/* Rounds, rates, the short-term bounds, Startup and Drain. */
STEP measure(struct bbr *b, const struct ack *a)
{
	if (!b || !a)
		return 0;
	update_rounds(b, a);
	if (b->loss_round_start) {
		if (b->loss_in_round && !probes_bandwidth(b))
			adapt_lower_bounds(b);
		b->loss_in_round = 0;
	}
	update_aggregation(b, a);
	check_full_bw(b, a);
	if (b->mode == STARTUP) {
		check_startup_loss(b, a);
		if (b->full_reached) {
			b->drain_round = b->round;
			b->mode = DRAIN;
		}
	}
	if (b->mode == DRAIN)
		check_drain(b, a);
	return 0;
}

/* Raises inflight_long only while inflight reaches this bound, because only then has the bound proved safe. */
static void probe_upward(struct bbr *b, const struct ack *a)
{
	__u64 steps;

	if (!b->cwnd_full || b->cwnd < b->bounds.inflight_long)
		return;
	b->probe_up_acked += (__u64)a->acked * a->mss;
	/* The guess of the quotient is 0, because most acknowledgements complete no step. */
	steps = quotient(b->probe_up_acked, b->probe_up_per_inc, 0);
	b->probe_up_acked -= b->probe_up_per_inc * steps;
	b->bounds.inflight_long += a->mss * steps;
	if (b->round_start)
		raise_slope(b, a->mss);
}

/* Advances the phase of acknowledgements when a round begins. Returns whether REFILL has begun. */
static bool advance_ack_phase(struct bbr *b, const struct ack *a)
{
	if (b->ack_phase == STARTING)
		b->ack_phase = FEEDBACK;
	if (b->ack_phase != STOPPING)
		return 0;
	b->probe_samples = 0;
	b->ack_phase = NO_PROBE;
	if (b->mode != PROBE_BW)
		return 0;
	if (!a->limited && b->bw_current) {
		b->bw_previous = b->bw_current;
		b->bw_current = 0;
	}
	if (!b->probe_precautionary || b->probe_too_high)
		return 0;
	/* The cautious probe reached inflight_long without harm, so the flow probes beyond this bound. */
	start_refill(b);
	return 1;
}

/* Tracks the acknowledgements of a probe, and raises inflight_long if that is safe. Returns whether REFILL has begun. */
static bool adapt_long_term(struct bbr *b, const struct ack *a)
{
	if (b->round_start && advance_ack_phase(b, a))
		return 1;
	if (is_too_high(b, b->sample_lost, b->sample_in_flight) || b->bounds.inflight_long == NO_BOUND)
		return 0;
	b->bounds.inflight_long = most_of(b->bounds.inflight_long, b->sample_in_flight);
	if (in_phase(b, UP))
		probe_upward(b, a);
	return 0;
}

/* IsTimeToProbeBW. A Reno flow of this BDP loses a packet once in as many rounds as the BDP has packets. */
static bool probe_if_due(struct bbr *b, const struct ack *a)
{
	bool due = a->now > b->cycle_at + b->probe_wait || b->rounds_since_probe >= core.probe_rounds ||
		   (__u64)b->rounds_since_probe * a->mss >= target_inflight(b);

	if (due)
		start_refill(b);
	return due;
}

static bool is_time_to_go_down(struct bbr *b, const struct ack *a)
{
	if (core.precaution && b->probe_too_high && (__u64)a->in_flight * a->mss >= b->bounds.inflight_long) {
		b->probe_precautionary = 1;
		return 1;
	}
	if (b->cwnd_full && b->cwnd >= b->bounds.inflight_long) {
		/* The bound limits the rate, so a plateau here is not one of the path. */
		restart_full_bw(b, a->rate);
		return 0;
	}
	return b->full_now;
}

/* Whether there is headroom and no queue. */
static bool is_time_to_cruise(const struct bbr *b, const struct ack *a)
{
	__u64 inflight = (__u64)a->in_flight * a->mss;

	return inflight <= inflight_with_headroom(b, a->mss) && inflight <= inflight_at(b, max_bw(b), a->mss);
}

/* The cycle of ProbeBW. */
STEP update_cycle(struct bbr *b, const struct ack *a)
{
	if (!b || !a || !b->full_reached || adapt_long_term(b, a) || b->mode != PROBE_BW)
		return 0;
	if (b->phase == DOWN) {
		if (!probe_if_due(b, a) && is_time_to_cruise(b, a))
			begin_phase(b, CRUISE);
	} else if (b->phase == CRUISE) {
		probe_if_due(b, a);
	} else if (b->phase == REFILL) {
		/* After one round of REFILL, samples reflect the full pipe. */
		if (b->round_start)
			start_up(b, a);
	} else if (is_time_to_go_down(b, a)) {
		b->probe_too_high = 0;
		start_down(b, a->now);
	}
	return 0;
}

/* Updates two filters: the shorter filter schedules ProbeRTT, and the longer filter keeps the result of the last
 * ProbeRTT.
 */
static void update_min_rtt(struct bbr *b, const struct ack *a)
{
	b->probe_rtt_expired = b->probe_rtt_min != NO_RTT && a->now > b->probe_rtt_at + core.probe_rtt_interval;
	if (a->rtt != NO_RTT && (b->probe_rtt_expired || a->rtt < b->probe_rtt_min)) {
		b->probe_rtt_min = a->rtt;
		b->probe_rtt_at = a->now;
	}
	if (b->probe_rtt_min < b->min_rtt ||
	    (b->min_rtt != NO_RTT && a->now > b->min_rtt_at + core.min_rtt_window)) {
		b->min_rtt = b->probe_rtt_min;
		b->min_rtt_at = b->probe_rtt_at;
	}
}

/* CheckProbeRTTDone and ExitProbeRTT. */
STEP leave_probe_rtt(struct bbr *b, __u64 now)
{
	if (!b || !b->probe_rtt_end || now <= b->probe_rtt_end)
		return 0;
	b->probe_rtt_at = now;
	restore_cwnd(b);
	reset_short_term(b);
	if (b->full_reached) {
		/* CRUISE follows immediately, because inflight is already low. */
		start_down(b, now);
		begin_phase(b, CRUISE);
	} else {
		b->mode = STARTUP;
	}
	return 0;
}

static void continue_probe_rtt(struct bbr *b, const struct ack *a)
{
	if (!b->probe_rtt_end) {
		if ((__u64)a->in_flight * a->mss > probe_rtt_cwnd(b, a->mss))
			return;
		b->probe_rtt_end = a->now + core.probe_rtt_duration;
		b->round_done = 0;
		b->next_delivered = a->delivered;
		return;
	}
	b->round_done |= b->round_start;
	if (b->round_done)
		leave_probe_rtt(b, a->now);
}

/* Updates min_rtt, and enters ProbeRTT when min_rtt expires. Returns whether the flow is in ProbeRTT, where bandwidth
 * samples are too low.
 */
STEP check_probe_rtt(struct bbr *b, const struct ack *a)
{
	bool probing;

	if (!b || !a)
		return 0;
	update_min_rtt(b, a);
	if (b->probe_rtt_expired && core.probe_rtt_duration && !b->idle_restart && b->mode != PROBE_RTT) {
		b->mode = PROBE_RTT;
		b->probe_rtt_end = 0;
		b->round_done = 0;
		/* save_cwnd is called in the new state, as in the draft, so that an older, larger cwnd is kept. */
		save_cwnd(b);
		b->ack_phase = STOPPING;
		b->next_delivered = a->delivered;
	}
	probing = b->mode == PROBE_RTT;
	if (probing)
		continue_probe_rtt(b, a);
	if (a->acked)
		b->idle_restart = 0;
	return probing;
}

STEP set_cwnd(struct bbr *b, const struct ack *a)
{
	__u64 grown, most, cwnd;

	if (!b || !a)
		return 0;
	cwnd = b->cwnd;
	grown = cwnd + (__u64)a->acked * a->mss;
	most = quantised(b, bdps(b, b->bw, cwnd_gain(b)) + extra_acked(b), a->mss);
	if (a->acked) {
		if (b->full_reached)
			cwnd = least_of(grown, most);
		else if (cwnd < most || (__u64)a->delivered * a->mss < b->initial_window)
			cwnd = grown;
		cwnd = most_of(cwnd, min_window(a->mss));
	}
	if (b->mode == PROBE_RTT)
		cwnd = least_of(cwnd, probe_rtt_cwnd(b, a->mss));
	b->cwnd = least_of(cwnd, volume_bound(b, a->mss));
	return 0;
}
