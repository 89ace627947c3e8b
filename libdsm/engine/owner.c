// SPDX-License-Identifier: BSD-2-Clause
/*
 * owner.c - which rank has a unit of the heap.
 *
 * The first node's table rules, under its lock, which is a leaf; other nodes ask by CALL_UNITS. They enter what their own ranks
 * take and give back in a table of their own, so that frees find the owner in memory; what they have learnt of other nodes is
 * there as well, and may be out of date: a rank refuses to free what is not its own, and the caller asks again. While an
 * allocation lives, its units stay with their owner.
 */
#include "engine/owner.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "engine/call.h"
#include "engine/job.h"
#include "util/futex.h"

#define TRIM_RUNS 256u
#define USED_WORDS 64u /* of the bits of units that were used before, in an answer */

enum units_op { UNITS_TAKE, UNITS_GIVE, UNITS_OWNER, UNITS_WHICH, UNITS_BEGIN, UNITS_END };

struct units_call {
	uint16_t op, rank;
	uint32_t at, n;
};

struct units_answer {
	uint32_t at, n; /* TAKE: the run, and how many of it were used; OWNER: n, the owner + 1 */
};

struct trimmed {
	uint32_t n, pad;
	struct units_answer runs[TRIM_RUNS];
};
_Static_assert(sizeof(struct trimmed) <= CTL_TEXT, "it fits in a mail");

static bool first_node(void)
{
	return job.node == node_of(0);
}

static int ask(enum units_op op, uint16_t rank, uint32_t at, uint32_t n, void *out, size_t size)
{
	const struct units_call q = { .op = (uint16_t)op, .rank = rank, .at = at, .n = n };

	return call_rank(0, CALL_UNITS, &q, sizeof(q), out, size);
}

/* In the table of a node that is not the first. */
static void enter(uint32_t at, uint32_t n, uint16_t owner)
{
	for (; n; at++, n--)
		__atomic_store_n(&job.mem.units->owner[at], owner, __ATOMIC_RELEASE);
}

/* ---- of this rank ---------------------------------------------------------------------------- */

static int64_t take(uint32_t n, uint32_t *used)
{
	struct units_answer a;
	int err = ask(UNITS_TAKE, job.rank, 0, n, &a, sizeof(a));

	if (err)
		return err;
	if (!first_node())
		enter(a.at, n, (uint16_t)(job.rank + 1));
	*used = a.n;
	return a.at;
}

static int used(uint32_t at, uint32_t n, uint64_t *bits)
{
	uint32_t some;
	int err = 0;

	for (; n && !err; at += some, n -= some, bits += some / 64) {
		some = n < USED_WORDS * 64 ? n : USED_WORDS * 64;
		err = ask(UNITS_WHICH, job.rank, at, some, bits, (some + 63) / 64 * sizeof(*bits));
	}
	return err;
}

static void give(uint32_t at, uint32_t n)
{
	if (!first_node())
		enter(at, n, 0);
	ask(UNITS_GIVE, job.rank, at, n, NULL, 0);
}

const struct heap_source owner_source = { .take = take, .used = used, .give = give };

int owner_trim(bool first, void *out, size_t room)
{
	struct trimmed t = { .n = 0 };

	if (room < sizeof(t))
		return -EINVAL;
	while (t.n < TRIM_RUNS && (t.runs[t.n].n = heap_trim(first && !t.n, &t.runs[t.n].at))) {
		if (!first_node())
			enter(t.runs[t.n].at, t.runs[t.n].n, 0);
		t.n++;
	}
	memcpy(out, &t, sizeof(t));
	return 0;
}

/* ---- of others ------------------------------------------------------------------------------- */

uint32_t owner_reclaim(uint16_t rank)
{
	uint64_t first = 1;
	struct trimmed t;
	uint32_t sum = 0, i;
	int err;

	do {
		while ((err = call_rank(rank, CALL_TRIM, &first, sizeof(first), &t, sizeof(t))) == -EAGAIN)
			sched_yield(); /* many call it at once */
		for (i = 0; !err && i < t.n && i < TRIM_RUNS; i++)
			if (!ask(UNITS_GIVE, rank, t.runs[i].at, t.runs[i].n, NULL, 0))
				sum += t.runs[i].n;
		first = 0;
	} while (!err && t.n == TRIM_RUNS);
	return sum;
}

