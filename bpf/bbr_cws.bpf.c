// SPDX-License-Identifier: GPL-2.0
/* BBR-CWS, our reconstruction: BBR v1 whose cwnd is scaled to a bound that follows the control law of CUBIC.
 *
 *   cwnd in ProbeBW = s V + extra + 3 quanta,   s = W / V
 *
 * The twin of crates/cc/src/schemes/bbr_cws.rs, whose head explains the scheme, its parameters and its symbols.
 *
 * Differences from the twin, in addition to those of the core:
 * - W, V and the peaks are segments with 20 fractional bits instead of bytes in floating point. s has 20 fractional
 *   bits. As a gain it is rounded down, so that s V never exceeds W; as a limit of W it is rounded up, so that W = s V,
 *   computed with the V from which s was computed, is not below the W of that computation. While V is unchanged, W = s
 *   V returns the same s, without drift.
 * - V is at most 8 million segments.
 */
#include "program.h"

#include "fixed.h"
#include "cubic.h"

enum {
	FEW = 8, /* samples in a round trip: with fewer, delayed acknowledgements may dominate */
	HEAVY = 16, /* loss of more than 1/16 of a round trip is congestion, regardless of the queue */
};

#define STANDARD_MOST (1ULL << (23 + GAIN_SHIFT))

/* Set when the program is loaded. crates/programs/src/parameters.rs has the same layout. */
struct own_params {
	__u32 cut;
	__u32 speed; /* segments/s^3, with 24 fractional bits */
	__u32 fair; /* Reno-fair growth: segments per round trip, with 24 fractional bits */
	__u32 first;
	__u32 scale_min;
	__u32 scale_max;
	__u32 queue; /* minimum RTTs, rounded up */
	__u32 congested; /* rounded down */
	__u32 push;
	__u32 drain_rounds;
	__u32 converge; /* flag */
	__u32 spare;
};

LOADED struct own_params cws SEC(".rodata.own");
/* For native/replay.c. */
#define OWN cws

/* Copies of fields of struct own_rest, for hooks without the socket. */
struct own {
	__u32 scale;
	__u8 crowded;
};

struct own_rest {
	__u64 bound; /* W in segments with 20 fractional bits; 0: ProbeBW has not begun */
	/* The growth curve: it has the value `low` at the time `since`, reaches `peak` after the time `back`, and rises
	 * beyond.
	 */
	__u64 peak;
	__u64 low;
	__u64 since;
	__u64 back;
	__u32 rounds; /* round trips since `since` */
	__u32 scale;
	__u32 scale_up; /* rounded up */
	__u32 base; /* R0, minimum RTT of the connection; tcp_min_rtt would forget it after five minutes */
	__u32 fullest; /* Q, the maximum over round trips of their minimum RTT */
	__u32 drained; /* round trips in Drain */
	/* The round trip in progress. */
	__u32 lost;
	__u32 delivered;
	__u32 inflight;
	__u32 least; /* NO_RTT: no sample yet */
	__u32 most;
	__u32 samples;
	__u8 probing; /* the round trip began in ProbeBW */
	__u8 cut_before; /* the bound has been cut at some time */
	__u8 just_cut; /* the last round trip cut the bound */
	__u8 crowded; /* other flows maintain a queue, and this flow sees no congestion */
};

#include "bbr_core.h"

static void begin_round(struct own_rest *own)
{
	own->lost = 0;
	own->delivered = 0;
	own->inflight = 0;
	own->least = NO_RTT;
	own->most = 0;
	own->samples = 0;
}

static void add_rtt(struct own_rest *own, __u32 rtt)
{
	own->base = atmost(own->base, rtt);
	own->least = atmost(own->least, rtt);
	own->most = atleast(own->most, rtt);
	own->samples++;
}

static void own_init(struct bbr *b, struct rest *rest, __u32 now, __u32 rtt)
{
	b->own.scale = ONE;
	rest->own.scale = ONE;
	rest->own.scale_up = ONE;
	rest->own.base = b->min_rtt;
	begin_round(&rest->own);
	if (rtt)
		add_rtt(&rest->own, rtt);
}

/* V: BBR v1's cwnd without its additions, in segments. 0: min_rtt is unknown. */
static __u64 standard_cwnd(const struct bbr *b, __u32 mss)
{
	__u64 bdp = least_of(bytes_over(max_get(&b->bw), b->min_rtt), 1ULL << 40);

	if (b->min_rtt == NO_RTT)
		return 0;
	return least_of(most_of(bdp * core.cwnd_gain / mss, ONE), STANDARD_MOST);
}

/* Whether the loss in a round trip was congestion: the queue was nearly at its maximum, or the loss was heavy. */
static bool was_congestion(const struct own_rest *own)
{
	__s64 queue = (__s64)own->fullest - own->base;
	__s64 most = (__s64)own->most - own->base;

	return (__u64)own->lost * HEAVY > (__u64)own->lost + own->delivered ||
	       most * ONE >= queue * (__s64)cws.congested;
}

