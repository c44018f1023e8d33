/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* Rates of the network for one connection. The program that reads TCP options (brf_host.h) writes them, and the scheme
 * follows them.
 */
struct advice {
	__u64 rate; /* bytes per second on the wire */
	__u32 count; /* number of rates read so far */
	/* Timestamps of the newest acknowledgement read. */
	__u32 ts_value;
	__u32 ts_echo;
	__u32 stamped; /* flag: the acknowledgement had timestamps */
};

SOCKET_STORAGE(struct advice) advised SEC(".maps");

enum { NO_LIMIT = 65529 }; /* the code that receivers write and switches lower */

/* The rate of a 16-bit code: a decimal mantissa, and an exponent in the last digit (crates/routers/src/brf/code.rs). */
static __u64 decoded(__u32 code)
{
	__u64 rate = code / 10;
	__u32 n;

	for (n = 0; n < 9; n++)
		rate *= n < code % 10 ? 10 : 1;
	return rate;
}

/* The part of a rate that carries payload, in packets with these headers. */
static __u64 payload_rate(__u64 rate, __u32 mss, __u32 headers)
{
	/* The product does not overflow: rates are at most 6552 · 10^9, and segments at most 2^16 bytes. */
	return rate * mss / (mss + headers);
}
