// SPDX-License-Identifier: BSD-2-Clause
#include "world.h"

#include <string.h>

struct world *w;

uint16_t world_manager(uint32_t block)
{
	return (uint16_t)(block % RANKS);
}

/* ---- what must hold ------------------------------------------------------------------------- */

void world_check_blocks(void)
{
	unsigned int b, r, readers, writers;

	for (b = 0; b < BLOCKS; b++) {
		for (r = readers = writers = 0; r < HONEST; r++) {
			must(w->r[r].pages[b].state < PG_STATES && w->r[r].pages[b].held < PE_EVENTS &&
			     w->r[r].dirs[b].owner < RANKS);
			readers += w->r[r].prot[b] == PROT_RO;
			writers += w->r[r].prot[b] == PROT_RW;
		}
		must(w->part[b] || writers + (readers > 0) <= 1);
	}
}

void world_check_locks(void)
{
	unsigned int home, o, r, h, held;

	for (home = 0; home < HONEST; home++)
		for (o = 1; o < OBJECTS; o++) {
			for (r = held = 0; r < HONEST; r++)
				for (h = 0; h < HOLDS; h++) {
					const struct hold *x = &w->r[r].holds[h];

					must(x->state < HOLD_STATES);
					held += (x->state == HOLD_HELD || x->state == HOLD_HELD_NEXT) &&
						x->home == home && (x->object & SYNC_INDEX_MAX) == o;
				}
			must(w->part_object[home][o] || held <= 1);
		}
}

void world_access(struct rank *r, unsigned int block, bool write)
{
	must(w->part[block] || r->frame[block] == w->version[block]);
	if (write)
		r->frame[block] = ++w->version[block];
}

/* ---- messages ------------------------------------------------------------------------------- */

void world_post(uint16_t from, const struct msg *m, uint32_t data)
{
	struct letter *l = &w->way[w->n];

	must(m->dst < RANKS);
	if (m->dst == OTHER) {
		if (!w->r[from].cut)
			w->seen[w->nseen++ % SEEN] = *m;
		return;
	}
	/* Bounded by what is asked for, as long as honest ranks ask; what else comes is lost with the connection. */
	must(w->n < UNDER_WAY);
	*l = (struct letter){ .m = *m, .from = from, .data = data };
	l->m.version = WIRE_VERSION;
	w->n++;
}

static void multicast(uint16_t me, const struct action *a)
{
	struct msg m = a->msg;
	uint16_t to;

	for (to = set_next(a->mask, 0, RANKS, 1, m.req_rank, a->except); to < RANKS;
	     to = set_next(a->mask, (uint16_t)(to + 1), RANKS, 1, m.req_rank, a->except)) {
		m.dst = to;
		world_post(me, &m, 0);
	}
}

static void wake(uint16_t me, unsigned int slot)
{
	struct slot *s;

	must(slot < SLOTS);
	s = &w->r[me].slots[slot];
	if (s->block)
		must(s->busy || w->part[s->block - 1u]);
	s->woken = 1;
	if (slot == ASYNC && s->busy && s->block) {
		const uint32_t block = s->block - 1u;

		s->busy = s->woken = 0;
		world_local_page(me, block, PE_USED, ASYNC);
	}
}

/* What a request other than for a block was answered. */
static void reply(uint16_t me, const struct action *a)
{
	struct slot *s;

	must(a->slot < SLOTS);
	s = &w->r[me].slots[a->slot];
	must(s->busy && !s->block);
	if (s->gets)
		w->r[me].rw[s->home] = a->status ? 0 : s->gets;
	s->gets = 0;
	if (a->slot == ASYNC)
		*s = (struct slot){ 0 }; /* a release: nobody waits */
	else
		s->woken = 1;
}

static void local_page(uint16_t me, uint32_t block, enum page_event ev, unsigned int slot, uint16_t home,
		       uint8_t flags);

static void fetch(uint16_t me, const struct action *a)
{
	if (!w->r[me].slots[ASYNC].busy)
		local_page(me, a->msg.object, a->prot == PROT_RW ? PE_WRITE : PE_READ, ASYNC, a->msg.home,
			   a->msg.flags);
}

static void blame(uint16_t me, uint16_t rank, uint32_t block)
{
	must(rank == OTHER || w->part[block]);
	if (rank == OTHER)
		w->r[me].cut = true;
}

static void open_block(struct rank *r, uint32_t block, const struct action *a, uint32_t data)
{
	if (a->from == OPEN_AGAIN) {
		const struct copy *p = &r->pages[block];

		r->prot[block] = page_writable(p) ? PROT_RW : page_readable(p) ? PROT_RO : r->prot[block];
		return;
	}
	if (a->from == OPEN_DATA)
		r->frame[block] = data;
	else if (a->from == OPEN_ZERO)
		r->frame[block] = 0;
	r->prot[block] = a->prot;
}

