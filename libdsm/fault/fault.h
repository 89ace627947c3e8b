/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.h - the table of fault backends: how a node's pages are opened, closed and filled, and how
 * its ranks' faults are caught.
 *
 * A node's frames are one memory object (a memfd for the job's whole address range). Each rank of
 * the node has one mapping of it, at the same address. The node's state of a page is the upper
 * bound for all mappings. A mapping may allow less; it is then opened on the first access
 * (core/map.h). A page without access is not in the object, so that no stale byte can be mapped.
 *
 * Every rank of the node may call every function, for the whole node. Rank numbers are those inside
 * the node. Ranges are offsets into the window, in whole blocks; range.h has their addresses. All
 * functions but open, join, close, bound, guard and adopt are async-signal-safe and thread-safe.
 * Callers never run two functions for one block concurrently, except again and pin, which may be
 * called at any time. Locks of the backends nest inside the stripes: a caller may hold a stripe,
 * and no backend takes one.
 */
#ifndef FAULT_FAULT_H
#define FAULT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/action.h"
#include "fault/guard.h"

enum fault_huge { FAULT_HUGE_AUTO = 0, FAULT_HUGE_ON, FAULT_HUGE_OFF };

struct fault_node {
	int memfd; /* the node's frames; -1: anonymous memory suffices (fault_none, one rank) */
	void *base;
	size_t size;
	unsigned int ranks, self; /* of the node; this process's number among them */
	/* shared memory of the node: shared() bytes, page-aligned, zeroed; NULL if that is 0 */
	void *shared;
	enum fault_huge huge; /* for fault_none; the other backends protect single pages */
	/* Has the process of a rank ended? A thread that waits for the rank calls this
	 * periodically. NULL: never. */
	bool (*gone)(unsigned int rank);
};

struct fault_ops {
	const char *name;
	/* Can open() succeed? -ENODEV, -EMFILE: no. NULL: always. */
	int (*probe)(const char **why);
	/* Bytes of shared memory that the backend needs; unused pages are not allocated. NULL:
	 * none. */
	size_t (*shared)(size_t size, unsigned int ranks);
	/* Map the object at the reserved base, with no access and nothing in bounds. *fd: the
	 * descriptor that the other ranks of the node pass to join(), or -1; the backend owns it.
	 * -ENODEV: the kernel or the sandbox refuses it; *why: the reason. */
	int (*open)(const struct fault_node *n, int *fd, const char **why);
	/* Take over another rank's descriptor. All ranks are joined before any rank fills. NULL:
	 * not needed. */
	void (*join)(unsigned int rank, int fd);
	void (*close)(void);
	/* Set the bounds of [off, off + len), whole 2 MiB units: threads may use the first `usable`
	 * bytes (whole pages) as the protocol allows; the rest raises SIGSEGV. Blocks may be filled
	 * and closed inside, outside or across the bounds. NULL: the kernel knows the bounds.
	 * -ENOMEM: too many mappings. */
	int (*bound)(size_t off, size_t len, size_t usable);
	/* Optional. Set what access by this process to the whole pages of [off, off + len) raises
	 * SIGSEGV. The protocol and the access of other ranks do not change. guard_of() tells what
	 * guards a page. -ENOMEM: too many mappings. */
	int (*guard)(size_t off, size_t len, enum guard guard);
	/* Map [off, off + len) of the object at range_at(off), with no more access than the
	 * protocol allows. The previous contents are lost. Call before any rank of the node uses
	 * the range. NULL: not supported. */
	int (*adopt)(size_t off, size_t len);
	/* No access -> prot, contents from src, which is never in shared memory. who: the waiting
	 * rank, whose mapping is opened. Other ranks' mappings are opened on their first access. */
	int (*fill)(unsigned int who, size_t off, size_t len, const void *src, enum prot prot);
	/* no access -> read-write, contents zero */
	int (*zero)(unsigned int who, size_t off, size_t len);
	int (*raise)(unsigned int who, size_t off, size_t len); /* read-only -> read-write */
	/* read-write -> read-only, in every mapping */
	int (*lower)(size_t off, size_t len);
	/* anything -> no access, contents freed */
	int (*shut)(size_t off, size_t len);
	/* Anything -> no access; copy the contents at the end of access to `to`. pipe: two
	 * descriptors of the calling thread. */
	int (*take)(size_t off, size_t len, void *to, bool writable, const int *pipe);
	/* A thread of this process faulted although the node has the block open: open this
	 * process's mapping as far as the node allows now. If that is too little, the access faults
	 * again. 1: the mapping is updated; 0: the block may still have to be filled; -errno. */
	int (*again)(size_t off, size_t len, enum prot prot);
	/* Optional. While this process has pins, its mapping allows the last prot passed to
	 * `again`: system calls rely on it. Each pin needs its own unpin (on: false). A block has
	 * at most 255 pins of each of two kinds. The caller holds the block's stripe. */
	void (*pin)(size_t off, size_t len, bool on);
	/* Optional. Called periodically, by any thread that holds no lock. If other ranks have
	 * fetched many pages, map them before this process accesses them. now: clock_ns(). Returns
	 * the number of 64 KiB chunks. */
	size_t (*populate)(uint64_t now);
};

extern const struct fault_ops fault_uffd, fault_mprotect;
extern const struct fault_ops fault_none; /* a job of one node */
extern const struct fault_ops fault_kmod; /* only open and close: the kernel does the rest */
extern int fault_kmod_device;             /* descriptor of /dev/dsm; set before its open() */

#endif
