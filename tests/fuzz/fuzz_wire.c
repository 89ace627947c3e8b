// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_wire.c - what a malicious peer can do to the core by messages: libFuzzer target.
 *
 * The input is a sequence of records: a byte that says what happens (a message comes, a thread of
 * this rank faults, locks, arrives at a barrier ...) and 32 bytes. Messages that wire_check()
 * passes go to the state machines of a small world, as an engine would hand them: it checks which
 * object a message is for, and nothing else. Garbage may be refused, requests may be granted or
 * stay unanswered for good; but no memory is touched outside the world, action lists stay within
 * bounds, nothing is sent to a rank that is not there, queues stay queues, and work for one message
 * ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include "core/dispatch.h"
#include "core/set.h"
#include "core/wire.h"
#include "../wire_values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 4
#define RANKS_MAX 130 /* past 64: coarse sets */
#define BLOCKS 4
#define OBJECTS 7
#define HOLDS 4
#define BARRIERS 2
#define HELD 5 /* messages that wait for a close */
#define PENDING 1024
/* for one record: all that can wait, and what follows from it */
#define STEPS_MAX (4 * RANKS_MAX * SLOTS)

/* All in the heap, each by itself: AddressSanitizer sees who leaves his own. */
struct world {
	uint16_t me, nnodes;
	uint32_t now;
	struct queue_entry *nodes;
	struct dir *dirs;
	struct copy *pages;
	struct sync *objects;
	struct object_list list;
	uint64_t asks[SLOTS];
	struct hold *holds;
	struct bar *bars;
	struct closing closing;
	struct closing_peer *peers;
	struct closing_held *held;
	struct rel_lists lists;
	struct msg pending[PENDING]; /* from this rank to itself */
	unsigned int head, tail, steps;
};

static void dispatch(struct world *w, const struct msg *m);

/* ---- what must hold ------------------------------------------------------------------------- */

static void check_queue(const struct world *w, uint32_t tail, uint8_t *seen)
{
	const uint32_t nentries = (uint32_t)w->nnodes * SLOTS;
	uint32_t at = tail, n = 0;

	if (!tail)
		return;
	do {
		must(at >= 1 && at <= nentries);
		must(!seen[at - 1]); /* neither here nor in another queue */
		seen[at - 1] = 1;
		must(w->nodes[at - 1].type);
		at = w->nodes[at - 1].next;
		must(++n <= nentries);
	} while (at != tail);
}

static void check_world(const struct world *w)
{
	uint8_t seen[RANKS_MAX * SLOTS] = { 0 };
	unsigned int i;

	for (i = 0; i < BLOCKS; i++)
		check_queue(w, w->dirs[i].tail, seen);
	for (i = 0; i < OBJECTS; i++)
		if (w->objects[i].kind != SYNC_MUTEX && w->objects[i].kind != SYNC_NONE)
			check_queue(w, w->objects[i].tail, seen);
	for (i = 0; i < BLOCKS; i++) {
		must(w->pages[i].state < PG_STATES);
		must(w->pages[i].held < PE_EVENTS);
		must(w->pages[i].home <= w->nnodes);
		must(w->dirs[i].owner < w->nnodes);
	}
	for (i = 0; i < HOLDS; i++)
		must(w->holds[i].state < HOLD_STATES);
}

