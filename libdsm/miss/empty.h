/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * empty.h - frees the frames of memory that is marked as free (discard.h). Any thread inside the
 * runtime, without a stripe; nothing waits for another rank's program.
 */
#ifndef MISS_EMPTY_H
#define MISS_EMPTY_H

#include <stddef.h>
#include <stdint.h>

/*
 * The thread that holds reclaim.lock: empty marked blocks of a unit, up to `want` bytes. Returns
 * how many bytes it has freed.
 */
uint64_t empty_unit(size_t unit, size_t block, uint64_t want);
/*
 * Also outside the runtime: this rank is about to give away these units, all of whose memory is
 * free. If the node is close to its bound, free the frames. Then remove the marks.
 */
void empty_units(size_t off, size_t len);

#endif
