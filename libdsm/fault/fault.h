/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.h - the fault backend table: how a node's pages are opened, closed and filled, and how its ranks' faults are caught.
 *
 * A node's frames are one memory object (a memfd over the job's whole address range). Each rank of the node sees it through
 * one mapping at the same address. The node's state of a page bounds what any mapping allows; a mapping may allow less, and
 * is then opened when it is used (core/map.h). A page without access is not in the object, so no stale byte can be mapped.
 *
 * Every rank of the node may call every function, for the whole node. Ranks are counted inside the node here. Ranges are
 * offsets into the window, whole blocks; range.h says at which addresses they are. All functions but open, join, close, bound,
 * guard and adopt are safe in a signal handler and in any number of threads. Two that concern one block are never called at
 * once, except again and pin, which may be called at any time. Locks of the backends are below the stripes: a caller may hold
 * one, and no backend waits for one.
 */
#ifndef FAULT_FAULT_H
#define FAULT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/action.h"

enum fault_huge { FAULT_HUGE_AUTO = 0, FAULT_HUGE_ON, FAULT_HUGE_OFF };

struct fault_node {
	int memfd; /* the node's frames; -1: memory of this process will do (fault_none, one rank) */
	void *base;
	size_t size;
	unsigned int ranks, self; /* of the node; this process's number among them */
	void *shared;         /* page-aligned memory of the node of shared() bytes, zero at first; NULL if that is 0 */
	enum fault_huge huge; /* fault_none; the others protect single pages */
	/* Has the process of a rank ended? Asked from time to time by who waits for it. NULL: never. */
	bool (*gone)(unsigned int rank);
};

struct fault_ops {
	const char *name;
	/* Could open() succeed? -ENODEV, -EMFILE; NULL: always. */
	int (*probe)(const char **why);
	/* Bytes that the backend needs in memory of the node. NULL: none. They are sparse: what is not in use costs nothing. */
	size_t (*shared)(size_t size, unsigned int ranks);
	/* Map the object at the base (reserved before) with no access and nothing in bounds. *fd: what the other ranks of the node
	 * pass to join(), or -1; it stays the backend's. -ENODEV: the kernel or the sandbox refuses; *why says what. */
	int (*open)(const struct fault_node *n, int *fd, const char **why);
	/* Another rank's descriptor, which becomes the backend's. All are joined before any rank fills. NULL: no need. */
	void (*join)(unsigned int rank, int fd);
	void (*close)(void);
	/* Of [off, off + len), whole 2 MiB units, this process's threads may use the first `usable` bytes (whole pages) as the
	 * protocol allows; the rest is SIGSEGV. Blocks may be filled and closed in or out of bounds, or across. NULL: the kernel
	 * knows the bounds. -ENOMEM: too many mappings. */
	int (*bound)(size_t off, size_t len, size_t usable);
	/* Optional. No thread of this process may touch whole pages of [off, off + len) from now on, or they may again; the
	 * protocol, and what other ranks may do, are the same meanwhile. guard_has() tells. -ENOMEM: too many mappings. */
	int (*guard)(size_t off, size_t len, bool on);
	/* Memory of this process at range_at(off) becomes a mapping of [off, off + len) of the object, with no access that the
	 * protocol has not given; what was there is gone. Before any rank of the node uses the range. NULL: this backend
	 * cannot. */
	int (*adopt)(size_t off, size_t len);
	/* No access -> prot, contents from src (never in shared memory). who: the rank that waits; its mapping is opened. The
	 * others open theirs when they use it. */
	int (*fill)(unsigned int who, size_t off, size_t len, const void *src, enum prot prot);
	int (*zero)(unsigned int who, size_t off, size_t len);  /* no access -> read-write, contents zero */
	int (*raise)(unsigned int who, size_t off, size_t len); /* read-only -> read-write */
	int (*lower)(size_t off, size_t len);                   /* read-write -> read-only, in every mapping */
	int (*shut)(size_t off, size_t len);                    /* anything -> no access, contents gone */
	/* Anything -> no access, contents to buf as they are when access ends. pipe: two descriptors of the calling thread. */
	int (*take)(size_t off, size_t len, void *to, bool writable, const int *pipe);
	/* A thread of this process faulted although the node has the block open: let its own mapping follow. Opens no more than the
	 * node allows by now; if that is too little the access faults again. 1: the mapping has followed; 0: it may have to
	 * wait until the block is filled; -errno. */
	int (*again)(size_t off, size_t len, enum prot prot);
	/* Optional. While this process has pins, its mapping allows what `again` was last told: system calls rely on it. Each
	 * pin has its own unpin (on: false); a block has at most 255 of each of two kinds. The caller holds the block's
	 * stripe. */
	void (*pin)(size_t off, size_t len, bool on);
	/* Optional; called from time to time by any thread that holds no lock. If other ranks have brought in many pages, map
	 * them before this process touches them. now: clock_ns(). Returns chunks of 64 KiB. */
	size_t (*populate)(uint64_t now);
};

extern const struct fault_ops fault_uffd, fault_mprotect;
extern const struct fault_ops fault_none; /* a job of one node */
extern const struct fault_ops fault_kmod; /* opens and closes only: the kernel does the rest */
extern int fault_kmod_device;             /* /dev/dsm, before its open() */

#endif
