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

int bar_tree(uint64_t mask, uint16_t nnodes, uint16_t me, struct bar_tree *t)
{
	uint16_t size = mask ? (uint16_t)set_count(mask, 64, 1, SET_NOBODY, SET_NOBODY) : nnodes;
	uint16_t at =
		mask ? (uint16_t)set_count(mask, me < 64 ? me : 64, 1, SET_NOBODY, SET_NOBODY) : me;
	uint32_t c;

	if (mask && (me >= 64 || !(mask >> me & 1)))
		return -EINVAL;
	t->parent = at ? nth_member(mask, (uint16_t)((at - 1) / BAR_FANOUT)) : SET_NOBODY;
	t->nchildren = 0;
	for (c = at * (uint32_t)BAR_FANOUT + 1;
	     c <= at * (uint32_t)BAR_FANOUT + BAR_FANOUT && c < size; c++)
		t->child[t->nchildren++] = nth_member(mask, (uint16_t)c);
	return 0;
}

static void join_value(struct bar *b, bar_combine combine, const struct bar_early *e)
{
	if (e->status)
		b->status = e->status;
	/*
	 * The first thread to arrive sets the number of threads of a rank; a different number fails
	 * the episode for all.
	 */
	if (!b->any)
		b->expect = e->threads;
	if (b->expect != e->threads)
		b->status = -EINVAL;
	b->acc = b->any ? combine(e->op, b->acc, e->value) : e->value;
	b->any = 1;
}

static struct bar_early early_of(const struct msg *m)
{
	return (struct bar_early){ .value = m->value,
				   .life = bar_life(m),
				   .threads = m->aux,
				   .from = m->src,
				   .status = m->count,
				   .op = m->op };
}

static struct msg *bar_send(uint16_t me, uint8_t type, uint16_t dst, uint32_t object, uint32_t life,
			    struct actions *out)
{
	struct action *a = act_add(out, ACT_SEND);

	a->msg.type = type;
	a->msg.src = a->msg.req_node = me;
	a->msg.dst = dst;
	a->msg.object = object;
	bar_set_life(&a->msg, life);
	return &a->msg;
}

/* Reset for the next episode, and wake the threads that wait for the end of this one. */
static void bar_clear(struct bar *b, struct actions *out)
{
	uint16_t i;

	b->threads = b->arrived = 0;
	b->children = 0;
	for (i = 0; i < BAR_FANOUT; i++)
		b->from[i] = 0;
	b->any = b->up = 0;
	b->status = 0;
	/*
	 * Stored last: waiters read it without the lock, and then the other fields, in bar_ended().
	 */
	__atomic_store_n(&b->gen, b->gen + 1, __ATOMIC_RELEASE);
	act_add(out, ACT_WAKE_ALL);
}

static void depart(uint16_t me, const struct bar_tree *t, struct bar *b, uint32_t object,
		   int16_t status, uint64_t result, struct actions *out)
{
	uint16_t i;

	/* For bar_ended(): a thread that reads these also sees the generation. */
	__atomic_store_n(&b->ended, status, __ATOMIC_RELEASE);
	__atomic_store_n(&b->result, result, __ATOMIC_RELEASE);
	for (i = 0; i < t->nchildren; i++) {
		struct msg *m = bar_send(me, MSG_DEPART, t->child[i], object, b->life, out);

		m->count = status;
		m->value = result;
	}
	bar_clear(b, out);
}

/* Count each child once: a counter alone would count a repeated arrival for a missing one. */
static int note_child(struct bar *b, uint16_t src)
{
	uint16_t i, k;

	for (i = 0; i < b->children && b->from[i] < src; i++)
		;
	if (i < b->children && b->from[i] == src)
		return -EBADMSG;
	for (k = b->children++; k > i; k--)
		b->from[k] = b->from[k - 1];
	b->from[i] = src;
	return 0;
}

static int is_child(const struct bar_tree *t, uint16_t node)
{
	uint16_t i;

	for (i = 0; i < t->nchildren && t->child[i] != node; i++)
		;
	return i < t->nchildren;
}

/* Refuse an arrival: its group is not that of this node's threads, or its barrier was destroyed. */
static void turn_away(uint16_t me, uint16_t node, uint32_t object, uint32_t life,
		      struct actions *out)
{
	bar_send(me, MSG_DEPART, node, object, life, out)->count = -EINVAL;
}

