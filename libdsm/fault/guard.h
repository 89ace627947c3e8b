/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guard.h - guard pages below the stacks of threads: this process may not access them, whatever the
 * protocol allows.
 *
 * Thread-safe; guard_has() is async-signal-safe. [off, off + len) are whole pages of the window.
 */
#ifndef FAULT_GUARD_H
#define FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Set or clear the guards of a range. -ENOMEM: no memory for the bitmap. */
int guard_mark(size_t off, size_t len, bool on);
bool guard_has(size_t off);
/* Is any page guarded? */
bool guard_any(void);
/* fault_ops.guard for backends whose protocol never changes protections by mprotect(2). */
int guard_by_bounds(size_t off, size_t len, bool on);
void guard_close(void);

#endif
