/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* Data shared by the programs of a BRF switch and its agent. crates/brf/src/switch/maps.rs has the same layouts.
 * Addresses and ports are in network order. Rates are bytes per second on the wire, and times are nanoseconds of
 * CLOCK_MONOTONIC.
 */

/* The 5-tuple of a flow's data. */
struct flow_key {
	__be32 source;
	__be32 destination;
	__be16 source_port;
	__be16 destination_port;
	__u32 protocol;
};

enum {
	OBEYS = 1, /* the SYN carried the option */
	ANSWERED = 2, /* a packet followed the sender's SYN */
	ENDED = 4, /* FIN of the sender */
	GONE = 8, /* RST, or FIN of both */
	STRIPPED = 16, /* the option does not come back */
};

/* State of a flow. Only the programs write it. */
struct flow {
	__u64 opened;
	__u64 seen;
	__u64 rtt;
	__u64 bytes; /* bytes of IP packets */
	__u64 packets;
	__u64 returned; /* time of the last packet towards the sender */
	__u64 write_at;
	__u64 advised; /* the last rate written into an ACK */
	__u64 other; /* rate of another switch; other_at: when an ACK carried it */
	__u64 other_at;
	__u32 written; /* number of rates written */
	__u32 bare; /* consecutive ACKs without the option */
	__u32 flags;
	__u32 pad;
};

/* A decision of the agent about a flow. */
struct decision {
	__u64 rate; /* zero: none */
	__u16 code; /* the rate as encoded in the option */
	__u8 class;
	__u8 pad[5];
};

/* The agent's settings. */
struct control {
	__u64 heartbeat; /* time of the agent's last decision */
	__u64 patience; /* if the heartbeat is older, no rates are written */
	__u64 offer; /* rate in a SYN-ACK before the decision about its flow */
	__u32 handle; /* the queue's classes are handle | 16 + class */
	__u16 offer_code;
	__u8 acks; /* classes of ACKs of the other direction, of flows without an entry, and of UDP */
	__u8 others;
	__u8 udp;
	__u8 pad[7];
};

/* Totals per class. */
struct total {
	__u64 packets;
	__u64 bytes;
};

struct counters {
	__u64 written; /* rates written */
	__u64 kept; /* lower rates left in place */
	__u64 bare; /* ACKs without the option, of flows that offered to obey */
	__u64 silent; /* ACKs passed without a rate because the agent is gone */
	__u64 refused; /* SYNs of flows for which the table had no space */
	__u64 lost; /* events dropped because the ring buffer was full */
	__u64 acks; /* bytes of ACKs of the other direction */
	__u64 untracked; /* packets of flows without an entry, other than these ACKs */
	__u64 udp; /* UDP packets */
};
