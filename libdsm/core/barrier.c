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

static void depart(uint16_t me, const struct bar_tree *t, struct bar *b, uint32_t object, int16_t status,
		   uint64_t result, struct actions *out)
{
	uint16_t i;

	b->threads = b->arrived = 0;
	b->part = (struct bar_part){ 0 };
	b->children = 0;
	for (i = 0; i < BAR_FANOUT; i++)
		b->from[i] = 0;
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

/* Each child once: the count alone would take one that comes twice, or a stranger, for another. */
static int note_child(struct bar *b, uint16_t src)
{
	uint16_t i, k;

	for (i = 0; i < b->children && b->from[i] < src; i++)
		;
	if (b->children == BAR_FANOUT || (i < b->children && b->from[i] == src))
		return -EBADMSG;
	for (k = b->children++; k > i; k--)
		b->from[k] = b->from[k - 1];
	b->from[i] = src;
	return 0;
}

static int is_child(const struct bar_tree *t, uint16_t rank)
{
	uint16_t i;

	for (i = 0; i < t->nchildren && t->child[i] != rank; i++)
		;
	return i < t->nchildren;
}

/* It names a group in which this rank is its parent, and this rank's threads do not. */
static void turn_away(uint16_t me, uint16_t rank, uint32_t object, struct actions *out)
{
	send(me, MSG_DEPART, rank, object, out)->count = -EINVAL;
}

/* The group is known now, and who of those that came before does not belong to it. Their values cannot be taken back. */
static void turn_strangers_away(uint16_t me, const struct bar_tree *t, struct bar *b, uint32_t object,
				struct actions *out)
{
	uint16_t i, n = 0;

	for (i = 0; i < b->children; i++) {
		if (is_child(t, b->from[i])) {
			b->from[n++] = b->from[i];
		} else {
			turn_away(me, b->from[i], object, out);
			b->status = -EINVAL;
		}
	}
	for (i = n; i < b->children; i++)
		b->from[i] = 0;
	b->children = n;
}

/* All of this node and below it are here? */
static void complete(uint16_t me, const struct bar_tree *t, struct bar *b, const struct msg *m, struct actions *out)
{
	struct msg *up;

	if (!b->threads || b->arrived < (b->locals ? b->locals : 1) || b->children < t->nchildren || b->up)
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

/* One thread more of a rank. 1: the rank is complete; where its threads differ, the smaller number completes it. 0: it is not;
 * -EBADMSG: one thread too many. */
static int part_add(struct bar_part *p, uint32_t gen, uint32_t threads)
{
	if (!p->threads || p->gen != gen)
		*p = (struct bar_part){ .gen = gen, .threads = threads };
	if (p->arrived >= p->threads)
		return -EBADMSG;
	if (threads < p->threads)
		p->threads = threads;
	return ++p->arrived >= p->threads;
}

/* The message is one that may come now: note who it is of. */
static int note(uint16_t me, const struct bar_tree *t, struct bar *b, struct bar_part *part, const struct msg *m,
		struct actions *out)
{
	int complete;

	if (m->src != me)
		return note_child(b, m->src);
	complete = part_add(part ? part : &b->part, b->gen, m->aux);
	if (complete < 0)
		return complete;
	if (t && !b->threads)
		turn_strangers_away(me, t, b, m->object, out);
	b->arrived += (uint32_t)complete;
	if (!b->threads || b->threads > m->aux)
		b->threads = m->aux;
	return 0;
}

int bar_step(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b, struct bar_part *part,
	     const struct msg *m, struct actions *out)
{
	int err;

	out->n = 0;
	if (m->type == MSG_DEPART) {
		if (!t || !b->up || m->src != t->parent)
			return -EBADMSG;
		depart(me, t, b, m->object, m->count, m->value, out);
		return 0;
	}
	if (m->type != MSG_ARRIVE || !m->aux)
		return -EBADMSG;
	if (m->src != me && t && !is_child(t, m->src)) {
		turn_away(me, m->src, m->object, out);
		return 0;
	}
	if (b->up)
		return -EBADMSG;
	err = note(me, t, b, part, m, out);
	if (err)
		return err;
	if (m->count)
		b->status = m->count;
	/* The first to come says how many threads a rank has; who differs spoils the episode for all. */
	if (!b->any)
		b->expect = m->aux;
	if (b->expect != m->aux)
		b->status = -EINVAL;
	join_value(b, combine, m);
	if (t)
		complete(me, t, b, m, out);
	return 0;
}
