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

/* Copy n < 128 bytes: writes these only, and reads these only. */
static inline void diff_copy(uint8_t *to, const uint8_t *from, unsigned int n)
{
	for (; n >= 8; n -= 8, to += 8, from += 8)
		memcpy(to, from, 8);
	if (n & 4) {
		memcpy(to, from, 4);
		to += 4, from += 4;
	}
	if (n & 2) {
		memcpy(to, from, 2);
		to += 2, from += 2;
	}
	if (n & 1)
		*to = *from;
}

/* Append a line of a diff: its mask, which is not 0, and the bytes. Returns the end. */
static inline uint8_t *diff_put_line(uint8_t *at, uint64_t mask, const uint8_t *line)
{
	unsigned int first, n;

	memcpy(at, &mask, 8);
	for (at += 8; mask; mask = diff_run_drop(mask, first, n)) {
		n = diff_run(mask, &first);
		diff_copy(at, line + first, n);
		at += n;
	}
	return at;
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

#endif
