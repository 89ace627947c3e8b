// SPDX-License-Identifier: BSD-2-Clause
/*
 * guard.c - see guard.h. Two bits for each page of the window; memory is allocated only where bits
 * are set.
 */
#include "fault/guard.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "fault/frames.h"
#include "fault/range.h"

#define PAGES 32u /* of a word */

static uint64_t *bits;  /* atomic; NULL: no guard was ever set */
static uint32_t guards; /* pages; atomic */

static size_t bytes(void)
{
	return (frames_node.size / PAGE_BYTES + PAGES - 1) / PAGES * sizeof(*bits);
}

static uint64_t *get_bits(void)
{
	uint64_t *seen = __atomic_load_n(&bits, __ATOMIC_ACQUIRE), *fresh;

	if (seen)
		return seen;
	fresh = mmap(NULL, bytes(), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fresh == MAP_FAILED)
		return NULL;
	if (__atomic_compare_exchange_n(&bits, &seen, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return fresh;
	munmap(fresh, bytes()); /* another thread was faster */
	return seen;
}

static enum guard guard_in(uint64_t word, size_t page)
{
	return (enum guard)(word >> (page % PAGES * 2) & 3);
}

static void mark_page(uint64_t *word, size_t page, enum guard guard)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST), fresh;

	do {
		fresh = old & ~(3ull << (page % PAGES * 2));
		fresh |= (uint64_t)guard << (page % PAGES * 2);
	} while (!__atomic_compare_exchange_n(word, &old, fresh, 0, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	if (guard && !guard_in(old, page))
		__atomic_fetch_add(&guards, 1, __ATOMIC_SEQ_CST);
	if (!guard && guard_in(old, page))
		__atomic_fetch_sub(&guards, 1, __ATOMIC_SEQ_CST);
}

int guard_mark(size_t off, size_t len, enum guard guard)
{
	uint64_t *map = get_bits();
	size_t page;

	if (!map)
		return -ENOMEM;
	for (page = off / PAGE_BYTES; page < (off + len) / PAGE_BYTES; page++)
		mark_page(&map[page / PAGES], page, guard);
	return 0;
}

bool guard_any(void)
{
	return __atomic_load_n(&guards, __ATOMIC_SEQ_CST);
}

enum guard guard_of(size_t off)
{
	const uint64_t *map = __atomic_load_n(&bits, __ATOMIC_ACQUIRE);
	const size_t page = off / PAGE_BYTES;

	return map ? guard_in(__atomic_load_n(&map[page / PAGES], __ATOMIC_SEQ_CST), page)
		   : GUARD_NONE;
}

int guard_by_bounds(size_t off, size_t len, enum guard guard)
{
	const int prot = guard == GUARD_NONE ? PROT_READ | PROT_WRITE
		: guard == GUARD_STORES      ? PROT_READ
					     : PROT_NONE;
	int err = guard ? guard_mark(off, len, guard) : 0;

	if (err)
		return err;
	err = range_protect(off, len, prot);
	if (err && guard)
		range_protect(off, len, PROT_READ | PROT_WRITE);
	if (guard ? err : !err) /* pages that stay closed stay marked */
		guard_mark(off, len, GUARD_NONE);
	return err;
}

void guard_close(void)
{
	if (bits)
		munmap(bits, bytes());
	bits = NULL;
	guards = 0;
}
