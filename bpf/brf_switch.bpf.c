// SPDX-License-Identifier: GPL-2.0
/* A switch of bottleneck routing feedback on a Linux port: the part that sees every packet.
 *
 * `brf_data` is on the egress of the bottleneck. It keeps the table of flows, counts the packets of each flow, and
 * selects their class in the queue. `brf_ack` is on the ingress of ports where ACKs return. It lowers the rate in an
 * ACK to the flow's share, once per round trip. An agent in user space (crates/brf/src/switch) computes the shares from
 * these counters, with the router algorithm of the simulator (crates/routers/src/brf). Without recent decisions the
 * program writes nothing, so that senders fall back, and all flows share a class.
 *
 *   SYN -> entry -> share -> SYN-ACK with the share -> data counted -> share per period -> ACKs -> FIN, RST, silence
 *
 * A rate travels as TCP option 253 of six bytes with the ExID 0x4272, in the paper's 16-bit code. A switch can only
 * change the option: flows whose receiver does not send it count as other flows.
 */
#include "program.h"

#include <bpf/bpf_endian.h>

#include "brf_switch.h"

enum { ETHERNET = 14, IPV4 = 0x0800, IPV6 = 0x86dd, TCP = 6, UDP = 17, ICMP = 1, ICMP6 = 58 };
enum { false, true };
enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { KIND = 253, LENGTH = 6, EXID = 0x4272, SACK = 5, THREE_BLOCKS = 26, TWO_BLOCKS = 18 };
enum { CONTINUE = -1 }; /* TC_ACT_UNSPEC: other filters decide */
enum { BARE_LIMIT = 16, CLASSES = 8, FIRST_MINOR = 16, ANY = 0, NOEXIST = 1 };

/* The fields of a filter's context that are used here, in the layout of linux/bpf.h. */
struct __sk_buff {
	__u32 len;
	__u32 unused1[3];
	__u32 protocol;
	__u32 unused2[3];
	__u32 priority;
	__u32 unused3[31];
	__u32 wire_len;
	__u32 gso_segs;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 20000);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 20000);
	__type(key, struct flow_key);
	__type(value, struct decision);
} decisions SEC(".maps");

ONE_ENTRY(BPF_MAP_TYPE_ARRAY, struct control) controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, struct total);
} totals SEC(".maps");

ONE_ENTRY(BPF_MAP_TYPE_PERCPU_ARRAY, struct counters) counters SEC(".maps");

/* Keys of flows that have changed, for the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} events SEC(".maps");

#define COUNT(field, amount)                                               \
	do {                                                               \
		__u32 first = 0;                                           \
		struct counters *own = bpf_map_lookup_elem(&counters, &first); \
		if (own)                                                   \
			own->field += (amount);                            \
	} while (0)

static struct control *settings(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&controls, &first);
}

static bool is_alive(const struct control *control, __u64 now)
{
	/* The agent may have written a later heartbeat after `now` was read. */
	return control->heartbeat > now || now - control->heartbeat < control->patience;
}

static void tell(const struct flow_key *key)
{
	if (bpf_ringbuf_output(&events, (void *)key, sizeof(*key), 0))
		COUNT(lost, 1);
}

/* Sets a flag atomically, because both programs set flags, possibly on several processors at the same time. */
static void set_flag(struct flow *flow, __u32 flag)
{
	__sync_fetch_and_or(&flow->flags, flag);
}

/* The fields read from a packet. */
struct packet {
	struct flow_key key;
	__u32 tcp; /* offset of the TCP header */
	__u32 header; /* length of the TCP header */
	__u32 payload;
	__u8 flags;
};

struct ipv4 {
	__u8 version;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__be32 source;
	__be32 destination;
};

struct tcp {
	__be16 source;
	__be16 destination;
	__be32 sequence;
	__be32 acknowledgement;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__u16 checksum;
	__u16 urgent;
};

/* Reads the headers of an IPv4 packet. Sets the protocol, and for TCP all fields. Returns whether all fields are set.
 */
