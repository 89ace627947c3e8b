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
			must(w->r[r].pages[b].state < PG_STATES &&
			     w->r[r].pages[b].held < PE_EVENTS && w->r[r].dirs[b].owner < RANKS);
			readers += w->r[r].prot[b] == PROT_RO;
			writers += w->r[r].prot[b] == PROT_RW;
		}
		must(w->part[b] || writers + (readers > 0) <= 1);
	}
}

int world_made(uint16_t home, uint64_t name)
{
	int at;

	for (at = (int)w->nmade - 1;
	     at >= 0 && (w->made[at].home != home || w->made[at].name != name); at--)
		;
	return at;
}

int world_newest(uint16_t home, uint32_t index, unsigned int before)
{
	int at;

	for (at = (int)w->nmade - 1; at >= 0; at--)
		if (w->made[at].home == home && (w->made[at].name & SYNC_INDEX_MAX) == index &&
		    !before--)
			break;
	return at;
}

/* Every name is greater than those that its place has had. */
void world_make(uint16_t home, uint64_t name, uint8_t kind, bool part, bool known)
{
	const uint32_t index = name & SYNC_INDEX_MAX;
	const int last = world_newest(home, index, 0);

	must(index && index < OBJECTS && w->nmade < MADE);
	must(last < 0 || (!w->made[last].alive && w->made[last].name < name));
	w->part_made[w->nmade] = part;
	w->made[w->nmade++] = (struct made){
		.name = name, .home = (uint8_t)home, .kind = kind, .alive = true, .known = known
	};
}

static bool grasped(const struct hold *h)
{
	return h->state == HOLD_HELD || h->state == HOLD_HELD_NEXT || h->state == HOLD_CACHED;
}

/* One holds a mutex, or keeps it, and by the name of one that is alive. */
static void check_mutexes(void)
{
	unsigned int r, h, held[MADE] = { 0 };

	for (r = 0; r < HONEST; r++)
		for (h = 0; h < HOLDS; h++) {
			const struct hold *x = &w->r[r].holds[h];
			int at;

			must(x->state < HOLD_STATES);
			if (!grasped(x))
				continue;
			at = world_made(x->home, world_name(x->object, x->gen));
			must(at >= 0 && w->made[at].kind == SYNC_MUTEX);
			must(w->part_made[at] || (w->made[at].alive && !held[at]++));
		}
}

static void check_rwlocks(void)
{
	unsigned int at, r, readers, writers;

	for (at = 0; at < w->nmade; at++) {
		for (r = readers = writers = 0; r < HONEST; r++) {
			readers += w->r[r].rw[at] == 1;
			writers += w->r[r].rw[at] == 2;
		}
		must(w->part_made[at] || writers + (readers > 0) <= w->made[at].alive);
	}
}

/* The tables have the living, and no others. */
static void check_tables(void)
{
	bool full[HONEST][OBJECTS] = { 0 };
	unsigned int at, r, o;

	for (at = 0; at < w->nmade; at++) {
		const struct made *x = &w->made[at];
		const uint32_t index = x->name & SYNC_INDEX_MAX;
		const struct sync *s = &w->r[x->home].objects[index];

		if (!x->alive)
			continue;
		must(!full[x->home][index] && s->kind == x->kind &&
		     object_name(index, s->gen) == x->name);
		full[x->home][index] = true;
	}
	for (r = 0; r < HONEST; r++)
		for (o = 1; o < OBJECTS; o++)
			must(full[r][o] || w->r[r].objects[o].kind == SYNC_NONE);
}

void world_check_objects(void)
{
	unsigned int at;

	check_mutexes();
	check_rwlocks();
	check_tables();
	for (at = 0; at < w->nmade; at++)
		line_check(&w->made[at]);
}

/* Has what a hold record asks for not come to the home, or a refusal not come back? */
static bool hold_open(uint16_t me, uint32_t index, const struct hold *h)
{
	unsigned int i;

	for (i = 0; i < w->n; i++) {
		const struct letter *l = &w->way[i];

		if (l->m.aux != index || l->m.object != h->object)
			continue;
		if ((l->m.type == MSG_LOCK || l->m.type == MSG_TRYLOCK) && l->from == me)
			return true;
		if (l->m.type == MSG_FREED && l->m.dst == me && l->from == h->home && l->m.count)
			return true;
	}
	return false;
}

