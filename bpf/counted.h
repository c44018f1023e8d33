/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* What every scheme in the kernel has: its counters, the text of its parameters, and the mark that init has run. */
#ifndef OWN_COUNTERS
#define OWN_COUNTERS
#endif

/* crates/programs/src/counters.rs has the same layout. */
struct counters {
	__u64 opened;
	__u64 closed;
	__u64 acks;
	__u64 timeouts;
	__u64 errors;
	OWN_COUNTERS
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* The parameters that were set, as text. Only processes read it. */
struct settings {
	char text[1024];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

static struct counters *counted(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&counters, &first);
}

#define COUNT(field)                           \
	do {                                   \
		struct counters *c = counted(); \
		if (c)                         \
			c->field++;            \
	} while (0)

static __u64 *started(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}
