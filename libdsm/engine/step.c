// SPDX-License-Identifier: BSD-2-Clause
/*
 * step.c - a message to the machine it is for: finds the state in the receiver's control segment, steps it under its
 * stripe, and leaves the actions to the caller. Peers' indices are checked here.
 */
#include "engine/step.h"

#include <string.h>

#include "engine/reduce.h"
#include "util/futex.h"

struct page_ctx step_ctx(uint16_t rank)
{
	return (struct page_ctx){ .me = rank, .now = clock_us(), .hold_us = job.set.hold_us };
}

static const uint8_t page_events[MSG_TYPES] = {
	[MSG_DATA] = PE_DATA, [MSG_GRANT] = PE_GRANT, [MSG_INV] = PE_INV, [MSG_INV_ACK] = PE_INV_ACK,
	[MSG_FWD_READ] = PE_FWD_READ, [MSG_FWD_WRITE] = PE_FWD_WRITE,
};

int step_page(const struct msg *m, const void *data, struct actions *acts)
{
	struct page_ctx ctx = step_ctx(m->dst);
	uint32_t *stripe = stripe_of(m->dst, m->object);
	int err;

	/* Before the step: once it is done, another thread may take the last acknowledgement and open the block. */
	if (m->type == MSG_DATA && m->count > 0)
		memcpy(stage_of(m->dst, m->req_slot), data, block_bytes(m->object));
	word_lock(stripe);
	err = page_step(&ctx, &peer_of(m->dst)->pages[block_page(m->object)], page_events[m->type], m, acts);
	word_unlock(stripe);
	return err;
}

static int dir_message(const struct msg *m, struct actions *acts)
{
	struct peer *p = peer_of(m->dst);
	struct dir_ctx ctx = { .me = m->dst, .nranks = job.size, .queue = { p->nodes, CTL_SLOTS } };
	struct dir *d = &p->dirs[block_page(m->object)];
	uint32_t *stripe = stripe_of(m->dst, m->object);
	struct dsm_region *r = region_at(block_off(m->object));
	uint16_t owner;
	uint8_t state;
	int err;

	acts->n = 0;
	if (m->type == MSG_PLACE && r && block_home(r, block_off(m->object)) != m->dst)
		return -EBADMSG; /* only a block's manager places it: two ranks would forward to each other for ever */
	word_lock(stripe);
	owner = d->owner;
	state = d->state;
	err = dir_step(&ctx, d, m, acts);
	if (d->state == DIR_EXCLUSIVE && d->owner != owner && (state == DIR_SHARED || state == DIR_EXCLUSIVE))
		p->moves[block_page(m->object)]++;
	word_unlock(stripe);
	return err;
}

static int refuse(const struct msg *m, int err, struct actions *acts)
{
	struct action *a = act_add(acts, ACT_SEND);

	a->msg = *m;
	a->msg.type = MSG_REPLY;
	a->msg.src = m->dst;
	a->msg.dst = m->req_rank;
	a->msg.count = (int16_t)err;
	return 0;
}

static int object_create(const struct msg *m, struct actions *acts)
{
	struct ctl *c = peer_of(m->dst)->ctl;
	unsigned int i;

	for (i = 1; i < CTL_OBJECTS; i++) {
		uint64_t bit = 1ull << (i % 64), *word = &c->object_used[i / 64];
		struct sync *s = &c->objects[i];
		uint16_t gen;

		if ((__atomic_load_n(word, __ATOMIC_RELAXED) & bit) || (__atomic_fetch_or(word, bit, __ATOMIC_ACQUIRE) & bit))
			continue;
		gen = (uint16_t)(s->gen + 1 ? s->gen + 1 : 1);
		*s = (struct sync){ .kind = m->op == SOP_CREATE ? (uint8_t)m->aux : 0, .gen = gen, .value = m->value };
		refuse(m, 0, acts);
		acts->v[acts->n - 1].msg.value = (uint32_t)gen << 16 | i;
		return 0;
	}
	return refuse(m, -ENOSPC, acts);
}

static int object_message(const struct msg *m, struct actions *acts)
{
	struct peer *p = peer_of(m->dst);
	struct sync_ctx ctx = { .me = m->dst, .queue = { p->nodes, CTL_SLOTS } };
	uint32_t index = m->object & 0xffff;
	uint32_t *stripe = stripe_of(m->dst, index);
	struct sync *s;
	int err;

	acts->n = 0;
	if (m->type == MSG_SYNC && m->op == SOP_CREATE)
		return object_create(m, acts);
	if (index >= CTL_OBJECTS)
		return -EBADMSG;
	s = &p->ctl->objects[index];
	word_lock(stripe);
	if (!s->kind || s->gen != m->object >> 16) {
		err = refuse(m, -EINVAL, acts);
		if (m->type != MSG_SYNC && m->type != MSG_RESUME) {
			/* A release that crossed its successor's, who has destroyed the mutex since: the lock was handed on. */
			acts->v[0].msg.type = MSG_FREED;
			acts->v[0].msg.home = m->home;
			acts->v[0].msg.count = m->type == MSG_UNLOCK ? 0 : -EINVAL;
			acts->v[0].msg.value = m->type == MSG_UNLOCK;
		}
	} else if (m->type == MSG_SYNC && m->op == SOP_DESTROY) {
		err = refuse(m, sync_idle(s) ? 0 : -EBUSY, acts);
		if (sync_idle(s)) {
			s->kind = 0;
			__atomic_fetch_and(&p->ctl->object_used[index / 64], ~(1ull << (index % 64)), __ATOMIC_RELEASE);
		}
	} else if (m->type == MSG_SYNC || m->type == MSG_RESUME) {
		err = sync_step(&ctx, s, m, acts);
	} else {
		err = s->kind == SYNC_MUTEX ? lock_home_step(m->dst, s, m, acts) : -EBADMSG;
	}
	word_unlock(stripe);
	return err;
}