static void begin_curve(struct own_rest *own, __u64 now, __u64 peak, __u64 low)
{
	own->peak = peak;
	own->low = low;
	own->since = now;
	own->rounds = 0;
	own->back = curve_back(less(peak, low), cws.speed);
}

/* The bound after one more round trip, by CUBIC's control law. */
static __u64 grown(struct own_rest *own, __u64 bound, __u64 us)
{
	__u64 cubic = curve_at(own->peak, own->back, curve_time(us), cws.speed);
	__u64 reno;

	own->rounds++;
	/* RFC 9438 section 4.3 */
	reno = own->low + ((__u64)own->rounds * cws.fair >> (SPEED_SHIFT - GAIN_SHIFT));
	return most_of(most_of(bound, least_of(cubic, bound + bound / 2)), reno);
}

static __u64 cut(struct own_rest *own, __u64 now)
{
	__u64 peak = least_of(own->bound, (__u64)own->inflight << GAIN_SHIFT);
	__u64 bound = scaled(peak, cws.cut);

	if (cws.converge && peak < own->peak)
		peak = (peak + bound) / 2;
	begin_curve(own, now, peak, bound);
	own->cut_before = 1;
	return bound;
}

/* Sets the bound and the scale. cwnd exceeds BBR's cwnd only while `crowded` is set, and does not grow further under
 * random loss.
 */
static void set_bound(struct own_rest *own, __u64 now, __u64 bound, __u64 standard, bool queued, bool congestion)
{
	__u64 most = standard, limited, remainder;

	if (queued && own->lost)
		most = scaled(standard, atleast(own->scale_up, ONE));
	else if (queued)
		most = scaled_up(standard, cws.scale_max);
	limited = least_of(most_of(bound, scaled_up(standard, cws.scale_min)), most);
	if (limited < bound && !congestion)
		begin_curve(own, now, limited, limited);
	own->bound = limited;
	remainder = limited % standard << GAIN_SHIFT;
	own->scale = limited / standard * ONE + remainder / standard;
	own->scale_up = own->scale + (remainder % standard != 0);
}

/* Updates the bound and the scale, once per round trip. The function is not static: the verifier checks it once instead
 * of on every path to it, and requires a result.
 */
__attribute__((noinline)) int end_round(struct own_rest *own, __u64 now, __u64 standard, __u32 mode)
{
	bool queued, congestion;
	__u64 bound;

	if (!own || own->least == NO_RTT)
		return 0;
	if (own->samples >= FEW)
		own->fullest = atleast(own->fullest, own->least);
	if (mode == DRAIN)
		own->drained++;
	if (!own->probing || mode != PROBE_BW || !standard)
		return 0;
	queued = (__u64)own->least << GAIN_SHIFT > (__u64)own->base * cws.queue;
	congestion = own->lost && !own->just_cut && was_congestion(own);
	own->just_cut = congestion;
	own->crowded = queued && !congestion;
	if (!own->bound) {
		own->bound = standard;
		begin_curve(own, now, standard, standard);
	}
	if (congestion) {
		bound = cut(own, now);
	} else {
		bound = grown(own, own->bound, less(now, own->since) + own->least);
		if (queued && !own->cut_before && cws.first) {
			bound += scaled(bound, cws.first);
			begin_curve(own, now, bound, bound);
		}
	}
	set_bound(own, now, bound, standard, queued, congestion);
	return 0;
}

static void own_observe(struct sock *sk, struct bbr *b, const struct ack *a)
{
	struct rest *rest = stored_of(sk);
	struct own_rest *own = rest ? &rest->own : 0;

	if (!own)
		return;
	if (a->rtt != NO_RTT)
		own->base = atmost(own->base, a->rtt);
	if (b->round_start) {
		end_round(own, a->now, standard_cwnd(b, a->mss), b->mode);
		b->own.scale = own->scale;
		b->own.crowded = own->crowded;
		begin_round(own);
		own->probing = b->mode == PROBE_BW;
	}
	own->lost += a->lost;
	own->delivered += a->acked;
	own->inflight = atleast(own->inflight, a->prior_in_flight);
	if (a->rtt != NO_RTT)
		add_rtt(own, a->rtt);
}

static void own_enter_phase(struct bbr *b, __u8 phase)
{
}

static __u32 own_probe_gain(const struct bbr *b, __u8 phase)
{
	__u32 gain = standard_probe_gain(phase);

	return b->own.crowded ? atleast(gain, cws.push) : gain;
}

static bool own_phase_done(const struct bbr *b, const struct ack *a)
{
	return standard_phase_done(b, a);
}

static bool own_drain_done(struct sock *sk, const struct bbr *b, const struct ack *a)
{
	struct rest *rest = stored_of(sk);
	bool over = rest && cws.drain_rounds && rest->own.drained >= cws.drain_rounds;

	return over || standard_drain_done(b, a);
}

static __u32 own_cwnd_gain(const struct bbr *b)
{
	return times_gain(core.cwnd_gain, b->own.scale);
}

#include "bbr_events.h"

SCHEME("bbr_cws");
