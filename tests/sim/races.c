// SPDX-License-Identifier: BSD-2-Clause
/*
 * races.c - what programs do with release blocks, and the check of what they see.
 *
 * A program accesses single bytes. Each thread has a vector clock. Synchronisation passes clocks on
 * as the interface says: a mutex from the thread that unlocks it to the next one that has it, a
 * barrier from all to all, and any other object from each operation that releases to each later
 * answer of the object's home. Before an access, the thread looks whether it would race with the
 * last store, or, for a store, with the last loads of others. Such an access is left out. So no
 * program has races, and each load must find the value of the last store.
 */
#include <string.h>

#include "release.h"

#define TRIES 6u /* to find an access that does not race */

/* ---- clocks ---------------------------------------------------------------------------------- */

static void rel_join(const struct sim *s, uint32_t *to, const uint32_t *from)
{
	unsigned int i;

	for (i = 0; i < s->rel->threads; i++)
		if (from[i] > to[i])
			to[i] = from[i];
}

static uint32_t *object_clock(struct sim *s, const struct made *o)
{
	const uint32_t handle = (uint32_t)(o - s->made);
	struct releases *r = s->rel;

	if (handle >= r->nobjects) {
		const uint32_t n = s->made_room;

		r->objects = realloc(r->objects, n * sizeof(*r->objects));
		if (!r->objects)
			abort();
		memset(r->objects + r->nobjects, 0, (n - r->nobjects) * sizeof(*r->objects));
		r->nobjects = n;
	}
	if (!r->objects[handle])
		r->objects[handle] = zeroed(r->threads, sizeof(uint32_t));
	return r->objects[handle];
}

void release_unlocks(struct sim *s, uint16_t node, unsigned int thread, const struct made *o)
{
	if (s->rel)
		rel_join(s, object_clock(s, o), rel_clock(s, rel_thread(s, node, thread)));
}

void release_locked(struct sim *s, uint16_t node, unsigned int thread, const struct made *o)
{
	if (s->rel)
		rel_join(s, rel_clock(s, rel_thread(s, node, thread)), object_clock(s, o));
}

void release_meets(struct sim *s, uint16_t node, unsigned int thread, uint32_t episode, bool leaves)
{
	uint32_t *of, *own;

	if (!s->rel)
		return;
	of = s->rel->barrier[episode & 1];
	own = rel_clock(s, rel_thread(s, node, thread));
	if (leaves) {
		rel_join(s, own, of);
		return;
	}
	if (!s->arrived[episode])
		memset(of, 0, s->rel->threads * sizeof(*of));
	rel_join(s, of, own);
}

/* No clock knows more of a thread than that thread's own. */
void release_told(struct sim *s, uint16_t node, unsigned int thread)
{
	uint32_t *own = rel_clock(s, rel_thread(s, node, thread));
	unsigned int i;

	for (i = 0; i < s->rel->threads; i++)
		if (own[i] < rel_clock(s, i)[i])
			own[i] = rel_clock(s, i)[i];
}

/* What each operation does by the interface, whatever the core's table says. */
static bool tells(const struct msg *m)
{
	return m->type == MSG_SYNC &&
		(m->op == SOP_POST || m->op == SOP_RDUNLOCK || m->op == SOP_WRUNLOCK ||
		 m->op == SOP_SIGNAL || m->op == SOP_BROADCAST || m->op == SOP_ADD ||
		 m->op == SOP_MEET);
}

/* The home of an object that is no mutex has stepped it. */
void release_ordered(struct sim *s, const struct made *o, const struct msg *m,
		     const struct actions *out)
{
	uint32_t *clock;
	unsigned int i;

	if (!s->rel)
		return;
	clock = object_clock(s, o);
	if (tells(m))
		rel_join(s, clock, rel_clock(s, rel_thread(s, m->src, m->req_slot)));
	for (i = 0; i < out->n; i++) {
		const struct msg *a = &out->v[i].msg;

		if (a->type == MSG_REPLY)
			rel_join(s, rel_pending(s, rel_thread(s, a->dst, a->req_slot)), clock);
	}
}

/* ---- what programs do ------------------------------------------------------------------------ */

static bool races(const struct sim *s, const uint32_t *clock, const struct byte *b, bool store)
{
	unsigned int i;

	if (b->by && clock[b->by - 1] < b->when)
		return true;
	for (i = 0; store && i < s->rel->threads; i++)
		if (clock[i] < b->read[i])
			return true;
	return false;
}

