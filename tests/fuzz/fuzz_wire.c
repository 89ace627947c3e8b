// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_wire.c - what a malicious peer can do to the core by messages: libFuzzer target.
 *
 * The input is a sequence of records: a byte that says what happens (a message comes, a thread of this rank faults,
 * locks, arrives at a barrier ...) and 32 bytes. Messages that wire_check() passes go to the state machines of a small
 * world, as an engine would hand them: it checks which object a message is for, and nothing else. Garbage may be
 * refused, requests may be granted or stay unanswered for good; but no memory is touched outside the world, action lists
 * stay within bounds, nothing is sent to a rank that is not there, queues stay queues, and work for one message ends.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/barrier.h"
#include "core/dir.h"
#include "core/lock.h"
#include "core/page.h"
#include "core/set.h"
#include "core/sync.h"
#include "core/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 4
#define RANKS_MAX 130 /* past 64: coarse sets */
#define BLOCKS 4
#define OBJECTS 6
#define HOLDS 4
#define BARRIERS 2
#define PENDING 1024
#define STEPS_MAX (4 * RANKS_MAX * SLOTS) /* for one record: all that can wait, and what follows from it */

#define must(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "fuzz_wire: line %d: not so: %s\n", __LINE__, #x); \
			abort(); \
		} \
	} while (0)

/* All in the heap, each by itself: AddressSanitizer sees who leaves his own. */
struct world {
	uint16_t me, nranks;
	uint32_t now;
	struct qnode *nodes;
	struct dir *dirs;
	struct copy *pages;
	struct sync *objects;
	struct hold *holds;
	struct bar *bars;
	struct msg pending[PENDING]; /* from this rank to itself */
	unsigned int head, tail, steps;
};

static void dispatch(struct world *w, const struct msg *m);

/* ---- what must hold ------------------------------------------------------------------------- */

static void check_queue(const struct world *w, uint32_t tail, uint8_t *seen)
{
	const uint32_t nnodes = (uint32_t)w->nranks * SLOTS;
	uint32_t at = tail, n = 0;

	if (!tail)
		return;
	do {
		must(at >= 1 && at <= nnodes);
		must(!seen[at - 1]); /* neither here nor in another queue */
		seen[at - 1] = 1;
		must(w->nodes[at - 1].type);
		at = w->nodes[at - 1].next;
		must(++n <= nnodes);
	} while (at != tail);
}

static void check_world(const struct world *w)
{
	uint8_t seen[RANKS_MAX * SLOTS] = { 0 };
	unsigned int i;

	for (i = 0; i < BLOCKS; i++)
		check_queue(w, w->dirs[i].tail, seen);
	for (i = 0; i < OBJECTS; i++)
		if (w->objects[i].kind != SYNC_MUTEX)
			check_queue(w, w->objects[i].tail, seen);
	for (i = 0; i < BLOCKS; i++) {
		must(w->pages[i].state < PG_STATES);
		must(w->pages[i].held < PE_EVENTS);
		must(w->pages[i].home <= w->nranks);
		must(w->dirs[i].owner < w->nranks);
	}
	for (i = 0; i < HOLDS; i++)
		must(w->holds[i].state < HOLD_STATES);
}

static void check_action(const struct world *w, const struct action *a)
{
	uint16_t g = set_granule(w->nranks);

	switch ((enum act)a->type) {
	case ACT_SEND:
	case ACT_DATA:
		must(a->msg.dst < w->nranks);
		must(a->msg.version == WIRE_VERSION);
		must(a->msg.type && a->msg.type < MSG_TYPES);
		break;
	case ACT_MCAST:
		must(set_next(a->mask, 0, w->nranks, g, SET_NOBODY, SET_NOBODY) <= w->nranks);
		break;
	case ACT_WAKE:
	case ACT_WAIT:
		must(a->slot < SLOTS);
		break;
	case ACT_RESUME:
		must(a->rank == SET_NOBODY || (a->rank < w->nranks && a->slot < SLOTS));
		break;
	case ACT_OPEN:
		must(a->prot <= PROT_RW && a->from <= OPEN_ZERO);
		break;
	case ACT_LAND:
	case ACT_CLOSE:
	case ACT_TIMER:
	case ACT_WAKE_ALL:
		break;
	}
}

/* ---- the host ------------------------------------------------------------------------------- */

static void later(struct world *w, const struct msg *m)
{
	must(w->tail - w->head < PENDING);
	w->pending[w->tail++ % PENDING] = *m;
}

