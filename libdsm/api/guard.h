/* SPDX-License-Identifier: BSD-2-Clause */
/* guard.h - access that the program has limited (dsm_guard()). */
#ifndef API_GUARD_H
#define API_GUARD_H

#include <stddef.h>

/* Forget the limits of a range of the window that this process has left, and may no longer touch
 * anyway. Any thread; does not block. */
void guard_forget(size_t off, size_t len);

#endif
