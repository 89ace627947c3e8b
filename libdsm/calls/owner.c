// SPDX-License-Identifier: BSD-2-Clause
/*
 * owner.c - which rank has a unit of the heap.
 *
 * The first node's table is authoritative, under its lock, which is a leaf; other nodes ask by
 * CALL_UNITS_TAKE and similar calls. Each node also has a table of its own, in which it enters what
 * its ranks take and give back, so that frees find the owner in memory. Entries for other nodes may
 * be out of date: a rank refuses to free what is not its own, and the caller asks again. While an
 * allocation lives, its units stay with their owner.
 */
#include "calls/owner.h"

#include <errno.h>
#include <string.h>

#include "calls/call.h"
#include "calls/payload.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/lost.h"
#include "miss/discard.h"
#include "miss/empty.h"
#include "miss/release.h"
#include "util/futex.h"
#include "util/sys.h"

#define CLOSE_US 20 /* pause while another node's close runs */

static bool first_node(void)
{
	return job.node == node_of(0);
}

static int owner_ask(enum call_op op, uint16_t rank, uint32_t at, uint32_t n, void *out,
		     size_t size)
{
	const struct units_ask q = { .rank = rank, .at = at, .n = n };

	return call_rank(0, op, &q, sizeof(q), out, size);
}

/* An entry in the table of a node that is not the first. */
static void owner_enter(uint32_t at, uint32_t n, uint16_t owner)
{
	for (; n; at++, n--)
		__atomic_store_n(&job.mem.units->owner[at], owner, __ATOMIC_RELEASE);
}

void owner_let_memory(void)
{
	engine_enter();
	release_close();
	engine_leave();
}

/* ---- of this rank ---------------------------------------------------------------------------- */

/*
 * Stores of another node to memory that is used again must not come after this node's: see give(),
 * dsm_free().
 */
static void memory_comes(void)
{
	engine_enter();
	release_acquire();
	engine_leave();
}

static int64_t owner_take_units(bool upper, uint32_t n, uint32_t *used)
{
	const struct units_ask q = { .rank = job.rank, .upper = upper, .n = n };
	struct units_taken a;
	int err = call_rank(0, CALL_UNITS_TAKE, &q, sizeof(q), &a, sizeof(a));

	if (err)
		return err;
	if (a.n != n) {
		lost_rank(0, "it gave other units of the heap than were asked for");
		return -EBADMSG; /* the job is ending */
	}
	if (!first_node())
		owner_enter(a.at, n, (uint16_t)(job.rank + 1));
	*used = a.used;
	if (upper && a.used)
		memory_comes();
	return a.at;
}

static int used(uint32_t at, uint32_t n, uint64_t *bits)
{
	struct units_bits b;
	uint32_t some;
	int err = 0;

	for (; n && !err; at += some, n -= some, bits += some / 64) {
		some = n < PAYLOAD_UNITS_MAX ? n : PAYLOAD_UNITS_MAX;
		err = owner_ask(CALL_UNITS_WHICH, job.rank, at, some, &b, sizeof(b));
		if (!err)
			memcpy(bits, b.used, (some + 63) / 64 * sizeof(*bits));
	}
	return err;
}

static void give(uint32_t at, uint32_t n)
{
	if (at + n > job.heap_shape.split)
		owner_let_memory();
	if (!first_node())
		owner_enter(at, n, 0);
	owner_ask(CALL_UNITS_GIVE, job.rank, at, n, NULL, 0);
}

static void disowned(uint32_t at, uint32_t n)
{
	empty_units((size_t)at * UNIT_BYTES, (size_t)n * UNIT_BYTES);
}

const struct heap_source owner_source = { .take = owner_take_units,
					  .used = used,
					  .give = give,
					  .drained = memory_comes,
					  .freed = discard_mark,
					  .used_again = discard_unmark,
					  .disowned = disowned };

/*
 * Units of the upper part that this rank no longer has, and that are given back once the node's
 * stores to them are at their homes: as give() does, but the service thread must not wait. Only it
 * uses them.
 */
static struct {
	uint64_t close; /* they go with its end */
	uint32_t n;
	bool full; /* there may be more of them */
	struct units_run runs[PAYLOAD_RUNS];
} leaving;

/* Disown units of a part, up to the number of runs that there is room for. Returns theirs. */
static uint32_t trim_part(bool upper, struct units_run *runs, uint32_t room)
{
	uint32_t n = 0;

	while (n < room && (runs[n].n = heap_trim(upper, &runs[n].at)))
		n++;
	return n;
}

static uint32_t trim_upper(struct units_run *runs, uint32_t room)
{
	uint32_t n;

	if (!leaving.n) {
		leaving.n = trim_part(true, leaving.runs, PAYLOAD_RUNS);
		leaving.full = leaving.n == PAYLOAD_RUNS;
		leaving.close = leaving.n ? release_close_begin() : 0;
	}
	if (!release_has_closed(leaving.close))
		return 0;
	for (n = 0; n < room && leaving.n; n++)
		runs[n] = leaving.runs[--leaving.n];
	return n;
}

