/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* The environment of a scheme: the kernel, or a build outside it (native.h), in which tests run the same code. */
#ifdef __bpf__
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* A value that is set before the kernel verifies the program, and that the program treats as constant. */
#define LOADED const volatile
#else
#include "native.h"
#endif

/* A map with a value per socket, of this type. */
#define SOCKET_STORAGE(value_type)                   \
	struct {                                     \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE); \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__type(key, int);                    \
		__type(value, value_type);           \
	}

/* An array map of this kind with one entry. */
#define ONE_ENTRY(kind, value_type)        \
	struct {                           \
		__uint(type, kind);        \
		__uint(max_entries, 1);    \
		__type(key, __u32);        \
		__type(value, value_type); \
	}

static __u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}