static void check_action(const struct world *w, const struct action *a)
{
	uint16_t g = set_granule(w->nnodes);

	switch ((enum act)a->type) {
	case ACT_SEND:
	case ACT_DATA:
		must(a->msg.dst < w->nnodes);
		must(a->msg.version == WIRE_VERSION);
		must(a->msg.type && a->msg.type < MSG_TYPES);
		break;
	case ACT_MCAST:
		must(set_next(a->mask, 0, w->nnodes, g, SET_NOBODY, SET_NOBODY) <= w->nnodes);
		break;
	case ACT_WAKE:
	case ACT_WAIT: must(a->slot < SLOTS); break;
	case ACT_RESUME:
		must(a->node == SET_NOBODY || (a->node < w->nnodes && a->slot < SLOTS));
		break;
	case ACT_OPEN: must(a->prot <= PROT_RW && a->from <= OPEN_ZERO); break;
	case ACT_REPLY: must(a->slot < SLOTS && a->prot <= 1); break;
	case ACT_BLAME: must(a->node < w->nnodes); break;
	case ACT_LAND:
	case ACT_CLOSE:
	case ACT_TIMER:
	case ACT_FETCH:
	case ACT_WAKE_ALL:
	case ACT_TWIN:
	case ACT_UNTWIN:
	case ACT_MERGE:
	case ACT_NOTICE:
	case ACT_TELL:
	case ACT_GATHER:
	case ACT_DRAIN: break;
	case ACT_AFTER:
	case ACT_DELIVER:
		must(a->msg.dst < w->nnodes);
		must(closing_releases(&a->msg));
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

	must(!err || err == -EBADMSG || err == -ESTALE);
	if (err)
		return;
	must(out->n < ACTIONS_MAX); /* the last place is where an overflow would go */
	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];

		check_action(w, a);
		if (a->type == ACT_RESUME ||
		    ((a->type == ACT_SEND || a->type == ACT_DATA) && a->msg.dst == w->me))
			later(w, &a->msg);
		if (a->type == ACT_MCAST && set_has(a->mask, w->me, set_granule(w->nnodes)) &&
		    w->me != a->msg.req_node && w->me != a->except) {
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

static void fetch(struct world *w, const struct action *a)
{
	struct msg m = { .object = a->msg.object,
			 .req_node = w->me,
			 .req_slot = SLOTS - 1,
			 .home = a->msg.home,
			 .flags = a->msg.flags };
	const struct page_ctx ctx = {
		.me = w->me, .nnodes = w->nnodes, .now = w->now, .hold_us = 10
	};
	struct actions out;

	carry_out(w,
		  page_step(&ctx, &w->pages[m.object], a->prot == PROT_RW ? PE_WRITE : PE_READ, &m,
			    &out),
		  &out);
}

static struct closing_ctx closes_of(struct world *w)
{
	return (struct closing_ctx){ .me = w->me,
				     .nnodes = w->nnodes,
				     .lists = &w->lists,
				     .peers = w->peers,
				     .held = w->held,
				     .nheld = HELD };
}

static int close_step(struct world *w, enum closing_event ev, const struct msg *m)
{
	const struct closing_ctx ctx = closes_of(w);
	const struct msg none = { .src = w->me, .dst = w->me };
	struct actions out;
	int err = closing_step(&ctx, &w->closing, ev, m, &out), more = err;

	for (;;) {
		carry_out(w, more == -ENOSPC ? -EBADMSG : more, &out);
		if (more || !out.n || out.v[out.n - 1].type != ACT_DRAIN)
			return err;
		more = closing_step(&ctx, &w->closing, CE_DRAIN, &none, &out);
	}
}

/* The messages of release blocks that the host takes apart. */
static void closes(struct world *w, const struct msg *m)
{
	const struct closing_ctx ctx = closes_of(w);
	struct msg inside = { .version = WIRE_VERSION,
			      .type = m->value >> 8 & 63,
			      .src = m->src,
			      .dst = w->me },
		   note = *m;
	struct actions out;
	int err;

	switch (m->type) {
	case MSG_FLUSH:
		if (close_step(w, CE_FLUSH, m))
			return;
		note.dst = (uint16_t)((m->value >> 4) % w->nnodes);
		close_step(w, CE_SPREAD, &note);
		close_step(w, CE_MERGED, m);
		break;
	case MSG_NOTE: close_step(w, CE_NOTE, m); break;
	case MSG_AFTER:
		err = closing_after(&ctx, &w->closing, m, &inside, &out);
		carry_out(w, err == -ENOSPC ? -EBADMSG : err, &out);
		break;
	default: break;
	}
}

/* This node releases, or its close goes on. */
static void local_close(struct world *w, const struct msg *in)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_LOCKED,
			 .src = w->me,
			 .dst = in->dst % w->nnodes,
			 .req_node = w->me };

	w->lists.opened = in->op & 1;
	close_step(w, (enum closing_event)(in->aux % (CE_GATHERED + 1u)), &m);
}

/*
 * As miss/step.c and kmod/node/step.c; every third block is of a region that this rank does not
 * know.
 */
static void dispatch(struct world *w, const struct msg *m)
{
	const struct objects objects = { .list = &w->list, .flat = w->objects, .limit = OBJECTS };
	struct dispatch d = { .me = w->me,
			      .leases = true,
			      .nnodes = w->nnodes,
			      .now = w->now,
			      .follow = DIR_FOLLOW,
			      .brief = true,
			      .hold_us = 10,
			      .queue = { w->nodes, SLOTS, NULL },
			      .objects = &objects,
			      .combine = combine };
	const struct closing_ctx ctx = closes_of(w);
	uint32_t number, missing;
	struct actions out;
	unsigned int i;
	int err;

	must(++w->steps < STEPS_MAX);
	switch (dispatch_target(m, &number)) {
	case TARGET_BLOCK:
		must(number < BLOCKS);
		d.page = &w->pages[number];
		d.dir = &w->dirs[number];
		d.manager = number % 3 ? (uint16_t)(number % w->nnodes) : SET_NOBODY;
		break;
	case TARGET_CREATE:
		d.index = objects_take(&objects, &missing);
		d.object = objects_at(&objects, d.index);
		break;
	case TARGET_OBJECT: d.object = objects_at(&objects, number); break;
	case TARGET_HOLD:
		must(number < HOLDS);
		d.hold = &w->holds[number];
		break;
	case TARGET_BARRIER:
		must(number < BARRIERS);
		d.bar = &w->bars[number];
		break;
	case TARGET_SLOT:
		must(number < SLOTS);
		d.ask = &w->asks[number];
		break;
	case TARGET_CLOSING:
		d.closing = &w->closing;
		d.closes = &ctx;
		break;
	case TARGET_HOST: closes(w, m); return;
	case TARGET_NONE: return;
	}
	err = dispatch_step(&d, m, &out);
	carry_out(w, err == -ESTALE ? -EBADMSG : err, &out);
	for (i = 0; !err && i < out.n; i++)
		if (out.v[i].type == ACT_FETCH)
			fetch(w, &out.v[i]);
}

