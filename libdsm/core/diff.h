/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * diff.h - the bytes of a page that a node has changed since its twin (docs/protocol.md, "Release
 * blocks").
 *
 * A page is 64 lines of 64 bytes. A diff is a 64-bit mask of the lines that changed, and for each
 * of them, in order, a 64-bit mask of the bytes that changed, followed by these bytes. Bytes that
 * did not change are never part of a diff: another node, or a thread of the receiver, may be
 * storing to them at the same time.
 */
#ifndef CORE_DIFF_H
#define CORE_DIFF_H

#include "core/types.h"

#define DIFF_LINE 64U
#define DIFF_PAGE (64U * DIFF_LINE)
#define DIFF_MAX (8 + 64 * 8 + DIFF_PAGE) /* bytes of a diff in which every byte changed */

/* Compare two lines that nobody writes meanwhile. Bit i of the result is set if byte i differs. */
typedef uint64_t (*diff_compare)(const uint8_t *a, const uint8_t *b);

/* The comparison in portable C, for the kernel and for processors without a better one. */
uint64_t diff_compare_words(const uint8_t *a, const uint8_t *b);

/*
 * The first run of set bits in mask, which is not 0: returns its length, sets *first to its lowest
 * bit.
 */
static inline unsigned int diff_run(uint64_t mask, unsigned int *first)
{
	uint64_t clear;

	*first = (unsigned int)__builtin_ctzll(mask);
	clear = ~(mask >> *first);
	return clear ? (unsigned int)__builtin_ctzll(clear) : 64;
}

/* mask without its first run, which diff_run() found. */
static inline uint64_t diff_run_drop(uint64_t mask, unsigned int first, unsigned int n)
{
	return first + n < 64 ? mask & ~0ULL << (first + n) : 0;
}

/* diff_make() with a comparison that the compiler inlines. */
static inline __attribute__((always_inline)) size_t
diff_make_with(diff_compare compare, const uint8_t *page, const uint8_t *twin, uint8_t *out)
{
	uint8_t *at = out + 8;
	uint64_t lines = 0;
	unsigned int l;

	for (l = 0; l < 64; l++, page += DIFF_LINE, twin += DIFF_LINE) {
		uint64_t mask = compare(page, twin);
		unsigned int first, n;

		if (!mask)
			continue;
		lines |= 1ULL << l;
		memcpy(at, &mask, 8);
		for (at += 8; mask; mask = diff_run_drop(mask, first, n)) {
			n = diff_run(mask, &first);
			memcpy(at, page + first, n);
			at += n;
		}
	}
	if (!lines)
		return 0;
	memcpy(out, &lines, 8);
	return (size_t)(at - out);
}

/*
 * Write the diff from twin to page into out, which has room for DIFF_MAX bytes. Returns its size in
 * bytes, or 0 if both are equal. Nobody may write the page meanwhile: the caller compares a copy of
 * a page that threads use.
 */
size_t diff_make(const uint8_t *page, const uint8_t *twin, uint8_t *out);

/*
 * Is this one diff of exactly `size` bytes, as diff_make() writes it? 0 or -EBADMSG. The diff of a
 * peer is checked before use.
 */
int diff_check(const uint8_t *diff, size_t size);

/*
 * Store the bytes of a checked diff into a page, and no others. Threads may use the page meanwhile.
 */
void diff_apply(uint8_t *page, const uint8_t *diff);

/*
 * Bring a copy that is open for writing up to date: bytes in which the master's contents differ
 * from the twin go to the page and to the twin. What this node has changed since its twin stays.
 * Threads may use the page meanwhile.
 */
void diff_refresh(uint8_t *page, uint8_t *twin, const uint8_t *master);

#endif
