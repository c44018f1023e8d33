/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* BRF's header on a host: sockops programs that write and read a TCP option.
 *
 *   kind 253 | length 6 | ExID 0x4272 | rate, 16 bits
 *
 * Sender: the SYN of a connection with our scheme offers to obey: it carries the option, with the code for no limit.
 * Afterwards the programs read the option from every segment that arrives. Receiver: if the SYN carried the option, the
 * SYN-ACK and all acknowledgements without data carry it too. Their code is the code for no limit, or for the highest
 * rate that the receiver wants. Switches lower the code.
 *
 * Data carries no option, so segments keep their size. The kernel places SACK blocks first: an acknowledgement with
 * timestamps and three SACK blocks has no space for the option. A switch may replace the last block by the option.
 */
struct bpf_sock;

/* The first part of the kernel's structure of this name, which contains all fields that are used here. */
struct bpf_sock_ops {
	__u32 op;
	union {
		__u32 args[4];
		__u32 reply;
	};
	__u32 unused1[16];
	__u32 bpf_sock_ops_cb_flags;
	__u32 unused2[4];
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 unused3[14];
	__u64 unused4[2];
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *skb_data;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *skb_data_end;
		__u64 : 64;
	} __attribute__((aligned(8)));
	__u32 skb_len;
	__u32 skb_tcp_flags;
};

enum {
	CONNECTING = 3,
	ACTIVE_ESTABLISHED = 4,
	PASSIVE_ESTABLISHED = 5,
	LISTENING = 11,
	PARSING = 13,
	SIZING = 14,
	WRITING = 15,
};
/* Flags of the callbacks that a socket requests. */
enum { PARSE_UNKNOWN = 32, WRITE_OPTIONS = 64 };
enum { OF_SYN = 1 }; /* for bpf_load_hdr_opt: options of the peer's SYN */
enum { TCP_LEVEL = 6, CONGESTION = 13, SAVE_SYN = 27 };
enum { FLAG_SYN = 2, FLAG_ACK = 16 };
enum { KIND = 253, LENGTH = 6, EXID_HIGH = 0x42, EXID_LOW = 0x72, SEARCHED = 4, STAMPS = 8, STAMPS_LENGTH = 10 };
enum { NAME = 16, EXISTS = -17 };

/* Set when the program is loaded. crates/brf/src/program.rs has the same layout. */
struct host_params {
	char name[NAME]; /* of the scheme in the kernel */
	__u32 only_named; /* flag: serves only listeners whose scheme has this name */
	__u32 code; /* written by receivers */
};

LOADED struct host_params host SEC(".rodata.host") = { .name = "brf", .code = NO_LIMIT };

/* crates/brf/src/host.rs has the same layout. */
struct host_counters {
	__u64 offered; /* SYNs with the option */
	__u64 accepted; /* connections whose SYN carried the option */
	__u64 written; /* SYN-ACKs and acknowledgements with the option */
	__u64 read; /* rates written by a switch */
	__u64 unlimited; /* options that no switch has lowered */
	__u64 stale; /* options of acknowledgements that were reordered, or that acknowledge unsent data */
	__u64 adopted; /* connections that got our scheme */
	__u64 errors; /* calls refused by the kernel */
};

ONE_ENTRY(BPF_MAP_TYPE_PERCPU_ARRAY, struct host_counters) host_counters SEC(".maps");

#define COUNT_HOST(field)                                                         \
	do {                                                                      \
		__u32 first = 0;                                                  \
		struct host_counters *c = bpf_map_lookup_elem(&host_counters, &first); \
		if (c)                                                            \
			c->field++;                                               \
	} while (0)

static void ask(struct bpf_sock_ops *ops, __u32 flags)
{
	if (bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | flags) < 0)
		COUNT_HOST(errors);
}

static void ask_no_more(struct bpf_sock_ops *ops, __u32 flags)
{
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags & ~flags);
}

static bool is_ours(struct bpf_sock_ops *ops)
{
	char name[NAME] = { 0 };
	int n;

	if (bpf_getsockopt(ops, TCP_LEVEL, CONGESTION, name, NAME) < 0)
		return 0;
	for (n = 0; n < NAME; n++) {
		if (name[n] != host.name[n])
			return 0;
		if (!name[n])
			break;
	}
	return 1;
}

/* The code of the option; negative: there is none. */
static int code_of(struct bpf_sock_ops *ops, __u64 flags)
{
	__u8 option[LENGTH + 2] = { KIND, SEARCHED, EXID_HIGH, EXID_LOW };

	if (bpf_load_hdr_opt(ops, option, LENGTH, flags) != LENGTH)
		return -1;
	return option[4] << 8 | option[5];
}

static __u32 word(const __u8 *bytes)
{
	return (__u32)bytes[0] << 24 | (__u32)bytes[1] << 16 | (__u32)bytes[2] << 8 | bytes[3];
}

static bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

