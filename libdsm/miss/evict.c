// SPDX-License-Identifier: BSD-2-Clause
/*
 * evict.c - a node leaves a region: it drops its read copies, and gives the blocks that it has
 * written to their homes.
 *
 * The last rank that detaches does all of it, a run of neighbouring blocks at a time, and waits
 * until the homes have answered.
 */
#include "miss/evict.h"

#include <errno.h>

#include "job/inside.h"
#include "job/job.h"
#include "job/memory.h"
#include "job/note.h"
#include "job/upcalls.h"
#include "job/usage.h"
#include "miss/block.h"
#include "miss/drop.h"
#include "miss/release_end.h"
#include "miss/slot.h"
#include "miss/wait.h"
#include "miss/work.h"
#include "util/futex.h"
#include "util/sys.h"

/* Another rank of the node may attach again meanwhile: then its blocks stay. */
static bool has_users(const struct dsm_region *r)
{
	return __atomic_load_n(&job.me->users[r->id], __ATOMIC_SEQ_CST);
}

/* The newest copy stays with its home, for the others. */
static bool must_leave(const struct copy *p)
{
	return __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != PG_INVALID &&
		!((p->flags & PAGE_OWNER) && p->home - 1 == job.node);
}

static bool any_must_leave(const struct dsm_region *r, size_t off, size_t end)
{
	while (off < end && !must_leave(block_copy(off)))
		off += r->block_size;
	return off < end;
}

#define EVICT_QUICK_NS 1000000u /* what answers take; then this thread sleeps between two polls */
#define EVICT_NAP_US 200u
#define EVICT_CHECK_NS 100000000u /* so often it checks whether another rank of the node has come */

/* Until no request for any of it is under way, or another rank of the node attaches: what another
 * node has pinned may take long. */
static void await_requests(const struct dsm_region *r, size_t off, size_t end)
{
	const uint64_t since = clock_ns();
	uint32_t seq;
	int note = -1, slot;

	while (!has_users(r) && (slot = slot_find_prefetch(off, end, &seq)) >= 0) {
		if (note < 0)
			note = note_begin(slot_object(NULL, (uint16_t)slot), false, since);
		/* blocks that have been asked for are closed together; a waiter takes few messages
		 * at a time */
		block_help();
		wait_slot((uint16_t)slot, seq, 1, EVICT_CHECK_NS);
		job.up->long_wait(since, clock_ns());
	}
	note_end(note);
}

/* Drop read copies, and give the newest copies to their homes: all requests first, so that the
 * homes take neighbours together. */
static void evict_run(struct dsm_region *r, size_t off, size_t end)
{
	const uint64_t since = clock_ns();

	while (!has_users(r) && any_must_leave(r, off, end)) {
		block_release(r, off, end - off, true);
		drop_blocks(off, r->block_size, (unsigned int)((end - off) / r->block_size));
		await_requests(r, off, end);
		if (!any_must_leave(r, off, end))
			break;
		block_help();
		if (clock_ns() - since > EVICT_QUICK_NS)
			sys_sleep_us(EVICT_NAP_US);
	}
}

/* Neighbours from off on whose states lie in memory: so many that their stripes are not held for
 * longer than it takes to close the largest block. */
static size_t end_of_run(const struct dsm_region *r, size_t off)
{
	const size_t end = r->off + r->bytes;
	size_t to = off + r->block_size;

	while (to - off < DROP_MOST * (size_t)r->block_size && to - off < BLOCK_MAX && to < end &&
	       memory_next_used(to, end) == to)
		to += r->block_size;
	return to;
}

int evict_region(struct dsm_region *r)
{
	size_t at, from, to, end = r->off + r->bytes;

	if (one_node())
		return 0;
	if (r->consistency) {
		release_leave(r);
		return 0;
	}
	for (at = memory_next_used(r->off, end); at < end;
	     at = memory_next_used(at + r->block_size, end))
		if (block_copy(at)->pins_read || block_copy(at)->pins_write)
			return -EBUSY;
	usage_leaving();
	engine_enter();
	for (at = memory_next_used(r->off, end); at < end; at = memory_next_used(to, end)) {
		from = at / r->block_size * r->block_size;
		to = end_of_run(r, from);
		evict_run(r, from, to);
	}
	await_requests(r, r->off, end); /* releases that the homes have not heard of */
	work_timers(true);
	engine_leave();
	return 0;
}