/* The caller holds the record's stripe. A record that is free may be taken for another lock. */
static int step_hold(uint16_t rank, struct ctl *c, uint16_t index, enum hold_event ev, const struct msg *m, struct actions *acts)
{
	int err = hold_step(rank, index, &c->holds[index], ev, m, acts);

	if (!err && c->holds[index].state == HOLD_FREE)
		__atomic_fetch_and(&c->hold_used[index / 64], ~(1ull << (index % 64)), __ATOMIC_RELEASE);
	return err;
}

static int hold_message(const struct msg *m, struct actions *acts)
{
	struct ctl *c = peer_of(m->dst)->ctl;
	enum hold_event ev = m->type == MSG_LOCKED ? HE_LOCKED : m->type == MSG_NEXT ? HE_NEXT :
			     m->count ? HE_REFUSED : HE_FREED;
	uint32_t *stripe = stripe_of(m->dst, 0x80000000u | m->home);
	unsigned int i;
	int err;

	acts->n = 0;
	if (m->home >= CTL_HOLDS)
		return -EBADMSG;
	word_lock(stripe);
	err = step_hold(m->dst, c, m->home, ev, m, acts);
	for (i = 0; ev == HE_REFUSED && i < acts->n; i++)
		acts->v[i].status = m->count;
	word_unlock(stripe);
	return err;
}

int step_unlock(uint16_t index, struct actions *acts)
{
	uint32_t *stripe = stripe_of(job.rank, 0x80000000u | index);
	struct msg none = { .dst = job.rank };
	int err;

	word_lock(stripe);
	err = step_hold(job.rank, job.me, index, HE_UNLOCK, &none, acts);
	word_unlock(stripe);
	return err;
}

int step_bar(const struct msg *m, struct actions *acts)
{
	uint32_t *stripe = stripe_of(m->dst, 0x40000000u | m->object);
	struct bar_tree t;
	struct bar *b;
	int err;

	acts->n = 0;
	if (m->object >= (uint32_t)job.size * CTL_BARRIERS)
		return -EBADMSG;
	b = &peer_of(m->dst)->bars[m->object];
	word_lock(stripe);
	/* The group is known once one of the rank's own threads has come. */
	if ((b->threads || m->src == m->dst) && !bar_tree(__atomic_load_n(&b->mask, __ATOMIC_RELAXED), job.size, m->dst, &t))
		err = bar_step(m->dst, &t, reduce_combine, b, m, acts);
	else
		err = bar_step(m->dst, NULL, reduce_combine, b, m, acts);
	word_unlock(stripe);
	return err;
}

int step_message(const struct msg *m, const void *payload, size_t size, struct actions *acts)
{
	switch ((enum msg_type)m->type) {
	case MSG_READ_REQ: case MSG_WRITE_REQ: case MSG_DONE: case MSG_HOME: case MSG_HOME_ACK: case MSG_PLACE:
		return dir_message(m, acts);
	case MSG_RESUME:
		return m->op ? object_message(m, acts) : dir_message(m, acts);
	case MSG_DATA: case MSG_GRANT: case MSG_INV: case MSG_INV_ACK: case MSG_FWD_READ: case MSG_FWD_WRITE:
		return step_page(m, payload, acts);
	case MSG_RELEASE:
		block_start_prefetch(m->dst, m->object, m->op == RELEASE_EVICT, 0, m->dst);
		return refuse(m, 0, acts); /* the releaser may leave the region once nothing of it is under way */
	case MSG_LOCK: case MSG_TRYLOCK: case MSG_UNLOCK: case MSG_SYNC:
		return object_message(m, acts);
	case MSG_NEXT: case MSG_LOCKED: case MSG_FREED:
		return hold_message(m, acts);
	case MSG_REPLY:
		if (slot_is_prefetch(m->dst, m->req_slot)) /* to MSG_RELEASE: nobody waits */
			slot_put(m->dst, m->req_slot);
		else
			slot_complete(m->dst, m->req_slot, m->count, m->value);
		return 0;
	case MSG_ARRIVE: case MSG_DEPART:
		return step_bar(m, acts);
	case MSG_CALL:
		call_arrived(m, payload, size);
		return 0;
	case MSG_RETURN:
		call_returned(m, payload, size);
		return 0;
	case MSG_PING: case MSG_BYE:
		lost_heard(m);
		return 0;
	case MSG_NONE: case MSG_TYPES:
		break;
	}
	return -EBADMSG;
}
