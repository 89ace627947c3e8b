// SPDX-License-Identifier: BSD-2-Clause
/*
 * locks.c - see locks.h. Checked: mutual exclusion; the lock goes round in the order in which the home saw the
 * requests; everybody gets it; in the end it is free and so is every record.
 */
#include "locks.h"

#include "channel.h"
#include "core/lock.h"

#define RANKS 4
#define THREADS 2
#define LINE 12

enum pc { PC_READY = 0, PC_WAIT, PC_INSIDE };

struct thread {
	uint8_t pc, left, record, status;
};

struct world {
	struct sync home;
	struct hold holds[RANKS][THREADS];
	struct thread threads[RANKS][THREADS];
	uint8_t awake[RANKS][THREADS];
	uint8_t line[LINE]; /* who may go in, in the order of the home: rank << 4 | slot */
	uint8_t nline;
	struct chan chan;
};

enum event { EV_LOCK = 1, EV_TRY, EV_AWAKE, EV_UNLOCK, EV_MSG };

static uint32_t event(enum event e, unsigned int a, unsigned int b)
{
	return (uint32_t)e << 16 | a << 8 | b;
}

static void start(const void *c, void *world)
{
	const struct lock_cfg *cfg = c;
	struct world *w = world;
	unsigned int r, t;

	w->home.kind = SYNC_MUTEX;
	for (r = 0; r < cfg->nranks; r++)
		for (t = 0; t < cfg->nthreads; t++)
			w->threads[r][t].left = cfg->ops[r];
}

static int free_record(const struct lock_cfg *cfg, const struct world *w, unsigned int r)
{
	unsigned int i;

	for (i = 0; i < cfg->records; i++)
		if (w->holds[r][i].state == HOLD_FREE)
			return (int)i;
	return -1;
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct lock_cfg *cfg = c;
	const struct world *w = world;
	unsigned int n = 0, r, t;

	for (r = 0; r < cfg->nranks; r++)
		for (t = 0; t < cfg->nthreads; t++) {
			const struct thread *th = &w->threads[r][t];

			if (th->pc == PC_READY && th->left && free_record(cfg, w, r) >= 0) {
				events[n++] = event(EV_LOCK, r, t);
				if (cfg->try)
					events[n++] = event(EV_TRY, r, t);
			}
			if (th->pc == PC_WAIT && w->awake[r][t])
				events[n++] = event(EV_AWAKE, r, t);
			if (th->pc == PC_INSIDE)
				events[n++] = event(EV_UNLOCK, r, t);
		}
	for (r = 0; r < w->chan.n; r++)
		if (chan_next(&w->chan, r, cfg->fifo))
			events[n++] = event(EV_MSG, r, 0);
	return n;
}

static void carry_out(struct world *w, unsigned int rank, const struct actions *out)
{
	unsigned int i;

	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];
		struct wmsg m = chan_narrow(&a->msg);

		if (a->type == ACT_SEND) {
			chan_post(&w->chan, &m);
		} else if (a->type == ACT_WAKE) {
			struct thread *t = &w->threads[rank][a->slot];

			if (t->pc != PC_WAIT || w->awake[rank][a->slot])
				model_fail("thread %u.%u is woken, but does not wait", rank, a->slot);
			w->awake[rank][a->slot] = 1;
			t->status = a->status != 0;
			if (!a->status && (!w->nline || w->line[0] != (rank << 4 | a->slot)))
				model_fail("thread %u.%u is not the first in line", rank, a->slot);
		} else {
			model_fail("action %u", a->type);
		}
	}
}

static void step_hold(struct world *w, unsigned int rank, unsigned int record, enum hold_event ev, const struct msg *m)
{
	struct hold *h = &w->holds[rank][record];
	uint8_t before = h->state;
	struct actions out;
	int err = hold_step((uint16_t)rank, (uint16_t)record, h, ev, m, &out);

	model_say("      rank %u record %u: %s --%s--> %s\n", rank, record, hold_state_name(before),
		  hold_event_name(ev), hold_state_name(h->state));
	if (err)
		model_fail("rank %u: record %s does not expect %s", rank, hold_state_name(before), hold_event_name(ev));
	else
		carry_out(w, rank, &out);
}

static void deliver(const struct lock_cfg *cfg, struct world *w, unsigned int index)
{
	struct wmsg m = chan_take(&w->chan, index);
	struct msg wide = chan_widen(&m);
	struct actions out;
	bool refused;

	if (m.type == MSG_LOCKED || m.type == MSG_NEXT || m.type == MSG_FREED) {
		step_hold(w, m.dst, m.home,
			  m.type == MSG_LOCKED         ? HE_LOCKED
				  : m.type == MSG_NEXT ? HE_NEXT
				  : m.count            ? HE_REFUSED
						       : HE_FREED,
			  &wide);
		return;
	}
	if (lock_home_step(cfg->home, &w->home, &wide, &out))
		model_fail("the home does not expect %s", wire_name(m.type));
	refused = out.n == 1 && out.v[0].msg.type == MSG_FREED && out.v[0].msg.count;
	if (m.type != MSG_UNLOCK && !refused)
		w->line[w->nline++] = (uint8_t)(m.req_rank << 4 | m.req_slot);
	carry_out(w, cfg->home, &out);
}