/* Whether this segment is at least as new as all segments read before, and acknowledges only data that was sent. */
static bool is_fresh(struct bpf_sock_ops *ops, struct advice *known)
{
	__u8 stamps[STAMPS_LENGTH + 2] = { STAMPS };
	__u8 *tcp = ops->skb_data, *end = ops->skb_data_end;
	__u32 ack, value, echo;

	if (tcp + 20 > end)
		return 0;
	ack = word(tcp + 8);
	if (before(ops->snd_nxt, ack) || before(ack, ops->snd_una))
		return 0;
	if (bpf_load_hdr_opt(ops, stamps, STAMPS_LENGTH, 0) != STAMPS_LENGTH)
		return 1;
	value = word(stamps + 2);
	echo = word(stamps + 6);
	if (known->stamped && (before(value, known->ts_value) || before(echo, known->ts_echo)))
		return 0;
	known->ts_value = value;
	known->ts_echo = echo;
	known->stamped = 1;
	return 1;
}

static void note(struct bpf_sock_ops *ops, int code, bool handshake)
{
	struct bpf_sock *sk = ops->sk;
	struct advice *known;

	if (code == NO_LIMIT) {
		COUNT_HOST(unlimited);
		return;
	}
	known = sk ? bpf_sk_storage_get(&advised, sk, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;
	if (!known) {
		COUNT_HOST(errors);
		return;
	}
	if (!handshake && !is_fresh(ops, known)) {
		COUNT_HOST(stale);
		return;
	}
	COUNT_HOST(read);
	known->rate = decoded(code);
	known->count++;
}

/* Whether an outgoing segment gets the option: a SYN, a SYN-ACK to a SYN with the option, or an acknowledgement without
 * data.
 */
static bool carries(struct bpf_sock_ops *ops)
{
	__u32 flags = ops->skb_tcp_flags;

	if (flags & FLAG_SYN)
		return !(flags & FLAG_ACK) || code_of(ops, OF_SYN) >= 0;
	return 1;
}

static void write_option(struct bpf_sock_ops *ops)
{
	__u8 option[LENGTH + 2] = { KIND, LENGTH, EXID_HIGH, EXID_LOW };
	bool offer = (ops->skb_tcp_flags & (FLAG_SYN | FLAG_ACK)) == FLAG_SYN;
	__u32 code = offer ? NO_LIMIT : host.code;
	long refused;

	option[4] = code >> 8;
	option[5] = code;

	refused = bpf_store_hdr_opt(ops, option, LENGTH, 0);

	/* Another attachment may have written the option. */
	if (refused && refused != EXISTS)
		COUNT_HOST(errors);
	else if (refused)
		return;
	else if (offer)
		COUNT_HOST(offered);
	else
		COUNT_HOST(written);
}

static int on_event(struct bpf_sock_ops *ops)
{
	int code;

	switch (ops->op) {
	case CONNECTING:
		if (is_ours(ops))
			ask(ops, WRITE_OPTIONS);
		break;
	case ACTIVE_ESTABLISHED:
		if (!(ops->bpf_sock_ops_cb_flags & WRITE_OPTIONS))
			break;
		code = code_of(ops, 0);
		if (code >= 0)
			note(ops, code, 1);
		/* The SYN was sent, so no more options are written. A switch may write later even if the SYN-ACK had no
		 * option.
		 */
		ask_no_more(ops, WRITE_OPTIONS);
		ask(ops, PARSE_UNKNOWN);
		break;
	case LISTENING: {
		int save = 1;

		if (host.only_named && !is_ours(ops))
			break;
		/* The new connection must know whether its SYN carried the option. */
		if (bpf_setsockopt(ops, TCP_LEVEL, SAVE_SYN, &save, sizeof(save)) < 0)
			COUNT_HOST(errors);
		ask(ops, WRITE_OPTIONS);
		break;
	}
	case PASSIVE_ESTABLISHED:
		if (!(ops->bpf_sock_ops_cb_flags & WRITE_OPTIONS))
			break;
		if (code_of(ops, OF_SYN) >= 0)
			COUNT_HOST(accepted);
		else
			ask_no_more(ops, WRITE_OPTIONS);
		break;
	case PARSING:
		/* Sockets of other attachments request this callback too. */
		if (host.only_named && !is_ours(ops))
			break;
		code = code_of(ops, 0);
		if (code >= 0)
			note(ops, code, 0);
		break;
	case SIZING:
		/* Reserves nothing when the kernel computes the segment size, which the option does not reduce, nor for
		 * SYN cookies, which do not keep the SYN.
		 */
		if (ops->args[0] || (ops->skb_len && !(ops->skb_tcp_flags & FLAG_SYN)))
			break;
		/* The kernel refuses if SACK blocks leave no space. */
		if (carries(ops))
			bpf_reserve_hdr_opt(ops, LENGTH, 0);
		break;
	case WRITING:
		write_option(ops);
		break;
	}
	return 1;
}

SEC("sockops")
int brf_host(struct bpf_sock_ops *ops)
{
	return on_event(ops);
}

/* As brf_host, but every connection from this cgroup also gets our scheme. */
SEC("sockops")
int brf_host_adopts(struct bpf_sock_ops *ops)
{
	char name[NAME];

	if (ops->op == CONNECTING) {
		__builtin_memcpy(name, (const char *)host.name, NAME);
		if (bpf_setsockopt(ops, TCP_LEVEL, CONGESTION, name, NAME) < 0)
			COUNT_HOST(errors);
		else
			COUNT_HOST(adopted);
	}
	return on_event(ops);
}
