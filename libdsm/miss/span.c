// SPDX-License-Identifier: BSD-2-Clause
/* span.c - see span.h. */
#include "miss/span.h"

#include <string.h>

#include "job/job.h"
#include "util/futex.h"

/* In ascending order, so that threads that take several stripes do not wait for each other. */
static void each_stripe(const struct span *s, void (*fn)(uint32_t *))
{
	uint32_t w;
	uint64_t left;

	for (w = 0; w < CTL_STRIPES / 64; w++)
		for (left = s->stripes[w]; left; left &= left - 1)
			fn(&job.me->stripes[w * 64 + (uint32_t)__builtin_ctzll(left)]);
}

void span_lock(struct span *s, size_t off, size_t block, unsigned int n)
{
	const size_t end = off + n * block;
	uint32_t i;

	memset(s, 0, sizeof(*s));
	for (; off < end; off += block) {
		/* block_stripe() */
		i = stripe_index(block_page(block_id(off, block)));
		s->stripes[i / 64] |= 1ull << i % 64;
	}
	each_stripe(s, word_lock);
}

void span_unlock(const struct span *s)
{
	each_stripe(s, word_unlock);
}
