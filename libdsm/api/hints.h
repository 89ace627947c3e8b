/* SPDX-License-Identifier: BSD-2-Clause */
/* hints.h - pins of this process (dsm_pin()). */
#ifndef API_HINTS_H
#define API_HINTS_H

#include <stdbool.h>
#include <stddef.h>

/* True if any part of the range is pinned. Any thread; does not block. */
bool pins_any(size_t off, size_t len);
/* Drop all pins. Called by dsm_finalize(), when no other thread pins. */
void pins_forget(void);

#endif
