/* SPDX-License-Identifier: GPL-2.0 */
/* The long-term bandwidth of BBR, which detects token-bucket policers by two intervals in a row with heavy loss and
 * similar goodput. For some time, BBR then uses that goodput as its bandwidth, without probing.
 */
enum {
	INTERVAL_ROUNDS = 4,
	INTERVAL_ROUNDS_MAX = 16,
	USE_ROUNDS = 48, /* rounds of ProbeBW with the long-term rate */
	LOSS_SHARE = 50, /* lost packets per 256 delivered: about 20 % */
	AGREE_PART = 8, /* intervals agree within this part of the first … */
	AGREE_RATE = 500, /* … or this many bytes per second */
};

struct policer {
	__u64 rate;
	__u32 since; /* us, as in all times here */
	__u32 delivered;
	__u32 lost;
	__u32 rounds;
	__u8 sampling;
	__u8 in_use;
};

struct policer_sample {
	__u32 at; /* time of the last delivery */
	__u32 delivered;
	__u32 lost;
	__u32 mss;
	bool newly_lost;
	bool app_limited;
	bool round_start;
	bool in_probe_bw;
};

/* Begins an interval. */
static void policer_restart(struct policer *p, const struct policer_sample *s)
{
	p->since = s->at;
	p->delivered = s->delivered;
	p->lost = s->lost;
	p->rounds = 0;
}

static void policer_reset(struct policer *p, const struct policer_sample *s)
{
	p->rate = 0;
	p->sampling = 0;
	p->in_use = 0;
	policer_restart(p, s);
}

static void policer_end_interval(struct policer *p, const struct policer_sample *s, __u64 rate)
{
	__u64 difference = rate > p->rate ? rate - p->rate : p->rate - rate;

	if (p->rate && (difference * AGREE_PART <= p->rate || difference <= AGREE_RATE)) {
		p->rate = (rate + p->rate) / 2;
		p->in_use = 1;
		p->rounds = 0;
		return;
	}
	p->rate = rate;
	policer_restart(p, s);
}

/* Returns whether the use of the long-term rate ends now. */
static bool policer_update(struct policer *p, const struct policer_sample *s)
{
	__u64 lost, delivered;
	__u32 elapsed;

	if (p->in_use) {
		if (!s->in_probe_bw || !s->round_start || ++p->rounds < USE_ROUNDS)
			return 0;
		policer_reset(p, s);
		return 1;
	}
	if (!p->sampling) {
		/* The first loss shows that the bucket is empty: earlier rates would be too high. */
		if (!s->newly_lost)
			return 0;
		policer_restart(p, s);
		p->sampling = 1;
	}
	if (s->app_limited) {
		policer_reset(p, s);
		return 0;
	}
	if (s->round_start)
		p->rounds++;
	if (p->rounds < INTERVAL_ROUNDS)
		return 0;
	if (p->rounds > INTERVAL_ROUNDS_MAX) {
		policer_reset(p, s);
		return 0;
	}
	/* An interval ends with a loss, when the bucket is empty again. */
	if (!s->newly_lost)
		return 0;
	lost = s->lost - p->lost;
	delivered = s->delivered - p->delivered;
	elapsed = s->at - p->since;
	if (!delivered || lost * 256 < delivered * LOSS_SHARE || elapsed < 1000)
		return 0;
	policer_end_interval(p, s, rate_of(delivered * s->mss, elapsed));
	return 0;
}
