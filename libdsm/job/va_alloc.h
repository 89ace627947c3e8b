/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * va_alloc.h - allocator of the window, in units. Each free range (hole) has its length at both
 * ends, so that adjacent holes are merged at once, and is in a list by size. Allocation and release
 * take constant time. Pure functions; the caller locks.
 */
#ifndef JOB_VA_ALLOC_H
#define JOB_VA_ALLOC_H

#include <stdint.h>

#define VA_ALLOC_LISTS 32

/* One unit of the window. Zero, unless it is the first or the last of a hole. */
struct va_alloc_unit {
	uint32_t length; /* of the hole */
	/* first units of the neighbours in the list, + 1; only in the first unit */
	uint32_t next, prev;
};

struct va_alloc {
	uint32_t units;
	uint32_t lists[VA_ALLOC_LISTS]; /* first unit + 1 of a hole of 2^i units or more */
};

/* Initialize: units from `first` to `units` are free; u is zero. */
void va_alloc_start(struct va_alloc *r, struct va_alloc_unit *u, uint32_t first, uint32_t units);
/* Allocate n adjacent units. Returns the first, or -ENOMEM. */
int64_t va_alloc_take(struct va_alloc *r, struct va_alloc_unit *u, uint32_t n);
void va_alloc_give(struct va_alloc *r, struct va_alloc_unit *u, uint32_t at, uint32_t n);

#endif
