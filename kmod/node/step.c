// SPDX-License-Identifier: GPL-2.0
/* step.c - runs the core's dispatcher: finds the object of a message. Each step holds one stripe. */
#include "step.h"
#include "host.h"
#include "rank.h"
#include "region.h"
#include "table.h"

bool step_block_ok(const struct rank *r, u32 object)
{
	u32 pages = block_pages(object), page = block_page(object);
	const struct region *g;

	if (!object || pages > CHUNK_PAGES || page % pages || page >= r->ctx->pages || pages > r->ctx->pages - page)
		return false;
	g = region_at(r, page);
	return !g || pages == 1u << g->order; /* the home of a block may have left its region, or never added it */
}

/* The manager, if the dispatcher checks the sender against it. */
static u16 manager_of(const struct rank *r, const struct msg *m)
{
	const struct region *g;

	if (!dispatch_manager(m))
		return SET_NOBODY;
	g = region_at(r, block_page(m->object));
	return g ? region_home(r, g, block_page(m->object)) : SET_NOBODY;
}

static int block_message(struct rank *r, struct copy *p, struct dir *d, u32 *transfers, const struct msg *m,
			 struct actions *acts)
{
	struct dispatch at __uninitialized; /* only what blocks need is set: clearing takes as long as a step */
	spinlock_t *stripe = block_stripe(r, m->object);
	u16 owner;
	u8 state;
	int err;

	at.me = r->me;
	at.nnodes = r->size;
	at.manager = manager_of(r, m);
	at.follow = DIR_FOLLOW;
	at.pushes = 0; /* only the library's threads push, at barriers, between nodes of the library */
	at.now = now_us();
	at.hold_us = r->hold_us;
	at.queue = (struct qpool){ .nslots = BLOCK_SLOTS, .chunks = r->nodes };
	at.page = p;
	at.dir = d;
	spin_lock(stripe);
	owner = d->owner;
	state = d->state;
	err = dispatch_step(&at, m, acts);
	if (d->owner != owner && d->state == DIR_EXCLUSIVE && (state == DIR_SHARED || state == DIR_EXCLUSIVE))
		count(*transfers, 1); /* before the grant is sent: its receiver must find it counted */
	spin_unlock(stripe);
	return err;
}

/*
 * Does the message begin an operation? Only then allocate 22 KiB of state for the 2 MiB. Any other message is for a block that
 * has state, or is refused.
 */
static bool begins(const struct msg *m)
{
	return m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ || m->type == MSG_PLACE || m->type == MSG_SETTLE;
}

/* -EAGAIN: out of memory in this context. */
static int step_block(struct rank *r, const struct msg *m, struct actions *acts)
{
	const u32 at = block_page(m->object) % CHUNK_PAGES;
	struct copy no_copy = { 0 };
	struct dir no_dir = { 0 };
	u32 no_transfers = 0;
	struct state *st;

	if (!step_block_ok(r, m->object))
		return -EBADMSG;
	st = begins(m) ? table_state(r, block_page(m->object), GFP_ATOMIC)
		       : READ_ONCE(r->states[block_page(m->object) / CHUNK_PAGES]);
	if (st)
		return block_message(r, &st->copies[at], &st->dirs[at], &st->transfers[at], m, acts);
	return begins(m) ? -EAGAIN : block_message(r, &no_copy, &no_dir, &no_transfers, m, acts);
}

static struct dir_ctx dir_ctx(struct rank *r)
{
	return (struct dir_ctx){
		.me = r->me,
		.nnodes = r->size,
		.manager = SET_NOBODY,
		.queue = { .nslots = BLOCK_SLOTS, .chunks = r->nodes },
	};
}

static bool is_first(const struct rank *r, const struct copy *p, const struct dir *d)
{
	return d->state <= DIR_PLACED && d->phase == DIR_IDLE && p->state == PG_INVALID &&
		(!p->home || p->home - 1 == r->me);
}

bool step_is_first(struct rank *r, const struct msg *ask)
{
	const u32 page = block_page(ask->object) % CHUNK_PAGES;
	struct state *st;
	bool is;

	rcu_read_lock();
	st = READ_ONCE(r->states[block_page(ask->object) / CHUNK_PAGES]);
	is = st && ask->home == r->me && is_first(r, &st->copies[page], &st->dirs[page]);
	rcu_read_unlock();
	return is;
}