static void carry_out(struct world *w, int err, const struct actions *out)
{
	unsigned int i;

	must(!err || err == -EBADMSG);
	if (err)
		return;
	must(out->n < ACTIONS_MAX); /* the last place is where an overflow would go */
	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];

		check_action(w, a);
		if (a->type == ACT_RESUME ||
		    ((a->type == ACT_SEND || a->type == ACT_DATA) && a->msg.dst == w->me))
			later(w, &a->msg);
		if (a->type == ACT_MCAST && set_has(a->mask, w->me, set_granule(w->nranks)) &&
		    w->me != a->msg.req_rank && w->me != a->except) {
			struct msg m = a->msg;

			m.dst = w->me;
			later(w, &m);
		}
	}
}

static uint64_t combine(uint8_t op, uint64_t a, uint64_t b)
{
	return op + a + b;
}

static void step_block(struct world *w, const struct msg *m, struct actions *out)
{
	static const uint8_t events[MSG_TYPES] = {
		[MSG_DATA] = PE_DATA,       [MSG_GRANT] = PE_GRANT,       [MSG_INV] = PE_INV,
		[MSG_INV_ACK] = PE_INV_ACK, [MSG_FWD_READ] = PE_FWD_READ, [MSG_FWD_WRITE] = PE_FWD_WRITE,
	};
	const struct page_ctx page = { .me = w->me, .now = w->now, .hold_us = 10 };
	const struct dir_ctx dir = { .me = w->me, .nranks = w->nranks, .queue = { w->nodes, SLOTS } };

	if (m->object >= BLOCKS)
		return;
	if (events[m->type])
		carry_out(w, page_step(&page, &w->pages[m->object], events[m->type], m, out), out);
	else
		carry_out(w, dir_step(&dir, &w->dirs[m->object], m, out), out);
}

static void step_object(struct world *w, const struct msg *m, struct actions *out)
{
	const struct sync_ctx ctx = { .me = w->me, .queue = { w->nodes, SLOTS } };

	if (m->object >= OBJECTS)
		return;
	if (m->type == MSG_SYNC || m->type == MSG_RESUME)
		carry_out(w, sync_step(&ctx, &w->objects[m->object], m, out), out);
	else if (w->objects[m->object].kind == SYNC_MUTEX)
		carry_out(w, lock_home_step(w->me, &w->objects[m->object], m, out), out);
}

static void step_hold(struct world *w, const struct msg *m, struct actions *out)
{
	enum hold_event ev = m->type == MSG_LOCKED ? HE_LOCKED : m->type == MSG_NEXT ? HE_NEXT :
			     m->count ? HE_REFUSED : HE_FREED;

	if (m->home < HOLDS)
		carry_out(w, hold_step(w->me, m->home, &w->holds[m->home], ev, m, out), out);
}

static void step_bar(struct world *w, const struct msg *m, struct actions *out)
{
	struct bar *b = &w->bars[m->object % BARRIERS];
	struct bar_tree t;
	bool known = (b->threads || m->src == w->me) && !bar_tree(b->mask, w->nranks, w->me, &t);

	if (m->object < BARRIERS)
		carry_out(w, bar_step(w->me, known ? &t : NULL, combine, b, m, out), out);
}

static void dispatch(struct world *w, const struct msg *m)
{
	struct actions out;

	must(++w->steps < STEPS_MAX);
	switch (m->type) {
	case MSG_LOCK:
	case MSG_TRYLOCK:
	case MSG_UNLOCK:
	case MSG_SYNC:
		step_object(w, m, &out);
		break;
	case MSG_RESUME:
		if (m->op)
			step_object(w, m, &out);
		else
			step_block(w, m, &out);
		break;
	case MSG_NEXT:
	case MSG_LOCKED:
	case MSG_FREED:
		step_hold(w, m, &out);
		break;
	case MSG_ARRIVE:
	case MSG_DEPART:
		step_bar(w, m, &out);
		break;
	case MSG_REPLY:
	case MSG_RELEASE:
	case MSG_CALL:
	case MSG_RETURN:
	case MSG_PING:
	case MSG_BYE:
		break; /* the engine's */
	default:
		step_block(w, m, &out);
	}
}

/* ---- this rank's own threads ---------------------------------------------------------------- */

static void local_page(struct world *w, enum page_event ev, const struct msg *in)
{
	const struct page_ctx ctx = { .me = w->me, .now = w->now, .hold_us = 10 };
	struct msg m = { .object = in->object % BLOCKS, .req_rank = w->me, .req_slot = in->req_slot % SLOTS,
			 .flags = in->flags & MSGF_FIRST_TOUCH };
	struct copy *p = &w->pages[m.object];
	struct actions out;

	m.home = (uint16_t)(m.object % w->nranks);
	if (in->op & 1 && ev == PE_READ)
		page_pin(p, in->op & 2);
	if (in->op & 1 && ev == PE_UNHOLD)
		page_unpin(p, in->op & 2);
	carry_out(w, page_step(&ctx, p, ev, &m, &out), &out);
}

