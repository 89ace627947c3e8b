// SPDX-License-Identifier: BSD-2-Clause
/* sharing.c - see sharing.h. */
#include "engine/sharing.h"

#include "engine/block.h"
#include "engine/job.h"
#include "engine/memory.h"
#include "util/top.h"

static struct sharing_page *page(size_t off)
{
	return &job.mem.sharing[off >> PAGE_SHIFT];
}

/* Starts at 1, because a page that was never lost has 0. Half of the numbers suffice to tell one acquire from the next. */
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

	if ((__atomic_load_n(lost, __ATOMIC_RELAXED) | 1) == (at | 1)) /* again: had it been writable before? */
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

static struct sharing_sum sum_of(size_t off, size_t bytes)
{
	struct sharing_sum s = { .off = off, .bytes = bytes };
	size_t at, end = off + bytes;

	for (at = memory_next_missed(off, end); at < end; at = memory_next_missed(at + PAGE_BYTES, end)) {
		s.misses += page(at)->misses;
		s.repeated += page(at)->repeated;
	}
	return s;
}

static unsigned int most(struct sharing_sum *out, unsigned int n)
{
	struct top top = { .list = out, .size = sizeof(*out), .key = offsetof(struct sharing_sum, misses), .n = n };
	size_t at, end = job.set.space;

	for (at = memory_next_missed(0, end); at < end; at = memory_next_missed(at + PAGE_BYTES, end)) {
		const struct sharing_page *p = page(at);
		const struct sharing_sum one = { at, PAGE_BYTES, p->misses, p->repeated };

		if (one.misses)
			top_add(&top, &one);
	}
	return top.have;
}

unsigned int sharing_serve(size_t off, size_t bytes, struct sharing_sum *out, unsigned int n)
{
	if (!n || off > job.set.space || bytes > job.set.space - off)
		return 0;
	if (!bytes)
		return most(out, n);
	*out = sum_of(off, bytes);
	return 1;
}
