/* SPDX-License-Identifier: BSD-2-Clause */
/* barrier.h - barriers, with a value that is combined. Any thread of the program, outside the runtime. */
#ifndef SYNC_BARRIER_H
#define SYNC_BARRIER_H

#include <stdint.h>

#include "core/wire.h"
#include "engine/job.h"

/* In dsm_init(), before any other rank's dsm_init() returns: barrier 0 of rank 0 is everybody's. */
void barrier_start(void);

/* A thread of this rank arrives, with a value that is combined (op: engine/reduce.h), and gets the result. mask: the ranks; 0:
 * all. threads: of each of them. Blocks for all of those. -EINVAL: they contradict each other, or are too many. */
int barrier_arrive(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value);

/* The nodes of the ranks in a group (mask 0: all ranks, and nodes), and how many of its ranks are of this node. */
uint64_t barrier_nodes(uint64_t mask, uint16_t *locals);
/* What this thread is about to wait for, for stall.h. */
void about_barrier(uint32_t object, uint64_t mask, uint32_t threads);

/* The message that says so, of this node to itself. */
static inline struct msg barrier_arrival(uint32_t object, uint32_t threads, uint8_t op, uint64_t value)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = MSG_ARRIVE,
			     .op = op,
			     .src = job.node,
			     .dst = job.node,
			     .req_rank = job.node,
			     .object = object,
			     .aux = threads,
			     .value = value };
}

/* Members of sync_process: host.h has their contracts. */
int barrier_meet(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value);
int barrier_end(uint32_t object);

#endif