bool step_first(struct rank *r, const struct msg *ask, bool write, struct action *open)
{
	const u32 page = block_page(ask->object) % CHUNK_PAGES;
	struct state *st = READ_ONCE(r->states[block_page(ask->object) / CHUNK_PAGES]);
	spinlock_t *stripe = block_stripe(r, ask->object);
	struct page_ctx page_is = page_ctx(r);
	struct dir_ctx dir_is = dir_ctx(r);
	struct actions acts __uninitialized;
	bool first = false;
	struct copy *p;
	struct msg m;
	struct dir *d;

	if (!st || ask->home != r->me)
		return false;
	p = &st->copies[page];
	d = &st->dirs[page];
	spin_lock(stripe);
	if (is_first(r, p, d)) {
		first = !page_step(&page_is, p, write ? PE_WRITE : PE_READ, ask, &acts);
		m = acts.v[0].msg;
		first = first && !dir_step(&dir_is, d, &m, &acts);
		m = acts.v[0].msg;
		first = first && !page_step(&page_is, p, PE_GRANT, &m, &acts);
		*open = acts.v[0];
		WARN_ON_ONCE(!first);
	}
	spin_unlock(stripe);
	return first;
}

void step_first_used(struct rank *r, const struct msg *ask, struct actions *acts)
{
	const u32 page = block_page(ask->object) % CHUNK_PAGES;
	struct state *st = READ_ONCE(r->states[block_page(ask->object) / CHUNK_PAGES]);
	spinlock_t *stripe = block_stripe(r, ask->object);
	struct page_ctx page_is = page_ctx(r);
	struct dir_ctx dir_is = dir_ctx(r);
	struct msg m;

	acts->n = 0;
	if (!st)
		return;
	spin_lock(stripe);
	/* Does nothing if the process, against the rules, has forgotten the range meanwhile. */
	if (!page_step(&page_is, &st->copies[page], PE_USED, ask, acts) && acts->n) {
		m = acts->v[0].msg;
		if (dir_step(&dir_is, &st->dirs[page], &m, acts))
			acts->n = 0;
	}
	spin_unlock(stripe);
}

static struct objects objects_of(struct rank *r)
{
	return (struct objects){ .list = &r->object_list, .chunks = r->objects, .limit = OBJECTS };
}

bool step_prepare(struct rank *r, const struct msg *m)
{
	u32 number;

	switch (dispatch_target(m, &number)) {
	case TARGET_BLOCK:
		return table_ready(r, m, GFP_CTX) &&
			(!step_block_ok(r, m->object) || !begins(m) || table_state(r, block_page(m->object), GFP_CTX));
	case TARGET_CREATE:
		/* If another object takes this place, OBJECT_CHUNK - 1 more places follow. */
		number = READ_ONCE(r->object_list.fresh) + 1;
		return number >= OBJECTS || table_objects(r, number, GFP_CTX);
	default: return table_ready(r, m, GFP_CTX);
	}
}

static int object_message(struct rank *r, const struct msg *m, u32 index, struct actions *acts)
{
	const struct objects all = objects_of(r);
	const struct dispatch at = {
		.me = r->me,
		.nnodes = r->size,
		.queue = { .nslots = ALL_SLOTS, .chunks = r->lines },
		.objects = &all,
		.object = objects_at(&all, index),
		.index = index,
	};
	spinlock_t *stripe = stripe_of(r, index);
	int err;

	spin_lock(stripe);
	err = dispatch_step(&at, m, acts);
	spin_unlock(stripe);
	return err;
}

/* -EAGAIN: out of memory in this context. */
static int create_object(struct rank *r, const struct msg *m, struct actions *acts)
{
	const struct objects all = objects_of(r);
	u32 missing, index = objects_take(&all, &missing);

	if (!index && missing) {
		if (!table_objects(r, missing, GFP_ATOMIC))
			return -EAGAIN;
		index = objects_take(&all, &missing);
		if (!index && missing)
			return -EAGAIN; /* other requests have used all of the allocated memory */
	}
	return object_message(r, m, index, acts);
}

static struct qpool lines(struct rank *r)
{
	return (struct qpool){ .nslots = ALL_SLOTS, .chunks = r->lines };
}

void step_hold_begin(struct rank *r, u32 index, const struct msg *ask)
{
	spinlock_t *stripe = stripe_of(r, 0x80000000u | index);

	spin_lock(stripe);
	hold_begin(hold_at(r, index), ask);
	spin_unlock(stripe);
}

