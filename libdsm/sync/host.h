/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - synchronisation in the core's host (job/host_ops.h): a table of operations per host.
 *
 * The caller has checked the handles, which belong to this job. Every member is a full fence,
 * blocks unless its comment says otherwise, and returns 0 or -errno. It also maintains the counters
 * and latencies of the call.
 */
#ifndef SYNC_HOST_H
#define SYNC_HOST_H

#include <stdint.h>

#include "core/sync.h"

struct sync_request;

struct barrier_name;

struct sync_ops {
	/* As sync_ask(). Called outside the runtime. */
	int (*ask)(uint64_t id, enum sync_op op, struct sync_request *q);

	/* Lock (MSG_LOCK) or try to lock (MSG_TRYLOCK) a mutex that this thread does not hold,
	 * inside the runtime. On success it is in the table of held locks, where the caller has
	 * made room. ns: time limit of MSG_LOCK; 0: none. -ETIMEDOUT; -EBUSY; -EINPROGRESS: call
	 * again; -EAGAIN: too many requests; -EINVAL: no such mutex. */
	int (*acquire)(uint64_t id, uint8_t type, uint64_t ns);
	/* Unlock a mutex that the thread has removed from that table; hold: its record there. Does
	 * not wait. */
	int (*release)(uint32_t hold);
	/* Queue at a condition, unlock the mutex, which this thread holds, wait for a signal or for
	 * ns (0: no limit), and lock the mutex again. A cancellation point. -ETIMEDOUT; after any
	 * other error, the mutex is still held. */
	int (*wait)(uint64_t cond, uint64_t mutex, uint64_t ns);

	/* As barrier_arrive(). Called outside the runtime. */
	int (*arrive)(const struct barrier_name *b, uint64_t mask, uint32_t threads, uint8_t op,
		      uint64_t *value);
	/* Destroy a barrier. Does not wait. -EBUSY: threads of this node are in it. */
	int (*end)(const struct barrier_name *b);
};

extern const struct sync_ops sync_process, sync_kernel;

/* lock.c: members of sync_process. */
int lock_acquire(uint64_t id, uint8_t type, uint64_t ns);
int lock_release(uint32_t hold);
int lock_wait(uint64_t cond, uint64_t mutex, uint64_t ns);

/* The table of the core's host. */
const struct sync_ops *sync_host(void);

/* Called by dsm_init() when the engine runs. -EAGAIN: no resources. */
int sync_start(void);

#endif
