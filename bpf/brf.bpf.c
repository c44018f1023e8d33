// SPDX-License-Identifier: GPL-2.0
/* BRF: paced at the rate that the bottleneck switch writes into acknowledgements.
 *
 * The twin of crates/cc/src/schemes/brf.rs, whose head explains the scheme, its parameters and its states. The rate comes
 * from a TCP option, which the sockops programs in brf_host.h read (`narrows brf attach`). Without them no rate arrives,
 * and the scheme becomes CUBIC after its timeout.
 *
 * Differences from the twin:
 * - cwnd is a whole number of segments, rounded down.
 * - Idle time counts from the last acknowledgement, not from the departure of the last packet, which is up to a round
 *   trip earlier.
 * - The kernel requests a reduction before it reports the cause: after a mark cwnd keeps at least 2 segments, as after
 *   a loss.
 * - The curve of CUBIC has the error that cubic.h states. The curve's target is truncated to whole segments, so the
 *   target may differ by one segment.
 */
#include "program.h"

#include "fixed.h"
#include "cubic_flow.h"

#include "advice.h"

enum { MIN_WINDOW = 4, DATA_ACKED = 4 };
/* In order: the wait for the first share on short paths in us, the least losses of an overrun, and the limit of shares
 * after an overrun in multiples of path_rate.
 */
enum { FIRST_SHARE = 20000, OVERRUN_LOSSES = 10, OVERRUN_HEADROOM = 2 };
enum { WAITING = 0, ADVISED = 1, FALLBACK = 2 };

#define CWND_MOST (1U << 24)

/* Set when the program is loaded. crates/programs/src/parameters.rs has the same layout. */
struct core_params {
	__u64 timeout; /* us */
	__u64 line_rate; /* bytes per second */
	__u32 window_gain;
	__u32 timeout_rtts; /* with 20 fractional bits, as in gains */
	__u32 min_rate; /* packets per second, with 20 fractional bits */
	__u32 overrun; /* losses per delivery, with 20 fractional bits; 0: never */
};

LOADED struct core_params core SEC(".rodata.core");

struct flow {
	__u64 rate; /* the last valid share, payload bytes per second; 0: none */
	/* A previous, higher share: data sent at it may be in flight until prior_until. */
	__u64 prior_rate;
	__u64 prior_until;
	__u64 since; /* start of the wait for the next share; 0: no event yet */
	__u64 last_ack;
	__u64 pacing_rate; /* 0: not paced */
	__u64 path_rate; /* the highest rate delivered since the last overrun; 0: no overrun yet */
	/* The round trip over which the delivery rate is measured: its start, and the totals at its start. */
	__u64 round_since;
	__u32 round_delivered;
	__u32 round_lost;
	__u8 round_timed_out;
	__u32 srtt; /* 0: none */
	__u32 cwnd;
	__u32 initial; /* initial cwnd */
	__u32 restart; /* idle time reduces CUBIC's cwnd to no less than this */
	__u32 seen; /* number of the last rate read from the network */
	__u8 state;
	struct cubic cubic;
};

typedef struct flow stored;

#define OWN_COUNTERS   \
	__u64 advised; \
	__u64 invalid; \
	__u64 fallbacks;
#include "stored.h"

static struct flow *flow_of(struct sock *sk)
{
	return *started(sk) ? stored_of(sk) : 0;
}

/* The time without a share after which CUBIC takes over. */
static __u64 share_timeout(const struct flow *f)
{
	__u64 least = f->rate ? core.timeout : least_of(core.timeout, FIRST_SHARE);

	return most_of(least, times_gain(f->srtt, core.timeout_rtts));
}

/* The idle time after which a share is outdated. */
static __u64 outdated_after(const struct flow *f)
{
	return most_of(core.timeout, times_gain(f->srtt, core.timeout_rtts));
}

static __u64 least_rate(__u32 mss)
{
	return most_of(times_gain(mss, core.min_rate), 1);
}

static __u32 safety_cwnd(const struct flow *f, __u64 now, __u32 mss)
{
	__u64 rate = now < f->prior_until ? most_of(f->rate, f->prior_rate) : f->rate;
	__u64 bytes = times_gain(least_of(bytes_over(rate, f->srtt), 1ULL << 39), core.window_gain);

	return atleast(least_of(bytes / mss, CWND_MOST), MIN_WINDOW);
}

/* Hands control to CUBIC, which begins at the current rate. */
static void fall_back(struct flow *f, __u32 mss)
{
	__u64 window;

	f->state = FALLBACK;
	COUNT(fallbacks);
	f->restart = f->initial;
	if (!f->rate || !f->srtt) {
		cubic_begin(&f->cubic, f->initial);
		return;
	}
	window = (bytes_over(f->rate, f->srtt) + mss / 2) / mss;
	f->restart = atleast(least_of(window, CWND_MOST), MIN_WINDOW);
	cubic_begin_at(&f->cubic, f->restart);
}

