// SPDX-License-Identifier: BSD-2-Clause
/* test_top.c - libdsm/util/top: the records with the largest counts, in order. */
#include "suite.h"

#include <stddef.h>

#include "util/top.h"

struct record {
	uint32_t name;
	uint64_t count;
};

#define ROOM 4

UNIT_TEST(the_largest_stay_in_order)
{
	struct record list[ROOM + 1] = { [ROOM] = { 77, 77 } };
	struct top t = { .list = list,
			 .size = sizeof(list[0]),
			 .key = offsetof(struct record, count),
			 .n = ROOM };
	uint64_t counts[100], random = 5;
	unsigned int i, k, above;

	for (i = 0; i < 100; i++) {
		counts[i] = unit_random(&random) % 60;
		top_add(&t, &(struct record){ i, counts[i] });
		ck_assert_uint_eq(t.have, i + 1 < ROOM ? i + 1 : ROOM);
		for (k = 0; k + 1 < t.have; k++)
			unit_require(list[k].count > list[k + 1].count ||
				     (list[k].count == list[k + 1].count &&
				      list[k].name < list[k + 1].name));
	}
	for (i = 0, above = 0; i < 100; i++)
		above += counts[i] > list[ROOM - 1].count;
	ck_assert_uint_lt(above, ROOM);
	for (k = 0; k < ROOM; k++)
		ck_assert_uint_eq(counts[list[k].name], list[k].count);
	ck_assert_uint_eq(list[ROOM].name, 77);
}

UNIT_SUITE("top")
