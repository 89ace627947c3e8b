/* SPDX-License-Identifier: BSD-2-Clause */
/* bits.h - maps of bits in words of 64. */
#ifndef UTIL_BITS_H
#define UTIL_BITS_H

#include <stddef.h>
#include <stdint.h>

/* The bits of word w that lie in [first, end), of which it has at least one. */
static inline uint64_t word_mask(size_t w, size_t first, size_t end)
{
	uint64_t mask = ~0ull;

	if (first > w * 64)
		mask &= ~0ull << (first - w * 64);
	if (end < w * 64 + 64)
		mask &= ~0ull >> (w * 64 + 64 - end);
	return mask;
}

#endif