static void drop_early(struct bar *b, uint16_t at)
{
	for (b->earlies--; at < b->earlies; at++)
		b->early[at] = b->early[at + 1];
	b->early[at] = (struct bar_early){ 0 };
}

/*
 * Move the barrier to generation `life`; threads and children in older ones get an error. If only a
 * child reports that this node's generation is over, `life` is the next one: a child that lies must
 * not use up all generations.
 */
static void renew(uint16_t me, struct bar *b, uint32_t object, uint32_t life, struct actions *out)
{
	uint16_t i;

	for (i = 0; i < b->children; i++)
		turn_away(me, b->from[i], object, b->life, out);
	for (i = 0; i < b->earlies;) {
		if (b->early[i].life < life) {
			turn_away(me, b->early[i].from, object, b->early[i].life, out);
			drop_early(b, i);
		} else {
			i++;
		}
	}
	/*
	 * In this order, for bar_ended(). A barrier with other generations has no thread that waits
	 * in generation 0.
	 */
	__atomic_store_n(&b->before, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&b->undone, b->threads ? -EINVAL : b->ended, __ATOMIC_RELEASE);
	__atomic_store_n(&b->before, b->life, __ATOMIC_RELEASE);
	__atomic_store_n(&b->life, life, __ATOMIC_RELEASE);
	if (b->threads)
		bar_clear(b, out);
}

/*
 * There is no room for the arrival m. One of the oldest generation is dropped for it, or m itself:
 * it is not known yet which of them is no child.
 */
static bool bar_make_room(uint16_t me, struct bar *b, const struct msg *m, struct actions *out)
{
	uint16_t i, oldest = 0;

	for (i = 0; i < b->earlies; i++)
		if (b->early[i].life < b->early[oldest].life)
			oldest = i;
	if (b->early[oldest].life < bar_life(m)) {
		turn_away(me, b->early[oldest].from, m->object, b->early[oldest].life, out);
		drop_early(b, oldest);
		return true;
	}
	turn_away(me, m->src, m->object, bar_life(m), out);
	return false;
}

/* This node learns whether it is a child when one of its own threads arrives in that generation. */
static int bar_keep(uint16_t me, struct bar *b, const struct msg *m, struct actions *out)
{
	uint16_t i;

	for (i = 0; i < b->earlies && b->early[i].from != m->src; i++)
		;
	if (i < b->earlies && b->early[i].life == bar_life(m))
		return -EBADMSG;
	if (i < b->earlies && b->early[i].life > bar_life(m)) {
		/* it was overtaken by the newer one */
		turn_away(me, m->src, m->object, bar_life(m), out);
		return 0;
	}
	if (i < b->earlies)
		drop_early(b, i); /* its sender has given it up */
	if (b->earlies < BAR_FANOUT || bar_make_room(me, b, m, out))
		b->early[b->earlies++] = early_of(m);
	return 0;
}

/*
 * The group is known now: count early arrivals of this generation, and refuse those of no child.
 * Arrivals of newer generations stay.
 */
static void take_early(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b,
		       uint32_t object, struct actions *out)
{
	uint16_t i;

	for (i = 0; i < b->earlies;) {
		const struct bar_early e = b->early[i];

		if (e.life > b->life) {
			i++;
			continue;
		}
		drop_early(b, i);
		if (is_child(t, e.from)) {
			note_child(b, e.from);
			join_value(b, combine, &e);
		} else {
			turn_away(me, e.from, object, e.life, out);
		}
	}
}

/*
 * After take_early(): if a child of this group is newer, all threads of this generation have
 * handles of a destroyed barrier.
 */
static bool bar_is_over(const struct bar_tree *t, const struct bar *b)
{
	uint16_t i;

	for (i = 0; i < b->earlies; i++)
		if (is_child(t, b->early[i].from))
			return true;
	return false;
}

/* If all threads of this node and all children have arrived, pass that up, or end the episode. */
static void bar_complete(uint16_t me, const struct bar_tree *t, struct bar *b, const struct msg *m,
			 struct actions *out)
{
	struct msg *up;

	if (!b->threads || b->arrived < (b->locals ? b->locals : 1) || b->children < t->nchildren ||
	    b->up)
		return;
	if (t->parent == SET_NOBODY) {
		depart(me, t, b, m->object, b->status, b->acc, out);
		return;
	}
	b->up = 1;
	up = bar_send(me, MSG_ARRIVE, t->parent, m->object, b->life, out);
	up->op = m->op;
	up->aux = b->threads;
	up->count = b->status;
	up->value = b->acc;
}

