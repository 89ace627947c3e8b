/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guard.h - pages to which this process has less access than the protocol allows: below the stacks
 * of threads, and where the program wants it (dsm_guard()).
 *
 * Thread-safe; guard_of() is async-signal-safe. [off, off + len) are whole pages of the window.
 */
#ifndef FAULT_GUARD_H
#define FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

enum guard {
	GUARD_NONE,
	GUARD_STACK,   /* no access: below a stack */
	GUARD_PROGRAM, /* no access: by dsm_guard() */
	GUARD_STORES   /* no store: by dsm_guard() */
};

/* Set what guards the pages of a range. -ENOMEM: no memory for the map. */
int guard_mark(size_t off, size_t len, enum guard guard);
enum guard guard_of(size_t off);
/* Does this guard forbid the access? */
static inline bool guard_forbids(enum guard guard, bool write)
{
	return guard == GUARD_STACK || guard == GUARD_PROGRAM || (guard == GUARD_STORES && write);
}
/* Is any page guarded? */
bool guard_any(void);
/* fault_ops.guard for backends whose protocol never changes protections by mprotect(2). */
int guard_by_bounds(size_t off, size_t len, enum guard guard);
void guard_close(void);

#endif
