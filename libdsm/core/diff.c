// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* diff.c - see diff.h. */
#include "core/diff.h"

#define LOW_BITS 0x7f7f7f7f7f7f7f7fULL

/* Bit i: byte i of x is not zero. */
static uint64_t bytes_set(uint64_t x)
{
	uint64_t high =
		/* the highest bit of each byte that is not zero */
		(((x & LOW_BITS) + LOW_BITS) | x) & ~LOW_BITS;

	return ((high >> 7) * 0x0102040810204080ULL) >> 56; /* moves bit 8i to bit 56 + i */
}

uint64_t diff_compare_words(const uint8_t *a, const uint8_t *b)
{
	uint64_t mask = 0;
	unsigned int i;

	for (i = 0; i < DIFF_LINE; i += 8) {
		uint64_t x, y;

		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		if (x != y)
			mask |= bytes_set(x ^ y) << i;
	}
	return mask;
}

static size_t bits_of(uint64_t mask)
{
	unsigned int first, run;
	size_t n = 0;

	for (; mask; mask = diff_run_drop(mask, first, run))
		n += run = diff_run(mask, &first);
	return n;
}

size_t diff_make(const uint8_t *page, const uint8_t *twin, uint8_t *out)
{
	return diff_make_with(diff_compare_words, page, twin, out);
}

int diff_check(const uint8_t *diff, size_t size)
{
	uint64_t lines, mask;
	size_t at = 8, n;

	if (size < 8)
		return -EBADMSG;
	memcpy(&lines, diff, 8);
	if (!lines)
		return -EBADMSG;
	for (; lines; lines &= lines - 1) {
		if (size - at < 8)
			return -EBADMSG;
		memcpy(&mask, diff + at, 8);
		at += 8;
		n = bits_of(mask);
		if (!n || size - at < n)
			return -EBADMSG;
		at += n;
	}
	return at == size ? 0 : -EBADMSG;
}

/*
 * Store the bytes at `from`, which has no gaps, where mask has bits. Returns the end of what was
 * read.
 */
static const uint8_t *line_store(uint8_t *line, uint64_t mask, const uint8_t *from)
{
	unsigned int first, n;

	for (; mask; mask = diff_run_drop(mask, first, n)) {
		n = diff_run(mask, &first);
		/* writes these n bytes only, in stores of any width */
		memcpy(line + first, from, n);
		from += n;
	}
	return from;
}

void diff_apply(uint8_t *page, const uint8_t *diff)
{
	uint64_t lines, mask;

	memcpy(&lines, diff, 8);
	for (diff += 8; lines; lines &= lines - 1) {
		memcpy(&mask, diff, 8);
		diff = line_store(page + DIFF_LINE * (unsigned int)__builtin_ctzll(lines), mask,
				  diff + 8);
	}
}

void diff_refresh(uint8_t *page, uint8_t *twin, const uint8_t *master)
{
	unsigned int at, first, n;

	for (at = 0; at < DIFF_PAGE; at += DIFF_LINE) {
		uint64_t mask = diff_compare_words(master + at, twin + at);

		for (; mask; mask = diff_run_drop(mask, first, n)) {
			n = diff_run(mask, &first);
			memcpy(page + at + first, master + at + first, n);
			memcpy(twin + at + first, master + at + first, n);
		}
	}
}
