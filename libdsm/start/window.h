/* SPDX-License-Identifier: BSD-2-Clause */
/* window.h - the address of the window: one of a few ranges, the same on all ranks. At the start
 * and the end, by one thread. */
#ifndef START_WINDOW_H
#define START_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* Reserve the ranges that are free in this process. Returns a bit for each. */
uint32_t window_reserve(void);
/* Set job.base to the first of the ranges that are free in all ranks (common), and release the
 * others. 0, or -EADDRNOTAVAIL after a message. */
int window_choose(uint32_t common);
/* Release the reserved ranges. gone: the fault backend has unmapped the window's own range, which
 * is then not released. */
void window_release(bool gone);

#endif
