// SPDX-License-Identifier: BSD-2-Clause
/* test_set.c - core/set: exact up to 64 ranks, groups of neighbours beyond. */
#include "suite.h"

#include "core/set.h"

UNIT_TEST(up_to_64_ranks_every_rank_has_its_bit)
{
	uint16_t r;

	for (r = 1; r <= 64; r++)
		ck_assert_uint_eq(set_granule(r), 1);
	for (r = 0; r < 64; r++)
		ck_assert_uint_eq(set_of(r, 1), 1ull << r);
}

UNIT_TEST(beyond_64_ranks_every_rank_fits)
{
	unsigned int n;
	uint16_t r;

	for (n = 65; n <= 1024; n++) {
		uint16_t g = set_granule((uint16_t)n);

		unit_require(g > 1);
		for (r = 0; r < n; r++) {
			unit_require(r / g < 64);
			unit_require(set_of(r, g) == 1ull << (r / g));
			unit_require(set_has(set_of(r, g), r, g));
		}
	}
}

UNIT_TEST(members_are_visited_once_and_in_order)
{
	uint64_t seed = 0x9e3779b97f4a7c15ULL;
	unsigned int i;

	for (i = 0; i < 3000; i++) {
		uint16_t n = (uint16_t)(1 + unit_random(&seed) % 1024), g = set_granule(n), r, at;
		uint64_t set = unit_random(&seed) & unit_random(&seed);
		uint16_t skip1 = (uint16_t)(unit_random(&seed) % n),
			 skip2 = i & 1 ? SET_NOBODY : (uint16_t)(unit_random(&seed) % n);
		uint16_t count = 0;

		at = set_next(set, 0, n, g, skip1, skip2);
		for (r = 0; r < n; r++) {
			if (!(set >> (r / g) & 1) || r == skip1 || r == skip2)
				continue;
			unit_require(at == r);
			at = set_next(set, (uint16_t)(r + 1), n, g, skip1, skip2);
			count++;
		}
		unit_require(at == n);
		unit_require(set_count(set, n, g, skip1, skip2) == count);
	}
}

UNIT_SUITE("set")
