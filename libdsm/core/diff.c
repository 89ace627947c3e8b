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

/* Bit i of the result is set if byte i of the lines differs. */
static uint64_t line_compare(const uint8_t *a, const uint8_t *b)
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

/* Those of 2 bits, of 4, then of 8; the product adds up all bytes in the highest one. */
static unsigned int bits_of(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + (x >> 2 & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (unsigned int)(x * 0x0101010101010101ULL >> 56);
}

size_t diff_make(const uint8_t *page, const uint8_t *twin, uint8_t *out)
{
	uint8_t *at = out + 8;
	uint64_t lines = 0;
	unsigned int l;

	for (l = 0; l < 64; l++, page += DIFF_LINE, twin += DIFF_LINE) {
		const uint64_t mask = line_compare(page, twin);

		if (!mask)
			continue;
		lines |= 1ULL << l;
		at = diff_put_line(at, mask, page);
	}
	if (!lines)
		return 0;
	memcpy(out, &lines, 8);
	return (size_t)(at - out);
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
		diff_copy(line + first, from, n);
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
