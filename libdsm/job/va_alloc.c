// SPDX-License-Identifier: BSD-2-Clause
/* va_alloc.c - see va_alloc.h; after Knuth's boundary tags. */
#include "job/va_alloc.h"

#include <errno.h>

#define TRIES 32 /* holes tried that may be slightly too small, before a larger one is split */

static unsigned int list_of(uint32_t length)
{
	return 31 - (unsigned int)__builtin_clz(length);
}

static void va_alloc_add(struct va_alloc *r, struct va_alloc_unit *u, uint32_t at, uint32_t length)
{
	uint32_t *list = &r->lists[list_of(length)];

	u[at] = (struct va_alloc_unit){ .length = length, .next = *list };
	u[at + length - 1].length = length;
	if (*list)
		u[*list - 1].prev = at + 1;
	*list = at + 1;
}

static void va_alloc_drop(struct va_alloc *r, struct va_alloc_unit *u, uint32_t at)
{
	const struct va_alloc_unit hole = u[at];

	if (hole.prev)
		u[hole.prev - 1].next = hole.next;
	else
		r->lists[list_of(hole.length)] = hole.next;
	if (hole.next)
		u[hole.next - 1].prev = hole.prev;
	u[at + hole.length - 1] = (struct va_alloc_unit){ 0 };
	u[at] = (struct va_alloc_unit){ 0 };
}

void va_alloc_start(struct va_alloc *r, struct va_alloc_unit *u, uint32_t first, uint32_t units)
{
	*r = (struct va_alloc){ .units = units };
	if (first < units)
		va_alloc_add(r, u, first, units - first);
}

/*
 * Find a hole of at least n units. All holes of n's own size class are tried only if there is no
 * larger one.
 */
static int64_t va_alloc_find(const struct va_alloc *r, const struct va_alloc_unit *u, uint32_t n)
{
	uint32_t own = list_of(n), list, tries = 0, hole;

	for (hole = r->lists[own]; hole && tries < TRIES; hole = u[hole - 1].next, tries++)
		if (u[hole - 1].length >= n)
			return hole - 1;
	for (list = own + 1; list < VA_ALLOC_LISTS; list++)
		if (r->lists[list])
			return r->lists[list] - 1;
	for (; hole; hole = u[hole - 1].next)
		if (u[hole - 1].length >= n)
			return hole - 1;
	return -ENOMEM;
}

int64_t va_alloc_take(struct va_alloc *r, struct va_alloc_unit *u, uint32_t n)
{
	int64_t at = n ? va_alloc_find(r, u, n) : -EINVAL;
	uint32_t length;

	if (at < 0)
		return at;
	length = u[at].length;
	va_alloc_drop(r, u, (uint32_t)at);
	if (length > n)
		va_alloc_add(r, u, (uint32_t)at + n, length - n);
	return at;
}

void va_alloc_give(struct va_alloc *r, struct va_alloc_unit *u, uint32_t at, uint32_t n)
{
	if (at + n < r->units && u[at + n].length) {
		uint32_t behind = at + n;

		n += u[behind].length;
		va_alloc_drop(r, u, behind);
	}
	if (at && u[at - 1].length) {
		uint32_t before = at - u[at - 1].length;

		n += at - before;
		va_alloc_drop(r, u, before);
		at = before;
	}
	va_alloc_add(r, u, at, n);
}
