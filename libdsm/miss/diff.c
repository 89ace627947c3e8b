// SPDX-License-Identifier: BSD-2-Clause
/*
 * diff.c - see diff.h. Each comparison yields 64 bits for 64 bytes; the rest of the loop is
 * core/diff.h's.
 */
#include "miss/diff.h"

#ifdef __x86_64__
#include <immintrin.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw")))

static ALWAYS_INLINE uint64_t compare_sse2(const uint8_t *a, const uint8_t *b)
{
	uint64_t same = 0;
	unsigned int i;

	for (i = 0; i < DIFF_LINE; i += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(a + i)),
			y = _mm_loadu_si128((const __m128i *)(b + i));

		same |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, y)) << i;
	}
	return ~same;
}

static size_t make_sse2(const uint8_t *page, const uint8_t *twin, uint8_t *out)
{
	return diff_make_with(compare_sse2, page, twin, out);
}

static ALWAYS_INLINE AVX2 uint64_t compare_avx2(const uint8_t *a, const uint8_t *b)
{
	__m256i x = _mm256_loadu_si256((const __m256i *)a),
		y = _mm256_loadu_si256((const __m256i *)b);
	__m256i v = _mm256_loadu_si256((const __m256i *)(a + 32)),
		w = _mm256_loadu_si256((const __m256i *)(b + 32));
	uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y));
	uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, w));

	return ~(low | (uint64_t)high << 32);
}

static AVX2 size_t make_avx2(const uint8_t *page, const uint8_t *twin, uint8_t *out)
{
	return diff_make_with(compare_avx2, page, twin, out);
}

static ALWAYS_INLINE AVX512 uint64_t compare_avx512(const uint8_t *a, const uint8_t *b)
{
	return _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(a), _mm512_loadu_si512(b));
}

static AVX512 size_t make_avx512(const uint8_t *page, const uint8_t *twin, uint8_t *out)
{
	return diff_make_with(compare_avx512, page, twin, out);
}

static const diff_maker makers[] = { make_avx512, make_avx2, make_sse2, diff_make };

static unsigned int fastest(void)
{
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		return 0;
	return __builtin_cpu_supports("avx2") ? 1 : 2;
}
#else
static const diff_maker makers[] = { diff_make };

static unsigned int fastest(void)
{
	return 0;
}
#endif

const diff_maker *diff_makers(unsigned int *n)
{
	*n = sizeof(makers) / sizeof(makers[0]) - fastest();
	return makers + fastest();
}

size_t diff_make_fast(const uint8_t *page, const uint8_t *twin, uint8_t *out)
{
	return makers[fastest()](page, twin, out);
}
