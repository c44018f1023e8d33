/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of replay.c that depend on the generation: BBR v3. */
static struct bbr *state(void)
{
	return (struct bbr *)native_storage;
}

static bool is_recovering(const struct bbr *b)
{
	return b->recovery == RECOVERY;
}

static void show(const struct bbr *b, struct outcome *o)
{
	o->bandwidth = max_bw(b);
	o->bytes = b->cwnd;
	o->bounds[0] = b->bounds.bw_short;
	o->bounds[1] = b->bounds.inflight_short;
	o->bounds[2] = b->bounds.inflight_long;
	/* crates/programs/tests/programs/v3.rs has the same bits. */
	o->signals = b->ack_phase | b->probe_too_high << 3 | b->probe_precautionary << 4 | b->full_now << 5 |
		     b->full_reached << 6 | b->idle_restart << 7 | b->undo_state << 8;
}

/* Adopts the twin's decisions. */
static void follow(struct bbr *b, const struct event *e)
{
	socket_state.snd_cwnd = e->twin_cwnd;
	b->cwnd = e->twin_bytes;
	b->bounds.bw_short = e->twin_bounds[0];
	b->bounds.inflight_short = e->twin_bounds[1];
	b->bounds.inflight_long = e->twin_bounds[2];
	b->mode = e->twin_mode;
	b->phase = e->twin_phase;
	b->ack_phase = e->twin_signals & 7;
	b->probe_too_high = e->twin_signals >> 3 & 1;
	b->probe_precautionary = e->twin_signals >> 4 & 1;
	b->full_now = e->twin_signals >> 5 & 1;
	b->full_reached = e->twin_signals >> 6 & 1;
	b->undo_state = e->twin_signals >> 8 & 3;
}
