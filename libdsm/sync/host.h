/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - what the core's host (engine/host.h) does for synchronisation: a table for each host.
 *
 * Handles have been checked, and belong to this job. Every member is a full fence, blocks where nothing else is said, and
 * returns 0 or -errno; the counters and latencies of the call are its business, too.
 */
#ifndef SYNC_HOST_H
#define SYNC_HOST_H

#include <stdint.h>

#include "core/sync.h"

struct sync_request;

struct barrier_name;

struct sync_ops {
	/* sync_ask(), whose contract it has. Outside the runtime. */
	int (*ask)(uint64_t id, enum sync_op op, struct sync_request *q);

	/* MSG_LOCK or MSG_TRYLOCK, by a thread in the runtime that does not hold the mutex. On success it does, as the table of held
	 * locks says, where it has made room. ns, of MSG_LOCK: -ETIMEDOUT after that; 0: none. -EBUSY; -EINPROGRESS: ask again;
	 * -EAGAIN: too many requests; -EINVAL: no such mutex. */
	int (*acquire)(uint64_t id, uint8_t type, uint64_t ns);
	/* A mutex that this thread holds, and has taken out of that table; hold: the record that stood there. Does not wait. */
	int (*release)(uint32_t hold);
	/* In line at a condition before the mutex, which this thread holds, is free; then wait for a signal, or ns (0: none), and
	 * for the mutex. A cancellation point. -ETIMEDOUT; another error: it is still held. */
	int (*wait)(uint64_t cond, uint64_t mutex, uint64_t ns);

	/* barrier_arrive(), whose contract it has. Outside the runtime. */
	int (*arrive)(const struct barrier_name *b, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value);
	/* A barrier is destroyed. Does not wait. -EBUSY: threads of this node are in it. */
	int (*end)(const struct barrier_name *b);
};

extern const struct sync_ops sync_process, sync_kernel;

/* That of the core's host. */
const struct sync_ops *sync_host(void);

/* In dsm_init(), once the engine runs. -EAGAIN. */
int sync_start(void);

#endif
