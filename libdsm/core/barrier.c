// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* barrier.c - the combining tree barrier (docs/protocol.md, "Barriers"). */
#include "core/barrier.h"
#include "core/set.h"

static uint16_t nth_member(uint64_t mask, uint16_t n)
{
	if (!mask)
		return n;
	while (n--)
		mask &= mask - 1;
	return (uint16_t)__builtin_ctzll(mask);
}

int bar_tree(uint64_t mask, uint16_t nranks, uint16_t me, struct bar_tree *t)
{
	uint16_t size = mask ? (uint16_t)set_count(mask, 64, 1, SET_NOBODY, SET_NOBODY) : nranks;
	uint16_t at = mask ? (uint16_t)set_count(mask, me < 64 ? me : 64, 1, SET_NOBODY, SET_NOBODY) : me;
	uint32_t c;

	if (mask && (me >= 64 || !(mask >> me & 1)))
		return -EINVAL;
	t->parent = at ? nth_member(mask, (uint16_t)((at - 1) / BAR_FANOUT)) : SET_NOBODY;
	t->nchildren = 0;
	for (c = at * (uint32_t)BAR_FANOUT + 1; c <= at * (uint32_t)BAR_FANOUT + BAR_FANOUT && c < size; c++)
		t->child[t->nchildren++] = nth_member(mask, (uint16_t)c);
	return 0;
}

static void join_value(struct bar *b, bar_combine combine, const struct msg *m)
{
	b->acc = b->any ? combine(m->op, b->acc, m->value) : m->value;
	b->any = 1;
}

static struct msg *send(uint16_t me, uint8_t type, uint16_t dst, uint32_t object, struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = type;
	a->msg.src = a->msg.req_rank = me;
	a->msg.dst = dst;
	a->msg.object = object;
	return &a->msg;
}

static void depart(uint16_t me, const struct bar_tree *t, struct bar *b, uint32_t object, int16_t status, uint64_t result,
		   struct actions *out)
{
	uint16_t i;

	b->threads = b->arrived = 0;
	b->children = 0;
	b->any = b->up = 0;
	b->status = 0;
	b->ended = status;
	b->result = result;
	/* Last: waiters look at it without the lock, and then at the result. */
	__atomic_store_n(&b->gen, b->gen + 1, __ATOMIC_RELEASE);
	for (i = 0; i < t->nchildren; i++) {
		struct msg *m = send(me, MSG_DEPART, t->child[i], object, out);

		m->count = status;
		m->value = result;
	}
	act_add(out, ACT_WAKE_ALL);
}

/* All of this rank and below it are here? */
static void complete(uint16_t me, const struct bar_tree *t, struct bar *b, const struct msg *m, struct actions *out)
{
	struct msg *up;

	if (!b->threads || b->arrived < b->threads || b->children < t->nchildren || b->up)
		return;
	if (t->parent == SET_NOBODY) {
		depart(me, t, b, m->object, b->status, b->acc, out);
		return;
	}
	b->up = 1;
	up = send(me, MSG_ARRIVE, t->parent, m->object, out);
	up->op = m->op;
	up->aux = b->threads;
	up->count = b->status;
	up->value = b->acc;
}

int bar_step(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b, const struct msg *m, struct actions *out)
{
	out->n = 0;
	if (m->type == MSG_DEPART) {
		if (!t || !b->up || m->src != t->parent)
			return -EBADMSG;
		depart(me, t, b, m->object, m->count, m->value, out);
		return 0;
	}
	if (m->type != MSG_ARRIVE || !m->aux || b->up)
		return -EBADMSG;
	if (m->src == me && b->threads && b->arrived == b->threads)
		return -EBADMSG; /* one thread too many */
	if (m->src == me)
		b->arrived++;
	else
		b->children++;
	if (m->count)
		b->status = m->count;
	/* The first to come says how many threads a rank has; who differs spoils the episode for all. */
	if (m->src == me && (!b->threads || b->threads > m->aux))
		b->threads = m->aux; /* where this rank's threads differ, the smaller number ends the episode */
	if (!b->any)
		b->expect = m->aux;
	if (b->expect != m->aux)
		b->status = -EINVAL;
	join_value(b, combine, m);
	if (t)
		complete(me, t, b, m, out);
	return 0;
}