/*
 * One more thread of a rank arrives. 1: the rank is complete; if its threads differ, the smaller
 * number counts. 0: it is not; -EBADMSG: one thread too many.
 */
static int part_add(struct bar_part *p, uint32_t gen, uint32_t threads)
{
	if (!p->threads || p->gen != gen)
		*p = (struct bar_part){ .gen = gen, .threads = threads, .all = p->all };
	if (p->all)
		p->arrived = p->threads - 1;
	if (p->arrived >= p->threads)
		return -EBADMSG;
	if (threads < p->threads)
		p->threads = threads;
	return ++p->arrived >= p->threads;
}

int bar_admit(struct bar *b, const struct msg *m, const struct bar_group *group)
{
	if (!m->object && bar_life(m))
		return -EBADMSG;
	if (bar_life(m) < b->life)
		return -ESTALE;
	if (b->threads && bar_life(m) == b->life && b->mask != group->mask)
		return -EINVAL;
	__atomic_store_n(&b->mask, group->mask, __ATOMIC_RELAXED);
	b->locals = group->locals;
	return 0;
}

static int bar_arrive(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b,
		      struct bar_part *part, const struct msg *m, struct actions *out)
{
	const struct bar_early own = early_of(m);
	int complete_now;

	if (own.life < b->life)
		return -ESTALE;
	if (own.life > b->life)
		renew(me, b, m->object, own.life, out);
	if (b->up)
		return -EBADMSG;
	complete_now = part_add(part, b->gen, m->aux);
	if (complete_now < 0)
		return complete_now;
	if (t)
		take_early(me, t, combine, b, m->object, out);
	b->arrived += (uint32_t)complete_now;
	if (!b->threads || b->threads > m->aux)
		b->threads = m->aux;
	join_value(b, combine, &own);
	if (t && bar_is_over(t, b))
		renew(me, b, m->object, b->life + 1, out);
	else if (t)
		bar_complete(me, t, b, m, out);
	return 0;
}

static int child_arrives(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b,
			 const struct msg *m, struct actions *out)
{
	const struct bar_early e = early_of(m);
	int err;

	if (e.life < b->life || (t && e.life == b->life && !is_child(t, e.from))) {
		turn_away(me, e.from, m->object, e.life, out);
		return 0;
	}
	if (!t || !b->threads || e.life > b->life) {
		err = bar_keep(me, b, m, out);
		if (!err && t && b->threads && is_child(t, e.from))
			renew(me, b, m->object, b->life + 1, out);
		return err;
	}
	err = note_child(b, e.from);
	if (err)
		return err;
	join_value(b, combine, &e);
	bar_complete(me, t, b, m, out);
	return 0;
}

static int departure(uint16_t me, const struct bar_tree *t, struct bar *b, const struct msg *m,
		     struct actions *out)
{
	if (bar_life(m) < b->life)
		return 0; /* to an arrival that this node has given up */
	if (bar_life(m) > b->life || !t || !b->up || m->src != t->parent)
		return -EBADMSG;
	depart(me, t, b, m->object, m->count, m->value, out);
	return 0;
}

int bar_step(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b,
	     struct bar_part *part, const struct msg *m, struct actions *out)
{
	out->n = 0;
	if (m->type == MSG_DEPART)
		return departure(me, t, b, m, out);
	if (m->type != MSG_ARRIVE || !m->aux)
		return -EBADMSG;
	return m->src == me ? bar_arrive(me, t, combine, b, part ? part : &b->part, m, out)
			    : child_arrives(me, t, combine, b, m, out);
}

/*
 * Without the lock, and perhaps late:
 *
 *   waiter in generation 7                 others
 *   sees that gen has moved
 *                                          renew(): undone, before 7, life 8
 *                                          depart(): ended, result
 *   reads result, ended
 *   reads life 8: not those of 7
 *                                          renew(): before 0, undone, before 8, life 9
 *   reads undone
 *   reads before, not 7: undone may be that of 8
 */
int bar_ended(const struct bar *b, uint32_t life, uint64_t *result)
{
	const uint64_t value = __atomic_load_n(&b->result, __ATOMIC_ACQUIRE);
	int16_t status = __atomic_load_n(&b->ended, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&b->life, __ATOMIC_ACQUIRE) == life) {
		*result = value;
		return status;
	}
	status = __atomic_load_n(&b->undone, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&b->before, __ATOMIC_RELAXED) == life ? status : 0;
}
