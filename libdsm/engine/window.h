/* SPDX-License-Identifier: BSD-2-Clause */
/* window.h - at which address the window lies: one of a few ranges, the same on all ranks. At the start and the end, by one thread. */
#ifndef ENGINE_WINDOW_H
#define ENGINE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* Reserve those ranges that are free in this process: a bit for each. */
uint32_t window_reserve(void);
/* Of the ranges that are free in all ranks, take the first for job.base, and release the others. 0, or -EADDRNOTAVAIL, which has
 * been said. */
int window_choose(uint32_t common);
/* Release what is reserved, with the window's own range unless the fault backend has unmapped it (gone). */
void window_release(bool gone);

#endif
