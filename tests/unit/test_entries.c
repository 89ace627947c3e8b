// SPDX-License-Identifier: BSD-2-Clause
/* test_entries.c - miss/entries.c: lists of release blocks in the order of the blocks. */
#include "miss/entries.h"

#include <string.h>

#include "job/job.h"
#include "miss/span.h"
#include "suite.h"

#define BLOCKS 1024u

static struct rel rels[BLOCKS];

static void set_up(void)
{
	memset(rels, 0, sizeof(rels));
	job.mem.rels = rels;
}

/* A list of n entries in an order of its own. Returns its first. */
static uint32_t link_some(unsigned int n, uint32_t (*nth)(uint32_t i))
{
	uint32_t first = 0, i;

	for (i = 0; i < n; i++) {
		rels[nth(i)].next_open = first;
		first = nth(i) + 1;
	}
	return first;
}

static uint32_t ascending(uint32_t i)
{
	return i;
}

static uint32_t descending(uint32_t i)
{
	return BLOCKS - 1 - i;
}

static uint32_t scattered(uint32_t i)
{
	return i * 77 % BLOCKS; /* odd: each once */
}

UNIT_LOOP_TEST(each_part_of_a_list_is_sorted, 0, 3)
{
	static uint32_t (*const orders[])(uint32_t) = { ascending, descending, scattered };
	uint32_t entry = link_some(BLOCKS, orders[_i]), sum = 0;
	struct entries s;
	unsigned int parts = 0, i;

	for (; entry; parts++) {
		entry = entries_sort(&s, entry, entry_next_open);
		unit_require(s.n == ENTRIES_SORTED);
		for (i = 0; i < s.n; i++) {
			unit_require(!i || s.v[i - 1] < s.v[i]);
			sum += s.v[i];
		}
	}
	ck_assert_uint_eq(parts, BLOCKS / ENTRIES_SORTED);
	ck_assert_uint_eq(sum, BLOCKS * (BLOCKS + 1) / 2);
}

UNIT_TEST(a_short_list_is_one_part)
{
	struct entries s;

	ck_assert_uint_eq(entries_sort(&s, link_some(3, scattered), entry_next_open), 0);
	ck_assert_uint_eq(s.n, 3);
	ck_assert_uint_eq(s.v[0], 1);
	ck_assert_uint_eq(s.v[1], 78);
	ck_assert_uint_eq(s.v[2], 155);
}

UNIT_TEST(notices_are_a_list_of_their_own)
{
	rels[4].next_notice = 9;
	rels[4].next_open = 7;
	ck_assert_uint_eq(entry_next_notice(&rels[4]), 9);
	ck_assert_uint_eq(entry_next_open(&rels[4]), 7);
}

UNIT_TEST(neighbours_are_of_one_unit)
{
	const uint32_t unit = UNIT_BYTES >> PAGE_SHIFT;
	uint32_t v[2 * SPAN_MOST], i;

	for (i = 0; i < 2 * SPAN_MOST; i++)
		v[i] = 10 + i;
	ck_assert_uint_eq(entries_neighbours(v, 1), 1);
	ck_assert_uint_eq(entries_neighbours(v, 5), 5);
	ck_assert_uint_eq(entries_neighbours(v, SPAN_MOST), SPAN_MOST);
	ck_assert_uint_eq(entries_neighbours(v, 2 * SPAN_MOST), SPAN_MOST);
	v[3]++;
	ck_assert_uint_eq(entries_neighbours(v, 5), 3);
	for (i = 0; i < 6; i++)
		v[i] = unit - 2 + i; /* entry unit + 1 is the first block of the next one */
	ck_assert_uint_eq(entries_neighbours(v, 6), 3);
	ck_assert_uint_eq(entries_neighbours(v + 3, 3), 3);
	ck_assert_uint_eq(entry_off(unit + 1), UNIT_BYTES);
}

UNIT_SUITE("entries", .setup = set_up)
