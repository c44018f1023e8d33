/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* What a generation of BBR has in the kernel: its state, its counters, and the programs that do not depend on it.
 * Included after the type `stored`: the state in the storage of the socket (SK_STORAGE).
 *
 * The first word of the socket's space for a scheme is not 0 once init has run. If there is no memory for the state, the
 * connection keeps cwnd and its pacing rate, and an error is counted.
 */
#include "counted.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, stored);
} flows SEC(".maps");

static stored *stored_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

/* Space for the state of a connection that begins. 0: there is no memory for it. */
static stored *open_flow(struct sock *sk)
{
	stored *state = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	*started(sk) = 1;
	COUNT(opened);
	if (!state)
		COUNT(errors);
	return state;
}

SEC("struct_ops")
void BPF_PROG(bbr_release, struct sock *sk)
{
	if (!*started(sk))
		return;
	COUNT(closed);
	*started(sk) = 0;
	bpf_sk_storage_delete(&flows, sk);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_min_tso_segs, struct sock *sk)
{
	return sk->sk_pacing_rate < SLOW ? 1 : 2;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_sndbuf_expand, struct sock *sk)
{
	/* BBR may provision 3 cwnd, as recovery needs one more. */
	return 3;
}

#define SCHEME(linux_name)                                 \
	SEC(".struct_ops.link")                            \
	struct tcp_congestion_ops scheme = {               \
		.ssthresh = (void *)bbr_ssthresh,     \
		.set_state = (void *)bbr_set_state,   \
		.cwnd_event = (void *)bbr_cwnd_event, \
		.min_tso_segs = (void *)bbr_min_tso_segs, \
		.cong_control = (void *)bbr_cong_control, \
		.undo_cwnd = (void *)bbr_undo_cwnd,   \
		.sndbuf_expand = (void *)bbr_sndbuf_expand, \
		.init = (void *)bbr_init,             \
		.release = (void *)bbr_release,       \
		.flags = NON_RESTRICTED,                   \
		.name = linux_name,                        \
	}
