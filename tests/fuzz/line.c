// SPDX-License-Identifier: BSD-2-Clause
/*
 * line.c - the queue of each object at its home, derived from the requests that arrived there and
 * the answers that left: a second account of conditions, semaphores and reader-writer locks,
 * independent of the core's. It contains the requests of all ranks, including the faulty one.
 */
#include <string.h>

#include "world.h"

/*
 * May the first in line be woken now; or, with nobody in line, a new request for the same be
 * granted?
 */
static bool may_go(const struct line *l, uint8_t op)
{
	switch (op) {
	case SOP_WAIT: return l->value;
	case SOP_RDLOCK: return !l->writer;
	case SOP_TRYWRLOCK:
	case SOP_CANCEL:
	case SOP_WRLOCK: return !l->writer && !l->readers && !l->leased;
	default: return l->due;
	}
}

static void goes(struct line *l, uint8_t op)
{
	must(may_go(l, op));
	switch (op) {
	case SOP_WAIT: l->value--; break;
	case SOP_RDLOCK: l->readers++; break;
	case SOP_TRYWRLOCK:
	case SOP_CANCEL:
	case SOP_WRLOCK: l->writer = true; break;
	default: l->due--; break;
	}
}

int line_find(const struct line *l, uint16_t rank, uint16_t slot)
{
	int i;

	for (i = (int)l->n - 1; i >= 0 && (l->who[i].rank != rank || l->who[i].slot != slot); i--)
		;
	return i;
}

static void comes(struct line *l, const struct msg *m)
{
	must(l->n < LINE && line_find(l, m->src, m->req_slot) < 0);
	l->who[l->n].rank = (uint8_t)m->src;
	l->who[l->n].slot = (uint8_t)m->req_slot;
	l->who[l->n++].op = m->op;
}

static void leaves(struct line *l, int at)
{
	l->n--;
	memmove(&l->who[at], &l->who[at + 1], (l->n - (unsigned int)at) * sizeof(l->who[0]));
}

/*
 * A turn has come: of the first in line. One that has waited for the leases only may be refused.
 * Returns true if the answer to its SOP_CANCEL follows.
 */
static bool take_turn(struct line *l, const struct msg *a)
{
	const uint8_t op = l->who[0].op;
	const int16_t vain = op == SOP_TRYWRLOCK ? -EBUSY : op == SOP_CANCEL ? -ETIMEDOUT : 0;

	must(l->n && l->who[0].rank == a->dst && l->who[0].slot == a->req_slot && !a->value);
	if (a->count) {
		must(a->count == vain && (!l->leased || l->readers > 0) && !may_go(l, op));
		leaves(l, 0);
		return false;
	}
	goes(l, op);
	leaves(l, 0);
	return op == SOP_CANCEL;
}

/* The last one has come: whoever is in line will have a turn. */
static void meets(struct line *l, const struct msg *m, const struct msg *a)
{
	const int at = line_find(l, m->src, m->req_slot);

	must(m->op == SOP_MEET && a->dst == m->src && a->req_slot == m->req_slot && !a->count);
	must(at == (int)l->n - 1 && l->n >= m->value);
	leaves(l, at);
	l->due = l->n;
}

/* A reader has the lock by a lease of its rank: it came alone. */
static void leases(struct line *l, const struct msg *m, const struct msg *a)
{
	must(m->op == SOP_RDLOCK && m->flags == MSGF_LEASE && a->dst == m->src &&
	     a->req_slot == m->req_slot && !a->count);
	must(l->n == 1 && !line_find(l, m->src, m->req_slot) && !l->writer);
	must(!(l->leased >> m->src & 1) && !l->revoked);
	leaves(l, 0);
	l->leased |= 1ull << m->src;
}

static void revokes(struct line *l, const struct msg *a)
{
	must((l->leased & ~l->revoked) >> a->dst & 1);
	l->revoked |= 1ull << a->dst;
}

/* Readers that the home does not know may have the lock, and nobody else. */
static bool only_leased(const struct line *l)
{
	return l->leased && !l->n && !l->writer && l->readers <= 0;
}

/* A writer that only leases keep from going is not cancelled before they are returned. */
static bool stays(const struct line *l, const struct msg *m)
{
	return l->leased && l->readers <= 0 && l->n && !line_find(l, m->src, m->req_slot) &&
		l->who[0].op == SOP_WRLOCK;
}

/* A request that only tries overtakes nobody, and gets what there is. */
static void tries(struct line *l, uint8_t op, int16_t status, int16_t fails)
{
	must(status == (!l->n && may_go(l, op) ? 0 : fails));
	if (!status)
		goes(l, op);
}

/*
 * A waiter that is not in line has got its turn, or not arrived yet; one that a signal has counted
 * can no longer be cancelled.
 */
