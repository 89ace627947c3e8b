/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - the table of hosts: who runs the core for this rank, this process (host.c) or the kernel helper (kernel.c).
 *
 * The host has the pages, the directory, the synchronisation objects and the barriers of this rank's node, resolves its misses
 * and answers other nodes. Names of regions, calls, the shared heap and the liveness of ranks are the engine's with either. What
 * the host does for synchronisation is a table of its own, above the engine (sync/host.h).
 *
 * host_choose() sets job.host once, at the start, and alike on all ranks. In a job of one node nothing happens between nodes, so
 * that is hosted by the process whatever was chosen; of its members, only those for regions are called there.
 *
 * Ranges are offsets into the window: whole blocks of one region that this rank is attached to, where nothing else is said. Unless
 * it is marked, a member may block for other ranks, is called outside the runtime (engine_enter()) by any thread, and returns 0
 * or -errno.
 */
#ifndef ENGINE_HOST_H
#define ENGINE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/catch.h"

#define HOST_KEY 16u       /* bytes of a job's key */
#define HOST_ADDRESS 1152u /* bytes of a host's address */

struct dsm_region;
struct stats_vectors;

struct host_ops {
	const char *name;  /* as in DSM_BACKEND */
	uint8_t kind;      /* HOST_LIBRARY or HOST_KERNEL: core/wire.h */
	uint32_t regions;  /* ids of regions are below */
	uint32_t barriers; /* that a rank may have made; shared: that all ranks of a node may have made, on average */
	bool shared;
	bool doubles; /* its barriers combine floating point */

	/*
	 * Is it there? Then choose this rank's fault backend (job.fault). At the start, by the only thread of the runtime; does not
	 * wait for other ranks. -ENOENT: it is not there, and DSM_BACKEND allows another. It prints any other error.
	 */
	int (*open)(void);
	/*
	 * Called when all ranks of this node are connected; key: the job's. The first rank creates the node's endpoint and stores its
	 * address, at most *size bytes; for the others, which share it, *size becomes 0. Waits for the ranks of this node. Prints its
	 * errors. NULL, with connect(): the engine's transport reaches the other nodes.
	 */
	int (*join)(const uint8_t key[HOST_KEY], void *address, size_t *size);
	/* By the first rank of a node, when all nodes have joined. near: a node of this machine. Prints its errors. */
	int (*connect)(uint16_t node, bool near, const void *address, size_t size);
	void (*close)(void); /* whatever open() has come to; NULL: nothing to do */

	/* NULL, with lost(): it has nothing to tell. Readable when it does; the service thread calls lost(). */
	int (*fd)(void);
	void (*lost)(void); /* does not return when a rank is lost */
	/* The service thread, about once a second, must not block: check for waits that last long. NULL: who waits does. */
	void (*check_waits)(void);

	/* Of a region that this process is about to use, or used until now. attach: -ENOMEM, and others of the host's. */
	int (*attach)(const struct dsm_region *r);
	void (*detach)(const struct dsm_region *r);
	/* No rank of this node needs a region any more: give its blocks back, or drop them. -EBUSY: some are pinned. */
	int (*leave)(struct dsm_region *r);
	/* No rank is attached to what was in a range of whole REGION_UNITs. Neither blocks.
	 * quiet: -EAGAIN, a request or a directory entry is still under way. purge: forget all state. */
	int (*quiet)(uint64_t off, uint64_t bytes);
	int (*purge)(uint64_t off, uint64_t bytes);

	/* A signal says that an access to this region failed; in the handler. Messages have been printed. */
	enum fault_answer (*fault)(struct dsm_region *r, void *addr, bool write);
	/* access: enum dsm_access. wait: until all of it is there; else nothing is awaited. */
	int (*fetch)(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait);
	/* Give copies back to their homes; evict: keep none to read. Blocks that are pinned stay. */
	void (*release)(struct dsm_region *r, size_t off, size_t len, bool evict);
	/* Keep all of it open for access until unpin(), or none of it. -EAGAIN: too many pins of a block; -ENOMEM. */
	int (*pin)(struct dsm_region *r, size_t off, size_t len, uint8_t access);
	int (*unpin)(struct dsm_region *r, size_t off, size_t len, uint8_t access); /* -EINVAL: it was not */
	/* Make the node of a rank the home of a block. -EBUSY: the block has been touched, and is on its way there: ask again.
	 * -ENXIO: that node has not attached the region. */
	int (*place)(struct dsm_region *r, size_t off, uint16_t rank);

	/* Add what it has counted itself, of the whole node, to the counters of the node's first rank, and begin at zero.
	 * Does not block. NULL: it counts there. */
	void (*count)(void);
	/*
	 * What it has counted itself, of the whole node: how often blocks whose home is this node have changed nodes, of the first
	 * REGION_UNIT of the window from *off on of which any has. *off: in, a multiple of that; out, where those are.
	 * transfers: room for a count by each page. -ENOENT: none has. Does not block. NULL: it counts in job.mem.transfers.
	 */
	int (*transfers)(uint64_t *off, uint32_t *transfers);
	/* Add a row for each of its completion queues. Does not block. NULL: it has none. */
	void (*vectors)(struct stats_vectors *out);
};

extern const struct host_ops host_process, host_kernel;

/* job.host: by DSM_BACKEND, and what is there. As open(), without -ENOENT. */
int host_choose(void);
/* From here on this process hosts the core. Before anything is hosted, or at the end; close() has no need of the job's memory. */
void host_close(void);

#endif