static struct hold_ctx hold_ctx(struct rank *r)
{
	return (struct hold_ctx){ .me = r->me, .passes = LOCK_PASSES, .queue = lines(r) };
}

int step_held(struct rank *r, u32 index, enum hold_event ev, const struct msg *about, struct actions *acts)
{
	spinlock_t *stripe = stripe_of(r, 0x80000000u | index);
	const struct hold_ctx ctx = hold_ctx(r);
	struct hold *h = hold_at(r, index);
	u8 before;
	int err;

	acts->n = 0;
	if (!h)
		return -EBADMSG;
	spin_lock(stripe);
	before = h->state;
	err = hold_thread(&ctx, index, h, ev, about, acts);
	if (!err && hold_freed(before, h))
		clear_bit(index, r->hold_used);
	spin_unlock(stripe);
	return err;
}

bool step_hold_leave(struct rank *r, u32 index, u16 slot)
{
	spinlock_t *stripe = stripe_of(r, 0x80000000u | index);
	const struct hold_ctx ctx = hold_ctx(r);
	bool found;

	spin_lock(stripe);
	found = hold_leave(&ctx, hold_at(r, index), slot);
	spin_unlock(stripe);
	return found;
}

static int hold_message(struct rank *r, const struct msg *m, u32 index, struct actions *acts)
{
	const struct dispatch at = { .me = r->me, .nnodes = r->size, .queue = lines(r), .hold = hold_at(r, index) };
	spinlock_t *stripe = stripe_of(r, 0x80000000u | index);
	u8 before;
	int err;

	if (!at.hold)
		return -EBADMSG;
	spin_lock(stripe);
	before = at.hold->state;
	err = dispatch_step(&at, m, acts);
	if (!err && hold_freed(before, at.hold))
		clear_bit(index, r->hold_used);
	spin_unlock(stripe);
	return err;
}

static u64 combine(u8 op, u64 a, u64 b)
{
	bool is_signed = !(op >> 4);

	switch (op & 15) { /* the values of enum dsm_op (dsm.h); the library combines floating point */
	case 0: return a + b;
	case 1: return is_signed ? (u64)min((s64)a, (s64)b) : min(a, b);
	case 2: return is_signed ? (u64)max((s64)a, (s64)b) : max(a, b);
	case 3: return a & b;
	case 4: return a | b;
	case 5: return a ^ b;
	case 6: return a * b;
	}
	return 0;
}

int step_barrier(struct rank *r, const struct msg *m, const struct bar_group *group, struct bar_part *part, u32 *gen,
		 struct actions *acts)
{
	const struct dispatch at = { .me = r->me,
				     .nnodes = r->size,
				     .bar = bar_at(r, m->object),
				     .part = part,
				     .group = group,
				     .combine = combine };
	spinlock_t *stripe = stripe_of(r, 0x40000000u | m->object);
	int err;

	if (!at.bar)
		return -EBADMSG;
	spin_lock(stripe);
	err = dispatch_step(&at, m, acts);
	if (gen)
		*gen = (part ? part : &at.bar->part)->gen;
	spin_unlock(stripe);
	return err;
}

static int slot_message(struct rank *r, const struct msg *m, u32 slot, struct actions *acts)
{
	struct slot *s = slot_at(r, slot);
	const struct dispatch at = { .me = r->me, .nnodes = r->size, .ask = s ? &s->ask : NULL };

	return !s ? -EBADMSG : dispatch_step(&at, m, acts);
}

/* wire_check() has checked the numbers in a peer's message. Messages of ranks of this kernel are trusted. */
int step_message(struct rank *r, const struct msg *m, struct actions *acts)
{
	u32 number;

	acts->n = 0;
	if (!table_ready(r, m, GFP_ATOMIC))
		return -EAGAIN;
	switch (dispatch_target(m, &number)) {
	case TARGET_BLOCK: return step_block(r, m, acts);
	case TARGET_CREATE: return create_object(r, m, acts);
	case TARGET_OBJECT: return object_message(r, m, number, acts);
	case TARGET_HOLD: return hold_message(r, m, number, acts);
	case TARGET_BARRIER: return step_barrier(r, m, NULL, NULL, NULL, acts);
	case TARGET_SLOT: return slot_message(r, m, number, acts);
	case TARGET_HOST:
	case TARGET_NONE: break;
	}
	return -EBADMSG;
}
