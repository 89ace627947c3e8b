/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * room.h - free places of the window, in units: holes with their lengths at both ends, so that neighbours join at once, in
 * lists by size. Taking and giving back costs the same however many there are. Pure; the caller locks.
 */
#ifndef ENGINE_ROOM_H
#define ENGINE_ROOM_H

#include <stdint.h>

#define ROOM_LISTS 32

/* One unit of the window. Zero, unless it is the first or the last of a hole. */
struct room_unit {
	uint32_t length;     /* of the hole */
	uint32_t next, prev; /* first units of holes of about this size, + 1; of the first unit only */
};

struct room {
	uint32_t units;
	uint32_t lists[ROOM_LISTS]; /* first unit + 1 of a hole of 2^i units or more */
};

/* Units from `first` to `units` are free; u is zero. */
void room_start(struct room *r, struct room_unit *u, uint32_t first, uint32_t units);
/* The first of n free units in a row, now taken; -ENOMEM. */
int64_t room_take(struct room *r, struct room_unit *u, uint32_t n);
void room_give(struct room *r, struct room_unit *u, uint32_t at, uint32_t n);

#endif
