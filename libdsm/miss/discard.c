// SPDX-License-Identifier: BSD-2-Clause
/*
 * discard.c - see discard.h.
 *
 * Marks change without a lock, and frames are freed under the stripes of their blocks. An allocator
 * does not take stripes, so the thread that frees frames publishes where it does so (`going`):
 *
 *   thread of the node that reclaims        thread that allocates
 *     going = the run
 *     finds its pages marked                  removes their marks
 *     frees the frames                        finds the run in `going`: waits
 *     going = 0
 *                                             returns the memory, which the program writes
 *
 * Either the former sees that a mark is gone, or the latter sees the run. Both use sequentially
 * consistent accesses for that.
 */
#include "miss/discard.h"

#include <sched.h>

#include "fault/fault.h"
#include "job/job.h"
#include "job/lost.h"
#include "miss/recent.h"
#include "util/bits.h"
#include "util/clock.h"

#define LATE_NS 100000000u
#define GOING_BITS 16 /* of `going`: the number of pages; the rest is the first page */

_Static_assert(BLOCK_MAX / PAGE_BYTES < 1u << GOING_BITS, "a run is no longer than that");

/* Of the part of the heap with sequential consistency: release blocks have more than one copy. */
static bool may_be_marked(size_t off)
{
	return job.set.memory && !one_node() && off < (size_t)job.heap_shape.split * UNIT_BYTES;
}

/* Set or clear the bits of [page, end). Returns how many have changed. */
static uint64_t bits_set(uint64_t *map, size_t page, size_t end, bool on)
{
	uint64_t changed = 0;
	size_t w;

	for (w = page / 64; page < end && w <= (end - 1) / 64; w++) {
		const uint64_t mask = word_mask(w, page, end);
		uint64_t was = __atomic_load_n(&map[w], __ATOMIC_SEQ_CST);

		if ((was & mask) == (on ? mask : 0))
			continue;
		was = on ? __atomic_fetch_or(&map[w], mask, __ATOMIC_SEQ_CST)
			 : __atomic_fetch_and(&map[w], ~mask, __ATOMIC_SEQ_CST);
		changed += (uint64_t)__builtin_popcountll((on ? ~was : was) & mask);
	}
	return changed;
}

static bool bits_all(const uint64_t *map, size_t page, size_t end)
{
	size_t w;

	for (w = page / 64; page < end && w <= (end - 1) / 64; w++) {
		const uint64_t mask = word_mask(w, page, end);

		if ((__atomic_load_n(&map[w], __ATOMIC_SEQ_CST) & mask) != mask)
			return false;
	}
	return true;
}

static void clear_marks(size_t page, size_t end)
{
	const uint64_t n = bits_set(job.mem.marked, page, end, false);

	if (n)
		__atomic_fetch_sub(&job.me->reclaim.marked, n, __ATOMIC_RELAXED);
}

/* Counted behind the bits, so the count may pass zero for a moment: then there are marks. */
void discard_mark(size_t off, size_t len)
{
	const size_t page = (off + PAGE_BYTES - 1) >> PAGE_SHIFT, end = (off + len) >> PAGE_SHIFT;
	uint64_t n;
	size_t unit;

	if (page >= end || !may_be_marked(off))
		return;
	n = bits_set(job.mem.marked, page, end, true);
	if (n)
		__atomic_fetch_add(&job.me->reclaim.marked, n, __ATOMIC_RELAXED);
	for (unit = off / UNIT_BYTES; unit <= (off + len - 1) / UNIT_BYTES; unit++)
		if (__atomic_load_n(&job.mem.kept[unit], __ATOMIC_RELAXED))
			__atomic_store_n(&job.mem.kept[unit], 0, __ATOMIC_RELAXED);
}

static bool is_going(size_t page, size_t end)
{
	const uint64_t going = __atomic_load_n(&job.me->reclaim.going, __ATOMIC_SEQ_CST);
	const size_t from = going >> GOING_BITS, n = going & ((1u << GOING_BITS) - 1);

	return n && from < end && page < from + n;
}

void discard_unmark(size_t off, size_t len)
{
	const size_t page = off >> PAGE_SHIFT, end = (off + len + PAGE_BYTES - 1) >> PAGE_SHIFT;
	uint64_t since;

	if (!may_be_marked(off))
		return;
	clear_marks(page, end);
	if (!is_going(page, end))
		return;
	for (since = clock_ns(); is_going(page, end); sched_yield())
		if (clock_ns() - since > LATE_NS) {
			lost_scan(); /* of that thread's rank: this may be the service thread */
			since = clock_ns();
		}
}

bool discard_any(void)
{
	return __atomic_load_n(&job.me->reclaim.marked, __ATOMIC_RELAXED);
}

bool discard_is_empty(size_t off)
{
	return may_be_marked(off) &&
		bits_all(job.mem.empty, off >> PAGE_SHIFT, (off >> PAGE_SHIFT) + 1);
}

bool discard_is_marked(size_t off, size_t len)
{
	return may_be_marked(off) &&
		bits_all(job.mem.marked, off >> PAGE_SHIFT, (off + len) >> PAGE_SHIFT);
}

void discard_forget(size_t off, size_t len)
{
	if (may_be_marked(off))
		clear_marks(off >> PAGE_SHIFT, (off + len) >> PAGE_SHIFT);
}

void discard_publish(size_t off, size_t len)
{
	__atomic_store_n(&job.me->reclaim.going,
			 (uint64_t)(off >> PAGE_SHIFT) << GOING_BITS | len >> PAGE_SHIFT,
			 __ATOMIC_SEQ_CST);
}

void discard_emptied(size_t off, size_t block)
{
	bits_set(job.mem.empty, off >> PAGE_SHIFT, (off >> PAGE_SHIFT) + 1, true);
	clear_marks(off >> PAGE_SHIFT, (off + block) >> PAGE_SHIFT);
}

int discard_refill(size_t off, size_t block)
{
	int err;

	if (!discard_is_empty(off))
		return 0;
	err = job.fault->zero(job.local, off, block);
	if (err)
		return err;
	bits_set(job.mem.empty, off >> PAGE_SHIFT, (off >> PAGE_SHIFT) + 1, false);
	recent_came(off, block);
	return 1;
}
