/* SPDX-License-Identifier: BSD-2-Clause */
/* barrier.h - barriers, with a value that is combined. Any thread of the program, outside the runtime. */
#ifndef SYNC_BARRIER_H
#define SYNC_BARRIER_H

#include <stdint.h>

#include "core/barrier.h"
#include "core/wire.h"
#include "engine/job.h"

/* In dsm_init(), before any other rank's dsm_init() returns: barrier 0 of rank 0 is everybody's. */
void barrier_start(void);

/* Its number in the job, and the generation of that. */
struct barrier_name {
	uint32_t object, life;
};

/* Everybody's. */
static const struct barrier_name barrier_0 = { 0 };

/* A thread of this rank arrives, with a value that is combined (op: engine/reduce.h), and gets the result. mask: the ranks; 0:
 * all. threads: of each of them. Blocks for all of those. -EINVAL: they contradict each other, or are too many; or the barrier is no
 * more, as one of them knows. */
int barrier_arrive(const struct barrier_name *b, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value);

/* The nodes of the ranks in a group (mask 0: all ranks, and nodes), and how many of its ranks are of this node. */
struct bar_group barrier_group(uint64_t mask);
/* What this thread is about to wait for, for stall.h. */
void about_barrier(uint32_t object, uint64_t mask, uint32_t threads);

/* The message that says so, of this node to itself. */
static inline struct msg barrier_arrival(const struct barrier_name *b, uint32_t threads, uint8_t op, uint64_t value)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_ARRIVE,
			 .op = op,
			 .src = job.node,
			 .dst = job.node,
			 .req_node = job.node,
			 .object = b->object,
			 .aux = threads,
			 .value = value };

	bar_set_life(&m, b->life);
	return m;
}

/* Members of sync_process: host.h has their contracts. */
int barrier_meet(const struct barrier_name *name, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value);
int barrier_end(const struct barrier_name *name);

#endif
