/* SPDX-License-Identifier: BSD-2-Clause */
/* region.h - the registry of regions at rank 0's node, and what the end of a region asks of all nodes. */
#ifndef ENGINE_REGION_H
#define ENGINE_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "engine/call.h"
#include "engine/ctl.h"

/* Record 0, before any other: the heap. By rank 0, at the start. */
void region_add_heap(struct registry *g, uint64_t bytes);

/* CALL_CREATE to CALL_VACATE, by any thread of the registry's node; takes its lock. in and out are a struct region_record.
 * -EINVAL, -ENOENT; CALL_CREATE: -EEXIST, -ENOSPC (no id), -ENOMEM (no addresses); CALL_ATTACH: -EINPROGRESS; CALL_VACATE: -EBUSY. */
int region_serve(struct registry *g, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size);

/* CALL_QUIET and CALL_PURGE of a range that no rank is attached to, by any thread of a node; neither blocks. -EINVAL: it is none
 * of whole units. quiet: -EAGAIN, something is still under way. */
int region_quiet(uint64_t off, uint64_t bytes);
int region_purge(uint64_t off, uint64_t bytes);

/* After a detach or a destroy that left r: if it has no name and no user any more, all ranks forget the range, and then its
 * place is free. Outside the runtime; blocks for round trips to all nodes. -errno of those. */
int region_bury(const struct region_record *r);

/* Of a name; below CTL_NAMES. */
uint32_t region_hash(const char *name);

#endif