/*
 * The same of a slot; or an answer that gives no lock. SOP_CANCEL and its late answer do not count,
 * nor does "in line".
 */
static bool slot_open(uint16_t me, uint16_t index, const struct slot *s)
{
	bool open = s->told & TOLD_TURN && !s->gets;
	unsigned int i;

	for (i = 0; i < w->n; i++) {
		const struct letter *l = &w->way[i];

		if (l->m.req_slot != index)
			continue;
		if (l->m.type == MSG_SYNC && l->from == me)
			open |= l->m.op != SOP_CANCEL;
		if (l->m.type == MSG_REPLY && l->m.dst == me &&
		    l->from == w->made[s->made - 1].home)
			open |= l->m.count
				? l->m.count != -EALREADY
				: !s->gets && !(sync_twice(s->op, s->flags) && l->m.value == 1);
	}
	return open;
}

/* It was destroyed just now: nobody held it, nobody stood in line. */
static void check_unused(unsigned int at)
{
	uint16_t r, i;

	for (r = 0; r < HONEST; r++) {
		for (i = 0; i < HOLDS; i++) {
			const struct hold *h = &w->r[r].holds[i];

			if (h->home != w->made[at].home ||
			    world_name(h->object, h->gen) != w->made[at].name)
				continue;
			must(!grasped(h));
			must((h->state != HOLD_WAITING && h->state != HOLD_WAIT_NEXT) ||
			     hold_open(r, i, h));
		}
		must(w->r[r].rw[at] != 1 && w->r[r].rw[at] != 2);
		for (i = BLOCK_SLOTS; i < SLOTS; i++) {
			const struct slot *s = &w->r[r].slots[i];

			must(s->made != at + 1 || !s->busy || s->woken || slot_open(r, i, s));
		}
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
	/*
	 * Bounded by what is asked for, as long as honest ranks ask; what else comes is lost with
	 * the connection.
	 */
	must(w->n < UNDER_WAY);
	*l = (struct letter){ .m = *m, .from = from, .data = data };
	l->m.version = WIRE_VERSION;
	w->n++;
}

static void multicast(uint16_t me, const struct action *a)
{
	struct msg m = a->msg;
	uint16_t to;

	for (to = set_next(a->mask, 0, RANKS, 1, m.req_node, a->except); to < RANKS;
	     to = set_next(a->mask, (uint16_t)(to + 1), RANKS, 1, m.req_node, a->except)) {
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

/* An answer to a wait, or to its SOP_CANCEL. It ends once: by its turn, without one, or refused. */
static void tell(uint16_t me, struct slot *s, const struct action *a)
{
	const enum told what = a->status == -ETIMEDOUT        ? TOLD_OUT
		: a->status == -EALREADY                      ? TOLD_LATE
		: a->status                                   ? TOLD_NO
		: sync_twice(s->op, s->flags) && a->mask == 1 ? TOLD_IN_LINE
							      : TOLD_TURN;
	const bool ends = what == TOLD_OUT || what == TOLD_TURN;

	must(what != TOLD_IN_LINE || !(s->told & TOLD_IN_LINE));
	must((what != TOLD_OUT && what != TOLD_LATE) || s->cancels);
	must(!ends || !(s->told & (TOLD_OUT | TOLD_TURN)));
	if (what != TOLD_IN_LINE && what != TOLD_TURN)
		s->cancels = false;
	s->told |= what;
	must(!a->prot || s->told & (TOLD_OUT | TOLD_TURN | TOLD_NO));
	must(what != TOLD_OUT || a->prot);
	if (a->prot && s->gets) {
		w->r[me].rw[s->made - 1u] = s->told & TOLD_TURN ? s->gets : 0;
		s->gets = 0;
	}
}

/* What a request other than for a block was answered. */
static void reply(uint16_t me, const struct action *a)
{
	struct slot *s;

	must(a->slot < SLOTS);
	s = &w->r[me].slots[a->slot];
	must(s->busy && !s->block && !s->woken);
	if (s->made && sync_waits(s->op)) {
		tell(me, s, a);
		s->woken = a->prot;
		return;
	}
	must(a->prot);
	if (s->gets) /* tried */
		w->r[me].rw[s->made - 1u] = a->status ? 0 : s->gets;
	s->gets = 0;
	if (a->slot >= BLOCK_SLOTS && !s->made && !a->status) {
		/* who has made an object tells the others its handle */
		const int at = world_made(s->home, a->mask);

		must(at >= 0 && !w->made[at].known);
		w->made[at].known = true;
	}
	if (a->slot == ASYNC)
		*s = (struct slot){ 0 }; /* a release: nobody waits */
	else
		s->woken = 1;
}

static void local_page(uint16_t me, uint32_t block, enum page_event ev, unsigned int slot,
		       uint16_t home, uint8_t flags);

static void fetch(uint16_t me, const struct action *a)
{
	if (!w->r[me].slots[ASYNC].busy)
		local_page(me, a->msg.object, a->prot == PROT_RW ? PE_WRITE : PE_READ, ASYNC,
			   a->msg.home, a->msg.flags);
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

		r->prot[block] = page_writable(p) ? PROT_RW
			: page_readable(p)        ? PROT_RO
						  : r->prot[block];
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
			if (data_is_brief(&a->msg)) {
				const struct msg done = data_done(&a->msg);

				world_post(me, &done, 0);
			}
			break;
		case ACT_LAND: r->frame[block] = data; break;
		case ACT_OPEN: open_block(r, block, a, data); break;
		case ACT_CLOSE: r->prot[block] = PROT_CLOSED; break;
		case ACT_WAKE: wake(me, a->slot); break;
		case ACT_TIMER: r->timer[block] = 1; break;
		case ACT_REPLY: reply(me, a); break;
		case ACT_FETCH: fetch(me, a); break;
		case ACT_BLAME: blame(me, a->node, block); break;
		case ACT_WAIT:
		case ACT_WAKE_ALL:
		case ACT_TWIN: /* no rank here has release blocks */
		case ACT_UNTWIN:
		case ACT_MERGE:
		case ACT_NOTICE:
		case ACT_TELL:
		case ACT_GATHER:
		case ACT_AFTER:
		case ACT_DELIVER:
		case ACT_DRAIN: break;
		}
	}
}

/* ---- machines of an honest rank ------------------------------------------------------------- */

/* Where no home is known, the rank `home` is asked. */
static void local_page(uint16_t me, uint32_t block, enum page_event ev, unsigned int slot,
		       uint16_t home, uint8_t flags)
{
	struct msg m = { .object = block,
			 .src = me,
			 .dst = me,
			 .req_node = me,
			 .req_slot = (uint16_t)slot,
			 .home = home,
			 .flags = flags };
	const struct page_ctx ctx = { .me = me, .nnodes = RANKS, .now = w->now, .hold_us = 10 };
	struct slot *s = &w->r[me].slots[slot];
	struct actions out;
	unsigned int i;
	int err;

	if (ev == PE_READ || ev == PE_WRITE)
		*s = (struct slot){ .busy = 1,
				    .write = ev == PE_WRITE,
				    .block = (uint8_t)(block + 1) };
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
	uint32_t missing;

	switch (target) {
	case TARGET_BLOCK:
		if (number >= BLOCKS)
			return false;
		d->manager = world_manager(number);
		d->queue = (struct qpool){ .entries = r->nodes, .nslots = BLOCK_SLOTS };
		d->page = &r->pages[number];
		d->dir = &r->dirs[number];
		return true;
	case TARGET_CREATE:
		d->index = w->nmade < MADE ? objects_take(d->objects, &missing) : 0;
		d->object = objects_at(d->objects, d->index);
		return true;
	case TARGET_OBJECT:
		d->queue = (struct qpool){ .entries = r->object_nodes, .nslots = SLOTS };
		d->object = objects_at(d->objects, number);
		return true;
	case TARGET_HOLD: d->hold = &r->holds[number]; return number < HOLDS;
	case TARGET_BARRIER: d->bar = &r->bars[number]; return number < BARRIERS;
	case TARGET_SLOT: d->ask = &r->asks[number]; return number < SLOTS;
	default: return false;
	}
}

/* ---- objects at their home ------------------------------------------------------------------ */

struct table {
	struct sync objects[OBJECTS];
	struct object_list list;
	struct queue_entry nodes[RANKS * SLOTS];
};

static struct table table_of(const struct rank *r)
{
	struct table t = { .list = r->list };

	memcpy(t.objects, r->objects, sizeof(t.objects));
	memcpy(t.nodes, r->object_nodes, sizeof(t.nodes));
	return t;
}

/* m names what is not there, or no longer: its sender learns that, and nothing changes. */
static void judge_gone(uint16_t me, const struct msg *m, const struct actions *out,
		       const struct table *was)
{
	const struct table is = table_of(&w->r[me]);
	const struct msg *a = &out->v[0].msg;

	must(!memcmp(&is, was, sizeof(is)));
	if (!out->n) { /* refused */
		must(m->type == MSG_RESUME || m->type == MSG_RECALLED || m->type == MSG_REVOKED);
		return;
	}
	must(out->n == 1 && out->v[0].type == ACT_SEND && a->dst == m->src &&
	     a->object == m->object && a->req_slot == m->req_slot);
	must(a->type == (m->type == MSG_SYNC ? MSG_REPLY : MSG_FREED));
	must(a->count == (m->type == MSG_UNLOCK ? 0 : -EINVAL) &&
	     a->value == (m->type == MSG_UNLOCK));
}

/* One step of an object. Its number if it is destroyed, else -1. */
static int judge(uint16_t me, const struct msg *m, int err, const struct actions *out,
		 const struct table *was)
{
	const int at = world_made(me, world_name(m->object, m->req_node));
	int destroyed = -1;
	unsigned int i;

	if (at < 0 || !w->made[at].alive) {
		judge_gone(me, m, out, was);
		return -1;
	}
	for (i = 1; i < OBJECTS; i++)
		must(i == object_index(m) ||
		     !memcmp(&was->objects[i], &w->r[me].objects[i], sizeof(was->objects[i])));
	for (i = 0; i < out->n; i++) {
		const struct msg *a = &out->v[i].msg;

		if (out->v[i].type != ACT_SEND || (a->type != MSG_REPLY && a->type != MSG_FREED))
			continue;
		must(a->count != -EINVAL || a->dst == OTHER);
		if (a->type == MSG_REPLY && !a->count &&
		    (m->type == MSG_RECALLED || (m->type == MSG_SYNC && m->op == SOP_DESTROY)))
			destroyed = at;
	}
	if (!err && line_has(w->made[at].kind))
		line_step(&w->made[at].line, m, out);
	if (destroyed >= 0)
		w->made[at].alive = false;
	return destroyed;
}

static void judge_create(uint16_t me, const struct msg *m, const struct actions *out)
{
	const struct msg *a = &out->v[0].msg;

	must(out->n == 1 && out->v[0].type == ACT_SEND && a->type == MSG_REPLY &&
	     a->dst == m->src && (!a->count || a->count == -ENOSPC));
	if (a->count)
		return;
	world_make(me, a->value, m->aux & 7, m->src == OTHER, m->src == OTHER);
	w->made[w->nmade - 1].line.value = m->value;
}

int world_dispatch(uint16_t me, const struct msg *m, uint32_t data)
{
	struct rank *r = &w->r[me];
	struct dispatch d = { .me = me,
			      .leases = true,
			      .nnodes = RANKS,
			      .follow = 1,
			      .brief = true,
			      .now = w->now,
			      .hold_us = 10,
			      .combine = combine };
	const struct objects objects = { .list = &r->list, .flat = r->objects, .limit = OBJECTS };
	const struct table was = table_of(r);
	struct actions out;
	uint32_t number, gen;
	enum target target = dispatch_target(m, &number);
	unsigned int k;
	int err, destroyed = -1;

	d.objects = &objects;
	if (target == TARGET_HOST)
		return 0;
	if (!find(me, target, number, &d))
		return -EBADMSG;
	gen = d.bar ? d.bar->gen : 0;
	err = dispatch_step(&d, m, &out);
	if (err)
		out.n = 0;
	if (target == TARGET_OBJECT)
		destroyed = judge(me, m, err, &out, &was);
	if (target == TARGET_CREATE)
		judge_create(me, m, &out);
	if (!err)
		world_carry_out(me, d.page ? number : 0, &out, data);
	if (destroyed >= 0 && !w->part_made[destroyed])
		check_unused((unsigned int)destroyed);
	/*
	 * A barrier of the honest ranks, of which the other is no member, ends when all have come.
	 */
	for (k = 0; d.bar && d.bar->gen != gen && k < HONEST; k++)
		must(w->r[k].came[number] >= d.bar->gen);
	return err;
}
