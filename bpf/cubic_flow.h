/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* CUBIC for schemes that fall back to it: growth and HyStart of Linux, paced.
 *
 * The twin of crates/cc/src/schemes/cubic.rs with default parameters. The head of that file explains the control law.
 * As in that file, windows are whole segments. The curve is that of cubic.h.
 */
#include "fixed.h"
#include "cubic.h"

enum {
	/* A reduction keeps 0.7 of cwnd; with fast convergence W_max is (1 + 0.7) / 2 of cwnd. */
	KEPT_NUM = 7,
	KEPT_DEN = 10,
	CONVERGED_NUM = 17,
	CONVERGED_DEN = 20,
	/* alpha = 3 (1 - 0.7) / (1 + 0.7) = 9/17 segments per cwnd for Reno's estimate. */
	ALPHA_NUM = 9,
	ALPHA_DEN = 17,
	UNLIMITED = 1 << 30, /* ssthresh before the first reduction */
	/* Linux's growth: see cubic/linux.rs. */
	REUSE_US = 31250,
	JIFFY_US = 1000,
	FLAT = 100,
	UNKNOWN_MOST = 20,
	LEAST_PER_INCREASE = 2,
	/* HyStart: see hystart/linux.rs. */
	LOW_WINDOW = 16,
	ACK_DELTA_US = 2000,
	MIN_SAMPLES = 8,
	DELAY_LEAST_US = 4000,
	DELAY_MOST_US = 16000,
	OFFLOAD = 4 * 65536,
	OFFLOAD_MOST_NS = 1000000,
};

#define CUBIC_SPEED 6710886ULL /* 0.4 segments/s^3, with 24 fractional bits */

struct hystart {
	__u64 round_start;
	__u64 last_ack;
	__u32 round_end;
	__u32 min_rtt; /* 0: none */
	__u32 round_least;
	__u8 samples;
	__u8 found;
};

/* The state that the undo of a reduction restores. */
struct cubic_curve {
	__u64 since;
	__u64 back;
	__u32 cwnd;
	__u32 ssthresh;
	__u32 peak; /* W_max; 0: unknown */
	__u8 avoiding; /* flag: an epoch has begun */
	__u8 known; /* W_max was known when the epoch began */
	struct hystart hystart;
};

struct cubic {
	struct cubic_curve now;
	struct cubic_curve prior;
	__u64 last_update;
	__u64 last_ack;
	__u64 per_increase;
	__u64 credit;
	__u64 reno_credit; /* ninths of a segment */
	__u32 reno_cwnd;
	__u32 last_cwnd;
	__u32 srtt; /* 0: none */
	__u8 updated;
	__u8 undoable;
};

/* An acknowledgement, as CUBIC reads it. */
struct cubic_ack {
	__u64 now;
	__u32 acked; /* packets by which cwnd may grow */
	__u32 rtt; /* 0: none */
	__u32 srtt; /* 0: none */
	__u32 min_rtt;
	__u32 delivered;
	__u32 in_flight;
	__u32 mss;
	bool limited; /* cwnd limits the sender */
	bool recovering;
};

/* Begins slow start from this cwnd. */
static void cubic_begin(struct cubic *c, __u32 cwnd)
{
	__builtin_memset(c, 0, sizeof(*c));
	c->now.cwnd = atleast(cwnd, 1);
	c->now.ssthresh = UNLIMITED;
}

/* Sets the thresholds at a congestion event. Returns ssthresh without its minimum. */
static __u32 cubic_reduce(struct cubic *c, __u32 flight)
{
	struct cubic_curve *k = &c->now;
	__u32 kept = (__u64)flight * KEPT_NUM / KEPT_DEN;

	c->prior = *k;
	c->undoable = 1;
	k->peak = k->cwnd < k->peak ? (__u64)k->cwnd * CONVERGED_NUM / CONVERGED_DEN : k->cwnd;
	k->avoiding = 0;
	k->ssthresh = atleast(kept, 2);
	return kept;
}

/* Avoidance begins on the plateau: W = W_max = ssthresh = cwnd. */
static void cubic_begin_at(struct cubic *c, __u32 cwnd)
{
	cubic_begin(c, cwnd);
	cubic_reduce(c, cwnd);
	c->now.ssthresh = cwnd;
}

