/* SPDX-License-Identifier: BSD-2-Clause */
/* region.h - the registry of regions at rank 0's node, and what the end of a region asks of all nodes. */
#ifndef ENGINE_REGION_H
#define ENGINE_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "engine/call.h"
#include "engine/ctl.h"
#include "engine/payload.h"

/* Record 0, before any other: the heap. By rank 0, at the start. */
void region_add_heap(struct registry *g, uint64_t bytes);

/*
 * CALL_CREATE to CALL_VACATE and CALL_WITHDRAW, of a node, by any thread of the registry's node; takes its lock. in as
 * payload.h has it; out: the record. -EINVAL, -ENOENT; CALL_CREATE: -EEXIST, -ENOSPC (no id), -ENOMEM (no addresses);
 * CALL_ATTACH: -EINPROGRESS. -EBADMSG: the node may not ask that now. Only the creator's fills a region. A node has no more
 * ranks to attach than it has ranks, and none to detach that are not attached. CALL_WITHDRAW, of the creator's node: its
 * creator cannot use it and detaches; where nobody else has attached, the name goes with it. Who took away the last name or
 * rank of a region buries it.
 */
int region_serve(uint16_t from, enum call_op op, const void *in, struct region_record *out);

/* CALL_QUIET and CALL_PURGE (in: struct region_place), by any thread of a node; neither blocks. -EAGAIN: something is still
 * under way. -EBADMSG: a rank of this node is attached to some of the place; at the first node, it is not what the node
 * buries. */
int region_leave(uint16_t from, enum call_op op, const void *in);

/* CALL_MAY_PURGE (in: struct region_burial), by any thread of the first node. -EPERM: that node does not bury that place. */
int region_may_purge(const void *in);

/* Ask the registry for what a record says: CALL_CREATE by all of it, others by its name or by its id. Blocks for a round trip,
 * unless the registry is of this node. */
int region_call(enum call_op op, const struct region_record *about, struct region_record *out);

/* All ranks of this node can tell the first homes of the region's blocks from now on. Before one attaches, under its lock. */
void region_enter(const struct dsm_region *r);

/* This node sends the data of the region's blocks with that priority from now on, whichever of its ranks does. Before one
 * attaches. */
void region_set_priority(uint64_t off, uint64_t bytes, uint8_t priority);
/* For net_config.priority: enum dsm_priority of the region that the message's block is in. */
unsigned int region_priority(void *arg, const struct msg *m);

/* After a detach or a destroy that left r: if it has no name and no user any more, all ranks forget the range, and then its
 * place is free. Outside the runtime; blocks for round trips to all nodes. -errno of those. */
int region_bury(const struct region_record *r);

/* Of a name; below CTL_NAMES. */
uint32_t region_hash(const char *name);

#endif
