// SPDX-License-Identifier: BSD-2-Clause
/*
 * diff.c - see diff.h. A line is loaded once, into registers or a copy; its diff and its twin are
 * both written from there.
 */
#include "miss/diff.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/*
 * Update the twin of a line. Returns the mask of what differed; if that is not 0 and at not NULL,
 * its line of the diff is written to *at, which is moved to the end.
 */
typedef uint64_t (*line_update)(const uint8_t *line, uint8_t *twin, uint8_t **at);

static ALWAYS_INLINE size_t update_lines(line_update update, const uint8_t *page, uint8_t *twin,
					 uint8_t *out)
{
	uint8_t *at = out ? out + 8 : NULL;
	uint64_t lines = 0;
	unsigned int l;

	for (l = 0; l < 64; l++, page += DIFF_LINE, twin += DIFF_LINE)
		lines |= (uint64_t) !!update(page, twin, out ? &at : NULL) << l;
	if (!lines || !out)
		return !!lines;
	memcpy(out, &lines, 8);
	return (size_t)(at - out);
}

static void store_both(uint8_t *page, uint8_t *twin, const uint8_t *diff)
{
	diff_apply(page, diff);
	if (twin)
		diff_apply(twin, diff);
}

/* In portable C, for processors without a better way. */
static size_t update_words(const uint8_t *page, uint8_t *twin, uint8_t *out)
{
	uint8_t copy[DIFF_PAGE], unused[DIFF_MAX];
	size_t size;

	memcpy(copy, page, DIFF_PAGE);
	__asm__ volatile("" : : "r"(copy) : "memory"); /* the page is not read again */
	size = diff_make(copy, twin, out ? out : unused);
	if (size)
		memcpy(twin, copy, DIFF_PAGE);
	return out ? size : !!size;
}

#ifdef __x86_64__
#include <immintrin.h>

/* The compiler may not load this value from memory again. */
#define KEEP(x) __asm__("" : "+x"(x))
#define AVX2 __attribute__((target("avx2,bmi2,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi2,popcnt")))

static ALWAYS_INLINE uint64_t line_sse2(const uint8_t *line, uint8_t *twin, uint8_t **at)
{
	uint8_t copy[DIFF_LINE];
	uint64_t same = 0;
	unsigned int i;

	for (i = 0; i < DIFF_LINE; i += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(line + i)),
			y = _mm_loadu_si128((const __m128i *)(twin + i));

		KEEP(x);
		_mm_storeu_si128((__m128i *)(copy + i), x);
		same |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, y)) << i;
	}
	if (!~same)
		return 0;
	if (at)
		*at = diff_put_line(*at, ~same, copy);
	memcpy(twin, copy, DIFF_LINE);
	return ~same;
}

static size_t update_sse2(const uint8_t *page, uint8_t *twin, uint8_t *out)
{
	return update_lines(line_sse2, page, twin, out);
}

/* Writes up to 8 bytes behind the last one, but not more than 72 in all. */
static ALWAYS_INLINE AVX2 uint8_t *put_line_avx2(uint8_t *at, uint64_t mask, const uint8_t *line)
{
	uint64_t left = mask;

	memcpy(at, &mask, 8);
	for (at += 8; left; left >>= 8, line += 8) {
		uint64_t word;

		memcpy(&word, line, 8);
		if ((left & 0xff) != 0xff) /* pdep and pext are slow in AMD's Zen 1 and 2 */
			word = _pext_u64(word,
					 _pdep_u64(left & 0xff, 0x0101010101010101ULL) * 0xff);
		memcpy(at, &word, 8);
		at += __builtin_popcount((unsigned int)left & 0xff);
	}
	return at;
}

static ALWAYS_INLINE AVX2 uint64_t line_avx2(const uint8_t *line, uint8_t *twin, uint8_t **at)
{
	__m256i x = _mm256_loadu_si256((const __m256i *)line),
		v = _mm256_loadu_si256((const __m256i *)(line + 32));
	const __m256i y = _mm256_loadu_si256((const __m256i *)twin),
		      w = _mm256_loadu_si256((const __m256i *)(twin + 32));
	uint32_t low, high;
	uint64_t mask;

	KEEP(x);
	KEEP(v);
	low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y));
	high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, w));
	mask = ~(low | (uint64_t)high << 32);
	if (!mask)
		return 0;
	_mm256_storeu_si256((__m256i *)twin, x);
	_mm256_storeu_si256((__m256i *)(twin + 32), v);
	if (at)
		*at = put_line_avx2(*at, mask, twin);
	return mask;
}

static AVX2 size_t update_avx2(const uint8_t *page, uint8_t *twin, uint8_t *out)
{
	return update_lines(line_avx2, page, twin, out);
}

/* All 64 bytes of the diff are written, in which there are fewer as a rule. */
static ALWAYS_INLINE AVX512 uint64_t line_avx512(const uint8_t *line, uint8_t *twin, uint8_t **at)
{
	__m512i x = _mm512_loadu_si512(line);
	uint64_t mask;

	__asm__("" : "+v"(x)); /* as KEEP() */
	mask = _mm512_cmpneq_epi8_mask(x, _mm512_loadu_si512(twin));
	if (!mask)
		return 0;
	_mm512_storeu_si512(twin, x);
	if (at) {
		memcpy(*at, &mask, 8);
		_mm512_storeu_si512(*at + 8, _mm512_maskz_compress_epi8(mask, x));
		*at += 8 + __builtin_popcountll(mask);
	}
	return mask;
}

static AVX512 size_t update_avx512(const uint8_t *page, uint8_t *twin, uint8_t *out)
{
	return update_lines(line_avx512, page, twin, out);
}

/* Masked loads and stores touch no byte whose bit is not set. */
static AVX512 void store_avx512(uint8_t *page, uint8_t *twin, const uint8_t *diff)
{
	uint64_t lines, mask;

	memcpy(&lines, diff, 8);
	for (diff += 8; lines; lines &= lines - 1) {
		const size_t at = DIFF_LINE * (size_t)__builtin_ctzll(lines);
		__m512i x;

		memcpy(&mask, diff, 8);
		x = _mm512_maskz_expandloadu_epi8(mask, diff + 8);
		_mm512_mask_storeu_epi8(page + at, mask, x);
		if (twin)
			_mm512_mask_storeu_epi8(twin + at, mask, x);
		diff += 8 + __builtin_popcountll(mask);
	}
}

static const struct diff_ops all_ops[] = { { update_avx512, store_avx512 },
					   { update_avx2, store_both },
					   { update_sse2, store_both },
					   { update_words, store_both } };

static unsigned int fastest(void)
{
	if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2"))
		return 0;
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") ? 1 : 2;
}
#else
static const struct diff_ops all_ops[] = { { update_words, store_both } };

static unsigned int fastest(void)
{
	return 0;
}
#endif

const struct diff_ops *diff_all_ops(unsigned int *n)
{
	*n = sizeof(all_ops) / sizeof(all_ops[0]) - fastest();
	return all_ops + fastest();
}

size_t diff_update(const uint8_t *page, uint8_t *twin, uint8_t *out)
{
	return all_ops[fastest()].update(page, twin, out);
}

void diff_store(uint8_t *page, uint8_t *twin, const uint8_t *diff)
{
	all_ops[fastest()].store(page, twin, diff);
}