static void cubic_recover(struct cubic *c)
{
	__u32 kept = cubic_reduce(c, c->now.cwnd);

	c->now.cwnd = atmost(c->now.cwnd, atleast(kept, 2));
}

/* Notes the cwnd that the kernel leaves after a timeout. The thresholds were set before the timeout was processed. */
static void cubic_expire(struct cubic *c, __u32 cwnd)
{
	c->now.peak = 0;
	c->now.hystart.found = 0;
	c->now.cwnd = atleast(cwnd, 1);
}

static void cubic_undo(struct cubic *c)
{
	if (c->undoable && c->now.cwnd < c->prior.cwnd)
		c->now = c->prior;
	c->undoable = 0;
}

/* Linux `tcp_cwnd_restart`: halves cwnd for each RTO of idle time. */
static void cubic_idle(struct cubic *c, __u64 now, __u64 idle, __u32 rto, __u32 initial)
{
	struct cubic_curve *k = &c->now;
	__u64 cwnd = (__u64)k->cwnd << GAIN_SHIFT, least = (__u64)atmost(k->cwnd, initial) << GAIN_SHIFT;
	__u32 n;

	if (k->avoiding)
		k->since += less(now, c->last_ack);
	c->last_ack = now;
	if (!rto || idle <= rto)
		return;
	for (n = 0; n < 32 && idle > rto && cwnd > least; n++) {
		idle -= rto;
		cwnd /= 2;
	}
	cwnd = most_of(cwnd, least);
	if (cwnd >= (__u64)k->cwnd << GAIN_SHIFT)
		return;
	if (k->ssthresh < UNLIMITED)
		k->ssthresh = atleast(k->ssthresh, (__u64)k->cwnd * 3 / 4);
	k->cwnd = atleast(cwnd >> GAIN_SHIFT, 1);
	k->avoiding = 0;
}

static void hystart_rtt(struct hystart *h, __u32 rtt)
{
	if (rtt && (!h->min_rtt || rtt < h->min_rtt))
		h->min_rtt = rtt;
}

/* Processes an acknowledgement in slow start. Returns whether slow start ends. */
static bool hystart_ack(struct hystart *h, const struct cubic_ack *a, __u32 cwnd)
{
	__u64 delay = 0, rate;

	if (!a->rtt || h->found)
		return 0;
	if ((__s32)(a->delivered - h->round_end) > 0) {
		h->round_start = a->now;
		h->last_ack = a->now;
		h->round_end = a->delivered + a->in_flight;
		h->round_least = ~0U;
		h->samples = 0;
	}
	if (cwnd < LOW_WINDOW)
		return 0;
	if (less(a->now, h->last_ack) <= ACK_DELTA_US) {
		h->last_ack = a->now;
		if (a->srtt) {
			rate = most_of(rate_of(2ULL * cwnd * a->mss, a->srtt), 1);
			delay = least_of(OFFLOAD * 1000000000ULL / rate, OFFLOAD_MOST_NS);
		}
		h->found = less(a->now, h->round_start) * 1000 > h->min_rtt * 1000ULL + delay;
	}
	h->round_least = atmost(h->round_least, a->rtt);
	if (h->samples < MIN_SAMPLES)
		h->samples++;
	else if (h->round_least > h->min_rtt + atmost(atleast(h->min_rtt / 8, DELAY_LEAST_US), DELAY_MOST_US))
		h->found = 1;
	return h->found;
}

static void cubic_begin_epoch(struct cubic *c, __u64 now)
{
	struct cubic_curve *k = &c->now;

	c->updated = 0;
	c->per_increase = 0;
	c->credit = 0;
	c->reno_credit = 0;
	c->reno_cwnd = 0;
	c->last_cwnd = 0;
	k->known = k->peak > 0;
	k->peak = atleast(k->peak, k->cwnd);
	k->since = now;
	k->back = curve_back((__u64)(k->peak - k->cwnd) << GAIN_SHIFT, CUBIC_SPEED);
	k->avoiding = 1;
}