static void check_timeout(struct flow *f, __u64 now, __u32 mss)
{
	if (!f->since)
		f->since = now;
	if (f->state != FALLBACK && less(now, f->since) > share_timeout(f))
		fall_back(f, mss);
}

static void begin_round(struct flow *f, const struct tcp_sock *tp, __u64 now)
{
	f->round_since = now;
	f->round_delivered = tp->delivered;
	f->round_lost = tp->lost;
	f->round_timed_out = 0;
}

/* If a round trip ends now, checks whether the path carried the share. */
static void judge_round(struct flow *f, const struct tcp_sock *tp, __u64 now, __u32 mss)
{
	__u64 elapsed = less(now, f->round_since), rate;
	__u32 delivered = tp->delivered - f->round_delivered, lost = tp->lost - f->round_lost;
	bool judged = !f->round_timed_out;

	if (!f->srtt)
		return;
	if (!f->round_since) {
		begin_round(f, tp, now);
		return;
	}
	if (elapsed < f->srtt)
		return;
	begin_round(f, tp, now);
	if (!judged)
		return;
	rate = most_of(rate_of((__u64)delivered * mss, elapsed), least_rate(mss));
	if (f->path_rate)
		f->path_rate = most_of(f->path_rate, rate);
	if (f->state != ADVISED || !core.overrun || lost < OVERRUN_LOSSES ||
	    (__u64)lost << GAIN_SHIFT <= (__u64)delivered * core.overrun)
		return;
	f->rate = rate;
	f->path_rate = rate;
	fall_back(f, mss);
}

static bool is_valid(const struct flow *f, __u64 share)
{
	if (!share || share > core.line_rate)
		return 0;
	return !f->path_rate || share / OVERRUN_HEADROOM <= f->path_rate;
}

/* Processes a share, in payload bytes per second. */
static void on_advice(struct flow *f, __u64 now, __u64 rate, __u32 mss)
{
	if (!is_valid(f, rate)) {
		COUNT(invalid);
		return;
	}
	COUNT(advised);
	rate = most_of(rate, least_rate(mss));
	if (f->rate > rate) {
		f->prior_rate = now < f->prior_until ? most_of(f->prior_rate, f->rate) : f->rate;
		f->prior_until = now + f->srtt;
	}
	f->rate = rate;
	f->since = now;
	f->cwnd = safety_cwnd(f, now, mss);
	f->state = ADVISED;
}

static __u32 headers_of(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_af_ops->net_header_len + tp->tcp_header_len;
}

/* Follows a rate that has arrived since the last event. */
static void follow_network(struct sock *sk, struct flow *f, __u64 now, __u32 mss)
{
	struct advice *a = bpf_sk_storage_get(&advised, sk, 0, 0);

	if (!a || a->count == f->seen)
		return;
	f->seen = a->count;
	on_advice(f, now, payload_rate(a->rate, mss, headers_of((struct tcp_sock *)sk)), mss);
}

static __u32 cwnd_of(const struct flow *f)
{
	return f->state == FALLBACK ? f->cubic.now.cwnd : f->cwnd;
}

/* Applies the decisions to the socket. */
static void obey(struct sock *sk, struct flow *f, __u32 mss)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 paced = f->rate;

	tp->snd_cwnd = atmost(cwnd_of(f), tp->snd_cwnd_clamp);
	if (f->state == FALLBACK) {
		tp->snd_ssthresh = f->cubic.now.ssthresh;
		paced = cubic_pacing(&f->cubic, mss);
	}
	f->pacing_rate = paced;
	/* For schemes with cong_control the kernel does not limit the rate itself. */
	if (paced)
		sk->sk_pacing_rate = least_of(paced, sk->sk_max_pacing_rate);
}

/* Linux `tcp_is_cwnd_limited`. */
static bool is_cwnd_limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

SEC("struct_ops")
void BPF_PROG(brf_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 mss = atleast(tp->mss_cache, 1);
	struct flow *f = open_flow(sk);

	if (!f)
		return;
	__builtin_memset(f, 0, sizeof(*f));
	f->initial = atleast(tp->snd_cwnd, 1);
	f->cwnd = f->initial;
	f->srtt = tp->srtt_us >> 3;
	f->last_ack = tp->tcp_mstamp;
	check_timeout(f, tp->tcp_mstamp, mss);
	judge_round(f, tp, tp->tcp_mstamp, mss);
	sk->sk_pacing_status = PACING_NEEDED;
	/* The SYN-ACK may have brought the first share. */
	follow_network(sk, f, tp->tcp_mstamp, mss);
	obey(sk, f, mss);
}

