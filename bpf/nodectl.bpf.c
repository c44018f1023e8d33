// SPDX-License-Identifier: GPL-2.0
/* Nodectl: sends at the rate that a process has negotiated for the socket; twin of crates/cc/src/schemes/nodectl.rs.
 *
 *   negotiation (a process)                             kernel
 *        └── rate, limit, serial ── grants[socket] ──>  pacing rate = rate
 *                                                       cwnd = window_gain x rate x srtt, at least 4
 *
 * The process writes the rate into the storage of the socket (map `grants`, whose key is the socket's descriptor). The
 * rate takes effect at the next acknowledgement, or when sending begins or resumes. Loss and marks change nothing while
 * a rate is granted. Without a grant the kernel's CUBIC decides, through its functions for BPF (tcp_cubic.c). The
 * program then only reduces cwnd in recovery, which the kernel leaves to schemes with cong_control. Until a process
 * writes a grant, a socket works in this mode.
 */
#include "program.h"

#include "fixed.h"

struct core_params {
	__u64 line_rate; /* the highest rate requested, bytes per second */
	__u32 min_rate; /* packets per second, with 20 fractional bits */
	__u32 window_gain;
};

LOADED struct core_params core SEC(".rodata.core");

enum { MIN_CWND = 4 };

/* crates/programs/src/granting.rs has the same layout. */
struct grant {
	__u64 rate; /* payload bytes per second; 0: none */
	__u64 limit; /* limit of pacing without a grant, bytes per second; 0: none */
	__u64 serial; /* changes with every decision */
};

SOCKET_STORAGE(struct grant) grants SEC(".maps");

struct flow {
	__u64 serial;
	__u64 rate;
	__u64 limit;
	__u64 ignored;
	__u32 initial_cwnd;
	__u32 cwnd; /* for the granted rate; 0 before the first RTT sample */
	__u8 granted;
};

SOCKET_STORAGE(struct flow) flows SEC(".maps");

/* crates/programs/src/granting.rs has the same order. */
#define OWN_COUNTERS \
	__u64 grants; \
	__u64 withdrawn; \
	__u64 ignored; \
	__u64 granted_acks;
#include "counted.h"

static struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

static __u64 slowest(__u64 mss)
{
	return most_of(mss * core.min_rate >> GAIN_SHIFT, 1);
}

static void set_cwnd(struct tcp_sock *tp, __u32 cwnd)
{
	tp->snd_cwnd = atmost(cwnd, tp->snd_cwnd_clamp);
}

/* Sets pacing and cwnd from the granted rate. */
static void pace(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 srtt = tp->srtt_us >> 3;
	__u64 mss = atleast(tp->mss_cache, 1), bytes;

	sk->sk_pacing_status = PACING_NEEDED;
	sk->sk_pacing_rate = least_of(f->rate, sk->sk_max_pacing_rate);
	if (!srtt)
		return;
	bytes = times_gain(least_of(bytes_over(f->rate, srtt), 1ULL << 40), core.window_gain);
	f->cwnd = atleast(least_of(bytes / mss, ~0U), MIN_CWND);
	set_cwnd(tp, f->cwnd);
}

/* Sets the pacing rate as the kernel does for schemes without cong_control (tcp_update_pacing_rate). Without a limit,
 * the rate sets only the size of bursts.
 */
static void pace_own(struct sock *sk, const struct flow *f)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 srtt = atleast(tp->srtt_us, 1), cwnd = atleast(tp->snd_cwnd, tp->packets_out);
	__u64 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	__u64 rate = (__u64)tp->mss_cache * cwnd * (USEC_PER_SEC / 100 * 8) / srtt * percent;

	if (f->limit)
		rate = least_of(rate, f->limit);
	sk->sk_pacing_status = f->limit ? PACING_NEEDED : PACING_NONE;
	sk->sk_pacing_rate = least_of(rate, sk->sk_max_pacing_rate);
}

/* Restarts CUBIC after the rate was withdrawn. */
static void begin_own(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	f->granted = 0;
	set_cwnd(tp, f->initial_cwnd);
	tp->snd_ssthresh = NO_SSTHRESH;
	cubictcp_init(sk);
	pace_own(sk, f);
}

