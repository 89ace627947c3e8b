// SPDX-License-Identifier: BSD-2-Clause
/*
 * locks.c - see locks.h. Checked: mutual exclusion; nodes get the lock in the order in which the
 * home saw their requests; a trylock is refused only if some thread had the lock or stood in line
 * during the attempt; every waiter gets the lock; in the end the lock is free, or cached in one
 * record, and all other records are free. Where records can be fast: a woken thread that has come
 * and found the lock held is the next of its record to get it.
 * A record whose NEXT the host keeps is not fast, and no record is wanted in the end.
 */
#include "worlds.h"

#include "channel.h"
#include "core/dispatch.h"

#define RANKS 4
#define THREADS 3
#define LINE 12

enum pc { PC_READY = 0, PC_WAIT, PC_INSIDE };

struct thread {
	/* busy: the lock was in use at some time during the attempt */
	uint8_t pc, left, record, status, try, busy;
};

struct world {
	struct sync home;
	struct hold holds[RANKS][THREADS];
	struct thread threads[RANKS][THREADS];
	uint8_t awake[RANKS][THREADS];
	/* records in the home's order: rank << 4 | record; the first has the lock */
	uint8_t line[LINE];
	uint8_t nline;
	struct queue_entry nodes[RANKS * THREADS]; /* queues of threads of a rank */
	/* passes from thread to thread while another rank waits */
	uint8_t passed[RANKS];
	/* by record: the thread, + 1, that was woken and found the lock held */
	uint8_t due[RANKS][THREADS];
	struct chan chan;
};

#define GEN 0x123434u /* generation of the lock */
#define OBJECT ((GEN & 0xff) << 24 | 0x56789a)
#define RECORD 0x3214321 /* number of the first hold record */

/* Ranks, records and objects as they are numbered in the job. */
static struct chan_names names(const struct lock_cfg *cfg)
{
	return (struct chan_names){ .rank = WIRE_MAX_NODES - 4,
				    .ranks = cfg->nnodes,
				    .slot = CHAN_SLOT,
				    .slots = cfg->nthreads,
				    .object = OBJECT,
				    .objects = 1,
				    .home = RECORD,
				    .homes = cfg->records,
				    .value = 1 };
}

/* The value of NEXT also names a record. */
static struct wmsg narrow(const struct lock_cfg *cfg, const struct msg *m)
{
	struct chan_names n = names(cfg);
	struct msg copy = *m;
	struct wmsg small;

	if (m->type == MSG_NEXT)
		copy.value = chan_small("record", m->value, n.home, n.homes);
	if (m->type == MSG_UNLOCK || m->type == MSG_LOCK || m->type == MSG_RECALL ||
	    m->type == MSG_RECALLED) {
		if (m->req_node != GEN >> 8)
			model_fail("%s of generation %#x", wire_name(m->type), m->req_node);
		copy.req_node = m->src;
	}
	if (m->type == MSG_RECALL || (m->type == MSG_RECALLED && m->count)) {
		if (m->req_slot)
			model_fail("%s with slot %u", wire_name(m->type), m->req_slot);
		copy.req_slot = CHAN_SLOT;
	}
	copy.aux = 0;
	small = chan_narrow(&n, &copy);
	small.home = (uint8_t)(chan_small("record", m->aux, n.home, n.homes) + 1);
	return small;
}

static struct msg widen(const struct lock_cfg *cfg, const struct wmsg *m)
{
	struct chan_names n = names(cfg);
	struct msg wide = chan_widen(&n, m);

	if (m->type == MSG_NEXT)
		wide.value += n.home;
	wide.home = 0;
	wide.aux = n.home + m->home - 1;
	return wide;
}

enum event {
	EV_LOCK = 1,
	EV_TRY,
	EV_AWAKE,
	EV_UNLOCK,
	EV_TAKE,
	EV_GIVE,
	EV_JOIN,
	EV_SWAP_IN,
	EV_SWAP_OUT,
	EV_KEEP,
	EV_MSG
};

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
	w->home.gen = GEN;
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			w->threads[r][t].left = cfg->ops[r];
}

static int record_in(const struct lock_cfg *cfg, const struct world *w, unsigned int r,
		     enum hold_state state)
{
	unsigned int i;

	for (i = 0; i < cfg->records; i++)
		if (hold_state(&w->holds[r][i]) == state)
			return (int)i;
	return -1;
}

static bool joinable(const struct hold *h)
{
	return hold_state(h) >= HOLD_WAITING && hold_state(h) <= HOLD_HELD_NEXT;
}