SEC("struct_ops")
void BPF_PROG(brf_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);
	__u32 mss = atleast(tp->mss_cache, 1);
	__u64 now = tp->tcp_mstamp;
	struct cubic_ack a = { 0 };
	__u8 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);

	/* The acknowledgement of the SYN precedes init. */
	if (!f)
		return;
	COUNT(acks);
	f->srtt = tp->srtt_us >> 3;
	check_timeout(f, now, mss);
	judge_round(f, tp, now, mss);
	if (f->state == FALLBACK) {
		a.now = now;
		a.acked = flag & DATA_ACKED ? rs->acked_sacked : 0;
		a.rtt = rs->rtt_us > 0 && rs->rtt_us < UNLIMITED ? rs->rtt_us : 0;
		a.srtt = f->srtt;
		a.min_rtt = tp->rtt_min.s[0].v == ~0U ? 0 : tp->rtt_min.s[0].v;
		a.delivered = tp->delivered;
		a.in_flight = in_flight(tp);
		a.mss = mss;
		a.limited = is_cwnd_limited(tp);
		a.recovering = state == RECOVERY || state == CWR;
		cubic_on_ack(&f->cubic, &a);
	} else if (f->state == ADVISED) {
		f->cwnd = safety_cwnd(f, now, mss);
	}
	f->last_ack = now;
	follow_network(sk, f, now, mss);
	obey(sk, f, mss);
}

SEC("struct_ops")
__u32 BPF_PROG(brf_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);
	__u32 ssthresh = tp->snd_ssthresh;

	/* While shares arrive, loss changes nothing. */
	if (!f || f->state != FALLBACK)
		return ssthresh;
	cubic_recover(&f->cubic);
	tp->snd_cwnd = f->cubic.now.cwnd;
	ssthresh = f->cubic.now.ssthresh;
	barrier_var(ssthresh); /* the verifier refuses a single load for the ssthresh of either source */
	return ssthresh;
}

SEC("struct_ops")
void BPF_PROG(brf_set_state, struct sock *sk, __u8 to)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);
	__u32 mss = atleast(tp->mss_cache, 1);
	__u8 before;

	if (!f || to != LOSS)
		return;
	COUNT(timeouts);
	if (f->round_since) {
		f->round_since = tp->tcp_mstamp;
		f->round_timed_out = 1;
	}
	before = f->state;
	check_timeout(f, tp->tcp_mstamp, mss);
	if (f->state == FALLBACK) {
		/* The kernel called ssthresh before this fallback began, so the thresholds are lowered here.
		 * Consecutive timeouts lower them once.
		 */
		if (before != FALLBACK && !tp->inet_conn.icsk_retransmits)
			cubic_reduce(&f->cubic, f->cwnd);
		/* tcp_enter_loss leaves a cwnd of one packet beyond those in flight. */
		cubic_expire(&f->cubic, in_flight(tp) + 1);
	}
	obey(sk, f, mss);
}

SEC("struct_ops")
void BPF_PROG(brf_cwnd_event, struct sock *sk, enum tcp_ca_event what)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);
	__u32 mss = atleast(tp->mss_cache, 1), srtt = tp->srtt_us >> 3;
	__u64 now = tp->tcp_mstamp, idle;

	if (!f || what != CA_EVENT_TX_START)
		return;
	idle = less(now, f->last_ack);
	if (f->state == FALLBACK) {
		cubic_idle(&f->cubic, now, idle, srtt ? srtt + tp->rttvar_us : 0, f->restart);
	} else {
		/* Idle time does not count towards the timeout. */
		f->since = least_of(f->since + idle, now);
		if (idle > outdated_after(f)) {
			f->since = now;
			f->cwnd = f->initial;
			f->state = WAITING;
		}
	}
	obey(sk, f, mss);
}

SEC("struct_ops")
__u32 BPF_PROG(brf_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);
	__u32 cwnd = tp->snd_cwnd;

	barrier_var(cwnd);
	if (!f)
		return cwnd;
	if (f->state == FALLBACK)
		cubic_undo(&f->cubic);
	cwnd = cwnd_of(f);
	barrier_var(cwnd);
	return cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops scheme = {
	.ssthresh = (void *)brf_ssthresh,
	.set_state = (void *)brf_set_state,
	.cwnd_event = (void *)brf_cwnd_event,
	.min_tso_segs = (void *)flow_min_tso_segs,
	.cong_control = (void *)brf_cong_control,
	.undo_cwnd = (void *)brf_undo_cwnd,
	.init = (void *)brf_init,
	.release = (void *)flow_release,
	.flags = NON_RESTRICTED,
	.name = "brf",
};

#ifdef __bpf__
#include "brf_host.h"
#endif
