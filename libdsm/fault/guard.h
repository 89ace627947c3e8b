/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guard.h - pages that no thread of this process may touch, whatever the protocol allows: below the stacks of its threads.
 *
 * Any number of threads; guard_has() in a signal handler, too. [off, off + len) are whole pages of the window.
 */
#ifndef FAULT_GUARD_H
#define FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* -ENOMEM. */
int guard_mark(size_t off, size_t len, bool on);
bool guard_has(size_t off);
/* Is there any? */
bool guard_any(void);
/* fault_ops.guard, where the protocol never changes the protection of a mapping by mprotect(2). */
int guard_by_bounds(size_t off, size_t len, bool on);
void guard_close(void);

#endif
