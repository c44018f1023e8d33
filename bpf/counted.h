/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* The counters of a scheme in the kernel, and the text of its parameters. */
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

ONE_ENTRY(BPF_MAP_TYPE_PERCPU_ARRAY, struct counters) counters SEC(".maps");

/* The parameters that were set, as text. Only processes read this text. */
struct settings {
	char text[1024];
};

ONE_ENTRY(BPF_MAP_TYPE_ARRAY, struct settings) settings SEC(".maps");

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
