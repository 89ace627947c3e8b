// SPDX-License-Identifier: BSD-2-Clause
/* recent.c - see recent.h. */
#include "miss/recent.h"

#include "job/job.h"

#define GONE 0x80u /* the rest is the time */
#define SPAN 8u    /* units of time while as many bytes come as the node may have */
/* a block that comes back after less than a quarter of that is in frequent use */
#define SOON (SPAN / 4)

static uint8_t *mark_of(size_t off)
{
	return &job.mem.recent[off >> PAGE_SHIFT];
}

static uint8_t time_of(uint64_t came)
{
	return came / (job.set.memory / SPAN) & (GONE - 1);
}

void recent_came(size_t off, size_t len)
{
	const uint64_t came = __atomic_fetch_add(&job.me->reclaim.came, len, __ATOMIC_RELAXED);
	uint8_t *kept = &job.mem.kept[off / UNIT_BYTES];
	uint8_t *mark = mark_of(off), was = __atomic_load_n(mark, __ATOMIC_RELAXED);
	const bool soon = was & GONE && ((time_of(came) - was) & (GONE - 1)) < SOON;

	__atomic_store_n(mark, soon ? RECENT_OFTEN : RECENT_PASSES, __ATOMIC_RELAXED);
	if (__atomic_load_n(kept, __ATOMIC_RELAXED))
		__atomic_store_n(kept, 0, __ATOMIC_RELAXED);
}

void recent_grew(size_t len)
{
	__atomic_fetch_add(&job.me->reclaim.came, len, __ATOMIC_RELAXED);
}

void recent_gone(size_t off)
{
	const uint64_t came = __atomic_load_n(&job.me->reclaim.came, __ATOMIC_RELAXED);

	__atomic_store_n(mark_of(off), (uint8_t)(GONE | time_of(came)), __ATOMIC_RELAXED);
}

/* A block that has been asked to go and is still here is asked again after one more pass. */
bool recent_passed(size_t off)
{
	uint8_t *mark = mark_of(off), was = __atomic_load_n(mark, __ATOMIC_RELAXED);

	if (was)
		__atomic_store_n(mark, was & GONE ? 0 : (uint8_t)(was - 1), __ATOMIC_RELAXED);
	return !was;
}
