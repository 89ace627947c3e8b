// SPDX-License-Identifier: BSD-2-Clause
/* test_va_alloc.c - job/va_alloc.c, compared with a map of units. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "job/va_alloc.h"
#include "suite.h"

#define UNITS 200u
#define FIRST 7u
#define REGIONS 60

static struct va_alloc va;
static struct va_alloc_unit units[UNITS];

/* The longest free run of the map. */
static uint32_t longest(const bool *taken)
{
	uint32_t i, run = 0, most = 0;

	for (i = 0; i < UNITS; i++) {
		run = taken[i] ? 0 : run + 1;
		most = run > most ? run : most;
	}
	return most;
}

/*
 * A free run has its length at both ends, and nothing else is marked. Returns the number of runs.
 */
static uint32_t check_holes(const bool *taken)
{
	uint32_t i, n, holes = 0;

	for (i = 0; i < UNITS; i += n) {
		n = 1;
		if (taken[i]) {
			unit_require(!units[i].length);
			continue;
		}
		while (i + n < UNITS && !taken[i + n])
			n++;
		unit_require(units[i].length == n && units[i + n - 1].length == n);
		holes++;
	}
	return holes;
}

static uint32_t in_lists(void)
{
	uint32_t i, hole, n = 0;

	for (i = 0; i < VA_ALLOC_LISTS; i++)
		for (hole = va.lists[i]; hole; hole = units[hole - 1].next, n++) {
			unit_require(units[hole - 1].length >> i == 1);
			unit_require(n < UNITS);
		}
	return n;
}

UNIT_LOOP_TEST(behaves_like_a_map, 0, 8)
{
	struct {
		uint32_t at, n;
	} have[REGIONS];
	static bool taken[UNITS];
	uint32_t count = 0, round, i, n;
	uint64_t seed = (uint64_t)_i * 77 + 1;
	int64_t at;

	memset(taken, 0, sizeof(taken));
	memset(taken, 1, FIRST);
	memset(units, 0, sizeof(units));
	va_alloc_start(&va, units, FIRST, UNITS);
	for (round = 0; round < 20000; round++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		n = 1 + (uint32_t)(seed >> 40) % 23;
		if (count < REGIONS && (seed >> 33) % 2) {
			at = va_alloc_take(&va, units, n);
			unit_require((at < 0) == (longest(taken) < n));
			if (at < 0)
				continue;
			for (i = 0; i < n; i++) {
				unit_require(!taken[at + i]);
				taken[at + i] = true;
			}
			have[count].at = (uint32_t)at;
			have[count++].n = n;
		} else if (count) {
			i = (uint32_t)(seed >> 40) % count;
			va_alloc_give(&va, units, have[i].at, have[i].n);
			memset(taken + have[i].at, 0, have[i].n);
			have[i] = have[--count];
		}
		unit_require(check_holes(taken) == in_lists());
	}
}

UNIT_TEST(a_place_is_used_again)
{
	memset(units, 0, sizeof(units));
	va_alloc_start(&va, units, FIRST, UNITS);
	ck_assert_int_eq(va_alloc_take(&va, units, 3), FIRST);
	ck_assert_int_eq(va_alloc_take(&va, units, 5), FIRST + 3);
	va_alloc_give(&va, units, FIRST, 3);
	ck_assert_int_eq(va_alloc_take(&va, units, 3), FIRST);
	ck_assert_int_eq(va_alloc_take(&va, units, UNITS - FIRST - 8), FIRST + 8);
	ck_assert_int_eq(va_alloc_take(&va, units, 1), -ENOMEM);
	ck_assert_int_eq(va_alloc_take(&va, units, 0), -EINVAL);
}

UNIT_SUITE("va_alloc")
