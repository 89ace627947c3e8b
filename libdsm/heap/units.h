/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * units.h - owner rank of each 2 MiB unit of the heap. A rank takes contiguous units, allocates in
 * them, and returns units that are empty.
 *
 * The job's table is in the memory of the first node. The table of another node records the units
 * of its own ranks, and the last known remote owners. It is ordinary memory shared by the ranks of
 * a node, initially zero; owners are atomic. Pure; the caller of units_take() and units_give()
 * locks.
 *
 * A block's home follows from its address until its first touch: stripes of the heap belong to the
 * nodes of the ranks, round-robin. So a rank takes units of its own stripes while it finds some.
 * Short runs come from the first stripe of each rank, a sixteenth of the heap. The rest stays free
 * for long runs, even if every rank has allocated a little.
 *
 * A heap may have two parts, for memory of two kinds (heap.h). Stripes go on through both. Short
 * runs are not kept together in the upper one.
 */
#ifndef HEAP_UNITS_H
#define HEAP_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"
#include "util/sizes.h"

#define UNIT_USED 0x8000u /* some rank has had it, and given it back: it may not be zero any more */
#define UNIT_OWNER 0x7fffu
_Static_assert(WIRE_MAX_NODES < UNIT_OWNER, "an owner is a rank + 1");

struct units {
	uint32_t lock;
	uint32_t reclaimer;           /* the rank that makes others return units, + 1 */
	uint32_t low[WIRE_MAX_NODES]; /* no unit of the rank's stripes below it is free */
	uint16_t owner[];             /* of each unit: 0, or the rank + 1; UNIT_USED */
};

struct units_shape {
	uint32_t count, stripe; /* units of the heap, and of a stripe */
	uint32_t ranks;
	uint32_t split; /* units from it on are the upper part; count: there is none */
};

static inline size_t units_size(size_t heap)
{
	return sizeof(struct units) + heap / UNIT_BYTES * sizeof(uint16_t);
}

struct units_shape units_shape(size_t heap, uint32_t ranks);
/*
 * Take n contiguous units of a part for the rank; return the first, or -ENOMEM. *used: number of
 * units used before.
 */
int64_t units_take(const struct units_shape *x, struct units *u, bool upper, uint32_t n,
		   uint32_t rank, uint32_t *used);
/* Return n units of the rank. -EINVAL: the rank does not own all of them; nothing is changed. */
int units_give(const struct units_shape *x, struct units *u, uint32_t at, uint32_t n,
	       uint32_t rank);

/* Return the rank whose node is the home of a unit's blocks until they are touched. */
static inline uint32_t units_home(const struct units_shape *x, uint32_t at)
{
	return at / x->stripe % x->ranks;
}

/* Return the owner of a unit: its rank + 1; 0: free. */
static inline uint32_t units_owner(const struct units *u, uint32_t at)
{
	return __atomic_load_n(&u->owner[at], __ATOMIC_ACQUIRE) & UNIT_OWNER;
}

#endif