int owner_trim(bool first, struct trimmed *out)
{
	uint32_t n, i;

	memset(out, 0, sizeof(*out));
	if (first)
		heap_trim_begin();
	n = trim_part(false, out->runs, PAYLOAD_RUNS);
	n += trim_upper(out->runs + n, PAYLOAD_RUNS - n);
	for (i = 0; i < n && !first_node(); i++)
		owner_enter(out->runs[i].at, out->runs[i].n, 0);
	out->head.n = n;
	out->head.more = n == PAYLOAD_RUNS || leaving.n || leaving.full;
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
		if (!first && !t.head.n)
			sys_sleep_us(CLOSE_US);
		err = call_rank(rank, CALL_TRIM, &first, sizeof(first), &t, sizeof(t));
		for (i = 0; !err && i < t.head.n; i++)
			if (t.runs[i].n &&
			    !owner_ask(CALL_UNITS_GIVE, rank, t.runs[i].at, t.runs[i].n, NULL, 0))
				sum += t.runs[i].n;
		first = 0;
	} while (!err && t.head.more);
	return sum;
}

int owner_reclaim_begin(void)
{
	return owner_ask(CALL_UNITS_BEGIN, job.rank, 0, 0, NULL, 0);
}

void owner_reclaim_end(void)
{
	owner_ask(CALL_UNITS_END, job.rank, 0, 0, NULL, 0);
}

int unit_owner(size_t off)
{
	const uint32_t at = (uint32_t)(off / UNIT_BYTES);
	uint16_t *entry = &job.mem.units->owner[at], nobody = 0;
	uint32_t owner = units_owner(job.mem.units, at);
	struct units_owned a;

	if (owner || first_node())
		return owner ? (int)owner - 1 : -EINVAL;
	if (owner_ask(CALL_UNITS_OWNER, job.rank, at, 1, &a, sizeof(a)) || !a.owner)
		return -EINVAL;
	/*
	 * For a rank of this node the table is right: the rank has just taken the unit, or is
	 * giving it back.
	 */
	if (is_here((uint16_t)(a.owner - 1)))
		return -EINVAL;
	__atomic_compare_exchange_n(entry, &nobody, (uint16_t)a.owner, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	return (int)a.owner - 1;
}

void owner_forget(size_t off, uint16_t rank)
{
	uint16_t *entry = &job.mem.units->owner[off / UNIT_BYTES], was = (uint16_t)(rank + 1);

	if (!first_node() && !is_here(rank))
		__atomic_compare_exchange_n(entry, &was, 0, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

bool owner_is(size_t off, uint16_t rank)
{
	return off < job.heap &&
		units_owner(job.mem.units, (uint32_t)(off / UNIT_BYTES)) == rank + 1u;
}

/* ---- at the first node ----------------------------------------------------------------------- */

static void which(const struct units_ask *q, struct units_bits *out)
{
	uint32_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < q->n; i++)
		if (job.mem.units->owner[q->at + i] & UNIT_USED)
			out->used[i / 64] |= 1ull << i % 64;
}

static int taken(const struct units_ask *q, struct units_taken *out)
{
	uint32_t used;
	int64_t at = units_take(&job.heap_shape, job.mem.units, q->upper, q->n, q->rank, &used);

	if (at < 0)
		return (int)at;
	*out = (struct units_taken){ .at = (uint32_t)at, .n = q->n, .used = used };
	return 0;
}

/* A rank gives back its own units. During a reclaim, the reclaimer gives back units for all. */
static bool may_give(const struct units *u, uint16_t from, uint16_t rank)
{
	return node_of(rank) == from ||
		(u->reclaimer && node_of((uint16_t)(u->reclaimer - 1)) == from);
}

static int owner_perform(uint16_t from, enum call_op op, const struct units_ask *q, void *out)
{
	struct units *u = job.mem.units;

	switch (op) {
	case CALL_UNITS_TAKE: return taken(q, out);
	case CALL_UNITS_GIVE:
		return may_give(u, from, q->rank)
			? units_give(&job.heap_shape, u, q->at, q->n, q->rank)
			: -EBADMSG;
	case CALL_UNITS_OWNER:
		*(struct units_owned *)out = (struct units_owned){ .owner = units_owner(u, q->at) };
		return 0;
	case CALL_UNITS_WHICH: which(q, out); return 0;
	case CALL_UNITS_BEGIN:
		if (u->reclaimer)
			return -EBUSY;
		u->reclaimer = q->rank + 1u;
		return 0;
	default: /* CALL_UNITS_END */
		if (u->reclaimer != q->rank + 1u)
			return -EBADMSG;
		u->reclaimer = 0;
		return 0;
	}
}

int owner_serve(uint16_t from, enum call_op op, const void *in, void *out)
{
	struct units_ask q;
	int err;

	memcpy(&q, in, sizeof(q));
	word_lock(&job.mem.units->lock);
	err = owner_perform(from, op, &q, out);
	word_unlock(&job.mem.units->lock);
	return err;
}
