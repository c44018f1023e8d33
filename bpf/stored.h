/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* The state of a flow in the storage of its socket, from init to release. This file is included after the type of the
 * state, `stored`.
 *
 * The first word of the socket's space for a scheme is not 0 once init has run. If there is no memory for the state, the
 * connection keeps cwnd and its pacing rate, and an error is counted.
 */
#include "counted.h"

enum { SLOW = 150000 }; /* rate in bytes per second below which a burst may be one packet: 1.2 Mbit/s */

SOCKET_STORAGE(stored) flows SEC(".maps");

static __u64 *started(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static stored *stored_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

/* Allocates the state of a connection that begins; 0: there is no memory for the state. */
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
void BPF_PROG(flow_release, struct sock *sk)
{
	if (!*started(sk))
		return;
	COUNT(closed);
	*started(sk) = 0;
	bpf_sk_storage_delete(&flows, sk);
}

SEC("struct_ops")
__u32 BPF_PROG(flow_min_tso_segs, struct sock *sk)
{
	return sk->sk_pacing_rate < SLOW ? 1 : 2;
}