static uint64_t name_of(const struct hold *h)
{
	return hold_name(h->home, h->object, h->gen);
}

/* Does a thread have the lock, or is one in line? */
static bool busy(const struct world *w)
{
	const struct hold *h = &w->holds[w->line[0] >> 4][w->line[0] & 15];

	return w->nline > 1 || (w->nline && (joinable(h) || h->turn != TURN_NONE));
}

static int free_record(const struct lock_cfg *cfg, const struct world *w, unsigned int r)
{
	return record_in(cfg, w, r, HOLD_FREE);
}

/* The record that NEXT is for. */
static struct hold *asked_record(const struct world *w, const struct wmsg *m)
{
	return (struct hold *)&w->holds[m->dst][m->home - 1];
}

/* May the host keep this message, with the lock? It is delivered at any time after that. */
static bool can_keep(const struct lock_cfg *cfg, const struct world *w, const struct wmsg *m)
{
	struct hold copy;
	struct msg wide;

	if (!cfg->fast || m->type != MSG_NEXT || asked_record(w, m)->wanted)
		return false;
	copy = *asked_record(w, m);
	wide = widen(cfg, m);
	return hold_want(&copy, &wide);
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct lock_cfg *cfg = c;
	const struct world *w = world;
	unsigned int n = 0, r, t, k;

	for (r = 0; r < cfg->nnodes; r++) {
		int at = record_in(cfg, w, r, HOLD_CACHED);
		bool kept = at >= 0;

		if (kept && cfg->give && w->holds[r][at].turn == TURN_NONE)
			events[n++] = event(EV_GIVE, r, 0);
		for (t = 0; t < cfg->nthreads; t++) {
			const struct thread *th = &w->threads[r][t];

			if (th->pc == PC_READY && th->left && kept)
				events[n++] = event(EV_TAKE, r, t);
			for (k = 0; k < cfg->records && cfg->passes; k++)
				if (th->pc == PC_READY && th->left && joinable(&w->holds[r][k]))
					events[n++] = event(EV_JOIN, r, t) | k << 24;

			if (th->pc == PC_READY && th->left && free_record(cfg, w, r) >= 0) {
				events[n++] = event(EV_LOCK, r, t);
				if (cfg->try)
					events[n++] = event(EV_TRY, r, t);
			}
			if (th->pc == PC_WAIT && w->awake[r][t])
				events[n++] = event(EV_AWAKE, r, t);
			if (th->pc == PC_READY && th->left && kept && w->holds[r][at].word)
				events[n++] = event(EV_SWAP_IN, r, t);
			if (th->pc == PC_INSIDE)
				events[n++] = event(EV_UNLOCK, r, t);
			if (th->pc == PC_INSIDE && w->holds[r][th->record].word)
				events[n++] = event(EV_SWAP_OUT, r, t);
		}
	}
	for (r = 0; r < w->chan.n; r++) {
		if (can_keep(cfg, w, &w->chan.v[r]))
			events[n++] = event(EV_KEEP, r, 0);
		if (chan_next(&w->chan, r, cfg->fifo))
			events[n++] = event(EV_MSG, r, 0);
	}
	return n;
}

/* A thread has the lock, by this record. */
static void enters(struct world *w, unsigned int rank, unsigned int record, unsigned int thread)
{
	uint8_t *due = &w->due[rank][record];

	if (*due && *due != thread + 1)
		model_fail("thread %u.%u overtakes %u, whose turn it is", rank, thread, *due - 1u);
	*due = 0;
}

static void wake(struct world *w, unsigned int rank, unsigned int slot, int status)
{
	struct thread *t = &w->threads[rank][slot];

	if (t->pc != PC_WAIT || w->awake[rank][slot])
		model_fail("thread %u.%u is woken, but does not wait", rank, slot);
	w->awake[rank][slot] = 1;
	if (!status)
		enters(w, rank, t->record, slot);
	t->status = (uint8_t)-status;
	if (!status && (!w->nline || w->line[0] != (rank << 4 | t->record)))
		model_fail("thread %u.%u is not the first in line", rank, slot);
	if (status == -EBUSY && (!t->try || !t->busy))
		model_fail("thread %u.%u is refused what was idle", rank, slot);
}

static void joins(struct world *w, unsigned int rank, unsigned int record)
{
	if (w->nline == LINE)
		model_fail("more than %d in line", LINE);
	else
		w->line[w->nline++] = (uint8_t)(rank << 4 | record);
}

