/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* Types and functions of the kernel that the programs use. Builds outside the kernel include it through native.h. */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

/* The fields of the kernel's structures that are used here. Their offsets are resolved when the program is loaded. */
#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct sock_common {
	__u16 skc_num;
};

struct sock {
	struct sock_common __sk_common;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock_af_ops {
	__u16 net_header_len;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct inet_connection_sock_af_ops *icsk_af_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	__u64 icsk_ca_priv[13];
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	__u16 sack_ok : 3;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u16 tcp_header_len;
	struct tcp_options_received rx_opt;
	__u32 mss_cache;
	__u32 reordering;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 prior_cwnd;
	__u32 prr_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 retrans_out;
	__u32 packets_out;
	__u32 max_packets_out;
	__u8 is_cwnd_limited : 1;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 lost;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 app_limited;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u64 tcp_mstamp;
	__u64 first_tx_mstamp;
	struct minmax rtt_min;
};

struct rate_sample {
	__u64 prior_mstamp;
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	__u32 snd_interval_us;
	__u32 rcv_interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_LOSS = 3,
};

enum { OPEN = 0, CWR = 2, RECOVERY = 3, LOSS = 4 };
enum { INITIAL_WINDOW = 10 };
enum { NON_RESTRICTED = 1 }; /* tcp_congestion_ops.flags: users without CAP_NET_ADMIN may choose it */
enum { NO_SSTHRESH = 0x7fffffff };
enum { PACING_NONE = 0, PACING_NEEDED = 1 };

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	__u32 flags;
	char name[16];
};

/* The kernel's own CUBIC and Reno, as functions for BPF. */
#ifdef __bpf__
#define KERNEL_FUNCTION extern
#define IN_KERNEL __attribute__((section(".ksyms")))
#else
#define KERNEL_FUNCTION static
#define IN_KERNEL
#endif
KERNEL_FUNCTION void cubictcp_init(struct sock *sk) IN_KERNEL;
KERNEL_FUNCTION __u32 cubictcp_recalc_ssthresh(struct sock *sk) IN_KERNEL;
KERNEL_FUNCTION void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) IN_KERNEL;
KERNEL_FUNCTION void cubictcp_state(struct sock *sk, __u8 state) IN_KERNEL;
KERNEL_FUNCTION void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) IN_KERNEL;
KERNEL_FUNCTION void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) IN_KERNEL;
KERNEL_FUNCTION __u32 tcp_reno_undo_cwnd(struct sock *sk) IN_KERNEL;
