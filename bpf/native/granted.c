// SPDX-License-Identifier: GPL-2.0
/* Runs a program that follows granted rates on events, outside the kernel: a test compares the outcomes with those of
 * the Rust twin (crates/programs/tests/granted.rs).
 *
 *   cc -O2 -DPROGRAM='"../nodectl.bpf.c"' -o granted granted.c; granted <events >outcomes
 *
 * The input is the parameters, then events. Each event has an outcome. Without a grant the kernel's CUBIC decides. Here
 * CUBIC's functions only count their calls, and cwnd follows the twin.
 */
#include <stdio.h>

#include "../program.h"
#include PROGRAM

enum { START = 1, ACKED = 2, ADVISED = 3, REDUCED = 4, EXPIRED = 5, UNDONE = 6 };

/* crates/programs/tests/granted.rs has the same layouts. */
struct event {
	__u64 advice;
	__u32 kind;
	__u32 mss;
	__u32 acked;
	__u32 in_flight;
	__u32 srtt; /* times eight */
	__u32 ca_state;
	__u32 twin_cwnd;
	__u32 twin_granted;
};

struct outcome {
	__u64 pacing_rate;
	__u64 ignored;
	__u32 cwnd;
	__u32 granted;
	__u32 grown; /* calls of CUBIC's growth so far */
	__u32 begun; /* calls of its initialisation so far */
};

static struct tcp_sock socket_state;
static __u32 grown, begun;

static void cubictcp_init(struct sock *sk)
{
	begun++;
}

static __u32 cubictcp_recalc_ssthresh(struct sock *sk)
{
	return socket_state.snd_cwnd / 2;
}

static void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	grown++;
}

static void cubictcp_state(struct sock *sk, __u8 state)
{
}

static void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
}

static void cubictcp_acked(struct sock *sk, const struct ack_sample *sample)
{
}

static __u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return socket_state.snd_cwnd;
}

static void advise(struct sock *sk, __u64 rate)
{
	static struct grant written;

	written.rate = rate;
	written.serial++;
	native_written = &written;
	ctl_cwnd_event(sk, CA_EVENT_TX_START);
}

static void kernel_calls(struct sock *sk, const struct event *e)
{
	struct tcp_sock *tp = &socket_state;
	struct rate_sample rs = { 0 };

	tp->mss_cache = e->mss;
	tp->packets_out = e->in_flight;
	if (e->srtt)
		tp->srtt_us = e->srtt;
	switch (e->kind) {
	case START:
		tp->snd_cwnd = e->acked;
		tp->snd_ssthresh = NO_SSTHRESH;
		ctl_init(sk);
		break;
	case ACKED:
		tp->inet_conn.icsk_ca_state = e->ca_state;
		rs.acked_sacked = e->acked;
		ctl_cong_control(sk, 0, 0, &rs);
		break;
	case ADVISED:
		advise(sk, e->advice);
		break;
	case REDUCED:
		/* tcp_enter_recovery */
		tp->snd_ssthresh = ctl_ssthresh(sk);
		ctl_set_state(sk, RECOVERY);
		break;
	case EXPIRED:
		/* tcp_enter_loss */
		tp->snd_ssthresh = ctl_ssthresh(sk);
		tp->snd_cwnd = e->in_flight + 1;
		ctl_set_state(sk, LOSS);
		break;
	case UNDONE:
		/* tcp_undo_cwnd_reduction */
		tp->snd_cwnd = ctl_undo_cwnd(sk);
		break;
	}
}

int main(void)
{
	struct sock *sk = &socket_state.inet_conn.icsk_inet.sk;
	struct flow *f = (struct flow *)native_storage;
	struct event e;

	socket_state.snd_cwnd_clamp = ~0U;
	sk->sk_max_pacing_rate = ~0UL;
	native_written_map = &grants;
	if (!fread(&core, sizeof(core), 1, stdin))
		return 1;
	while (fread(&e, sizeof(e), 1, stdin)) {
		struct outcome o = { 0 };

		kernel_calls(sk, &e);
		o.pacing_rate = sk->sk_pacing_rate;
		o.ignored = f->ignored;
		o.cwnd = socket_state.snd_cwnd;
		o.granted = f->granted;
		o.grown = grown;
		o.begun = begun;
		if (!fwrite(&o, sizeof(o), 1, stdout))
			return 1;
		if (!e.twin_granted)
			socket_state.snd_cwnd = e.twin_cwnd;
	}
	return 0;
}
