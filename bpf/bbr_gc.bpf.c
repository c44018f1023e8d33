// SPDX-License-Identifier: GPL-2.0
/* BBR-GC: BBR v1 whose probing gains follow RTT / RTT_max by gamma correction.
 *
 *   P_up = 1 + a (1 - omega^gamma),   P_down = 1 - b omega^delta,   omega = RTT / RTT_max
 *
 * The twin of crates/cc/src/schemes/bbr_gc.rs, whose head explains the scheme, its parameters and its differences from
 * the paper.
 */
#include "program.h"

#include "fixed.h"
#include "gamma.h"

enum { NEWEST, SMOOTHED, LEAST };
/* Rules for the gain of a probe once inflight has reached 1 BDP. */
enum { KEEP, UP, CRUISE, DRAIN_THERE, PROBE };

/* Set when the program is loaded. crates/programs/src/parameters.rs has the same layout. */
struct own_params {
	__u64 rtt_max_window; /* us; 0: the whole connection */
	__u32 up_gamma;
	__u32 down_gamma;
	__u32 up_amplitude;
	__u32 down_amplitude;
	__u32 down_at; /* BDPs */
	__u32 between;
	__u32 early_down; /* flags */
	__u32 quanta;
	__u32 rtt; /* the kind of sample */
	__u32 spare;
};

LOADED struct own_params gc SEC(".rodata.own");
/* For native/replay.c. */
#define OWN gc

struct own {
	__u32 rtt_max;
	__u32 rtt;
	__u32 gain;
};

struct own_rest {
	struct max_filter rtt_max; /* window in microseconds */
	__u32 least; /* least RTT of the round trip in progress; 0: no sample yet */
	__u32 last_least; /* least RTT of the last round trip; 0: none */
};

#include "bbr_core.h"

static void take(struct own *own, __u32 rtt)
{
	own->rtt = rtt;
	own->rtt_max = atleast(own->rtt_max, rtt);
}

/* As `take`, but uses the maximum RTT of the window, if there is a window. */
static void take_windowed(struct own *own, struct own_rest *rest, __u32 now, __u32 rtt)
{
	if (!gc.rtt_max_window) {
		take(own, rtt);
		return;
	}
	own->rtt = rtt;
	if (max_get(&rest->rtt_max))
		max_update(&rest->rtt_max, gc.rtt_max_window, now, rtt);
	else
		max_reset(&rest->rtt_max, now, rtt);
	own->rtt_max = max_get(&rest->rtt_max);
}

static void own_init(struct bbr *b, struct rest *rest, __u32 now, __u32 rtt)
{
	b->own.gain = ONE;
	rest->own.least = rtt;
	if (rtt && gc.rtt != LEAST)
		take_windowed(&b->own, &rest->own, now, rtt);
}

/* The least RTT of the last round trip; 0: none. */
static __u32 least_of_last_round(struct own_rest *rest, bool round_start, __u32 rtt)
{
	if (round_start) {
		rest->last_least = rest->least;
		rest->least = 0;
	}
	if (rtt != NO_RTT && (!rest->least || rtt < rest->least))
		rest->least = rtt;
	return rest->last_least;
}

/* Observes an acknowledgement for the settings that need more state. */
RARE void observe_more(struct sock *sk, struct bbr *b, __u32 now, __u32 rtt)
{
	struct rest *rest = stored_of(sk);

	if (!rest)
		return;
	if (gc.rtt == LEAST) {
		rtt = least_of_last_round(&rest->own, b->round_start, rtt);
		if (!rtt)
			return;
	}
	if (rtt != NO_RTT)
		take_windowed(&b->own, &rest->own, now, rtt);
}

/* Whether inflight has reached this many BDPs. If `quanta` is off, compares bytes, without quanta and rounding. */
static bool reaches(const struct bbr *b, __u32 packets, __u32 bdps, __u32 mss)
{
	if (gc.quanta)
		return packets >= inflight_at(b, bdps, mss);
	return b->min_rtt != NO_RTT &&
	       (__u64)packets * mss >= times_gain(bytes_over(max_get(&b->bw), b->min_rtt), bdps);
}

static void set_gain(struct bbr *b, __u8 phase)
{
	struct own *own = &b->own;
	__u32 most = own->rtt_max;

	if (phase == PHASE_UP)
		own->gain = ONE + gc.up_amplitude - gamma_curve(own->rtt, most, gc.up_gamma, gc.up_amplitude);
	else if (phase == PHASE_DOWN)
		own->gain = ONE - gamma_curve(own->rtt, most, gc.down_gamma, gc.down_amplitude);
	else
		own->gain = ONE;
}

static void own_observe(struct sock *sk, struct bbr *b, const struct ack *a)
{
	struct own *own = &b->own;
	__u32 rtt = a->rtt;

	if (gc.rtt == SMOOTHED)
		rtt = a->srtt ? a->srtt : NO_RTT;
	if (gc.rtt == LEAST || gc.rtt_max_window)
		observe_more(sk, b, a->now, rtt);
	else if (rtt != NO_RTT)
		take(own, rtt);
	if (b->mode != PROBE_BW)
		return;
	/* Algorithm 1, phase 1, lines 4 and 5: P_up is assigned only below 1 BDP. */
	if (gc.between == KEEP && b->phase == PHASE_UP && reaches(b, a->in_flight, ONE, a->mss))
		return;
	if (gc.between == CRUISE && b->phase == PHASE_UP && reaches(b, a->prior_in_flight, ONE, a->mss))
		own->gain = ONE;
	else
		set_gain(b, b->phase);
}

static void own_enter_phase(struct bbr *b, __u8 phase)
{
	/* No line of algorithm 1 assigns a gain here: a probe begins with the gain of the six phases. */
	if (gc.between == KEEP && phase == PHASE_UP)
		b->own.gain = ONE;
	else
		set_gain(b, phase);
}

static __u32 own_probe_gain(const struct bbr *b, __u8 phase)
{
	return b->own.gain;
}

static bool own_phase_done(const struct bbr *b, const struct ack *a)
{
	bool full = lasted_min_rtt(b);

	if (b->policed || b->phase > PHASE_DOWN)
		return full;
	if (b->phase == PHASE_DOWN)
		return full || !reaches(b, a->prior_in_flight, ONE, a->mss);
	if (a->lost || reaches(b, a->prior_in_flight, gc.down_at, a->mss))
		return full || gc.early_down;
	if (gc.between == PROBE)
		return 0;
	if (gc.between == DRAIN_THERE)
		return (full || gc.early_down) && reaches(b, a->prior_in_flight, ONE, a->mss);
	return full && reaches(b, a->prior_in_flight, b->own.gain, a->mss);
}

static bool own_drain_done(struct sock *sk, const struct bbr *b, const struct ack *a)
{
	return standard_drain_done(b, a);
}

static __u32 own_cwnd_gain(const struct bbr *b)
{
	return core.cwnd_gain;
}

#include "bbr_events.h"

SCHEME("bbr_gc");
