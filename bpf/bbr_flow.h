/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* Shared by all generations of BBR: an acknowledgement, and pacing. */
#include "fixed.h"

enum {
	MIN_WINDOW = 4,
	NO_RTT = ~0U,
};

/* An acknowledgement. Amounts are packets, as the kernel counts them. */
struct ack {
	__u64 now;
	__u64 rate; /* rate of the sample; 0: no sample */
	__u64 most; /* the application's limit on the pacing rate */
	__u32 acked;
	__u32 lost;
	__u32 prior_in_flight;
	__u32 in_flight;
	__u32 mss;
	__u32 rtt; /* NO_RTT: none */
	__u32 srtt; /* 0: none */
	__u32 delivered; /* in total */
	__u32 prior_delivered; /* when the newest packet delivered was sent */
	__u32 sample_delivered; /* deliveries since that packet was sent */
	bool sampled;
	bool limited;
	bool delayed;
};

/* Reads together the fields of the socket that are seldom in the cache, so that their cache misses overlap. */
static void read_ack(struct ack *a, struct sock *sk, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;

	a->most = sk->sk_max_pacing_rate;
	a->now = tp->tcp_mstamp;
	a->acked = rs->acked_sacked;
	a->lost = rs->losses;
	a->prior_in_flight = rs->prior_in_flight;
	a->in_flight = in_flight(tp);
	a->mss = atleast(tp->mss_cache, 1);
	a->rtt = rs->rtt_us < 0 || rs->rtt_us >= NO_RTT ? NO_RTT : rs->rtt_us;
	a->srtt = tp->srtt_us >> 3;
	a->delivered = tp->delivered;
	a->prior_delivered = rs->prior_delivered;
	a->sampled = rs->delivered >= 0 && rs->interval_us > 0;
	a->sample_delivered = a->sampled ? rs->delivered : 0;
	a->rate = a->sampled ? rate_of((__u64)a->sample_delivered * a->mss, rs->interval_us) : 0;
	a->limited = a->sampled && rs->is_app_limited;
	a->delayed = rs->is_ack_delayed;
}

/* Paces at this rate, or at the application's limit if the limit is lower: for schemes with cong_control the kernel
 * does not limit the rate itself.
 */
static __u64 pace(struct sock *sk, __u64 rate, __u64 most)
{
	/* A pacing rate of 0 would stop the flow for good. */
	rate = least_of(most_of(rate, 1), most);
	sk->sk_pacing_rate = rate;
	return rate;
}
