/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owner.h - the owner of each unit of the heap (heap/units.h). The first node keeps the table;
 * other nodes call it.
 *
 * Any thread of the program, outside the runtime. Blocks for round trips to the first node, except
 * on the first node.
 */
#ifndef CALLS_OWNER_H
#define CALLS_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls/call.h"
#include "heap/heap.h"

/* The source of units for this rank's allocator. */
extern const struct heap_source owner_source;

/* The rank that owns an offset of the heap; -EINVAL: none. The result may be out of date if it is a
 * rank of another node. */
int unit_owner(size_t off);
/* Before this rank lets memory of the heap go to another one: complete its node's stores to it.
 * Waits. */
void owner_let_memory(void);
/* Drop the entry, because that rank does not own the offset. The next unit_owner() asks the first
 * node. */
void owner_forget(size_t off, uint16_t rank);
/* Does this rank, which is on this node, own the offset? */
bool owner_is(size_t off, uint16_t rank);

/* Make a rank give back its empty units, so that any rank can take them. Returns their number.
 * Blocks for its service thread. */
uint32_t owner_reclaim(uint16_t rank);
/* Begin and end reclaiming. Only one rank reclaims at a time, since units that another reclaims may
 * be in flight. -EBUSY: another rank reclaims. */
int owner_reclaim_begin(void);
void owner_reclaim_end(void);

/* Serve CALL_TRIM, at the rank that gives units back. */
struct trimmed;
int owner_trim(bool first, struct trimmed *out);
/* Serve CALL_UNITS_TAKE to CALL_UNITS_END of a node, at the first node; payload.h defines in and
 * out. -ENOMEM, -EINVAL, -EBUSY: see units.h. -EBADMSG: the node gives back units of another node,
 * or ends a reclaim that it has not begun. */
int owner_serve(uint16_t from, enum call_op op, const void *in, void *out);

#endif
