/* SPDX-License-Identifier: GPL-2.0 */
/* The events of the kernel's TCP for a scheme on bbr_core.h. */
#include "bbr_host.h"

SEC("struct_ops")
void BPF_PROG(bbr_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 mss = atleast(tp->mss_cache, 1), srtt = tp->srtt_us >> 3;
	struct bbr *b = open_flow(sk);

	if (!b)
		return;
	__builtin_memset(b, 0, sizeof(*b));
	b->mode = STARTUP;
	b->min_rtt = tp->rtt_min.s[0].v;
	b->min_rtt_at = tp->tcp_mstamp;
	b->delivered_at = tp->tcp_mstamp;
	b->prior_cwnd = tp->snd_cwnd;
	b->next_delivered = tp->delivered;
	b->ca_state = OPEN;
	b->seen_srtt = srtt != 0;
	start_pacing(sk, b, srtt ? srtt : 1000, mss);
	own_init(b, tp->tcp_mstamp, srtt);
	sk->sk_pacing_status = PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(bbr_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	struct ack a;

	/* The acknowledgement of the SYN precedes init. */
	if (!b)
		return;
	COUNT(acks);
	read_ack(&a, tp, rs);
	if (a.acked)
		b->delivered_at = a.now;
	update_bandwidth(b, tp, &a);
	update_aggregation(b, tp, &a);
	own_observe(b, &a);
	if (b->mode == PROBE_BW && own_phase_done(b, &a))
		begin_phase(b, (b->phase + 1) % PHASES);
	check_full(b, &a);
	check_drain(b, &a);
	update_min_rtt(b, tp, &a);
	set_pacing(sk, b, a.srtt, pacing_gain(b), a.mss);
	set_cwnd(b, tp, &a, BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state));
}

SEC("struct_ops")
void BPF_PROG(bbr_set_state, struct sock *sk, __u8 to)
{
	struct bbr *b = flow_of(sk);

	if (!b || to != LOSS)
		return;
	COUNT(timeouts);
	b->ca_state = LOSS;
	b->full_bw = 0;
	/* For the policer a timeout is a loss at the end of a round. */
	b->round_start = 1;
	sample_policer(b, (struct tcp_sock *)sk, 1, 0);
}

SEC("struct_ops")
void BPF_PROG(bbr_cwnd_event, struct sock *sk, enum tcp_ca_event what)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);

	if (!b || what != CA_EVENT_TX_START || !tp->app_limited)
		return;
	b->idle_restart = 1;
	b->epoch_since = tp->tcp_mstamp;
	b->epoch_acked = 0;
	/* The pipe is empty: pacing at the bandwidth fills it, and more would only queue. */
	if (b->mode == PROBE_BW)
		set_pacing(sk, b, 0, ONE, atleast(tp->mss_cache, 1));
	else if (b->mode == PROBE_RTT)
		leave_probe_rtt(b, tp, tp->tcp_mstamp);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);

	if (b)
		save_cwnd(b, tp);
	return tp->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct bbr *b = flow_of(sk);
	struct policer_sample s;

	if (b) {
		b->full_bw = 0;
		sample_of(b, tp, &s);
		policer_reset(&b->policer, &s);
	}
	return tp->snd_cwnd;
}
