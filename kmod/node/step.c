// SPDX-License-Identifier: GPL-2.0
/*
 * step.c - where the state machines of a rank are: core/host.c asks for the object of each message,
 * and steps it under its stripe. What the home of a block does at the first touch is here as well.
 */
#include "step.h"
#include "host.h"
#include "rank.h"
#include "region.h"
#include "table.h"

bool step_block_ok(const struct rank *r, u32 object)
{
	u32 pages = block_pages(object), page = block_page(object);
	const struct region *g;

	if (!object || pages > CHUNK_PAGES || page % pages || page >= r->ctx->pages ||
	    pages > r->ctx->pages - page)
		return false;
	g = region_at(r, page);
	/* the home of a block may have left its region, or never added it */
	return !g || pages == 1u << g->order;
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

/*
 * Does the message begin an operation? Only then allocate 22 KiB of state for the 2 MiB. Any other
 * message is for a block that has state, or is refused.
 */
static bool begins(const struct msg *m)
{
	return m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ || m->type == MSG_PLACE ||
		m->type == MSG_SETTLE;
}

static int place_block(struct rank *r, u32 object, const struct msg *m, struct core_place *p)
{
	const u32 page = block_page(object), at = page % CHUNK_PAGES;
	struct state *st;

	/* Events of this rank name blocks that it has asked for. */
	if (m->type && !step_block_ok(r, object))
		return -EBADMSG;
	st = begins(m) ? table_state(r, page, GFP_ATOMIC)
		       : READ_ONCE(r->states[page / CHUNK_PAGES]);
	if (!st && begins(m))
		return -EAGAIN;
	p->d.manager = manager_of(r, m);
	p->d.queue = (struct qpool){ .nslots = BLOCK_SLOTS, .chunks = r->nodes };
	p->d.page = st ? &st->copies[at] : NULL;
	p->d.dir = st ? &st->dirs[at] : NULL;
	p->key = page; /* as block_stripe() */
	p->transfers = st ? &st->transfers[at] : NULL;
	return 0;
}

static struct page_ctx page_ctx(const struct rank *r)
{
	return (struct page_ctx){
		.me = r->me, .nnodes = r->size, .now = now_us(), .hold_us = r->core.hold_us
	};
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
			(!step_block_ok(r, m->object) || !begins(m) ||
			 table_state(r, block_page(m->object), GFP_CTX));
	case TARGET_CREATE:
		/* If another object takes this place, OBJECT_CHUNK - 1 more places follow. */
		number = READ_ONCE(r->object_list.fresh) + 1;
		return number >= OBJECTS || table_objects(r, number, GFP_CTX);
	default: return table_ready(r, m, GFP_CTX);
	}
}

/* A place for a new object; 0: the table is full. */
static int place_new(struct rank *r, struct core_place *p)
{
	u32 missing;

	p->d.index = objects_take(&p->objects, &missing);
	if (!p->d.index && missing) {
		if (!table_objects(r, missing, GFP_ATOMIC))
			return -EAGAIN;
		p->d.index = objects_take(&p->objects, &missing);
		if (!p->d.index && missing)
			return -EAGAIN; /* other requests have used all of the allocated memory */
	}
	p->d.object = objects_at(&p->objects, p->d.index);
	return 0;
}

static u64 combine(u8 op, u64 a, u64 b)
{
	bool is_signed = !(op >> 4);

	switch (op & 15) {
		/* the values of enum dsm_op (dsm.h); the library combines floating point */
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

int step_place(struct core_host *h, enum target target, u32 number, const struct msg *m,
	       struct core_place *p)
{
	struct rank *r = host_rank(h);
	struct slot *s;

	if (!table_ready(r, m, GFP_ATOMIC))
		return -EAGAIN;
	if (target == TARGET_BLOCK)
		return place_block(r, number, m, p);
	p->d.queue = (struct qpool){ .nslots = ALL_SLOTS, .chunks = r->lines };
	switch (target) {
	case TARGET_CREATE: p->objects = objects_of(r); return place_new(r, p);
	case TARGET_OBJECT:
		p->objects = objects_of(r);
		p->d.index = number;
		p->d.object = objects_at(&p->objects, number);
		return 0;
	case TARGET_HOLD: p->d.hold = hold_at(r, number); return p->d.hold ? 0 : -EBADMSG;
	case TARGET_BARRIER:
		p->d.bar = bar_at(r, number);
		p->d.combine = combine;
		return p->d.bar ? 0 : -EBADMSG;
	case TARGET_SLOT:
		s = slot_at(r, number);
		p->d.ask = s ? &s->ask : NULL;
		return s ? 0 : -EBADMSG;
	default: return -EBADMSG;
	}
}