/* Follows the newest grant of the process, if it has changed. */
static void read_grant(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct grant *g = bpf_sk_storage_get(&grants, sk, 0, 0);
	__u64 least;

	if (!g || g->serial == f->serial)
		return;
	f->serial = g->serial;
	f->limit = g->limit;
	least = slowest(atleast(tp->mss_cache, 1));
	if (g->rate && g->rate <= most_of(core.line_rate, least)) {
		f->granted = 1;
		f->rate = most_of(g->rate, least);
		COUNT(grants);
		pace(sk, f);
	} else if (!g->rate && f->granted) {
		COUNT(withdrawn);
		begin_own(sk, f);
	} else {
		f->ignored++;
		COUNT(ignored);
	}
}

SEC("struct_ops")
void BPF_PROG(ctl_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	COUNT(opened);
	cubictcp_init(sk);
	if (!f) {
		COUNT(errors);
		return;
	}
	__builtin_memset(f, 0, sizeof(*f));
	f->initial_cwnd = tp->snd_cwnd;
	/* Sets the pacing rate now, because the first burst is sized before sending begins. */
	pace_own(sk, f);
	read_grant(sk, f);
}

SEC("struct_ops")
void BPF_PROG(ctl_release, struct sock *sk)
{
	if (!flow_of(sk))
		return;
	COUNT(closed);
	bpf_sk_storage_delete(&flows, sk);
}

SEC("struct_ops")
void BPF_PROG(ctl_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);
	__u8 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);

	/* The acknowledgement of the SYN precedes init. */
	if (!f)
		return;
	COUNT(acks);
	read_grant(sk, f);
	if (f->granted) {
		COUNT(granted_acks);
		pace(sk, f);
		return;
	}
	/* In recovery cwnd stays as the reduction left it. */
	if (state != RECOVERY && state != CWR && rs->acked_sacked)
		cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
	pace_own(sk, f);
}

SEC("struct_ops")
void BPF_PROG(ctl_set_state, struct sock *sk, __u8 to)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (!f)
		return;
	if (to == LOSS)
		COUNT(timeouts);
	if (!f->granted) {
		if (to == RECOVERY || to == CWR)
			set_cwnd(tp, atmost(tp->snd_cwnd, atleast(tp->snd_ssthresh, 2)));
		cubictcp_state(sk, to);
	} else if (to == LOSS) {
		set_cwnd(tp, f->cwnd ? f->cwnd : f->initial_cwnd);
	}
}

SEC("struct_ops")
void BPF_PROG(ctl_cwnd_event, struct sock *sk, enum tcp_ca_event what)
{
	struct flow *f = flow_of(sk);

	if (!f)
		return;
	if (what == CA_EVENT_TX_START)
		read_grant(sk, f);
	if (!f->granted)
		cubictcp_cwnd_event(sk, what);
}

SEC("struct_ops")
void BPF_PROG(ctl_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *f = flow_of(sk);

	if (f && !f->granted)
		cubictcp_acked(sk, sample);
}

SEC("struct_ops")
__u32 BPF_PROG(ctl_ssthresh, struct sock *sk)
{
	struct flow *f = flow_of(sk);

	if (!f || f->granted)
		return ((struct tcp_sock *)sk)->snd_ssthresh;
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(ctl_undo_cwnd, struct sock *sk)
{
	struct flow *f = flow_of(sk);

	if (!f || f->granted)
		return ((struct tcp_sock *)sk)->snd_cwnd;
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(ctl_min_tso_segs, struct sock *sk)
{
	/* With a granted rate, the minimum burst is one packet, so that packets are spaced as evenly as the kernel's
	 * bursts of a millisecond allow.
	 */
	struct flow *f = flow_of(sk);

	return f && f->granted ? 1 : 2;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops scheme = {
	.ssthresh = (void *)ctl_ssthresh,
	.set_state = (void *)ctl_set_state,
	.cwnd_event = (void *)ctl_cwnd_event,
	.pkts_acked = (void *)ctl_pkts_acked,
	.min_tso_segs = (void *)ctl_min_tso_segs,
	.cong_control = (void *)ctl_cong_control,
	.undo_cwnd = (void *)ctl_undo_cwnd,
	.init = (void *)ctl_init,
	.release = (void *)ctl_release,
	.flags = NON_RESTRICTED,
	.name = "nodectl",
};
