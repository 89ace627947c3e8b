/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_ops.h - operations of a host of the core: this process (start/host.c) or the kernel helper
 * (kernel/kernel.c).
 *
 * The host keeps the pages, the directory, the synchronisation objects and the barriers of this
 * rank's node. It resolves the node's misses and answers other nodes. Region names, calls, the
 * shared heap and the liveness of ranks belong to the engine with either host. The operations for
 * synchronisation are in a separate table, above the engine (sync/host.h).
 *
 * host_choose() sets job.host once, at the start, and all ranks choose the same host. A job of one
 * node is always hosted by the process, because nothing happens between nodes. In such a job only
 * the operations on regions are called.
 *
 * Ranges are offsets into the window. Unless noted otherwise, a range is whole blocks of one region
 * that this rank is attached to. Unless noted otherwise, an operation may block for other ranks,
 * may be called by any thread outside the runtime (engine_enter()), and returns 0 or -errno.
 */
#ifndef JOB_HOST_OPS_H
#define JOB_HOST_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/catch.h"

#define HOST_KEY 16u       /* bytes of a job's key */
#define HOST_ADDRESS 1152u /* bytes of a host's address */

struct dsm_region;
struct stats_vectors;

struct host_ops {
	const char *name; /* as in DSM_BACKEND */
	uint8_t kind;     /* HOST_LIBRARY or HOST_KERNEL: core/wire.h */
	uint32_t regions; /* region ids are below this */
	/* limit of barriers per rank; if shared: of all ranks of a node together */
	uint32_t barriers;
	bool shared;
	bool doubles; /* its barriers combine floating point */

	/*
	 * Probe the host and choose this rank's fault backend (job.fault). Called at the start, by
	 * the only thread of the runtime. Does not wait for other ranks. -ENOENT: not available,
	 * and DSM_BACKEND allows another. Prints other errors.
	 */
	int (*open)(void);
	/*
	 * Called when all ranks of this node are connected; key: the job's. The first rank creates
	 * the node's endpoint and stores its address, at most *size bytes. The others share it and
	 * get *size 0. Waits for the ranks of this node. Prints its errors. NULL, with connect():
	 * the engine's transport reaches the other nodes.
	 */
	int (*join)(const uint8_t key[HOST_KEY], void *address, size_t *size);
	/*
	 * Called by the first rank of a node when all nodes have joined. same_host: a node of this
	 * host. Prints its errors.
	 */
	int (*connect)(uint16_t node, bool same_host, const void *address, size_t size);
	void (*close)(void); /* undo open(), also after it failed; NULL: nothing to do */

	/*
	 * A descriptor that becomes readable on an event; the service thread then calls lost().
	 * Both NULL: no events.
	 */
	int (*fd)(void);
	void (*lost)(void); /* does not return if a rank is lost */
	/*
	 * Check for long waits. Called by the service thread about once a second; must not block.
	 * NULL: each waiter checks.
	 */
	void (*check_waits)(void);

	/*
	 * Begin or end this process's use of a region. attach: -ENOMEM, and host-specific errors.
	 */
	int (*attach)(const struct dsm_region *r);
	void (*detach)(const struct dsm_region *r);
	/*
	 * Give back or drop the blocks of a region that no rank of this node needs any more.
	 * -EBUSY: some are pinned.
	 */
	int (*leave)(struct dsm_region *r);
	/* For a range of whole units to which no rank is attached. Neither function blocks.
	 * quiet: -EAGAIN if a request or a directory entry is still active. purge: forget all
	 * state. */
	int (*quiet)(uint64_t off, uint64_t bytes);
	int (*purge)(uint64_t off, uint64_t bytes);

	/*
	 * Resolve a failed access to this region. Called in the signal handler. Messages have been
	 * printed.
	 */
	enum fault_answer (*fault)(struct dsm_region *r, void *addr, bool write);
	/*
	 * Fetch a range. access: enum dsm_access. wait: return when all blocks have arrived;
	 * otherwise do not wait.
	 */
	int (*fetch)(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait);
	/* Give copies back to their homes; evict: keep no read copies. Pinned blocks stay. */
	void (*release)(struct dsm_region *r, size_t off, size_t len, bool evict);
	/*
	 * Keep the range accessible until unpin(). On an error nothing is pinned. -EAGAIN: too many
	 * pins of a block; -ENOMEM.
	 */
	int (*pin)(struct dsm_region *r, size_t off, size_t len, uint8_t access);
	/* -EINVAL: not pinned */
	int (*unpin)(struct dsm_region *r, size_t off, size_t len, uint8_t access);
	/* Make the node of a rank the home of a block. -EBUSY: the block has been touched and is on
	 * its way there: call again. -ENXIO: that node has not attached the region. */
	int (*place)(struct dsm_region *r, size_t off, uint16_t rank);

	/* Add the host's own counts, for the whole node, to the counters of the node's first rank,
	 * and reset them. Does not block. NULL: the host counts there directly. */
	void (*count)(void);
	/*
	 * Copy the host's transfer counts (how often a block changed nodes) for blocks whose home
	 * is this node: those of the first UNIT_BYTES at or after *off with a nonzero count. *off:
	 * in, a multiple of UNIT_BYTES; out, that unit's offset. transfers: one count per page.
	 * -ENOENT: no such unit. Does not block. NULL: the host counts in job.mem.transfers.
	 */
	int (*transfers)(uint64_t *off, uint32_t *transfers);
	/* Bytes of the frames of the node. Does not block. NULL: they are in job.mem.memfd. */
	uint64_t (*frames)(void);
	/*
	 * Append a row for each of the host's completion queues. Does not block. NULL: it has none.
	 */
	void (*vectors)(struct stats_vectors *out);
};

#endif
