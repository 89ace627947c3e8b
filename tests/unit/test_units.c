// SPDX-License-Identifier: BSD-2-Clause
/* test_units.c - heap/units.c: the owners of the units of the heap. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heap/units.h"
#include "suite.h"

#define RANKS 3u
#define HEAP ((size_t)1 << 30)

static struct units_shape shape;
static struct units *units;

static void begin(void)
{
	shape = units_shape(HEAP, RANKS);
	units = calloc(1, units_size(HEAP));
	ck_assert_ptr_nonnull(units);
}

static int64_t take(uint32_t n, uint32_t rank)
{
	uint32_t used;

	return units_take(&shape, units, false, n, rank, &used);
}

UNIT_TEST(stripes_belong_to_the_ranks_in_turn)
{
	uint32_t i, sum[RANKS] = { 0 };

	ck_assert_uint_eq(shape.count, 512);
	ck_assert_uint_eq(shape.stripe, 10);
	for (i = 0; i < shape.count; i++)
		sum[units_home(&shape, i)]++;
	for (i = 0; i < RANKS; i++)
		ck_assert_uint_ge(sum[i], (shape.count - RANKS * shape.stripe) / RANKS);
	ck_assert_uint_eq(units_home(&shape, 9), 0);
	ck_assert_uint_eq(units_home(&shape, 10), 1);
	ck_assert_uint_eq(units_home(&shape, 30), 0);
}

UNIT_TEST(a_rank_takes_of_its_own_stripes_first)
{
	uint32_t r, i, own;

	for (r = 0; r < RANKS; r++) {
		own = 0;
		for (i = 0; i < shape.count; i++)
			own += units_home(&shape, i) == r;
		for (; own; own--)
			ck_assert_uint_eq(units_home(&shape, (uint32_t)take(1, r)), r);
	}
	ck_assert_int_eq(take(1, 0), -ENOMEM);
	ck_assert_int_eq(take(1, 1), -ENOMEM);
}

UNIT_TEST(a_long_run_lies_in_an_own_stripe_if_it_fits)
{
	uint32_t r;

	for (r = 0; r < RANKS; r++) {
		const int64_t at = take(shape.stripe, r);

		ck_assert_int_eq(at, (RANKS + r) * shape.stripe);
		ck_assert_uint_eq(units_home(&shape, (uint32_t)at), r);
	}
}

UNIT_TEST(short_runs_leave_room_for_a_long_one)
{
	const uint32_t most = shape.count - RANKS * shape.stripe;
	uint32_t r, i;

	for (r = 0; r < RANKS; r++)
		for (i = 0; i < shape.stripe; i++)
			ck_assert_int_ge(take(1, r), 0);
	ck_assert_uint_ge(most * 100, shape.count * 90);
	ck_assert_int_eq(take(most + 1, 1), -ENOMEM);
	ck_assert_int_eq(take(most, 1), RANKS * shape.stripe);
	ck_assert_int_eq(take(1, 0), -ENOMEM);
}

UNIT_TEST(all_of_it_is_a_run)
{
	uint32_t used = 1;

	ck_assert_int_eq(take(0, 0), -ENOMEM);
	ck_assert_int_eq(take(shape.count + 1, 0), -ENOMEM);
	ck_assert_int_eq(take(UINT32_MAX, 0), -ENOMEM);
	ck_assert_int_eq(units_take(&shape, units, false, shape.count, 2, &used), 0);
	ck_assert_uint_eq(used, 0);
	ck_assert_int_eq(take(1, 2), -ENOMEM);
	ck_assert_int_eq(units_give(&shape, units, 100, 50, 2), 0);
	ck_assert_int_eq(units_take(&shape, units, false, 50, 1, &used), 100);
	ck_assert_uint_eq(used, 50);
}

UNIT_TEST(a_run_lies_in_the_part_that_is_asked_for)
{
	uint32_t used, r, i;
	int64_t at;

	shape.split = 256;
	ck_assert_int_eq(units_take(&shape, units, false, 257, 0, &used), -ENOMEM);
	ck_assert_int_eq(units_take(&shape, units, true, 257, 0, &used), -ENOMEM);
	for (r = 0; r < RANKS; r++) {
		at = units_take(&shape, units, true, 1, r, &used);
		ck_assert_int_ge(at, 256);
		ck_assert_uint_eq(units_home(&shape, (uint32_t)at), r);
		ck_assert_int_lt(units_take(&shape, units, false, 1, r, &used), 256);
	}
	for (i = RANKS; i < 256; i++) {
		ck_assert_int_lt(units_take(&shape, units, false, 1, 0, &used), 256);
		ck_assert_int_ge(units_take(&shape, units, true, 1, 0, &used), 256);
	}
	ck_assert_int_eq(units_take(&shape, units, false, 1, 0, &used), -ENOMEM);
	ck_assert_int_eq(units_take(&shape, units, true, 1, 0, &used), -ENOMEM);
	ck_assert_int_eq(units_give(&shape, units, 300, 1, 0), 0);
	ck_assert_int_eq(units_take(&shape, units, false, 1, 0, &used), -ENOMEM);
	ck_assert_int_eq(units_take(&shape, units, true, 1, 1, &used), 300);
	ck_assert_uint_eq(used, 1);
}

UNIT_TEST(all_of_a_part_is_a_run)
{
	uint32_t used;

	shape.split = 200;
	ck_assert_int_eq(units_take(&shape, units, true, shape.count - 200, 1, &used), 200);
	ck_assert_int_eq(units_take(&shape, units, false, 200, 1, &used), 0);
}

UNIT_TEST(only_an_owner_gives_back)
{
	const int64_t at = take(5, 1), next = take(5, 2);

	ck_assert_int_ge(at, 0);
	ck_assert_int_ge(next, 0);
	ck_assert_uint_eq(units_owner(units, (uint32_t)at), 2);
	ck_assert_int_eq(units_give(&shape, units, (uint32_t)at, 5, 2), -EINVAL);
	ck_assert_int_eq(units_give(&shape, units, (uint32_t)at, 6, 1), -EINVAL);
	ck_assert_int_eq(units_give(&shape, units, shape.count, 1, 1), -EINVAL);
	ck_assert_int_eq(units_give(&shape, units, (uint32_t)at, UINT32_MAX, 1), -EINVAL);
	ck_assert_int_eq(units_give(&shape, units, (uint32_t)at, 5, 1), 0);
	ck_assert_int_eq(units_give(&shape, units, (uint32_t)at, 5, 1), -EINVAL);
	ck_assert_uint_eq(units_owner(units, (uint32_t)at), 0);
}

/*
 * Compared with a map: no unit has two owners, and a run is refused only if there is none. Heaps
 * and jobs of all sizes.
 */