int owner_reclaim_begin(void)
{
	return ask(UNITS_BEGIN, job.rank, 0, 0, NULL, 0);
}

void owner_reclaim_end(void)
{
	ask(UNITS_END, job.rank, 0, 0, NULL, 0);
}

int owner_of(size_t off)
{
	const uint32_t at = (uint32_t)(off / UNIT_BYTES);
	uint16_t *entry = &job.mem.units->owner[at], nobody = 0;
	uint32_t owner = units_owner(job.mem.units, at);
	struct units_answer a;

	if (owner || first_node())
		return owner ? (int)owner - 1 : -EINVAL;
	if (ask(UNITS_OWNER, job.rank, at, 1, &a, sizeof(a)) || !a.n || a.n > job.size)
		return -EINVAL;
	/* Of a rank here, the table is right: it has just taken the unit, or is giving it back. */
	if (is_here((uint16_t)(a.n - 1)))
		return -EINVAL;
	__atomic_compare_exchange_n(entry, &nobody, (uint16_t)a.n, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return (int)a.n - 1;
}

void owner_forget(size_t off, uint16_t rank)
{
	uint16_t *entry = &job.mem.units->owner[off / UNIT_BYTES], was = (uint16_t)(rank + 1);

	if (!first_node() && !is_here(rank))
		__atomic_compare_exchange_n(entry, &was, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool owner_is(size_t off, uint16_t rank)
{
	return off < job.heap && units_owner(job.mem.units, (uint32_t)(off / UNIT_BYTES)) == rank + 1u;
}

/* ---- at the first node ----------------------------------------------------------------------- */

static bool within(const struct units_call *q)
{
	return q->at < job.heap_shape.count && q->n && q->n <= job.heap_shape.count - q->at;
}

static int which(const struct units_call *q, void *out, size_t *size)
{
	const struct units *u = job.mem.units;
	uint64_t bits[USED_WORDS] = { 0 };
	uint32_t i;

	if (!within(q) || q->n > USED_WORDS * 64 || *size < (q->n + 63) / 64 * sizeof(bits[0]))
		return -EINVAL;
	for (i = 0; i < q->n; i++)
		if (u->owner[q->at + i] & UNIT_USED)
			bits[i / 64] |= 1ull << i % 64;
	*size = (q->n + 63) / 64 * sizeof(bits[0]);
	memcpy(out, bits, *size);
	return 0;
}

static int serve(const struct units_call *q, struct units_answer *a)
{
	struct units *u = job.mem.units;
	int64_t at;

	switch ((enum units_op)q->op) {
	case UNITS_TAKE:
		at = units_take(&job.heap_shape, u, q->n, q->rank, &a->n);
		a->at = (uint32_t)at;
		return at < 0 ? (int)at : 0;
	case UNITS_GIVE: return units_give(&job.heap_shape, u, q->at, q->n, q->rank);
	case UNITS_OWNER: a->n = within(q) ? units_owner(u, q->at) : 0; return 0;
	case UNITS_BEGIN:
		if (u->reclaimer)
			return -EBUSY;
		u->reclaimer = q->rank + 1u;
		return 0;
	case UNITS_END:
		if (u->reclaimer != q->rank + 1u)
			return -EINVAL;
		u->reclaimer = 0;
		return 0;
	default: return -EINVAL;
	}
}

int owner_serve(const void *in, size_t in_size, void *out, size_t *out_size)
{
	struct units_answer a = { 0 };
	struct units_call q;
	int err;

	if (in_size != sizeof(q))
		return -EINVAL;
	memcpy(&q, in, sizeof(q));
	if (q.rank >= job.size || !job.heap)
		return -EINVAL;
	word_lock(&job.mem.units->lock);
	err = q.op == UNITS_WHICH ? which(&q, out, out_size) : serve(&q, &a);
	word_unlock(&job.mem.units->lock);
	if (q.op == UNITS_WHICH || err) {
		*out_size = err ? 0 : *out_size;
		return err;
	}
	if (*out_size > sizeof(a))
		*out_size = sizeof(a);
	if (*out_size) /* else nobody wants it, and out may be NULL */
		memcpy(out, &a, *out_size);
	return 0;
}