/* ---- this rank's own threads ---------------------------------------------------------------- */

static void local_page(struct world *w, enum page_event ev, const struct msg *in)
{
	const struct page_ctx ctx = {
		.me = w->me, .nnodes = w->nnodes, .now = w->now, .hold_us = 10
	};
	struct msg m = { .object = in->object % BLOCKS,
			 .req_node = w->me,
			 .req_slot = in->req_slot % SLOTS,
			 .flags = in->flags & MSGF_FIRST_TOUCH };
	struct copy *p = &w->pages[m.object];
	struct actions out;

	m.home = (uint16_t)(m.object % w->nnodes);
	if (in->op & 1 && ev == PE_READ)
		page_pin(p, in->op & 2);
	if (in->op & 1 && ev == PE_REPLAY)
		page_unpin(p, in->op & 2);
	carry_out(w, page_step(&ctx, p, ev, &m, &out), &out);
}

static void local_hold(struct world *w, const struct msg *in)
{
	const struct hold_ctx ctx = { .me = w->me };
	uint16_t index = in->home % HOLDS;
	struct hold *h = &w->holds[index];
	struct actions out;
	struct msg m;

	if (h->state == HOLD_FREE) {
		m = (struct msg){ .version = WIRE_VERSION,
				  .type = in->op & 1 ? MSG_LOCK : MSG_TRYLOCK,
				  .src = w->me,
				  .dst = in->src % w->nnodes,
				  .object = 1 + in->object % (OBJECTS - 1),
				  .req_slot = in->req_slot % SLOTS,
				  .aux = index };
		object_address(&m, object_name(m.object, w->objects[m.object].gen));
		hold_begin(h, &m);
		if (h->home == w->me)
			later(w, &m);
	} else if (h->state == HOLD_HELD || h->state == HOLD_HELD_NEXT) {
		carry_out(w, hold_thread(&ctx, index, h, HE_UNLOCK, NULL, &out), &out);
	} else if (h->state == HOLD_CACHED) {
		carry_out(w,
			  hold_thread(&ctx, index, h, in->op & 2 ? HE_TAKE : HE_GIVE, NULL, &out),
			  &out);
	}
}

/* A question of this rank's: what may come back of it? */
static void local_ask(struct world *w, const struct msg *in)
{
	static const uint8_t types[] = { MSG_SYNC, MSG_PLACE, MSG_RELEASE, MSG_SETTLE };
	struct msg m = { .version = WIRE_VERSION,
			 .type = types[in->type & 3],
			 .op = in->op % SYNC_OPS,
			 .flags = in->flags & MSGF_TIMED,
			 .src = w->me,
			 .dst = in->src % w->nnodes,
			 .object = in->object % OBJECTS,
			 .req_slot = in->req_slot % SLOTS };

	ask_note(&w->asks[m.req_slot], &m);
}

static void local_arrive(struct world *w, const struct msg *in)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_ARRIVE,
			 .src = w->me,
			 .dst = w->me,
			 .op = in->op,
			 .object = in->object % BARRIERS,
			 .value = in->value,
			 .aux = in->aux % 4 + 1 };
	struct bar *b = &w->bars[m.object];

	if (m.object)
		bar_set_life(&m, in->req_slot % 4);
	if (!b->threads)
		b->mask = in->value & 1 ? in->value | 1ull << (w->me % 64) : 0;
	if (w->nnodes < 64)
		b->mask &= (1ull << w->nnodes) - 1;
	if (w->me < 64 || !b->mask)
		dispatch(w, &m);
}

/* ---- the target ----------------------------------------------------------------------------- */

/*
 * Most random bytes are no message: what would be refused at the door is made good by the table,
 * and then up to three fields get a value of the edge of their rule, or one just outside, which the
 * door must refuse.
 */
