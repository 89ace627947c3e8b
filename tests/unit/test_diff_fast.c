// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_diff_fast.c - miss/diff: every comparison of this processor makes the diff that core/diff
 * makes.
 */
#include "core.h"

#include <string.h>

#include "miss/diff.h"

UNIT_TEST(every_comparison_makes_the_same_diff)
{
	static uint8_t page[DIFF_PAGE], twin[DIFF_PAGE], out[DIFF_MAX], again[DIFF_MAX];
	uint64_t seed = 88172645463325252ULL;
	unsigned int n, m, turn, i;
	const diff_maker *makers = diff_makers(&n);

	ck_assert_uint_ge(n, 1);
	ck_assert(makers[n - 1] == diff_make);
	for (turn = 0; turn < 2000; turn++) {
		const unsigned int every = 1 + turn % 600;
		size_t size;

		for (i = 0; i < DIFF_PAGE; i++) {
			twin[i] = (uint8_t)unit_random(&seed);
			/* in runs of up to 32 bytes; 1 in `every` */
			page[i] = i & (turn & 31) || unit_random(&seed) % every
				? twin[i]
				: (uint8_t)unit_random(&seed);
		}
		size = diff_make(page, twin, out);
		ck_assert_uint_eq(diff_make_fast(page, twin, again), size);
		for (m = 0; m + 1 < n; m++) {
			ck_assert_uint_eq(makers[m](page, twin, again), size);
			ck_assert_int_eq(memcmp(out, again, size), 0);
		}
	}
}

UNIT_TEST(equal_pages_have_no_diff)
{
	static const uint8_t page[DIFF_PAGE];
	static uint8_t out[DIFF_MAX];
	unsigned int n, m;
	const diff_maker *makers = diff_makers(&n);

	ck_assert_uint_eq(diff_make_fast(page, page, out), 0);
	for (m = 0; m < n; m++)
		ck_assert_uint_eq(makers[m](page, page, out), 0);
}

UNIT_SUITE("diff_fast")
