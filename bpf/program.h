/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* The world of a scheme: the kernel's, or that of a build outside it (native.h), in which tests run the same code. */
#ifdef __bpf__
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* A value that is set before the kernel verifies the program, and constant for it. */
#define LOADED const volatile
#else
#include "native.h"
#endif
