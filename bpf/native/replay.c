// SPDX-License-Identifier: GPL-2.0
/* Runs the programs of a scheme on recorded events, outside the kernel: tests compare the outcomes with those of the
 * Rust twin (crates/programs/tests/programs).
 *
 *   cc -O2 -DPROGRAM='"../bbr_gc.bpf.c"' -o replay replay.c; replay <events >outcomes
 *
 * The input is the parameters of the core and of the scheme, then events. Each event has an outcome. Events carry the
 * twin's decisions: where the program's decisions differ, the state here adopts the twin's, so that one difference does
 * not hide the next difference.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../program.h"
#include PROGRAM

enum { START = 1, ACKED = 2, RECOVERING = 3, EXPIRED = 4, UNDONE = 5, RESTARTED = 6 };
enum { LIMITED = 1, DELAYED = 2, SAMPLED = 4, FULL = 8, SACKED = 256 };
enum { OPENED = 16, NEEDLESS = 32, LOSING = 64, MARKING = 128 };

/* crates/programs/tests/programs/tape.rs has the same layouts. */
struct event {
	__u64 now;
	__u64 twin_rate;
	__u64 twin_since;
	__u64 twin_bytes; /* cwnd */
	__u64 twin_bounds[3];
	__u32 kind;
	__u32 mss;
	__u32 acked;
	__u32 lost;
	__u32 prior_in_flight;
	__u32 in_flight;
	__u32 delivered;
	__u32 lost_total;
	__u32 sample_delivered;
	__u32 prior_delivered;
	__u32 interval;
	__u32 rtt;
	__u32 srtt; /* times eight */
	__u32 flags;
	__u32 ca_state;
	__u32 random[2];
	__u32 twin_cwnd;
	__u32 twin_mode;
	__u32 twin_phase;
	__u32 twin_signals;
	__u32 spare;
};

struct outcome {
	__u64 pacing_rate;
	__u64 bandwidth;
	__u64 bytes; /* cwnd */
	__u64 bounds[3];
	__u32 cwnd;
	__u32 mode;
	__u32 phase;
	__u32 gain;
	__u32 min_rtt;
	__u32 quantum;
	__u32 cwnd_gain;
	__u32 signals;
};

static struct tcp_sock socket_state;
static struct {
	__u32 from, until;
	int set;
} limited;

#ifdef V3
#include "v3.h"
#else
#include "v1.h"
#endif

/* Calls the program for the event's changes of the kernel's state. */
static void states(struct sock *sk, __u32 flags)
{
	if (flags & OPENED)
		bbr_set_state(sk, OPEN);
	if (flags & NEEDLESS)
		bbr_undo_cwnd(sk);
	if (flags & MARKING)
		bbr_set_state(sk, CWR);
	if (flags & LOSING)
		bbr_set_state(sk, RECOVERY);
}

static void kernel_calls(struct sock *sk, const struct event *e)
{
	struct tcp_sock *tp = &socket_state;
	struct bbr *b = state();
	struct rate_sample rs = { 0 };
	__u8 before = b->mode;
	int limits = limited.set && e->prior_delivered >= limited.from && e->prior_delivered <= limited.until;

	native_random[0] = e->random[0];
	native_random[1] = e->random[1];
	native_drawn = 0;
	tp->tcp_mstamp = e->now;
	tp->mss_cache = e->mss;
	tp->packets_out = e->in_flight;
	tp->lost = e->lost_total;
	tp->app_limited = 0;
	if (e->srtt)
		tp->srtt_us = e->srtt;
	switch (e->kind) {
	case START:
		tp->rx_opt.sack_ok = !!(e->flags & SACKED);
		tp->snd_cwnd = e->acked;
		tp->rtt_min.s[0].v = e->rtt;
		tp->inet_conn.icsk_ca_state = OPEN;
		bbr_init(sk);
		break;
	case ACKED:
		tp->delivered = e->delivered;
		tp->inet_conn.icsk_ca_state = e->ca_state;
		tp->is_cwnd_limited = !!(e->flags & FULL);
		states(sk, e->flags);
		rs.delivered = -1;
		rs.interval_us = -1;
		if (e->flags & SAMPLED) {
			rs.delivered = e->sample_delivered;
			rs.interval_us = e->interval;
		}
		rs.prior_delivered = e->prior_delivered;
		rs.rtt_us = e->rtt == NO_RTT ? -1 : (long)e->rtt;
		rs.losses = e->lost;
		rs.acked_sacked = e->acked;
		rs.prior_in_flight = e->prior_in_flight;
		rs.is_app_limited = (e->flags & LIMITED) || limits;
		rs.is_ack_delayed = !!(e->flags & DELAYED);
		bbr_cong_control(sk, 0, 0, &rs);
		/* The kernel marks the packets sent from now on as application-limited. */
		if (tp->app_limited) {
			if (before != PROBE_RTT)
				limited.from = tp->delivered;
			limited.until = tp->app_limited;
			limited.set = 1;
		}
		break;
	case RECOVERING:
		bbr_ssthresh(sk);
		break;
	case EXPIRED:
		/* tcp_enter_loss */
		states(sk, e->flags);
		if (!is_recovering(b))
			bbr_ssthresh(sk);
		tp->snd_cwnd = e->in_flight + 1;
		bbr_set_state(sk, LOSS);
		break;
	case UNDONE:
		bbr_undo_cwnd(sk);
		break;
	case RESTARTED:
		tp->app_limited = (e->flags & LIMITED) || (limited.set && e->delivered <= limited.until);
		bbr_cwnd_event(sk, CA_EVENT_TX_START);
		break;
	}
}

int main(void)
{
	struct sock *sk = &socket_state.inet_conn.icsk_inet.sk;
	struct event e;

	if (sizeof(stored) > sizeof(native_storage))
		return 1;
	socket_state.snd_cwnd_clamp = ~0U;
	sk->sk_max_pacing_rate = ~0UL;
	if (!fread(&core, sizeof(core), 1, stdin))
		return 1;
#ifdef OWN
	if (!fread(&OWN, sizeof(OWN), 1, stdin))
		return 1;
#endif
	while (fread(&e, sizeof(e), 1, stdin)) {
		struct bbr *b = state();
		struct outcome o = { 0 };

		kernel_calls(sk, &e);
		o.pacing_rate = sk->sk_pacing_rate;
		o.cwnd = socket_state.snd_cwnd;
		o.mode = b->mode;
		o.phase = b->mode == PROBE_BW ? b->phase : 0;
		o.gain = pacing_gain(b);
		o.min_rtt = b->min_rtt;
		o.quantum = b->quantum;
		o.cwnd_gain = cwnd_gain(b);
		show(b, &o);
		if (!fwrite(&o, sizeof(o), 1, stdout))
			return 1;
		follow(b, &e);
	}
	return 0;
}
