/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * range.h - the table of ranges: at which address of this process each byte of the window is.
 *
 * A byte of shared memory is named by its offset into the window. Most bytes are at the window's base plus that offset. A range
 * of adopted memory (dsm_region_adopt()) is elsewhere: at the address that the program had it at before. The table is the same
 * on all ranks that have adopted the range. Between two adoptions it does not change, so readers take no lock.
 *
 * range_add() and range_remove() are called by one thread at a time; the others by any thread, in a signal handler as well.
 */
#ifndef FAULT_RANGE_H
#define FAULT_RANGE_H

#include <stdbool.h>
#include <stddef.h>

#define RANGES_MAX 256u

/* The window; forgets every range. base NULL: none. */
void range_window(void *base, size_t size);

/* [off, off + len) of the window is at `at` from now on. Whole pages. -ENOSPC: RANGES_MAX of them; -EEXIST: it overlaps another
 * range, or the window. */
int range_add(void *at, size_t off, size_t len);
void range_remove(size_t off);

/* Is this address in the window or in a range? Then *off is set. */
bool range_off(const void *addr, size_t *off);
char *range_at(size_t off);
/* The end of the part of [off, end) whose addresses follow that of off. */
size_t range_run(size_t off, size_t end);

/* mprotect(2) of [off, off + len). 0 or -errno. */
int range_protect(size_t off, size_t len, int prot);

#endif
