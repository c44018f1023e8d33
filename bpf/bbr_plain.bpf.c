// SPDX-License-Identifier: GPL-2.0
/* BBR v1 unchanged, on the core of the variants: the twin of crates/cc/src/schemes/bbr.rs. Its name differs from that of
 * the kernel's BBR.
 */
#include "program.h"

#include "fixed.h"

struct own {
	char none[1];
};

struct own_rest {
	char none[1];
};

#include "bbr_core.h"

static void own_init(struct bbr *b, struct rest *rest, __u32 now, __u32 rtt)
{
}

static void own_observe(struct sock *sk, struct bbr *b, const struct ack *a)
{
}

static void own_enter_phase(struct bbr *b, __u8 phase)
{
}

static __u32 own_probe_gain(const struct bbr *b, __u8 phase)
{
	return standard_probe_gain(phase);
}

static bool own_phase_done(const struct bbr *b, const struct ack *a)
{
	return standard_phase_done(b, a);
}

static bool own_drain_done(struct sock *sk, const struct bbr *b, const struct ack *a)
{
	return standard_drain_done(b, a);
}

static __u32 own_cwnd_gain(const struct bbr *b)
{
	return core.cwnd_gain;
}

#include "bbr_events.h"

SCHEME("bbr_plain");