static bool read_tcp(struct __sk_buff *skb, struct packet *p)
{
	struct ipv4 ip;
	struct tcp tcp;
	__u32 length, total;

	if (bpf_skb_load_bytes(skb, ETHERNET, &ip, sizeof(ip)))
		return false;
	p->key.protocol = ip.protocol;
	length = (ip.version & 15) * 4;
	if (ip.protocol != TCP || length < sizeof(ip) || ip.fragment & bpf_htons(0x1fff))
		return false;
	p->tcp = ETHERNET + length;
	if (bpf_skb_load_bytes(skb, p->tcp, &tcp, sizeof(tcp)))
		return false;
	p->header = (tcp.offset >> 4) * 4;
	if (p->header < sizeof(tcp))
		return false;
	p->flags = tcp.flags;
	/* In super-packets above 64 KiB the length field is 0. */
	total = bpf_ntohs(ip.length);
	total = total ? total : skb->len - ETHERNET;
	p->payload = total > length + p->header ? total - length - p->header : 0;
	p->key.source = ip.source;
	p->key.destination = ip.destination;
	p->key.source_port = tcp.source;
	p->key.destination_port = tcp.destination;
	return true;
}

/* Offsets of options; 0: there is none. */
struct places {
	__u32 rate; /* in BRF's option */
	__u32 sack; /* a SACK option with three blocks */
};

static void find_options(struct __sk_buff *skb, const struct packet *p, struct places *found)
{
	__u32 at = p->tcp + sizeof(struct tcp), end = p->tcp + p->header;
	__u8 option[4];

	/* An option has at least one byte, so forty steps see them all. Real packets have few options. */
	for (int i = 0; i < 40; i++) {
		if (at >= end || bpf_skb_load_bytes(skb, at, option, 1) || option[0] == 0)
			break;
		if (option[0] == 1) {
			at++;
			continue;
		}
		if (at + 2 > end || bpf_skb_load_bytes(skb, at, option, 2) || option[1] < 2)
			break;
		if (option[0] == SACK && option[1] == THREE_BLOCKS && at + THREE_BLOCKS <= end)
			found->sack = at;
		if (option[0] == KIND && option[1] == LENGTH && at + LENGTH <= end &&
		    !bpf_skb_load_bytes(skb, at, option, 4) && option[2] == EXID >> 8 && option[3] == (EXID & 255)) {
			found->rate = at + 4;
			break;
		}
		at += option[1];
	}
}

static __u64 decode(__u16 code)
{
	__u32 exponent = code % 10;
	__u64 rate = code / 10;

	for (__u32 i = 0; i < 9; i++)
		if (i < exponent)
			rate *= 10;
	return rate;
}

/* Rates of at least this value exceed every link. They stand for the receiver's 'no limit'. */
#define NO_LIMIT 6552000000000ull

static void open_flow(struct __sk_buff *skb, const struct packet *p, __u64 now)
{
	struct flow *known = bpf_map_lookup_elem(&flows, &p->key);
	struct flow new = { .opened = now, .seen = now };
	struct places at = {};

	if (known && !(known->flags & (ENDED | GONE))) {
		/* A retransmitted or forged SYN: a flow that was answered stays unchanged. If the flow was not
		 * answered, the answer counts as the answer to the last SYN.
		 */
		if (!(known->flags & ANSWERED))
			known->opened = now;
		return;
	}
	find_options(skb, p, &at);
	if (at.rate)
		new.flags = OBEYS;
	if (bpf_map_update_elem(&flows, &p->key, &new, ANY))
		COUNT(refused, 1);
	else
		tell(&p->key);
}

