/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * span.h - the stripes of neighbouring blocks, held at once, so that one call of the fault backend
 * changes what all of them map. Any thread inside the runtime, without a stripe.
 */
#ifndef MISS_SPAN_H
#define MISS_SPAN_H

#include <stddef.h>
#include <stdint.h>

#include "job/ctl.h"

#define SPAN_MOST 64 /* blocks */

struct span {
	uint64_t stripes[CTL_STRIPES / 64]; /* one bit each, as several blocks may share a stripe */
};

/* n blocks of `block` bytes, 1 <= n <= SPAN_MOST, the first at off. Waits for other threads. */
void span_lock(struct span *s, size_t off, size_t block, unsigned int n);
void span_unlock(const struct span *s);

#endif
