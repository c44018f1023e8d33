/* SPDX-License-Identifier: GPL-2.0 */
/* Data exchanged by the shim and the process. crates/kernel/src/shim/record.rs has the same layouts. */

/* Kinds of records. */
enum { INIT = 1, ACK = 2, TIMEOUT = 3, STATE = 4, START = 5, CLOSE = 6 };
enum {
	UNDO = 1, /* the last reduction was unnecessary */
	LOSS_EVENT = 2, /* the timeout calls for a reduction */
	CWND_LIMITED = 4,
	APP_LIMITED = 8, /* the sample is application-limited */
	RETRANSMITTED = 16, /* the newest packet delivered was retransmitted */
	ACK_DELAYED = 32,
	SAMPLED = 64, /* prior_* and the intervals are valid */
	FALLBACK = 128, /* the flow follows no decision */
};

struct record {
	__u64 sequence; /* per flow, from 1 */
	__u64 applied; /* the last record that the decision in force accounts for */
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 mstamp_us;
	__u64 prior_mstamp_us;
	__u64 first_tx_us;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u64 pacing_rate;
	__u32 port;
	__u32 kind;
	__u32 transitions; /* states entered since the last record: plus one, four bits each, newest lowest */
	__u32 flags;
	__u32 ack_flags;
	__u32 acked_sacked;
	__u32 losses;
	__u32 prior_delivered;
	__u32 sample_delivered;
	__u32 interval_us; /* all ones: no sample */
	__u32 snd_interval_us;
	__u32 rcv_interval_us;
	__u32 rtt_us; /* all ones: none */
	__u32 prior_in_flight;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 snd_cwnd;
	__u32 ssthresh;
	__u32 srtt_us; /* eight times the smoothed RTT */
	__u32 rttvar_us;
	__u32 min_rtt_us;
	__u32 mss;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 prr_out;
	__u32 max_packets_out;
	__u32 app_limited;
	__u32 retransmits;
	__u32 reordering;
};

enum { REDUCING = 1, PACED = 2 };

struct decision {
	__u64 answers; /* the last record that the decision accounts for */
	__u64 pacing_rate; /* bytes per second */
	__u32 cwnd; /* packets */
	__u32 ssthresh; /* packets */
	__u32 flags;
	__u32 allowance; /* REDUCING: packets that may be sent beyond prr_out */
	__u32 prr_out;
	__u32 burst; /* minimum burst in packets */
};

struct counters {
	__u64 calls;
	__u64 decisions;
	__u64 fallbacks;
	__u64 drops;
};