/* Counts a packet of a flow; returns its class. */
static __u32 count_flow(const struct packet *p, struct flow *flow, const struct control *control, __u32 bytes,
			__u64 now)
{
	const struct decision *own = bpf_map_lookup_elem(&decisions, &p->key);
	bool is_news = false;

	flow->seen = now;
	__sync_fetch_and_add(&flow->bytes, bytes);
	__sync_fetch_and_add(&flow->packets, 1);
	if (!(p->flags & SYN)) {
		if (!(flow->flags & ANSWERED)) {
			flow->rtt = now - flow->opened;
			set_flag(flow, ANSWERED);
			is_news = true;
		}
		if (p->flags & (FIN | RST) && !(flow->flags & (ENDED | GONE))) {
			set_flag(flow, p->flags & RST ? GONE : ENDED);
			is_news = true;
		}
	}
	if (is_news)
		tell(&p->key);
	/* Without the agent, the rates of classes do not follow the numbers of flows, so all flows share one class. */
	if (!is_alive(control, now))
		return control->others;
	if (own)
		return own->class;
	return (flow->flags & OBEYS) && !(flow->flags & STRIPPED) ? control->acks : control->others;
}

SEC("tc")
int brf_data(struct __sk_buff *skb)
{
	const struct control *control = settings();
	struct packet p = {};
	struct flow *flow = 0;
	__u32 segments = skb->gso_segs ? skb->gso_segs : 1;
	__u32 protocol = bpf_ntohs(skb->protocol), class, bytes;
	struct total *total;
	__u64 now = bpf_ktime_get_ns();

	if (!control)
		return CONTINUE;
	bytes = skb->wire_len > ETHERNET * segments ? skb->wire_len - ETHERNET * segments : skb->len;
	class = control->others;
	if (protocol == IPV4 && read_tcp(skb, &p)) {
		if ((p.flags & (SYN | ACK)) == SYN && is_alive(control, now))
			open_flow(skb, &p, now);
		flow = bpf_map_lookup_elem(&flows, &p.key);
		if (flow) {
			class = count_flow(&p, flow, control, bytes, now);
		} else if (!p.payload && p.flags & ACK) {
			class = control->acks;
			COUNT(acks, bytes);
		} else {
			COUNT(untracked, 1);
		}
	} else if (protocol == IPV6) {
		__u8 next = 0;

		bpf_skb_load_bytes(skb, ETHERNET + 6, &next, 1);
		p.key.protocol = next;
	}
	if (!flow && p.key.protocol == UDP) {
		class = control->udp;
		COUNT(udp, 1);
	} else if (!flow && !p.tcp && p.key.protocol && p.key.protocol != ICMP && p.key.protocol != ICMP6) {
		COUNT(untracked, 1);
	}
	total = bpf_map_lookup_elem(&totals, &class);
	if (total) {
		total->packets += segments;
		total->bytes += bytes;
	}
	skb->priority = control->handle | (FIRST_MINOR + class);
	return CONTINUE;
}

/* Writes a rate over the rate at offset `at`. At an odd offset of the header the field straddles two words of the
 * checksum, so its bytes count in swapped order.
 */
static void write_rate(struct __sk_buff *skb, const struct packet *p, __u32 at, __u16 before, __u16 after)
{
	__u32 checksum = p->tcp + __builtin_offsetof(struct tcp, checksum);
	__be16 from = bpf_htons(before), to = bpf_htons(after), wire = to;

	if ((at - p->tcp) & 1) {
		from = __builtin_bswap16(from);
		to = __builtin_bswap16(to);
	}
	if (bpf_l4_csum_replace(skb, checksum, from, to, sizeof(to)))
		return;
	bpf_skb_store_bytes(skb, at, &wire, sizeof(wire), 0);
}

/* Replaces the third SACK block by the option. An ACK with timestamps and three blocks has no space for the option, and
 * a flow with losses would get no rates. Linux aligns the blocks to words.
 */
static bool make_room(struct __sk_buff *skb, const struct packet *p, __u32 sack, __u16 code)
{
	__u32 checksum = p->tcp + __builtin_offsetof(struct tcp, checksum), block = sack + TWO_BLOCKS;
	__u8 option[8] = { 1, 1, KIND, LENGTH, EXID >> 8, EXID & 255, code >> 8, code & 255 }, before[8];
	__u8 length = TWO_BLOCKS;
	__s64 difference;

	if ((block - p->tcp) & 3 || bpf_skb_load_bytes(skb, block, before, sizeof(before)))
		return false;
	difference = bpf_csum_diff((void *)before, sizeof(before), (void *)option, sizeof(option), 0);
	if (difference < 0 || bpf_l4_csum_replace(skb, checksum, 0, difference, 0) ||
	    bpf_l4_csum_replace(skb, checksum, bpf_htons(SACK << 8 | THREE_BLOCKS), bpf_htons(SACK << 8 | TWO_BLOCKS),
				sizeof(__be16)))
		return false;
	bpf_skb_store_bytes(skb, block, option, sizeof(option), 0);
	bpf_skb_store_bytes(skb, sack + 1, &length, 1, 0);
	return true;
}

