/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owner.h - which rank has a unit of the heap (heap/units.h), as the ranks of all nodes ask and tell the first node.
 *
 * Any thread of the program, outside the runtime; round trips to the first node, none from there.
 */
#ifndef ENGINE_OWNER_H
#define ENGINE_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/call.h"
#include "heap/heap.h"

/* Where this rank's allocator has its units from. */
extern const struct heap_source owner_source;

/* The rank that has an offset of the heap; -EINVAL: nobody. A rank of another node may have had it, and not have it any more. */
int owner_of(size_t off);
/* It is not that rank's (any more): ask again the next time. */
void owner_forget(size_t off, uint16_t rank);
/* Does this rank, of this node, have it? */
bool owner_is(size_t off, uint16_t rank);

/* Have a rank give back the units in which nothing is left, for all to take: how many. Blocks for its service thread. */
uint32_t owner_reclaim(uint16_t rank);
/* One rank at a time does that: what another has just been given back is on its way. -EBUSY: another. */
int owner_reclaim_begin(void);
void owner_reclaim_end(void);

/* CALL_TRIM, at the rank that is to give back. */
struct trimmed;
int owner_trim(bool first, struct trimmed *out);
/* CALL_UNITS_TAKE to CALL_UNITS_END, of a node, at the first node; in and out as payload.h has them. -ENOMEM, -EINVAL, -EBUSY as
 * units.h. -EBADMSG: the node may not ask that now; it gives back what is another's, or ends what it has not begun. */
int owner_serve(uint16_t from, enum call_op op, const void *in, void *out);

#endif
