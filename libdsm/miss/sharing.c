// SPDX-License-Identifier: BSD-2-Clause
/* sharing.c - see sharing.h. */
#include "miss/sharing.h"

#include "job/job.h"
#include "job/memory.h"
#include "miss/block.h"

static struct sharing_page *page(size_t off)
{
	return &job.mem.sharing[off >> PAGE_SHIFT];
}

/*
 * Starts at 1, because a page that was never lost has 0. Half of the numbers suffice to tell one
 * acquire from the next.
 */
static uint32_t now(void)
{
	const uint32_t n = __atomic_load_n(&job.me->acquires, __ATOMIC_RELAXED) + 1;

	return (n & 0x7fffffff) ? n << 1 : 2;
}

void sharing_acquired(void)
{
	if (!one_node())
		__atomic_fetch_add(&job.me->acquires, 1, __ATOMIC_RELAXED);
}

void sharing_lost(uint32_t block, bool writable)
{
	uint32_t *lost = &page(block_off(block))->lost, at = now();

	/* again: had it been writable before? */
	if ((__atomic_load_n(lost, __ATOMIC_RELAXED) | 1) == (at | 1))
		at |= *lost & 1;
	__atomic_store_n(lost, at | writable, __ATOMIC_RELAXED);
}

bool sharing_is_repeated(size_t off, bool upgrade)
{
	const uint32_t lost = __atomic_load_n(&page(off)->lost, __ATOMIC_RELAXED), at = now();

	return upgrade ? lost == (at | 1) : (lost | 1) == (at | 1);
}

void sharing_missed(size_t off, bool repeated)
{
	struct sharing_page *p = page(off);

	__atomic_fetch_add(&p->misses, 1, __ATOMIC_RELAXED);
	if (repeated)
		__atomic_fetch_add(&p->repeated, 1, __ATOMIC_RELAXED);
}

unsigned int sharing_serve(size_t off, struct sharing_sum *out, unsigned int n)
{
	const size_t end = job.set.space;
	unsigned int have = 0;
	size_t at;

	for (at = off < end ? memory_next_missed(off, end) : end; at < end && have < n;
	     at = memory_next_missed(at + PAGE_BYTES, end)) {
		const struct sharing_page *p = page(at);
		const uint32_t misses = __atomic_load_n(&p->misses, __ATOMIC_RELAXED);

		if (misses)
			out[have++] = (struct sharing_sum){ at, PAGE_BYTES, misses, p->repeated };
	}
	return have;
}