/* The first in line has left. */
static void goes(struct world *w, unsigned int rank, unsigned int record)
{
	if (!w->nline || w->line[0] != (rank << 4 | record))
		model_fail("record %u of rank %u gives what it has not", record, rank);
	memmove(w->line, w->line + 1, LINE - 1);
	w->line[LINE - 1] = 0;
	w->nline--;
}

/* A message of the home, or of a record that passes the lock on. */
static void track(struct world *w, const struct wmsg *m, bool home, unsigned int rank,
		  unsigned int record)
{
	if (m->type == MSG_LOCKED && !home)
		goes(w, rank, record);
	else if (m->type == MSG_LOCKED)
		joins(w, m->dst, m->home - 1u);
	else if (m->type == MSG_NEXT)
		joins(w, m->req_node, m->value);
	else if (m->type == MSG_FREED && !m->count && !m->value)
		goes(w, m->dst, m->home - 1u);
}

static void carry_out(const struct lock_cfg *cfg, struct world *w, unsigned int rank, int record,
		      const struct actions *out)
{
	unsigned int i;

	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];
		struct wmsg m;

		if (a->type == ACT_SEND) {
			m = narrow(cfg, &a->msg);
			track(w, &m, record < 0, rank, (unsigned int)record);
			chan_post(&w->chan, &m);
		} else if (a->type == ACT_WAKE) {
			wake(w, rank, chan_small("slot", a->slot, CHAN_SLOT, cfg->nthreads),
			     a->status);
		} else {
			model_fail("action %u", a->type);
		}
	}
}

static void said(const struct hold *before, const struct hold *h, unsigned int rank,
		 unsigned int record, const char *event)
{
	model_say("      rank %u record %u: %s --%s--> %s\n", rank, record,
		  hold_state_name(hold_state(before)), event, hold_state_name(hold_state(h)));
}

static void local(const struct lock_cfg *cfg, struct world *w, unsigned int rank,
		  unsigned int record, enum hold_event ev, const struct msg *about)
{
	struct chan_names n = names(cfg);
	struct hold *h = &w->holds[rank][record], before = *h;
	struct hold_ctx ctx = { .me = (uint16_t)(n.rank + rank),
				.passes = cfg->passes,
				.fast = cfg->fast,
				.queue = chan_load(&n, w->nodes) };
	struct actions out;
	int err = hold_thread(&ctx, n.home + record, h, ev, about, &out);

	chan_store(&n, w->nodes);

	if (err)
		model_fail("rank %u: record %s does not expect %s", rank,
			   hold_state_name(hold_state(&before)), hold_event_name(ev));
	else
		carry_out(cfg, w, rank, (int)record, &out);
	said(&before, h, rank, record, hold_event_name(ev));
	w->passed[rank] =
		ev == HE_UNLOCK && before.state == HOLD_HELD_NEXT && h->state == HOLD_HELD_NEXT
		? (uint8_t)(w->passed[rank] + 1)
		: ev == HE_JOIN || ev == HE_COME ? w->passed[rank]
						 : 0;
	if (h->turn == TURN_DUE && ev == HE_COME)
		w->due[rank][record] = (uint8_t)(h->slot - CHAN_SLOT + 1);
	if (w->passed[rank] > cfg->passes)
		model_fail("rank %u passes the lock on to itself %u times, and another waits", rank,
			   w->passed[rank]);
}

/*
 * As a thread names the lock, with the upper bits of the generation where messages have the rank.
 */
static struct msg request(const struct lock_cfg *cfg, const struct wmsg *m)
{
	struct msg wide = widen(cfg, m);

	wide.req_node = GEN >> 8;
	return wide;
}

static struct msg asks(const struct lock_cfg *cfg, unsigned int r, unsigned int t)
{
	struct wmsg m = { .type = MSG_LOCK,
			  .src = (uint8_t)r,
			  .dst = cfg->home,
			  .req_node = (uint8_t)r,
			  .req_slot = (uint8_t)t };

	return request(cfg, &m);
}

static void deliver(const struct lock_cfg *cfg, struct world *w, unsigned int index)
{
	struct wmsg m = chan_take(&w->chan, index);
	struct chan_names n = names(cfg);
	struct msg wide = widen(cfg, &m);
	struct dispatch at = {
		.me = wide.dst, .nnodes = WIRE_MAX_NODES, .object = &w->home, .fast = cfg->fast
	};
	bool held = m.type == MSG_LOCKED || m.type == MSG_NEXT || m.type == MSG_FREED ||
		m.type == MSG_RECALL;
	struct hold before = { 0 };
	struct actions out;
	int err;

	if (held) {
		at.hold = &w->holds[m.dst][m.home - 1];
		before = *at.hold;
	}
	if (!held || m.type == MSG_RECALL)
		wide.req_node = GEN >> 8; /* on the wire it is part of the lock's name */
	at.queue = chan_load(&n, w->nodes);
	err = dispatch_step(&at, &wide, &out);
	chan_store(&n, w->nodes);
	if (err) {
		model_fail("rank %u does not expect %s of %u (%d)", m.dst, wire_name(m.type), m.src,
			   err);
		return;
	}
	if (held)
		said(&before, at.hold, m.dst, m.home - 1u, wire_name(m.type));
	carry_out(cfg, w, m.dst, held ? m.home - 1 : -1, &out);
}

