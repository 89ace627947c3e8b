/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * units.h - which rank has each 2 MiB of the heap. A rank takes units in a row, allocates in them, and gives back those in which
 * nothing is left.
 *
 * The table of the job is in the memory of the first node. Another node's says which units its own ranks have, and which rank
 * of another node was last found to have one. Ordinary memory of all ranks of a node, zero at the start; owners are atomic. Pure;
 * the caller of units_take() and units_give() locks.
 *
 * Homes follow from the place: stripes of the heap belong to the nodes of the ranks in turn, until a block is touched first. So
 * a rank takes units of its own stripes as long as it finds some. Short runs come from the first stripe of each rank, a
 * sixteenth of the heap: the rest stays free for a long one, whatever rank it is that has allocated a little.
 */
#ifndef HEAP_UNITS_H
#define HEAP_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

#define UNIT_BYTES ((size_t)2 << 20)
#define UNIT_USED 0x8000u /* some rank has had it, and given it back: it may not be zero any more */
#define UNIT_OWNER 0x7fffu
_Static_assert(WIRE_MAX_NODES < UNIT_OWNER, "an owner is a rank + 1");

struct units {
	uint32_t lock;
	uint32_t reclaimer;           /* the rank that has others give units back, + 1 */
	uint32_t low[WIRE_MAX_NODES]; /* of a rank's stripes, no unit below is free */
	uint16_t owner[];             /* of each unit: 0, or the rank + 1; UNIT_USED */
};

struct units_shape {
	uint32_t count, stripe; /* units of the heap, and of a stripe */
	uint32_t ranks;
};

static inline size_t units_size(size_t heap)
{
	return sizeof(struct units) + heap / UNIT_BYTES * sizeof(uint16_t);
}

struct units_shape units_shape(size_t heap, uint32_t ranks);
/* The first of n units in a row, which are the rank's now; -ENOMEM. *used: so many of them have been used before. */
int64_t units_take(const struct units_shape *x, struct units *u, uint32_t n, uint32_t rank, uint32_t *used);
/* -EINVAL: they are not all the rank's; nothing is changed. */
int units_give(const struct units_shape *x, struct units *u, uint32_t at, uint32_t n, uint32_t rank);

/* The rank whose node is the home of a unit's blocks until they are touched. */
static inline uint32_t units_home(const struct units_shape *x, uint32_t at)
{
	return at / x->stripe % x->ranks;
}

/* Of a unit: the rank + 1; 0: nobody has it. */
static inline uint32_t units_owner(const struct units *u, uint32_t at)
{
	return __atomic_load_n(&u->owner[at], __ATOMIC_ACQUIRE) & UNIT_OWNER;
}

#endif
