/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* Stands in for the kernel in a build outside it: the kernel's types, and helpers that serve one connection. */
#include <string.h>

#include "kernel.h"

#define LOADED
#define SEC(name)
#define barrier_var(value)
#define BPF_PROG(name, ...) name(__VA_ARGS__)
#define BPF_CORE_READ_BITFIELD(s, field) ((s)->field)
#define __uint(name, value) int (*name)[value]
#define __type(name, value) value *name

/* Random numbers, drawn in turn; the replay sets them. */
static __u32 native_random[2];
static __u32 native_drawn;
static int native_storage[2048] __attribute__((aligned(16)));

static __u32 bpf_get_prandom_u32(void)
{
	return native_random[native_drawn++ % 2];
}

/* The map whose storage a process has written, and that storage; 0: none. */
static void *native_written_map;
static void *native_written;

static void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags)
{
	return map == native_written_map ? native_written : native_storage;
}

static long bpf_sk_storage_delete(void *map, void *sk)
{
	return 0;
}

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	static __u64 counters[16];

	return counters;
}