/* The access itself. */
static void use_byte(struct sim *s, uint16_t node, unsigned int thread)
{
	const struct thread *t = sim_thread(s, node, thread);
	const unsigned int me = rel_thread(s, node, thread);
	struct rel_block *c = rel_copy_of(s, node, t->rblock);
	struct byte *b = rel_byte(s, t->rblock, t->rbyte);
	uint8_t *at = rel_page(&c->frame) + rel_place(t->rbyte);
	uint32_t *clock = rel_clock(s, me);

	clock[me]++;
	if (!t->rstore) {
		b->read[me] = clock[me];
		s->st.loads++;
		s->st.seen += b->by && (b->by - 1) / s->o.threads != node;
		if (*at != b->value)
			sim_fail(
				s, t->rblock,
				"thread %u.%u reads %u from byte %u of block %u, whose last store is %u",
				node, thread, *at, t->rbyte, t->rblock, b->value);
	} else {
		const struct rel *p = rel_of(s, node, t->rblock);

		if (!c->twin && !c->late &&
		    !(rel_home_of(s, t->rblock) == node &&
		      (p->state == RELH_EXCLUSIVE || p->state == RELH_LENT)))
			sim_fail(s, t->rblock, "node %u writes block %u without a twin", node,
				 t->rblock);
		b->by = me + 1;
		b->when = clock[me];
		*at = ++b->value;
		s->st.stores++;
	}
	sim_note(s, node, t->rblock, "thread %u %s byte %u: %u", thread,
		 t->rstore ? "stores" : "loads", t->rbyte, b->value);
}

static void access_done(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);

	t->touches = 0;
	if (t->op == OP_LOAD || t->op == OP_STORE) {
		thread_next(s, node, thread);
		return;
	}
	t->pc = PC_INSIDE;
	thread_wake(s, node, thread);
}

void release_touch(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	const uint8_t need = t->rstore ? PROT_RW : PROT_RO;

	if (t->pc == PC_WAIT)
		sim_local(s, node, t->rblock, PE_USED, (uint16_t)thread);
	if (rel_copy_of(s, node, t->rblock)->hw >= need) {
		/* while the thread waited, others went on */
		if (s->o.replay)
			replay_touch(s, node);
		else if (races(s, rel_clock(s, rel_thread(s, node, thread)),
			       rel_byte(s, t->rblock, t->rbyte), t->rstore))
			s->st.left_out++;
		else
			use_byte(s, node, thread);
		access_done(s, node, thread);
		return;
	}
	t->pc = PC_TRY;
	sim_local(s, node, t->rblock, t->rstore ? PE_WRITE : PE_READ, (uint16_t)thread);
	if (s->o.replay && t->pc == PC_WAIT)
		replay_ahead(s, node, t->rstore);
}

void release_access(struct sim *s, uint16_t node, unsigned int thread, bool store)
{
	const uint32_t *clock = rel_clock(s, rel_thread(s, node, thread));
	struct thread *t = sim_thread(s, node, thread);
	unsigned int i;

	t->rstore = store;
	t->touches = 1;
	for (i = 0; i < TRIES; i++) {
		t->rblock = s->o.blocks + (uint32_t)sim_random(s, s->rel->blocks);
		t->rbyte = (uint8_t)sim_random(s, RELEASE_BYTES);
		if (!races(s, clock, rel_byte(s, t->rblock, t->rbyte), store)) {
			t->pc = PC_TRY;
			release_touch(s, node, thread);
			return;
		}
	}
	s->st.left_out++;
	access_done(s, node, thread);
}

/* ---- an acquire ------------------------------------------------------------------------------ */

void release_settle(struct sim *s, uint16_t node, unsigned int thread, enum settle then)
{
	struct thread *t = sim_thread(s, node, thread);

	if (!s->rel) {
		sync_settled(s, node, thread, then);
		return;
	}
	t->then = (uint8_t)then;
	t->pc = PC_ACQUIRE;
	t->walks = t->stale = 0;
	thread_wake(s, node, thread);
}

/* One step of it. */
void release_acquire(struct sim *s, uint16_t node, unsigned int thread)
{
	struct thread *t = sim_thread(s, node, thread);
	struct host_node n = sim_node(s, node, NULL);
	bool stale = t->stale;
	int err = t->walks && t->again ? -EAGAIN : 0;

	if (!t->walks) {
		t->entry = core_acquire_begin(&n.h, &err);
		t->walks = !err;
		t->stale = t->again = 0;
	} else if (t->entry) {
		t->entry = core_acquire_next(&n.h, t->entry, &stale, &err);
		t->stale = stale;
		t->again = err != 0;
	} else if (core_acquire_end(&n.h, stale, err)) {
		t->walks = 0;
	} else {
		uint32_t *pending = rel_pending(s, rel_thread(s, node, thread));

		rel_join(s, rel_clock(s, rel_thread(s, node, thread)), pending);
		memset(pending, 0, s->rel->threads * sizeof(*pending));
		sync_settled(s, node, thread, (enum settle)t->then);
		return;
	}
	if (s->o.net)
		thread_wake_after(s, node, thread, 1 + loggp_spend(s, node, 0));
	else
		thread_wake(s, node, thread);
}
