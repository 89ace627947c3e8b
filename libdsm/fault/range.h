/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * range.h - the table of ranges: the address in this process of each byte of the window.
 *
 * A byte of shared memory is named by its offset into the window. Most bytes are at the window's
 * base plus that offset. A range of adopted memory (dsm_region_adopt()) is elsewhere: it stays at
 * its address in the program. The table is the same on all ranks that have adopted the range. It
 * changes only with an adoption, so readers take no lock.
 *
 * One thread at a time may call range_add() and range_remove(). The other functions are thread-safe
 * and async-signal-safe.
 */
#ifndef FAULT_RANGE_H
#define FAULT_RANGE_H

#include <stdbool.h>
#include <stddef.h>

#define RANGES_MAX 512u

/* Set the window, and remove all ranges. base NULL: no window. */
void range_window(void *base, size_t size);

/* Place [off, off + len) of the window at `at`, in whole pages. -ENOSPC: there are RANGES_MAX
 * ranges; -EEXIST: it overlaps another range, or the window. */
int range_add(void *at, size_t off, size_t len);
void range_remove(size_t off);

/* Is this address in the window or in a range? If true, *off is set. */
bool range_off(const void *addr, size_t *off);
char *range_at(size_t off);
/* The end of the first part of [off, end) whose addresses are contiguous. */
size_t range_run(size_t off, size_t end);

/* Call mprotect(2) for [off, off + len). 0 or -errno. */
int range_protect(size_t off, size_t len, int prot);

#endif
