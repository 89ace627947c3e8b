/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * room.h - allocator of the window, in units. Each free range (hole) has its length at both ends, so that adjacent holes are
 * merged at once, and is in a list by size. Allocation and release take constant time. Pure functions; the caller locks.
 */
#ifndef JOB_ROOM_H
#define JOB_ROOM_H

#include <stdint.h>

#define ROOM_LISTS 32

/* One unit of the window. Zero, unless it is the first or the last of a hole. */
struct room_unit {
	uint32_t length;     /* of the hole */
	uint32_t next, prev; /* first units of the neighbours in the list, + 1; only in the first unit */
};

struct room {
	uint32_t units;
	uint32_t lists[ROOM_LISTS]; /* first unit + 1 of a hole of 2^i units or more */
};

/* Initialize: units from `first` to `units` are free; u is zero. */
void room_start(struct room *r, struct room_unit *u, uint32_t first, uint32_t units);
/* Allocate n adjacent units. Returns the first, or -ENOMEM. */
int64_t room_take(struct room *r, struct room_unit *u, uint32_t n);
void room_give(struct room *r, struct room_unit *u, uint32_t at, uint32_t n);

#endif
