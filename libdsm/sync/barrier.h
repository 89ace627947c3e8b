/* SPDX-License-Identifier: BSD-2-Clause */
/* barrier.h - barriers that also reduce a value. Called by any thread of the program, outside the
 * runtime. */
#ifndef SYNC_BARRIER_H
#define SYNC_BARRIER_H

#include <stdint.h>

#include "core/barrier.h"
#include "core/wire.h"
#include "job/job.h"

/* Create barrier 0 of rank 0, for all ranks. Called by dsm_init(), before any other rank's
 * dsm_init() returns. */
void barrier_start(void);

/* The number of a barrier in the job, and the generation of that number. */
struct barrier_name {
	uint32_t object, life;
};

/* The barrier of all ranks. */
static const struct barrier_name barrier_0 = { 0 };

/* Arrive with *value, wait for all other threads, and return the reduced value (op: miss/reduce.h).
 * mask: the ranks; 0: all. threads: per rank. Blocks. -EINVAL: threads pass different arguments,
 * there are too many of them, or one of their ranks knows that the barrier was destroyed. */
int barrier_arrive(const struct barrier_name *b, uint64_t mask, uint32_t threads, uint8_t op,
		   uint64_t *value);

/* The nodes of the ranks in a group (mask 0: all), and the number of its ranks on this node. */
struct bar_group barrier_group(uint64_t mask);
/* Record for stall.h that this thread is about to wait at a barrier. */
void about_barrier(uint32_t object, uint64_t mask, uint32_t threads);

/* The message of an arrival, from this node to itself. */
static inline struct msg barrier_arrival(const struct barrier_name *b, uint32_t threads, uint8_t op,
					 uint64_t value)
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

/* Members of sync_process; host.h has their contracts. */
int barrier_meet(const struct barrier_name *name, uint64_t mask, uint32_t threads, uint8_t op,
		 uint64_t *value);
int barrier_end(const struct barrier_name *name);

#endif
