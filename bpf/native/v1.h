/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of replay.c that depend on the generation: BBR v1. */
static struct bbr *state(void)
{
	return (struct bbr *)socket_state.inet_conn.icsk_ca_priv;
}

static bool is_recovering(const struct bbr *b)
{
	return b->ca_state == RECOVERY;
}

static void show(const struct bbr *b, struct outcome *o)
{
	o->bandwidth = max_get(&b->bw);
}

/* Adopts the twin's decisions. */
static void follow(struct bbr *b, const struct event *e)
{
	socket_state.snd_cwnd = e->twin_cwnd;
	if (b->mode == e->twin_mode && (b->mode != PROBE_BW || b->phase == e->twin_phase))
		return;
	b->mode = e->twin_mode;
	if (b->mode == PROBE_BW) {
		b->phase = e->twin_phase;
		b->phase_since = e->twin_since;
		own_enter_phase(b, b->phase);
	}
}
