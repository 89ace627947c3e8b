// SPDX-License-Identifier: GPL-2.0
/* step.c - a message finds the machine of the core that it is for; each step holds one stripe. */
#include "host.h"

bool step_block_ok(const struct rank *r, u32 object)
{
	u32 pages = block_pages(object), page = block_page(object);
	const struct region *g;

	if (!object || pages > CHUNK_PAGES || page % pages || page >= r->ctx->pages || pages > r->ctx->pages - page)
		return false;
	g = rank_region_at(r, page);
	return !g || pages == 1u << g->order; /* the home of a block may have left its region, or never been there */
}

static const u8 page_events[MSG_TYPES] = {
	[MSG_DATA] = PE_DATA, [MSG_GRANT] = PE_GRANT, [MSG_INV] = PE_INV, [MSG_INV_ACK] = PE_INV_ACK,
	[MSG_FWD_READ] = PE_FWD_READ, [MSG_FWD_WRITE] = PE_FWD_WRITE,
};

static int page_message(struct rank *r, struct state *st, const struct msg *m, struct actions *acts)
{
	struct page_ctx ctx = page_ctx(r);
	spinlock_t *stripe = stripe_of(r, m->object);
	int err;

	spin_lock(stripe);
	err = page_step(&ctx, &st->copies[block_page(m->object) % CHUNK_PAGES], page_events[m->type], m, acts);
	spin_unlock(stripe);
	return err;
}

static struct dir_ctx dir_ctx(struct rank *r)
{
	return (struct dir_ctx){ .me = r->me, .nranks = r->size, .queue = { r->nodes, SLOTS } };
}

static int dir_message(struct rank *r, struct state *st, const struct msg *m, struct actions *acts)
{
	struct dir_ctx ctx = dir_ctx(r);
	struct region *g = rank_region_at(r, block_page(m->object));
	spinlock_t *stripe = stripe_of(r, m->object);
	int err;

	acts->n = 0;
	if (m->type == MSG_PLACE && g && rank_home(r, g, block_page(m->object)) != r->me)
		return -EBADMSG; /* only a block's manager places it */
	spin_lock(stripe);
	err = dir_step(&ctx, &st->dirs[block_page(m->object) % CHUNK_PAGES], m, acts);
	spin_unlock(stripe);
	return err;
}

static bool is_first(const struct rank *r, const struct copy *p, const struct dir *d)
{
	return d->state <= DIR_PLACED && d->phase == DIR_IDLE && p->state == PG_INVALID && (!p->home || p->home - 1 == r->me);
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
	spinlock_t *stripe = stripe_of(r, ask->object);
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
	spinlock_t *stripe = stripe_of(r, ask->object);
	struct page_ctx page_is = page_ctx(r);
	struct dir_ctx dir_is = dir_ctx(r);
	struct msg m;

	acts->n = 0;
	if (!st)
		return;
	spin_lock(stripe);
	/* Nothing to do where the process has forgotten the range meanwhile, against the rules. */
	if (!page_step(&page_is, &st->copies[page], PE_USED, ask, acts) && acts->n) {
		m = acts->v[0].msg;
		if (dir_step(&dir_is, &st->dirs[page], &m, acts))
			acts->n = 0;
	}
	spin_unlock(stripe);
}

int step_refuse(struct rank *r, const struct msg *m, int err, struct actions *acts)
{
	struct action *a = act_add(acts, ACT_SEND);

	a->msg = *m;
	a->msg.type = MSG_REPLY;
	a->msg.src = r->me;
	a->msg.dst = m->req_rank;
	a->msg.count = (s16)err;
	return 0;
}

static int object_create(struct rank *r, const struct msg *m, struct actions *acts)
{
	unsigned long i;
	struct sync *s;
	u16 gen;

	do {
		i = find_next_zero_bit(r->object_used, OBJECTS, 1);
		if (i >= OBJECTS)
			return step_refuse(r, m, -ENOSPC, acts);
	} while (test_and_set_bit(i, r->object_used));
	s = &r->objects[i];
	gen = (u16)(s->gen + 1 ? s->gen + 1 : 1);
	*s = (struct sync){ .kind = m->op == SOP_CREATE ? (u8)m->aux : 0, .gen = gen, .value = m->value };
	step_refuse(r, m, 0, acts);
	acts->v[acts->n - 1].msg.value = (u64)gen << 16 | i;
	return 0;
}

static int gone_object(struct rank *r, const struct msg *m, struct actions *acts)
{
	int err = step_refuse(r, m, -EINVAL, acts);

	if (m->type != MSG_SYNC && m->type != MSG_RESUME) {
		/* A release that crossed its successor's, who has destroyed the mutex since: the lock was handed on. */
		acts->v[0].msg.type = MSG_FREED;
		acts->v[0].msg.home = m->home;
		acts->v[0].msg.count = m->type == MSG_UNLOCK ? 0 : -EINVAL;
		acts->v[0].msg.value = m->type == MSG_UNLOCK;
	}
	return err;
}

