/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* The parts of a BBR scheme in the kernel that all generations share. Included after the type `stored`. */
#include "stored.h"

SEC("struct_ops")
__u32 BPF_PROG(bbr_sndbuf_expand, struct sock *sk)
{
	/* The send buffer may hold 3 cwnd, because recovery needs one more. */
	return 3;
}

#define SCHEME(linux_name)                                 \
	SEC(".struct_ops.link")                            \
	struct tcp_congestion_ops scheme = {               \
		.ssthresh = (void *)bbr_ssthresh,     \
		.set_state = (void *)bbr_set_state,   \
		.cwnd_event = (void *)bbr_cwnd_event, \
		.min_tso_segs = (void *)flow_min_tso_segs, \
		.cong_control = (void *)bbr_cong_control, \
		.undo_cwnd = (void *)bbr_undo_cwnd,   \
		.sndbuf_expand = (void *)bbr_sndbuf_expand, \
		.init = (void *)bbr_init,             \
		.release = (void *)flow_release,      \
		.flags = NON_RESTRICTED,                   \
		.name = linux_name,                        \
	}