/* W_cubic at one minimum RTT from now. Its distance from W_max is truncated to whole segments. */
static __u32 cubic_target(const struct cubic *c, const struct cubic_ack *a)
{
	const struct cubic_curve *k = &c->now;
	__u64 time = curve_time(less(a->now, k->since) + a->min_rtt);

	if (time < k->back)
		return less(k->peak, curve_growth(k->back - time, CUBIC_SPEED) >> GAIN_SHIFT);
	return least_of(k->peak + (curve_growth(time - k->back, CUBIC_SPEED) >> GAIN_SHIFT), UNLIMITED);
}

static void cubic_update(struct cubic *c, const struct cubic_ack *a)
{
	__u64 cwnd = c->now.cwnd, target;

	if (c->updated && less(a->now, c->last_update) < JIFFY_US)
		return;
	if (!c->updated) {
		c->updated = 1;
		c->reno_credit = (__u64)a->acked * ALPHA_NUM;
		c->reno_cwnd = cwnd;
	}
	c->last_cwnd = cwnd;
	c->last_update = a->now;
	target = cubic_target(c, a);
	c->per_increase = target > cwnd ? cwnd / (target - cwnd) : FLAT * cwnd;
	if (!c->now.known)
		c->per_increase = least_of(c->per_increase, UNKNOWN_MOST);
}

/* Reno's estimate of cwnd grows by alpha per round trip. */
static void cubic_follow_reno(struct cubic *c)
{
	__u64 cwnd = c->now.cwnd, step = most_of(cwnd * ALPHA_DEN, ALPHA_NUM), steps;

	if (c->reno_credit > step) {
		steps = (c->reno_credit - 1) / step;
		c->reno_credit -= steps * step;
		c->reno_cwnd += steps;
	}
	if (c->reno_cwnd > cwnd)
		c->per_increase = least_of(c->per_increase, cwnd / (c->reno_cwnd - cwnd));
}

static void cubic_avoid(struct cubic *c, const struct cubic_ack *a)
{
	if (!c->now.avoiding)
		cubic_begin_epoch(c, a->now);
	c->reno_credit += (__u64)a->acked * ALPHA_NUM;
	if (!c->updated || c->last_cwnd != c->now.cwnd || less(a->now, c->last_update) > REUSE_US) {
		cubic_update(c, a);
		cubic_follow_reno(c);
		c->per_increase = most_of(c->per_increase, LEAST_PER_INCREASE);
	}
	/* `tcp_cong_avoid_ai`: credit collected while `per_increase` was larger counts for only one segment.
	 */
	if (c->credit >= c->per_increase) {
		c->credit = 0;
		c->now.cwnd++;
	}
	c->credit += a->acked;
	if (c->per_increase && c->credit >= c->per_increase) {
		c->now.cwnd += c->credit / c->per_increase;
		c->credit %= c->per_increase;
	}
}

/* This function is not static: the verifier checks it once instead of on every path to it, and requires a result. */
__attribute__((noinline)) int cubic_on_ack(struct cubic *c, const struct cubic_ack *a)
{
	struct cubic_curve *k;
	bool avoids = 1;

	if (!c || !a)
		return 0;
	k = &c->now;
	c->srtt = a->srtt;
	c->last_ack = a->now;
	if (a->recovering)
		return 0;
	hystart_rtt(&k->hystart, a->rtt);
	if (k->cwnd < k->ssthresh) {
		avoids = hystart_ack(&k->hystart, a, k->cwnd);
		if (avoids)
			k->ssthresh = k->cwnd;
		if (a->limited)
			k->cwnd = atmost(k->cwnd + a->acked, atleast(k->ssthresh, k->cwnd));
	}
	if (avoids && a->limited && a->acked)
		cubic_avoid(c, a);
	return 0;
}

/* The pacing rate of Linux `tcp_update_pacing_rate`; 0: no RTT is known. */
static __u64 cubic_pacing(const struct cubic *c, __u32 mss)
{
	__u64 cwnd = (__u64)c->now.cwnd * mss, ssthresh = (__u64)c->now.ssthresh * mss;

	if (!c->srtt)
		return 0;
	return most_of(rate_of(cwnd < ssthresh / 2 ? cwnd * 2 : cwnd * 6 / 5, c->srtt), 1);
}
