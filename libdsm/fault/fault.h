/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.h - the fault backend table: how a rank's pages are opened, closed and filled, and how its faults are caught.
 *
 * A rank's frames are one memory object (a memfd over the job's whole address range), which the application sees through
 * one mapping. Backends whose `peers` is set can act on the frames of the other ranks of the host, given their descriptors.
 * Invariant kept by the engine: a block without access has no page in the object, so that no stale byte can be mapped.
 * All ranges are offsets into the window, whole blocks. All functions but open and close are safe in a signal handler and
 * in any number of threads; two that concern one block are never called at once.
 */
#ifndef FAULT_FAULT_H
#define FAULT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/action.h"

struct frames {
	int memfd;
	int uffd;   /* -1 where the backend has none */
	bool self;  /* of this process */
};

struct fault_ops {
	const char *name;
	bool peers;
	/* Could open() succeed? -ENODEV, -EMFILE; NULL: always. */
	int (*probe)(const char **why);
	/* Map f->memfd at base (reserved before) with no access. -ENODEV: the kernel or the sandbox refuses; *why says what. */
	int (*open)(struct frames *f, void *base, size_t size, const char **why);
	void (*close)(struct frames *f, void *base, size_t size);
	/* No access -> prot, contents from src (never in shared memory). -ESRCH: the rank's process is gone. */
	int (*fill)(const struct frames *f, size_t off, size_t len, const void *src, enum prot prot);
	int (*zero)(const struct frames *f, size_t off, size_t len);  /* no access -> read-write, contents zero */
	int (*raise)(const struct frames *f, size_t off, size_t len); /* read-only -> read-write */
	int (*lower)(const struct frames *f, size_t off, size_t len); /* read-write -> read-only */
	int (*shut)(const struct frames *f, size_t off, size_t len);  /* anything -> no access, contents gone */
	/* Anything -> no access, contents to buf as they are when access ends. pipe: two descriptors of the calling thread. */
	int (*take)(const struct frames *f, size_t off, size_t len, void *to, bool writable, const int *pipe);
	/* A thread of this process faulted although the block is open by the protocol: let the hardware follow. */
	int (*again)(const struct frames *f, size_t off, size_t len, enum prot prot);
};

extern const struct fault_ops fault_uffd, fault_mprotect, fault_none;
extern const struct fault_ops fault_kmod; /* opens and closes only: the kernel does the rest */
extern int fault_kmod_device;             /* /dev/dsm, before its open() */

/* Copy contents out of a rank's frames. 0 or -errno. */
int frames_read(const struct frames *f, size_t off, size_t len, void *to);
/* Free the memory behind a range, whatever its access. */
int frames_punch(const struct frames *f, size_t off, size_t len);

/* Catch SIGBUS and SIGSEGV in [base, base + size): fn returns true when the access can be tried again. Others go to the
 * handlers that were there before. */
int fault_catch(void *base, size_t size, bool (*fn)(void *addr, bool write));
void fault_uncatch(void);

#endif
