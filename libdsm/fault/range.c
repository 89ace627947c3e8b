// SPDX-License-Identifier: BSD-2-Clause
/*
 * range.c - see range.h. An entry is written before the count that includes it; a removed entry has
 * length 0 and is reused.
 */
#include "fault/range.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct range {
	char *at;
	size_t off, len;
};

static char *window;
static size_t window_size;
static struct range ranges[RANGES_MAX];
static unsigned int used; /* entries ever used; atomic */

void range_window(void *base, size_t size)
{
	window = base;
	window_size = size;
	used = 0;
	memset(ranges, 0, sizeof(ranges));
}

/* The range of an offset. Read the length first: the rest of the entry was written before it. */
static const struct range *of_offset(size_t off)
{
	unsigned int i, n = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

	for (i = 0; i < n; i++) {
		size_t len = __atomic_load_n(&ranges[i].len, __ATOMIC_ACQUIRE);

		if (off - ranges[i].off < len)
			return &ranges[i];
	}
	return NULL;
}

static bool in_window(const char *addr)
{
	return (size_t)(addr - window) < window_size && addr >= window;
}

bool range_off(const void *addr, size_t *off)
{
	unsigned int i, n = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
	const char *p = addr;

	if (in_window(p)) {
		*off = (size_t)(p - window);
		return true;
	}
	for (i = 0; i < n; i++) {
		size_t len = __atomic_load_n(&ranges[i].len, __ATOMIC_ACQUIRE);

		if (p >= ranges[i].at && (size_t)(p - ranges[i].at) < len) {
			*off = ranges[i].off + (size_t)(p - ranges[i].at);
			return true;
		}
	}
	return false;
}

char *range_at(size_t off)
{
	const struct range *r = of_offset(off);

	return r ? r->at + (off - r->off) : window + off;
}

size_t range_run(size_t off, size_t end)
{
	const struct range *r = of_offset(off);
	unsigned int i, n = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

	if (r)
		return r->off + r->len < end ? r->off + r->len : end;
	for (i = 0; i < n; i++)
		if (__atomic_load_n(&ranges[i].len, __ATOMIC_ACQUIRE) && ranges[i].off > off &&
		    ranges[i].off < end)
			end = ranges[i].off;
	return end;
}

int range_add(void *at, size_t off, size_t len)
{
	const char *p = at;
	unsigned int i, gap = used;

	if (p < window + window_size && p + len > window)
		return -EEXIST;
	for (i = 0; i < used; i++) {
		const struct range *r = &ranges[i];

		if (!r->len)
			gap = i;
		else if (p < r->at + r->len && p + len > r->at)
			return -EEXIST;
	}
	if (gap == RANGES_MAX)
		return -ENOSPC;
	ranges[gap].at = at;
	ranges[gap].off = off;
	__atomic_store_n(&ranges[gap].len, len, __ATOMIC_RELEASE);
	if (gap == used)
		__atomic_store_n(&used, gap + 1, __ATOMIC_RELEASE);
	return 0;
}

void range_remove(size_t off)
{
	unsigned int i;

	for (i = 0; i < used; i++)
		if (ranges[i].off == off && ranges[i].len)
			__atomic_store_n(&ranges[i].len, 0, __ATOMIC_RELEASE);
}

int range_protect(size_t off, size_t len, int prot)
{
	size_t end = off + len, next;

	for (; off < end; off = next) {
		next = range_run(off, end);
		if (mprotect(range_at(off), next - off, prot))
			return -errno;
	}
	return 0;
}
