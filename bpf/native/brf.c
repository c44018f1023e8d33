// SPDX-License-Identifier: GPL-2.0
/* Runs the program of BRF on recorded events, outside the kernel: tests compare the outcomes with those of the Rust
 * twin (crates/programs/tests/rates.rs). This program works like replay.c, but its events contain rates of the network.
 *
 *   cc -O2 -o brf brf.c; brf <events >outcomes
 *
 * The input is the parameters, then events. With an argument, the input is 16-bit codes; the output is then the rate of
 * each code, and the payload's share of that rate in packets of 1448 bytes with 52 bytes of headers.
 */
#include <stdio.h>

#include "../brf.bpf.c"

enum { START = 1, ACKED = 2, ADVICE = 3, RECOVERING = 4, EXPIRED = 5, UNDONE = 6, RESTARTED = 7 };
enum { LIMITED = 1, CREDITED = 2 };

/* crates/programs/tests/rates.rs has the same layouts. */
struct event {
	__u64 now;
	__u64 rate;
	__u64 idle;
	__u32 kind;
	__u32 mss;
	__u32 acked;
	__u32 rtt; /* 0: none */
	__u32 srtt; /* times eight; 0: none */
	__u32 min_rtt;
	__u32 rto; /* 0: none */
	__u32 in_flight;
	__u32 delivered;
	__u32 ca_state;
	__u32 retransmits;
	__u32 flags;
	__u32 twin_cwnd; /* 0: the program's cwnd stays */
	__u32 lost;
};

struct outcome {
	__u64 pacing_rate; /* 0: none */
	__u32 state;
	__u32 cwnd;
};

static struct tcp_sock socket_state;
static struct advice heard;

static void kernel_calls(struct sock *sk, const struct event *e)
{
	struct tcp_sock *tp = &socket_state;
	struct flow *f = (struct flow *)native_storage;
	struct rate_sample rs = { 0 };

	tp->tcp_mstamp = e->now;
	tp->mss_cache = e->mss;
	tp->packets_out = e->in_flight;
	tp->lost = e->lost;
	if (e->srtt)
		tp->srtt_us = e->srtt;
	switch (e->kind) {
	case START:
		tp->snd_cwnd = e->acked;
		brf_init(sk);
		break;
	case ACKED:
		tp->delivered = e->delivered;
		tp->rtt_min.s[0].v = e->min_rtt;
		tp->inet_conn.icsk_ca_state = e->ca_state;
		tp->is_cwnd_limited = !!(e->flags & LIMITED);
		rs.rtt_us = e->rtt ? (long)e->rtt : -1;
		rs.acked_sacked = e->acked;
		brf_cong_control(sk, 0, e->flags & CREDITED ? DATA_ACKED : 0, &rs);
		break;
	case ADVICE:
		on_advice(f, e->now, e->rate, e->mss);
		obey(sk, f, e->mss);
		break;
	case RECOVERING:
		brf_ssthresh(sk);
		break;
	case EXPIRED:
		/* tcp_enter_loss */
		tp->inet_conn.icsk_retransmits = e->retransmits;
		if (!e->retransmits)
			brf_ssthresh(sk);
		tp->snd_cwnd = e->in_flight + 1;
		brf_set_state(sk, LOSS);
		break;
	case UNDONE:
		tp->snd_cwnd = brf_undo_cwnd(sk);
		break;
	case RESTARTED:
		f->last_ack = e->now - e->idle;
		tp->rttvar_us = less(e->rto, tp->srtt_us >> 3);
		brf_cwnd_event(sk, CA_EVENT_TX_START);
		break;
	}
}

static int codes(void)
{
	__u16 code;

	while (fread(&code, sizeof(code), 1, stdin)) {
		__u64 rates[2] = { decoded(code), payload_rate(decoded(code), 1448, 52) };

		if (!fwrite(rates, sizeof(rates), 1, stdout))
			return 1;
	}
	return 0;
}

int main(int count, char **words)
{
	struct sock *sk = &socket_state.inet_conn.icsk_inet.sk;
	struct flow *f = (struct flow *)native_storage;
	struct event e;

	if (count > 1)
		return codes();
	if (sizeof(struct flow) > sizeof(native_storage))
		return 1;
	native_written_map = &advised;
	native_written = &heard;
	socket_state.snd_cwnd_clamp = ~0U;
	sk->sk_max_pacing_rate = ~0UL;
	if (!fread(&core, sizeof(core), 1, stdin))
		return 1;
	while (fread(&e, sizeof(e), 1, stdin)) {
		struct outcome o = { 0 };

		kernel_calls(sk, &e);
		o.pacing_rate = f->pacing_rate;
		o.state = f->state;
		o.cwnd = socket_state.snd_cwnd;
		if (!fwrite(&o, sizeof(o), 1, stdout))
			return 1;
		/* Adopts the twin's cwnd, so that one difference does not hide the next difference. */
		if (f->state == FALLBACK && e.twin_cwnd)
			f->cubic.now.cwnd = e.twin_cwnd;
	}
	return 0;
}
