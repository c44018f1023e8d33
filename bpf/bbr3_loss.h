/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* BBR v3's response to loss, and its undo (crates/cc/src/bbr_v2_v3/congestion.rs). The flights with losses follow from
 * the kernel's counters.
 */
#include "bbr3_model.h"

/* Functions of this kind are not static: the verifier then checks each only once instead of on every path to it, and
 * requires a result.
 */
#define STEP __attribute__((noinline)) int

/* Whether a counter, which may wrap, has reached a value. */
static bool reached(__u32 counter, __u32 value)
{
	return (__s32)(counter - value) >= 0;
}

/* Takes the newest flight noted at a delivered count of at most `delivered` as the flight of the newest packet
 * delivered.
 */
STEP find_flight(struct bbr *b, __u32 delivered)
{
	__u32 known, first, place = 0, step, next;

	if (!b)
		return 0;
	known = atmost(b->flights_noted, FLIGHTS);
	first = b->flights_noted - known;
	for (step = FLIGHTS / 2; step; step /= 2) {
		next = place + step;
		if (next < known && reached(delivered, b->flights[(first + next) % FLIGHTS].delivered))
			place = next;
	}
	place = (first + place) % FLIGHTS;
	b->sent_lost = b->flights[place].lost;
	b->sent_in_flight = b->flights[place].in_flight;
	return 0;
}

/* Remembers the connection's state for the packets sent from now on. */
STEP note_flight(struct bbr *b, __u32 delivered, __u32 in_flight, __u32 before)
{
	struct flight *last;

	if (!b)
		return 0;
	last = &b->flights[(b->flights_noted - 1) % FLIGHTS];
	if (b->flights_noted && delivered - last->delivered < 1 + before / PARTS) {
		last->lost = b->lost;
		last->in_flight = atleast(last->in_flight, in_flight);
		return 0;
	}
	last = &b->flights[b->flights_noted % FLIGHTS];
	last->delivered = delivered;
	last->lost = b->lost;
	last->in_flight = in_flight;
	b->flights_noted++;
	return 0;
}

/* The inflight at which losses reached the threshold (InflightAtLoss). `before`: data in flight when the packet whose
 * loss was one too many was sent. `lost`: data lost since then. Both exclude that packet.
 */
static __u64 inflight_at_loss(__u64 before, __u64 lost)
{
	__u64 allowed = times_share(before, core.loss_thresh), rest;

	if (allowed >= lost) {
		rest = allowed - lost;
		return before + rest + times_share(rest, core.loss_prefix);
	}
	rest = lost - allowed;
	return less(before, rest + times_share(rest, core.loss_prefix));
}

static void begin_loss_round(struct bbr *b, __u64 now)
{
	if (!b->loss_in_round) {
		b->loss_round_delivered = b->delivered;
		b->loss_round_at = now;
		save_state(b);
	}
	b->loss_in_round = 1;
}

/* Checks whether one of these losses, after `since` others, was one too many for the flight of a probe. */
static void judge_flight(struct bbr *b, __u64 now, __u32 since, __u32 lost, __u32 mss)
{
	__u64 flight = (__u64)b->sent_in_flight * mss;
	__u32 allowed, few;

	if (!b->probe_samples || !is_too_high(b, (__u64)(since + lost) * mss, flight))
		return;
	/* The number of losses up to and including the loss that was one too many. */
	allowed = b->sack ? times_share(flight, core.loss_thresh) / mss : 0;
	few = atleast(less(allowed + 1, since), 1);
	if (in_phase(b, UP))
		b->round_at = now;
	handle_too_high(b, now, inflight_at_loss(less(flight, mss), (__u64)(since + few - 1) * mss), b->sent_limited);
	/* The remaining losses belong to the time after the probe. */
	if (few < lost)
		begin_loss_round(b, now);
}

/* Processes new losses, which count as losses of one flight (HandleLostPacket, for each packet in turn). `total`:
 * packets lost so far.
 */
STEP note_losses(struct bbr *b, __u64 now, __u32 total, __u32 mss)
{
	__u32 lost, before, since;

	if (!b)
		return 0;
	before = b->lost;
	lost = total - before;
	b->lost = total;
	if (!lost)
		return 0;
	b->losses++;
	if (b->only_marked) {
		/* A response to marks in progress becomes loss recovery. */
		b->only_marked = 0;
		save_state(b);
		b->recovery = RECOVERY;
	}
	begin_loss_round(b, now);
	since = before - b->sent_lost;
	if (!reached(before, b->sent_lost)) {
		/* Before the newest packet delivered was sent, a timer declared some of these packets lost. */
		since = 0;
		lost = reached(total, b->sent_lost) ? total - b->sent_lost : 0;
	}
	judge_flight(b, now, since, lost, mss);
	return 0;
}

/* HandleSpuriousLossDetection. */
static void undo(struct bbr *b, __u64 now)
{
	__u8 state = b->undo_state;

	restore_cwnd(b);
	b->loss_in_round = 0;
	restart_full_bw(b, 0);
	b->bounds.bw_short = most_of(b->bounds.bw_short, b->saved.bw_short);
	b->bounds.inflight_short = most_of(b->bounds.inflight_short, b->saved.inflight_short);
	b->bounds.inflight_long = most_of(b->bounds.inflight_long, b->saved.inflight_long);
	b->undo_state = UNDO_NOTHING;
	if (state == UNDO_STARTUP && b->mode != STARTUP) {
		b->full_reached = 0;
		if (b->mode != PROBE_RTT)
			b->mode = STARTUP;
	} else if (state == UNDO_UP && !in_phase(b, UP) && b->mode != PROBE_RTT) {
		b->round_at = now;
		start_refill(b);
	}
}

/* Follows the changes of the kernel's state. Call it after processing the losses of the same event. */
STEP note_states(struct bbr *b, __u64 now)
{
	__u32 pending;

	if (!b || !b->pending)
		return 0;
	pending = b->pending;
	b->pending = 0;
	if (pending & UNNECESSARY) {
		if (core.undo)
			undo(b, now);
	} else if ((pending & LEFT) && b->recovery != OPEN) {
		restore_cwnd(b);
	}
	if (pending & (LEFT | UNNECESSARY)) {
		b->recovery = OPEN;
		b->only_marked = 0;
	}
	if (pending & MARKED)
		b->only_marked = 1;
	if (pending & LOST) {
		save_state(b);
		b->recovery = RECOVERY;
	}
	return 0;
}