static void cancels(struct line *l, const struct msg *m, int16_t status)
{
	const int at = line_find(l, m->src, m->req_slot);
	const bool had = at >= (int)l->due;

	must(status == (had ? -ETIMEDOUT : -EALREADY));
	if (had)
		leaves(l, at);
}

/* The first answer to all but an untimed wait; -EINVAL is that the kind has no such operation. */
static void answered(struct line *l, const struct msg *m, const struct msg *a)
{
	switch (m->op) {
	case SOP_DESTROY:
		must(a->count || (!l->n && !l->due && !l->readers && !l->writer && !l->leased));
		return;
	case SOP_TRYRDLOCK: tries(l, SOP_RDLOCK, a->count, -EBUSY); return;
	case SOP_TRYWRLOCK: tries(l, SOP_WRLOCK, a->count, -EBUSY); return;
	case SOP_TRYWAIT: tries(l, SOP_WAIT, a->count, -EAGAIN); return;
	case SOP_CANCEL: cancels(l, m, a->count); return;
	case SOP_LOAD: must(a->value == l->value); return;
	case SOP_POST:
		must(!a->count || a->count == -EOVERFLOW);
		l->value += a->count ? 0 : m->value;
		return;
	default: must(!a->count); break;
	}
	switch (m->op) {
	case SOP_RDUNLOCK:
		must(l->readers > 0 || l->revoked);
		l->readers--;
		break;
	case SOP_WRUNLOCK:
		must(l->writer);
		l->writer = false;
		break;
	case SOP_SIGNAL:
	case SOP_BROADCAST:
		l->due = m->op == SOP_BROADCAST ? l->n : l->due + (l->due < l->n);
		must(a->value == (l->due ? SYNC_FOUND : 0));
		break;
	default: /* a wait: it is in line */
		must(sync_twice(m->op, m->flags) && a->value == 1);
		comes(l, m);
		break;
	}
}

void line_step(struct line *l, const struct msg *m, const struct actions *out)
{
	const struct msg *first = &out->v[0].msg;
	unsigned int i = 0;

	if (m->type == MSG_SYNC && m->op == SOP_TRYWRLOCK && only_leased(l)) {
		comes(l, m);
	} else if (m->type == MSG_SYNC && m->op == SOP_CANCEL && stays(l, m)) {
		l->who[0].op = SOP_CANCEL;
		must(!out->n);
	} else if (m->type == MSG_REVOKED) {
		must(l->revoked >> m->src & 1);
		l->leased &= ~(1ull << m->src);
		l->revoked &= ~(1ull << m->src);
		l->readers += (int32_t)m->value;
	} else if (m->type != MSG_SYNC && m->type != MSG_RESUME) { /* of a mutex, which it is not */
		must(out->n == 1 && first->type == MSG_FREED);
		return;
	} else if (m->type == MSG_SYNC && sync_waits(m->op) && !sync_twice(m->op, m->flags)) {
		if (!out->n || first->count != -EINVAL)
			comes(l, m);
	} else if (m->type == MSG_SYNC) {
		must(out->n && first->type == MSG_REPLY && first->dst == m->src &&
		     first->req_slot == m->req_slot);
		i = 1;
		if (first->count != -EINVAL)
			answered(l, m, first);
	}
	for (; i < out->n; i++)
		if (out->v[i].type == ACT_RESUME || out->v[i].msg.count == -EINVAL)
			continue;
		else if (out->v[i].msg.type == MSG_REVOKE)
			revokes(l, &out->v[i].msg);
		else if (out->v[i].msg.value == SYNC_LEASED)
			leases(l, m, &out->v[i].msg);
		else if (out->v[i].msg.value == SYNC_LAST)
			meets(l, m, &out->v[i].msg);
		else if (take_turn(l, &out->v[i].msg))
			must(++i < out->n && out->v[i].msg.count == -EALREADY &&
			     out->v[i].msg.dst == out->v[i - 1].msg.dst &&
			     out->v[i].msg.req_slot == out->v[i - 1].msg.req_slot);
}

/* Whoever may go will: the home comes again. */
static bool comes_again(const struct made *x)
{
	unsigned int i;

	for (i = 0; i < w->n; i++) {
		const struct msg *m = &w->way[i].m;

		if (m->type == MSG_RESUME && m->op && m->dst == x->home &&
		    world_name(m->object, m->req_node) == x->name)
			return true;
	}
	return false;
}

void line_check(const struct made *x)
{
	const struct line *l = &x->line;

	must(!l->n || x->alive);
	must(!l->n || !may_go(l, l->who[0].op) || comes_again(x));
	/* nor does one stay that waits for leases only */
	must(!l->n || (l->who[0].op != SOP_TRYWRLOCK && l->who[0].op != SOP_CANCEL) ||
	     (l->leased && l->readers <= 0) || comes_again(x));
	/* no writer waits for a lease that nobody asks for */
	must(!l->n || l->who[0].op == SOP_RDLOCK || l->leased == l->revoked || comes_again(x));
}