/* Whether the ACK has the option, or space for it. Flows that offered to obey but whose ACKs lack the option are not
 * served.
 */
static bool comes_back(struct flow *flow, const struct packet *p, const struct places *at)
{
	if (at->rate || at->sack) {
		flow->bare = 0;
		return true;
	}
	COUNT(bare, 1);
	flow->bare++;
	if (p->flags & SYN || flow->bare >= BARE_LIMIT) {
		set_flag(flow, STRIPPED);
		tell(&p->key);
	}
	return false;
}

static void answer(struct __sk_buff *skb, const struct packet *p, struct flow *flow, const struct control *control,
		   __u64 now)
{
	struct places at = {};
	bool is_led, is_urgent, is_carried;
	const struct decision *own;
	__u16 code, before = 0;
	__u64 share, carried = 0;
	__be16 wire;

	find_options(skb, p, &at);
	if (!comes_back(flow, p, &at))
		return;
	if (at.rate) {
		if (bpf_skb_load_bytes(skb, at.rate, &wire, sizeof(wire)))
			return;
		before = bpf_ntohs(wire);
		carried = decode(before);
	}
	if (!is_alive(control, now)) {
		COUNT(silent, 1);
		return;
	}
	own = bpf_map_lookup_elem(&decisions, &p->key);
	share = own ? own->rate : 0;
	code = own ? own->code : 0;
	if (!share && p->flags & SYN) {
		share = control->offer;
		code = control->offer_code;
	}
	if (!share)
		return;
	/* Zero is not a rate, and no switch writes 'no limit'. */
	is_carried = carried && carried < NO_LIMIT;
	if (is_carried) {
		flow->other = carried;
		flow->other_at = now;
	}
	/* The rules of the simulator's router (crates/routers/src/brf/events.rs, on_ack). */
	is_led = flow->other_at && now - flow->other_at < 2 * flow->rtt && flow->other <= share;
	is_urgent = !is_led && share * 10 < flow->advised * 9;
	if (!is_carried && !is_urgent && now < flow->write_at)
		return;
	if (is_carried && carried <= share)
		COUNT(kept, 1);
	else if (at.rate)
		write_rate(skb, p, at.rate, before, code);
	else if (!make_room(skb, p, at.sack, code))
		return;
	COUNT(written, !is_carried || carried > share);
	flow->write_at = now + (is_carried ? 2 * flow->rtt : flow->rtt);
	flow->advised = share;
	flow->written++;
}

SEC("tc")
int brf_ack(struct __sk_buff *skb)
{
	const struct control *control = settings();
	struct packet p = {};
	struct flow_key there;
	struct flow *flow;
	__u64 now;

	if (!control || skb->protocol != bpf_htons(IPV4) || !read_tcp(skb, &p))
		return CONTINUE;
	there = p.key;
	p.key.source = there.destination;
	p.key.destination = there.source;
	p.key.source_port = there.destination_port;
	p.key.destination_port = there.source_port;
	flow = bpf_map_lookup_elem(&flows, &p.key);
	if (!flow)
		return CONTINUE;
	now = bpf_ktime_get_ns();
	flow->returned = now;
	if (!(flow->flags & GONE) && (p.flags & RST || (p.flags & FIN && flow->flags & ENDED))) {
		set_flag(flow, GONE);
		tell(&p.key);
	}
	/* Receivers write the option into ACKs without data. */
	if (!p.payload && !(p.flags & RST) && (flow->flags & (OBEYS | ENDED | GONE | STRIPPED)) == OBEYS)
		answer(skb, &p, flow, control, now);
	return CONTINUE;
}