static void repair(const struct world *w, uint8_t how, const struct wire_limits *lim, struct msg *m)
{
	const struct msg raw = *m;
	unsigned int changes = how >> 4 & 3, i;

	*m = wire_good((uint8_t)(raw.type % (MSG_TYPES - 1) + 1), (uint16_t)(raw.src % w->nnodes),
		       lim);
	for (i = WF_flags; i < WIRE_FIELD_COUNT; i++) {
		const enum wire_field f = (enum wire_field)i;
		int64_t lo, hi, v = wire_get(&raw, f);

		if (i == WF_src || i == WF_dst)
			continue;
		wire_range(wire_rule_of(m->type, f), m, lim, &lo, &hi);
		if (lo > INT64_MIN && (v < lo || v > hi))
			v = lo + (int64_t)((uint64_t)v % ((uint64_t)(hi - lo) + 1));
		wire_set(m, f, v);
	}
	if (wire_rule_of(m->type, WF_object) == RULE_INDEX || m->type == MSG_SYNC)
		m->object %= OBJECTS;
	/* By its right name, mostly. */
	if (wire_rule_of(m->type, WF_req_node) == RULE_GEN && how & 0xc0)
		object_address(m, object_name(m->object, w->objects[m->object].gen));
	for (i = 0; i < changes; i++) {
		const enum wire_field f =
			(enum wire_field)((raw.value >> (8 * i)) % WIRE_FIELD_COUNT);
		int64_t values[WIRE_VALUES_MAX], lo, hi;
		const unsigned int n = wire_values(m, f, lim, values);
		const int64_t v = values[(raw.value >> (8 * i + 24)) % n];

		if (f == WF_type || !wire_set(m, f, v) || wire_rule_of(m->type, f) == RULE_CAS ||
		    wire_rule_of(m->type, f) == RULE_KIND)
			continue;
		wire_range(wire_rule_of(m->type, f), m, lim, &lo, &hi);
		must(v >= lo && v <= hi ? true : wire_check(m, lim));
	}
}

static void record(struct world *w, uint8_t how, const uint8_t *bytes)
{
	const struct wire_limits lim = { .me = w->me,
					 .nnodes = w->nnodes,
					 .ranks = w->nnodes,
					 .host = HOST_BOTH,
					 .calls = 4,
					 .block_slots = SLOTS,
					 .slots = SLOTS,
					 .holds = HOLDS,
					 .barriers = BARRIERS,
					 .pages = BLOCKS };
	struct msg m;

	memcpy(&m, bytes, sizeof(m));
	w->now += how >> 6;
	w->steps = 0;
	switch (how & 0xf) {
	case 0: local_page(w, PE_READ, &m); break;
	case 1: local_page(w, PE_WRITE, &m); break;
	case 2: local_page(w, PE_USED, &m); break;
	case 3: local_page(w, PE_REPLAY, &m); break;
	case 4: local_page(w, PE_DROP, &m); break;
	case 5: local_hold(w, &m); break;
	case 6: local_arrive(w, &m); break;
	case 7:
		if (m.flags & 1)
			local_close(w, &m);
		else
			local_ask(w, &m);
		break;
	default:
		if (how & 0x88)
			repair(w, how, &lim, &m);
		if (!wire_check(&m, &lim))
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
	static const uint8_t kinds[OBJECTS] = { SYNC_NONE, SYNC_MUTEX,  SYNC_RWLOCK, SYNC_COND,
						SYNC_SEM,  SYNC_ATOMIC, SYNC_NONE };
	const size_t each = 1 + sizeof(struct msg);
	struct world *w;
	unsigned int i;

	if (size < 2)
		return 0;
	w = zeroed(1, sizeof(*w));
	w->nnodes = sizes[data[0] % 3];
	w->me = (uint16_t)(data[1] % w->nnodes);
	w->nodes = zeroed((size_t)w->nnodes * SLOTS, sizeof(*w->nodes));
	w->dirs = zeroed(BLOCKS, sizeof(*w->dirs));
	w->pages = zeroed(BLOCKS, sizeof(*w->pages));
	w->objects = zeroed(OBJECTS, sizeof(*w->objects));
	w->holds = zeroed(HOLDS, sizeof(*w->holds));
	w->bars = zeroed(BARRIERS, sizeof(*w->bars));
	w->peers = zeroed(w->nnodes, sizeof(*w->peers));
	w->held = zeroed(HELD, sizeof(*w->held));
	for (i = 0; i < OBJECTS; i++)
		w->objects[i].kind = kinds[i] & 7;
	w->list.fresh = OBJECTS - 1; /* all in use; who destroys makes room */
	for (data += 2, size -= 2; size >= each; data += each, size -= each)
		record(w, data[0], data + 1);
	free(w->held);
	free(w->peers);
	free(w->bars);
	free(w->holds);
	free(w->objects);
	free(w->pages);
	free(w->dirs);
	free(w->nodes);
	free(w);
	return 0;
}
