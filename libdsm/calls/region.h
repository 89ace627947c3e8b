/* SPDX-License-Identifier: BSD-2-Clause */
/* region.h - the registry of regions at rank 0's node, and the removal of a region from all
 * nodes. */
#ifndef CALLS_REGION_H
#define CALLS_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "calls/call.h"
#include "calls/payload.h"
#include "job/ctl.h"

#define HEAP_NAME "(heap)"
#define HEAP_RELEASE_NAME "(heap, release)"

/* Add the heap as record 0, before any other record; upper: bytes of its upper part, which is
 * record 1 and has release consistency. 0: there is none. Called by rank 0 at the start. */
void region_add_heap(struct registry *g, uint64_t bytes, uint64_t upper);

/*
 * Serve CALL_CREATE to CALL_VACATE and CALL_WITHDRAW of a node. Any thread of the registry's node;
 * takes the registry's lock. payload.h defines in; out: the record. -EINVAL, -ENOENT; CALL_CREATE:
 * -EEXIST, -ENOSPC (no id), -ENOMEM (no addresses); CALL_ATTACH: -EINPROGRESS. -EBADMSG: the node
 * may not make this call now. Only the creator's node fills a region. A node cannot attach more
 * ranks than it has, or detach more than are attached. CALL_WITHDRAW, from the creator's node: the
 * creator cannot use the region and detaches; if no other rank has attached, the name is removed
 * too. The node that removes the last name or rank of a region buries it.
 */
int region_serve(uint16_t from, enum call_op op, const void *in, struct region_record *out);

/* Serve CALL_QUIET and CALL_PURGE (in: struct region_place). Any thread of a node; neither blocks.
 * -EAGAIN: a request is still active. -EBADMSG: a rank of this node is attached to a part of the
 * place; or at the first node, the calling node does not bury that place. */
int region_leave(uint16_t from, enum call_op op, const void *in);

/* Serve CALL_MAY_PURGE (in: struct region_burial). Any thread of the first node. -EPERM: that node
 * does not bury that place. */
int region_may_purge(const void *in);

/* Call the registry with a record: CALL_CREATE uses all of it, other calls its name or its id.
 * Blocks for a round trip, unless the registry is on this node. */
int region_call(enum call_op op, const struct region_record *about, struct region_record *out);

/* Let all ranks of this node find the first homes of the region's blocks. Before one attaches,
 * under the lock of api/region.c. */
void region_enter(const struct dsm_region *r);

/* Set the priority with which all ranks of this node send the data of the region's blocks. Called
 * before one attaches. */
void region_set_priority(uint64_t off, uint64_t bytes, uint8_t priority);
/* Return the enum dsm_priority of the region of the message's block, for net_config.priority. */
unsigned int region_priority(void *arg, const struct msg *m);

/* After a detach or a destroy: if r has no name and no user any more, make all nodes forget the
 * range, and free its place. Outside the runtime; blocks for round trips to all nodes. Returns 0 or
 * -errno of those. */
int region_bury(const struct region_record *r);

/* The hash of a name, below CTL_NAMES. */
uint32_t region_hash(const char *name);

#endif
