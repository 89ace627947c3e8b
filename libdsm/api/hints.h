/* SPDX-License-Identifier: BSD-2-Clause */
/* hints.h - the blocks of a range that the program names, and pins of this process (dsm_pin()). */
#ifndef API_HINTS_H
#define API_HINTS_H

#include <stdbool.h>
#include <stddef.h>

struct dsm_region;

/* Find the whole blocks around [addr, addr + size) in one attached region. Any thread. -EFAULT: not
 * in one region. Errors of job_ready(). */
int hints_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len);
/* True if any part of the range is pinned. Any thread; does not block. */
bool pins_any(size_t off, size_t len);
/* Drop all pins. Called by dsm_finalize(), when no other thread pins. */
void pins_forget(void);

#endif