UNIT_LOOP_TEST(units_are_a_map, 0, 60)
{
	uint32_t step, i, n, rank, free_run, longest;
	uint8_t owner[512];
	int64_t at;

	srandom((unsigned int)_i);
	shape = units_shape((size_t)(1 + random() % 512) * UNIT_BYTES,
			    (uint32_t)(1 + random() % 64));
	memset(owner, 0, sizeof(owner));
	for (step = 0; step < 3000; step++) {
		rank = (uint32_t)random() % shape.ranks;
		n = 1 + (uint32_t)random() % (random() % 4 ? 3 : shape.count);
		if (random() % 2) {
			at = take(n, rank);
			for (i = free_run = longest = 0; i < shape.count; i++) {
				free_run = owner[i] ? 0 : free_run + 1;
				longest = free_run > longest ? free_run : longest;
			}
			unit_require((at >= 0) == (n <= longest));
			for (i = 0; at >= 0 && i < n; i++) {
				unit_require(!owner[at + i]);
				owner[at + i] = (uint8_t)(rank + 1);
			}
		} else {
			at = random() % shape.count;
			for (i = 0; i < n && at + i < shape.count && owner[at + i] == rank + 1; i++)
				;
			unit_require(!units_give(&shape, units, (uint32_t)at, n, rank) == (i == n));
			memset(&owner[at], 0, i == n ? n : 0);
		}
		for (i = 0; i < shape.count; i++)
			unit_require(units_owner(units, i) == owner[i]);
	}
}

UNIT_SUITE("units", .setup = begin)