static void lock(const struct lock_cfg *cfg, struct world *w, unsigned int r, unsigned int t,
		 bool try)
{
	int record = free_record(cfg, w, r);
	struct thread *th = &w->threads[r][t];
	struct wmsg m = { .type = try ? MSG_TRYLOCK : MSG_LOCK,
			  .src = (uint8_t)r,
			  .dst = cfg->home,
			  .req_node = (uint8_t)r,
			  .req_slot = (uint8_t)t,
			  .home = (uint8_t)(record + 1) };
	struct msg wide = request(cfg, &m);

	hold_begin(&w->holds[r][record], &wide);
	th->record = (uint8_t)record;
	th->pc = PC_WAIT;
	th->try = try;
	th->busy = 0;
	chan_post(&w->chan, &m);
}

static void awake(const struct lock_cfg *cfg, struct world *w, unsigned int r, unsigned int t)
{
	struct thread *th = &w->threads[r][t];
	struct msg here = asks(cfg, r, t);

	w->awake[r][t] = 0;
	if (th->status == EAGAIN) {
		th->status = 0;
		local(cfg, w, r, th->record, HE_COME, &here);
		return;
	}
	th->pc = th->status ? PC_READY : PC_INSIDE;
	if (th->status == EBUSY)
		th->left--; /* else it tries again */
	th->status = th->try = th->busy = 0;
}

static void take(const struct lock_cfg *cfg, struct world *w, unsigned int r, unsigned int t)
{
	unsigned int record = (unsigned int)record_in(cfg, w, r, HOLD_CACHED);
	struct msg m = asks(cfg, r, t);

	local(cfg, w, r, record, HE_TAKE, &m);
	if (!w->nline || w->line[0] != (r << 4 | record))
		model_fail("rank %u takes record %u, which has not the lock", r, record);
	enters(w, r, record, t);
	w->threads[r][t].record = (uint8_t)record;
	w->threads[r][t].pc = PC_INSIDE;
}

static void join_line(const struct lock_cfg *cfg, struct world *w, unsigned int r, unsigned int t,
		      unsigned int record)
{
	struct msg m = asks(cfg, r, t);

	w->threads[r][t].record = (uint8_t)record;
	w->threads[r][t].pc = PC_WAIT;
	local(cfg, w, r, record, HE_JOIN, &m);
}

static void unlock(const struct lock_cfg *cfg, struct world *w, unsigned int r, unsigned int t)
{
	struct thread *th = &w->threads[r][t];

	th->pc = PC_READY;
	th->left--;
	local(cfg, w, r, th->record, HE_UNLOCK, NULL);
	th->record = 0;
}

static void swap_in(const struct lock_cfg *cfg, struct world *w, unsigned int r, unsigned int t)
{
	unsigned int record = (unsigned int)record_in(cfg, w, r, HOLD_CACHED);
	struct hold *h = &w->holds[r][record];

	if (!hold_fast_take(&h->word, name_of(h)) || !hold_fast_taken(&h->word, name_of(h)) ||
	    hold_fast_take(&h->word, name_of(h)))
		model_fail("rank %u: the word of record %u is not taken just once", r, record);
	if (!w->nline || w->line[0] != (r << 4 | record))
		model_fail("rank %u takes record %u, which has not the lock", r, record);
	enters(w, r, record, t);
	w->threads[r][t].record = (uint8_t)record;
	w->threads[r][t].pc = PC_INSIDE;
}

static void swap_out(struct world *w, unsigned int r, unsigned int t)
{
	struct thread *th = &w->threads[r][t];
	struct hold *h = &w->holds[r][th->record];

	if (!hold_fast_release(&h->word, name_of(h)) || hold_fast_release(&h->word, name_of(h)))
		model_fail("rank %u: the word of record %u is not released just once", r,
			   th->record);
	th->pc = PC_READY;
	th->left--;
	th->record = 0;
}

static void keep_message(const struct lock_cfg *cfg, struct world *w, const struct wmsg *m)
{
	const struct msg wide = widen(cfg, m);

	hold_want(asked_record(w, m), &wide);
}

