// SPDX-License-Identifier: BSD-2-Clause
/*
 * guard.c - see guard.h. A bit for each page of the window; memory is allocated only where bits are
 * set.
 */
#include "fault/guard.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "fault/frames.h"
#include "fault/range.h"

static uint64_t *bits;  /* atomic; NULL: no guard was ever set */
static uint32_t guards; /* pages; atomic */

static size_t bytes(void)
{
	return (frames_node.size / PAGE_BYTES + 63) / 64 * sizeof(*bits);
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

int guard_mark(size_t off, size_t len, bool on)
{
	uint64_t *map = get_bits();
	size_t at;

	if (!map)
		return -ENOMEM;
	for (at = off / PAGE_BYTES; at < (off + len) / PAGE_BYTES; at++)
		if (on)
			__atomic_fetch_or(&map[at / 64], 1ull << (at % 64), __ATOMIC_SEQ_CST);
		else
			__atomic_fetch_and(&map[at / 64], ~(1ull << (at % 64)), __ATOMIC_SEQ_CST);
	if (on)
		__atomic_fetch_add(&guards, (uint32_t)(len / PAGE_BYTES), __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_sub(&guards, (uint32_t)(len / PAGE_BYTES), __ATOMIC_SEQ_CST);
	return 0;
}

bool guard_any(void)
{
	return __atomic_load_n(&guards, __ATOMIC_SEQ_CST);
}

bool guard_has(size_t off)
{
	const uint64_t *map = __atomic_load_n(&bits, __ATOMIC_ACQUIRE);
	const size_t page = off / PAGE_BYTES;

	return map && __atomic_load_n(&map[page / 64], __ATOMIC_SEQ_CST) >> (page % 64) & 1;
}

int guard_by_bounds(size_t off, size_t len, bool on)
{
	int err = on ? guard_mark(off, len, true) : 0;

	if (err)
		return err;
	err = range_protect(off, len, on ? PROT_NONE : PROT_READ | PROT_WRITE);
	if (on ? err : !err) /* pages that stay closed stay marked */
		guard_mark(off, len, false);
	return err;
}

void guard_close(void)
{
	if (bits)
		munmap(bits, bytes());
	bits = NULL;
	guards = 0;
}
