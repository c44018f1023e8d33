// SPDX-License-Identifier: GPL-2.0
/* The kernel's own BBR, called from programs that do nothing else (cost.py): so the run statistics of BPF show the time of
 * the kernel's functions as they show that of our programs. They are functions for BPF since Linux 5.13.
 */
#include "program.h"

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs) __ksym;
extern __u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern __u32 bbr_undo_cwnd(struct sock *sk) __ksym;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern __u32 bbr_ssthresh(struct sock *sk) __ksym;
extern __u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, __u8 state) __ksym;

SEC("struct_ops")
void BPF_PROG(called_init, struct sock *sk)
{
	bbr_init(sk);
}

SEC("struct_ops")
void BPF_PROG(called_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	bbr_main(sk, ack, flag, rs);
}

SEC("struct_ops")
__u32 BPF_PROG(called_sndbuf_expand, struct sock *sk)
{
	return bbr_sndbuf_expand(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(called_undo_cwnd, struct sock *sk)
{
	return bbr_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(called_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	bbr_cwnd_event(sk, event);
}

SEC("struct_ops")
__u32 BPF_PROG(called_ssthresh, struct sock *sk)
{
	return bbr_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(called_min_tso_segs, struct sock *sk)
{
	return bbr_min_tso_segs(sk);
}

SEC("struct_ops")
void BPF_PROG(called_set_state, struct sock *sk, __u8 state)
{
	bbr_set_state(sk, state);
}

/* Without a link, which older versions of bpftool cannot make. */
SEC(".struct_ops")
struct tcp_congestion_ops bbr_called = {
	.init = (void *)called_init,
	.cong_control = (void *)called_cong_control,
	.sndbuf_expand = (void *)called_sndbuf_expand,
	.undo_cwnd = (void *)called_undo_cwnd,
	.cwnd_event = (void *)called_cwnd_event,
	.ssthresh = (void *)called_ssthresh,
	.min_tso_segs = (void *)called_min_tso_segs,
	.set_state = (void *)called_set_state,
	.flags = NON_RESTRICTED,
	.name = "bbr_called",
};