static void local_hold(struct world *w, const struct msg *in)
{
	uint16_t index = in->home % HOLDS;
	struct hold *h = &w->holds[index];
	struct msg m = { .object = in->object };
	struct actions out;

	if (h->state == HOLD_FREE) {
		*h = (struct hold){ .state = HOLD_WAITING, .home = in->src % w->nranks, .object = in->object % OBJECTS,
				    .slot = in->req_slot % SLOTS };
		m = (struct msg){ .version = WIRE_VERSION, .type = in->op & 1 ? MSG_LOCK : MSG_TRYLOCK, .src = w->me,
				  .dst = h->home, .object = h->object, .req_rank = w->me, .req_slot = h->slot,
				  .home = index };
		if (h->home == w->me)
			later(w, &m);
	} else if (h->state == HOLD_HELD || h->state == HOLD_HELD_NEXT) {
		carry_out(w, hold_step(w->me, index, h, HE_UNLOCK, &m, &out), &out);
	}
}

static void local_arrive(struct world *w, const struct msg *in)
{
	struct msg m = { .version = WIRE_VERSION, .type = MSG_ARRIVE, .src = w->me, .dst = w->me, .op = in->op,
			 .object = in->object % BARRIERS, .value = in->value, .aux = in->aux % 4 + 1 };
	struct bar *b = &w->bars[m.object];

	if (!b->threads)
		b->mask = in->value & 1 ? in->value | 1ull << (w->me % 64) : 0;
	if (w->nranks < 64)
		b->mask &= (1ull << w->nranks) - 1;
	if (w->me < 64 || !b->mask)
		dispatch(w, &m);
}

/* ---- the target ----------------------------------------------------------------------------- */

/* Most random bytes are no message: repair what would be refused at the door, and make small what is small. */
static void repair(const struct world *w, uint8_t how, struct msg *m)
{
	m->version = WIRE_VERSION;
	m->type = m->type % (MSG_TYPES - 1) + 1;
	m->op %= SYNC_OPS;
	m->flags &= 15;
	m->dst = w->me;
	m->src = (uint16_t)(m->src % w->nranks);
	m->req_slot %= SLOTS;
	m->object %= OBJECTS + 1;
	m->req_rank = how & 0x20 ? w->me : how & 0x40 ? m->src : (uint16_t)(m->req_rank % w->nranks);
	if (how & 0x10)
		m->home %= 4;
	if (how & 1)
		m->count %= 3;
	if (how & 2)
		m->value &= 0x1ffff;
}

static void record(struct world *w, uint8_t how, const uint8_t *bytes)
{
	struct msg m;

	memcpy(&m, bytes, sizeof(m));
	w->now += how >> 6;
	w->steps = 0;
	switch (how & 0xf) {
	case 0: local_page(w, PE_READ, &m); break;
	case 1: local_page(w, PE_WRITE, &m); break;
	case 2: local_page(w, PE_USED, &m); break;
	case 3: local_page(w, PE_UNHOLD, &m); break;
	case 4: local_page(w, PE_DROP, &m); break;
	case 5: local_hold(w, &m); break;
	case 6: local_arrive(w, &m); break;
	default:
		if (how & 0x88)
			repair(w, how, &m);
		if (!wire_check(&m, w->me, w->nranks, SLOTS))
			dispatch(w, &m);
	}
	while (w->head != w->tail) {
		m = w->pending[w->head++ % PENDING];
		dispatch(w, &m);
	}
	check_world(w);
}

static void *zeroed(size_t n, size_t each)
{
	void *p = calloc(n, each);

	must(p);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t sizes[] = { 3, 64, RANKS_MAX };
	static const uint8_t kinds[OBJECTS] = { SYNC_MUTEX, SYNC_RWLOCK, SYNC_COND, SYNC_SEM, SYNC_ATOMIC, SYNC_NONE };
	const size_t each = 1 + sizeof(struct msg);
	struct world *w;
	unsigned int i;

	if (size < 2)
		return 0;
	w = zeroed(1, sizeof(*w));
	w->nranks = sizes[data[0] % 3];
	w->me = (uint16_t)(data[1] % w->nranks);
	w->nodes = zeroed((size_t)w->nranks * SLOTS, sizeof(*w->nodes));
	w->dirs = zeroed(BLOCKS, sizeof(*w->dirs));
	w->pages = zeroed(BLOCKS, sizeof(*w->pages));
	w->objects = zeroed(OBJECTS, sizeof(*w->objects));
	w->holds = zeroed(HOLDS, sizeof(*w->holds));
	w->bars = zeroed(BARRIERS, sizeof(*w->bars));
	for (i = 0; i < OBJECTS; i++)
		w->objects[i].kind = kinds[i];
	for (data += 2, size -= 2; size >= each; data += each, size -= each)
		record(w, data[0], data + 1);
	free(w->bars);
	free(w->holds);
	free(w->objects);
	free(w->pages);
	free(w->dirs);
	free(w->nodes);
	free(w);
	return 0;
}