void world_carry_out(uint16_t me, uint32_t block, const struct actions *out, uint32_t data)
{
	struct rank *r = &w->r[me];
	unsigned int i;

	must(out->n < ACTIONS_MAX); /* the last place is where an overflow would go */
	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];

		switch ((enum act)a->type) {
		case ACT_SEND:
		case ACT_RESUME: world_post(me, &a->msg, 0); break;
		case ACT_MCAST: multicast(me, a); break;
		case ACT_DATA:
			if (r->prot[block] > a->prot)
				r->prot[block] = a->prot;
			world_post(me, &a->msg, r->frame[block]);
			break;
		case ACT_LAND: r->frame[block] = data; break;
		case ACT_OPEN: open_block(r, block, a, data); break;
		case ACT_CLOSE: r->prot[block] = PROT_CLOSED; break;
		case ACT_WAKE: wake(me, a->slot); break;
		case ACT_TIMER: r->timer[block] = 1; break;
		case ACT_REPLY: reply(me, a); break;
		case ACT_FETCH: fetch(me, a); break;
		case ACT_BLAME: blame(me, a->rank, block); break;
		case ACT_WAIT:
		case ACT_WAKE_ALL: break;
		}
	}
}

/* ---- machines of an honest rank ------------------------------------------------------------- */

/* Where no home is known, the rank `home` is asked. */
static void local_page(uint16_t me, uint32_t block, enum page_event ev, unsigned int slot, uint16_t home, uint8_t flags)
{
	struct msg m = { .object = block,
			 .src = me,
			 .dst = me,
			 .req_rank = me,
			 .req_slot = (uint16_t)slot,
			 .home = home,
			 .flags = flags };
	const struct page_ctx ctx = { .me = me, .nranks = RANKS, .now = w->now, .hold_us = 10 };
	struct slot *s = &w->r[me].slots[slot];
	struct actions out;
	unsigned int i;
	int err;

	if (ev == PE_READ || ev == PE_WRITE)
		*s = (struct slot){ .busy = 1, .write = ev == PE_WRITE, .block = (uint8_t)(block + 1) };
	err = page_step(&ctx, &w->r[me].pages[block], ev, &m, &out);
	must(!err || w->part[block]);
	if (err)
		out.n = 0;
	for (i = 0; i < out.n && !(out.v[i].type == ACT_WAIT && out.v[i].slot == slot); i++)
		;
	if ((ev == PE_READ || ev == PE_WRITE) && i == out.n)
		s->busy = 0; /* open already, or another thread's request does */
	world_carry_out(me, block, &out, 0);
}

void world_local_page(uint16_t me, uint32_t block, enum page_event ev, unsigned int slot)
{
	local_page(me, block, ev, slot, world_manager(block), block & 1 ? MSGF_FIRST_TOUCH : 0);
}

static uint64_t combine(uint8_t op, uint64_t a, uint64_t b)
{
	return op + a + b;
}

/* Each machine has its own memory: what the host finds for a message. False: nothing is there. */
static bool find(uint16_t me, enum target target, uint32_t number, struct dispatch *d)
{
	struct rank *r = &w->r[me];

	switch (target) {
	case TARGET_BLOCK:
		if (number >= BLOCKS)
			return false;
		d->manager = world_manager(number);
		d->queue = (struct qpool){ .nodes = r->nodes, .nslots = BLOCK_SLOTS };
		d->page = &r->pages[number];
		d->dir = &r->dirs[number];
		return true;
	case TARGET_CREATE: return true; /* there is no room: objects are made at the start */
	case TARGET_OBJECT:
		d->queue = (struct qpool){ .nodes = r->object_nodes, .nslots = SLOTS };
		d->object = number && number < OBJECTS ? &r->objects[number] : NULL;
		return true;
	case TARGET_HOLD: d->hold = &r->holds[number]; return number < HOLDS;
	case TARGET_BARRIER: d->bar = &r->bars[number]; return number < BARRIERS;
	case TARGET_SLOT: d->ask = &r->asks[number]; return number < SLOTS;
	default: return false;
	}
}

int world_dispatch(uint16_t me, const struct msg *m, uint32_t data)
{
	struct rank *r = &w->r[me];
	struct dispatch d = {
		.me = me, .nranks = RANKS, .follow = 1, .now = w->now, .hold_us = 10, .combine = combine
	};
	const struct objects objects = { .list = &r->list, .flat = r->objects, .limit = OBJECTS };
	struct actions out;
	uint32_t number, gen;
	enum target target = dispatch_target(m, &number);
	unsigned int k;
	int err;

	d.objects = &objects;
	if (target == TARGET_HOST)
		return 0;
	if (!find(me, target, number, &d))
		return -EBADMSG;
	if (m->type == MSG_SYNC && m->op == SOP_DESTROY)
		return 0; /* objects stay */
	gen = d.bar ? d.bar->gen : 0;
	err = dispatch_step(&d, m, &out);
	if (!err)
		world_carry_out(me, d.page ? number : 0, &out, data);
	/* A barrier of the honest ranks, of which the other is no member, ends when all have come. */
	for (k = 0; d.bar && d.bar->gen != gen && k < HONEST; k++)
		must(w->r[k].came[number] >= d.bar->gen);
	return err;
}
