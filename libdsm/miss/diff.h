/* SPDX-License-Identifier: BSD-2-Clause */
/* diff.h - diffs of core/diff.h, by the widest instructions of this processor. */
#ifndef MISS_DIFF_H
#define MISS_DIFF_H

#include "core/diff.h"

/*
 * Write the diff from twin to page into out, as diff_make() does, and make the twin equal to the
 * page. out NULL: only make it equal. Returns the size of the diff, out NULL: 1; 0 if both are
 * equal. Threads may store to the page meanwhile: each byte is read once, so a store is in this
 * diff and in the twin, or in neither. Any of the DIFF_MAX bytes of out may be written. Any thread.
 */
size_t diff_update(const uint8_t *page, uint8_t *twin, uint8_t *out);

/*
 * Store the bytes of a checked diff, and no others, in a page, which threads may use meanwhile, and
 * in its twin, unless that is NULL. Any thread.
 */
void diff_store(uint8_t *page, uint8_t *twin, const uint8_t *diff);

struct diff_ops {
	size_t (*update)(const uint8_t *page, uint8_t *twin, uint8_t *out);
	void (*store)(uint8_t *page, uint8_t *twin, const uint8_t *diff);
};

/*
 * All ways of this processor, the fastest first; n: their number. For tests and benchmarks.
 */
const struct diff_ops *diff_all_ops(unsigned int *n);

#endif