static int object_message(struct rank *r, const struct msg *m, struct actions *acts)
{
	struct sync_ctx ctx = { .me = r->me, .queue = { r->nodes, SLOTS } };
	u32 index = m->object & 0xffff;
	spinlock_t *stripe = stripe_of(r, index);
	struct sync *s;
	int err;

	acts->n = 0;
	if (m->type == MSG_SYNC && m->op == SOP_CREATE)
		return object_create(r, m, acts);
	if (index >= OBJECTS)
		return -EBADMSG;
	s = &r->objects[index];
	spin_lock(stripe);
	if (!s->kind || s->gen != m->object >> 16) {
		err = gone_object(r, m, acts);
	} else if (m->type == MSG_SYNC && m->op == SOP_DESTROY) {
		err = step_refuse(r, m, sync_idle(s) ? 0 : -EBUSY, acts);
		if (sync_idle(s)) {
			s->kind = 0;
			clear_bit(index, r->object_used);
		}
	} else if (m->type == MSG_SYNC || m->type == MSG_RESUME) {
		err = sync_step(&ctx, s, m, acts);
	} else {
		err = s->kind == SYNC_MUTEX ? lock_home_step(r->me, s, m, acts) : -EBADMSG;
	}
	spin_unlock(stripe);
	return err;
}

int step_hold(struct rank *r, u16 index, enum hold_event ev, const struct msg *m, struct actions *acts)
{
	spinlock_t *stripe = stripe_of(r, 0x80000000u | index);
	int err;

	acts->n = 0;
	spin_lock(stripe);
	err = hold_step(r->me, index, &r->holds[index], ev, m, acts);
	if (!err && r->holds[index].state == HOLD_FREE)
		clear_bit(index, r->hold_used);
	spin_unlock(stripe);
	return err;
}

static int hold_message(struct rank *r, const struct msg *m, struct actions *acts)
{
	enum hold_event ev = m->type == MSG_LOCKED ? HE_LOCKED : m->type == MSG_NEXT ? HE_NEXT : m->count ? HE_REFUSED : HE_FREED;
	unsigned int i;
	int err;

	if (m->home >= HOLDS)
		return -EBADMSG;
	err = step_hold(r, m->home, ev, m, acts);
	for (i = 0; ev == HE_REFUSED && i < acts->n; i++)
		acts->v[i].status = m->count;
	return err;
}

static u64 combine(u8 op, u64 a, u64 b)
{
	bool is_signed = !(op >> 4);

	switch (op & 15) { /* as enum dsm_op of dsm.h; floating point is combined by the library */
	case 0: return a + b;
	case 1: return is_signed ? (u64)min((s64)a, (s64)b) : min(a, b);
	case 2: return is_signed ? (u64)max((s64)a, (s64)b) : max(a, b);
	case 3: return a & b;
	case 4: return a | b;
	case 5: return a ^ b;
	}
	return 0;
}

int step_barrier(struct rank *r, const struct msg *m, struct actions *acts)
{
	spinlock_t *stripe = stripe_of(r, 0x40000000u | m->object);
	struct bar_tree t;
	struct bar *b;
	int err;

	acts->n = 0;
	if (m->object >= (u32)r->size * BARRIERS)
		return -EBADMSG;
	b = &r->bars[m->object];
	spin_lock(stripe);
	if ((b->threads || m->src == m->dst) && !bar_tree(b->mask, r->size, r->me, &t))
		err = bar_step(r->me, &t, combine, b, m, acts);
	else
		err = bar_step(r->me, NULL, combine, b, m, acts);
	spin_unlock(stripe);
	return err;
}

/* -EAGAIN: not in this context. */
int step_message(struct rank *r, const struct msg *m, struct actions *acts)
{
	struct state *st = NULL;

	acts->n = 0;
	if (step_is_of_block(m)) {
		if (!step_block_ok(r, m->object))
			return -EBADMSG;
		if (m->type == MSG_RELEASE)
			return -EAGAIN;
		st = rank_state(r, block_page(m->object), GFP_ATOMIC);
		if (!st)
			return -EAGAIN;
	}
	switch ((enum msg_type)m->type) {
	case MSG_READ_REQ: case MSG_WRITE_REQ: case MSG_DONE: case MSG_HOME: case MSG_HOME_ACK: case MSG_PLACE:
		return dir_message(r, st, m, acts);
	case MSG_RESUME:
		return m->op ? object_message(r, m, acts) : dir_message(r, st, m, acts);
	case MSG_DATA: case MSG_GRANT: case MSG_INV: case MSG_INV_ACK: case MSG_FWD_READ: case MSG_FWD_WRITE:
		return page_message(r, st, m, acts);
	case MSG_LOCK: case MSG_TRYLOCK: case MSG_UNLOCK: case MSG_SYNC:
		return object_message(r, m, acts);
	case MSG_NEXT: case MSG_LOCKED: case MSG_FREED:
		return hold_message(r, m, acts);
	case MSG_REPLY:
		slot_complete(r, m->req_slot, m->count, m->value);
		return 0;
	case MSG_ARRIVE: case MSG_DEPART:
		return step_barrier(r, m, acts);
	default:
		return -EBADMSG;
	}
}