static void fire(const void *c, void *world, uint32_t ev)
{
	static const char *const names[] = { "",
					     "locks",
					     "tries to lock",
					     "is awake",
					     "unlocks",
					     "takes it again",
					     "gives it back",
					     "waits behind another",
					     "takes it by its word",
					     "releases it by its word",
					     "keeps it though another waits" };
	unsigned int a = ev >> 8 & 0xff, b = ev & 0xff;
	const struct lock_cfg *cfg = c;
	struct world *w = world;
	unsigned int r, t;

	if ((ev >> 16 & 0xff) != EV_MSG)
		model_say("thread %u.%u %s\n", a, b, names[ev >> 16 & 0xff]);
	switch ((enum event)(ev >> 16 & 0xff)) {
	case EV_LOCK:
	case EV_TRY: lock(cfg, w, a, b, (ev >> 16 & 0xff) == EV_TRY); break;
	case EV_AWAKE: awake(cfg, w, a, b); break;
	case EV_UNLOCK: unlock(cfg, w, a, b); break;
	case EV_TAKE: take(cfg, w, a, b); break;
	case EV_GIVE:
		local(cfg, w, a, (unsigned int)record_in(cfg, w, a, HOLD_CACHED), HE_GIVE, NULL);
		break;
	case EV_JOIN: join_line(cfg, w, a, b, ev >> 24); break;
	case EV_SWAP_IN: swap_in(cfg, w, a, b); break;
	case EV_SWAP_OUT: swap_out(w, a, b); break;
	case EV_KEEP: keep_message(cfg, w, &w->chan.v[a]); break;
	case EV_MSG: deliver(cfg, w, a); break;
	}
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			w->threads[r][t].busy |= w->threads[r][t].try && busy(w);
}

static void canon(const void *c, void *world)
{
	const struct lock_cfg *cfg = c;
	struct world *w = world;
	unsigned int r, i;

	chan_canon(&w->chan, cfg->fifo);
	for (r = 0; r < cfg->nnodes; r++)
		for (i = 0; i < cfg->records; i++) {
			struct hold *h = &w->holds[r][i];

			h->state = hold_state(h);
			if (h->state == HOLD_FREE)
				*h = (struct hold){ 0 };
			if (h->state != HOLD_WAIT_NEXT && h->state != HOLD_HELD_NEXT)
				h->next_node = h->next_slot = h->next_hold = 0;
		}
}

static void check(const void *c, const void *world)
{
	const struct lock_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t, inside = 0;
	bool rest = !w->chan.n;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++) {
			inside += w->threads[r][t].pc == PC_INSIDE;
			inside += w->threads[r][t].pc == PC_WAIT && w->awake[r][t] &&
				!w->threads[r][t].status;
			rest = rest && w->threads[r][t].pc == PC_READY;
		}
	if (inside > 1)
		model_fail("%u threads hold the lock", inside);
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->records; t++)
			if (w->holds[r][t].wanted && w->holds[r][t].word)
				model_fail("record %u of rank %u is wanted, and fast", t, r);
	for (r = 0; r < cfg->nnodes && rest; r++)
		for (t = 0; t < cfg->records; t++)
			if (w->holds[r][t].wanted ||
			    (hold_state(&w->holds[r][t]) != HOLD_FREE &&
			     (hold_state(&w->holds[r][t]) != HOLD_CACHED ||
			      w->holds[r][t].turn != TURN_NONE || w->nline != 1 ||
			      w->line[0] != (r << 4 | t))))
				model_fail("at rest, but record %u of rank %u is %s", t, r,
					   hold_state_name(hold_state(&w->holds[r][t])));
	if (rest && w->nline > 1)
		model_fail("at rest, but %u are in line", w->nline);
	if (rest && !sync_idle(&w->home) == !w->nline)
		model_fail("at rest, but the home takes the lock for %s",
			   w->nline ? "free" : "held");
}

static bool final(const void *c, const void *world)
{
	const struct lock_cfg *cfg = c;
	const struct world *w = world;
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
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
	for (r = 0; r < cfg->nnodes; r++) {
		for (t = 0; t < cfg->records; t++)
			model_say("    rank %u record %u: %s\n", r, t,
				  hold_state_name(hold_state(&w->holds[r][t])));
		for (t = 0; t < cfg->nthreads; t++)
			model_say("    thread %u.%u: pc %u, %u to do\n", r, t, w->threads[r][t].pc,
				  w->threads[r][t].left);
	}
}

const struct model lock_model = MODEL(struct world);