static void lock(const struct lock_cfg *cfg, struct world *w, unsigned int r, unsigned int t, bool try)
{
	int record = free_record(cfg, w, r);
	struct thread *th = &w->threads[r][t];
	struct wmsg m = { .type = try ? MSG_TRYLOCK : MSG_LOCK,
			  .src = (uint8_t)r,
			  .dst = cfg->home,
			  .req_rank = (uint8_t)r,
			  .req_slot = (uint8_t)t,
			  .home = (uint8_t)record };

	w->holds[r][record] = (struct hold){ .state = HOLD_WAITING, .home = cfg->home, .slot = (uint16_t)t };
	th->record = (uint8_t)record;
	th->pc = PC_WAIT;
	chan_post(&w->chan, &m);
}

static void awake(struct world *w, unsigned int r, unsigned int t)
{
	struct thread *th = &w->threads[r][t];

	w->awake[r][t] = 0;
	th->pc = th->status ? PC_READY : PC_INSIDE;
	if (th->status)
		th->left--;
	th->status = 0;
}

static void unlock(struct world *w, unsigned int r, unsigned int t)
{
	struct thread *th = &w->threads[r][t];

	memmove(w->line, w->line + 1, LINE - 1);
	w->line[LINE - 1] = 0;
	w->nline--;
	th->pc = PC_READY;
	th->left--;
	step_hold(w, r, th->record, HE_UNLOCK, NULL);
	th->record = 0;
}

static void fire(const void *c, void *world, uint32_t ev)
{
	static const char *const names[] = { "", "locks", "tries to lock", "is awake", "unlocks" };
	unsigned int a = ev >> 8 & 0xff, b = ev & 0xff;
	const struct lock_cfg *cfg = c;
	struct world *w = world;

	if (ev >> 16 != EV_MSG)
		model_say("thread %u.%u %s\n", a, b, names[ev >> 16]);
	switch ((enum event)(ev >> 16)) {
	case EV_LOCK:
	case EV_TRY: lock(cfg, w, a, b, ev >> 16 == EV_TRY); break;
	case EV_AWAKE: awake(w, a, b); break;
	case EV_UNLOCK: unlock(w, a, b); break;
	case EV_MSG: deliver(cfg, w, a); break;
	}
}

static void canon(const void *c, void *world)
{
	const struct lock_cfg *cfg = c;
	struct world *w = world;
	unsigned int r, i;

	chan_canon(&w->chan, cfg->fifo);
	for (r = 0; r < cfg->nranks; r++)
		for (i = 0; i < cfg->records; i++) {
			struct hold *h = &w->holds[r][i];

			if (h->state == HOLD_FREE)
				*h = (struct hold){ 0 };
			if (h->state != HOLD_WAIT_NEXT && h->state != HOLD_HELD_NEXT)
				h->next_rank = h->next_slot = h->next_hold = 0;
		}
}

static void check(const void *c, const void *world)
{
	const struct lock_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t, inside = 0;
	bool rest = !w->chan.n;

	for (r = 0; r < cfg->nranks; r++)
		for (t = 0; t < cfg->nthreads; t++) {
			inside += w->threads[r][t].pc == PC_INSIDE;
			inside += w->threads[r][t].pc == PC_WAIT && w->awake[r][t] && !w->threads[r][t].status;
			rest = rest && w->threads[r][t].pc == PC_READY;
		}
	if (inside > 1)
		model_fail("%u threads hold the lock", inside);
	for (r = 0; r < cfg->nranks && rest; r++)
		for (t = 0; t < cfg->records; t++)
			if (w->holds[r][t].state != HOLD_FREE)
				model_fail("at rest, but record %u of rank %u is %s", t, r,
					   hold_state_name(w->holds[r][t].state));
	if (rest && !sync_idle(&w->home))
		model_fail("at rest, but the lock is not free");
}

static bool final(const void *c, const void *world)
{
	const struct lock_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t;

	for (r = 0; r < cfg->nranks; r++)
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].pc != PC_READY || w->threads[r][t].left)
				return false;
	return !w->chan.n;
}

static void show(const void *c, const void *world)
{
	const struct lock_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t;

	model_say("    home: last in line %#llx\n", (unsigned long long)w->home.value);
	for (r = 0; r < cfg->nranks; r++) {
		for (t = 0; t < cfg->records; t++)
			model_say("    rank %u record %u: %s\n", r, t, hold_state_name(w->holds[r][t].state));
		for (t = 0; t < cfg->nthreads; t++)
			model_say("    thread %u.%u: pc %u, %u to do\n", r, t, w->threads[r][t].pc,
				  w->threads[r][t].left);
	}
}

const struct model lock_model = {
	.size = WORLD_SIZE(struct world),
	.start = start,
	.list = list,
	.fire = fire,
	.canon = canon,
	.check = check,
	.final = final,
	.show = show,
};
