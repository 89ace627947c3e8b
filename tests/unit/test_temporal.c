// SPDX-License-Identifier: BSD-2-Clause
/* test_temporal.c - miss/temporal.c: what a thread fetches ahead, by orders of misses. */
#include "miss/temporal.h"

#include <string.h>

#include "job/ctl.h"
#include "suite.h"

#define PAGES 200u
#define MOST 64u

static struct sharing_page pages[PAGES];
static struct temporal mine;

static void set_up(void)
{
	memset(pages, 0, sizeof(pages));
	mine = (struct temporal){ 0 };
}

/* A miss, after which the thread fetches as many blocks as it may. They are in got[]. */
static unsigned int miss_by(struct temporal *t, uint32_t page, unsigned int most, uint32_t *got)
{
	unsigned int n = 0;

	temporal_missed(t, pages, page, most);
	unit_require(t->window <= most);
	while (n < t->window && temporal_next(t, pages, &got[n]))
		unit_require(got[n++] < PAGES);
	return n;
}

static unsigned int miss(uint32_t page, unsigned int most)
{
	uint32_t got[PAGES];

	return miss_by(&mine, page, most, got);
}

/* The block that the link of a page leads to, + 1. */
static uint32_t after(uint32_t page)
{
	return pages[page].next;
}

/* The i-th page of an order that is no row. */
static uint32_t nth(uint32_t i)
{
	return i * 7 % 199;
}

/* The thread uses n blocks in that order, and then loses all. Returns how many it has missed. */
static unsigned int pass(struct temporal *t, uint32_t n, unsigned int most, uint32_t *missed)
{
	bool has[PAGES] = { false };
	unsigned int misses = 0, k;
	uint32_t i, got[PAGES];

	for (i = 0; i < n; i++) {
		if (has[nth(i)])
			continue;
		for (k = miss_by(t, nth(i), most, got); k; k--)
			has[got[k - 1]] = true;
		missed[misses++] = i;
	}
	return misses;
}

UNIT_TEST(an_order_is_learned_by_one_pass)
{
	static const uint32_t second[] = { 0, 1, 3, 7, 15, 31, 63 }, third[] = { 0, 32, 96 };
	uint32_t missed[PAGES], i;

	ck_assert_uint_eq(pass(&mine, 100, MOST, missed), 100);
	for (i = 0; i + 1 < 100; i++)
		ck_assert_uint_eq(after(nth(i)), nth(i + 1) + 1);
	ck_assert_uint_eq(after(nth(99)), 0);
	ck_assert_uint_eq(pass(&mine, 100, MOST, missed), 7);
	ck_assert_mem_eq(missed, second, sizeof(second));
	/* The end leads to the beginning, of which this thread had fetched some that are lost. */
	ck_assert_uint_eq(pass(&mine, 100, MOST, missed), 3);
	ck_assert_mem_eq(missed, third, sizeof(third));
}

/* The first page of the window is one like any other. */
UNIT_TEST(the_first_page_has_a_link)
{
	uint32_t page;

	miss(0, 1);
	miss(5, 1);
	miss(0, 1);
	ck_assert_uint_eq(after(0), 6);
	ck_assert_uint_eq(after(5), 1);
	temporal_missed(&mine, pages, 5, 1);
	ck_assert(temporal_next(&mine, pages, &page));
	ck_assert_uint_eq(page, 0);
	ck_assert(!temporal_next(&mine, pages, &page)); /* back to the miss */
	ck_assert_uint_eq(mine.tail, 1);
}

UNIT_LOOP_TEST(the_window_has_a_limit, 0, 6)
{
	uint32_t missed[PAGES];
	unsigned int i, n, most = (unsigned int)_i;

	pass(&mine, 100, most, missed);
	n = pass(&mine, 100, most, missed);
	ck_assert_uint_eq(mine.window, most);
	for (i = 3; i + 1 < n; i++)
		ck_assert_uint_eq(missed[i + 1] - missed[i], most + 1);
}

/* Another thread of the node follows what this one has learned, once its misses fit. */
UNIT_TEST(threads_share_what_they_learn)
{
	struct temporal other = { 0 };
	uint32_t missed[PAGES], got[PAGES];

	pass(&mine, 100, MOST, missed);
	ck_assert_uint_eq(miss_by(&other, nth(50), MOST, got), 0);
	ck_assert_uint_eq(miss_by(&other, nth(51), MOST, got), 1);
	ck_assert_uint_eq(got[0], nth(52));
	ck_assert_uint_eq(miss_by(&other, nth(53), MOST, got), 3);
	ck_assert_uint_eq(got[0], nth(54));
	ck_assert_uint_eq(got[2], nth(56));
}

/* Pages 0 to n - 1 lead to each other in a row. */
static void in_a_row(uint32_t n)
{
	uint32_t i;

	for (i = 0; i + 1 < n; i++)
		pages[i].next = i + 2;
}

/* A thread with a window of 7 that has missed block 0, and fetched blocks 1 to 7. */
static void with_seven(void)
{
	in_a_row(50);
	mine = (struct temporal){ .missed = 0, .tail = 0, .window = 15 };
	ck_assert_uint_eq(miss(0, MOST), 7);
	ck_assert_uint_eq(mine.tail, 8);
}

UNIT_TEST(what_was_learned_is_replaced_only_after_several_wrong_predictions)
{
	with_seven();
	ck_assert_uint_eq(miss(100, MOST), 0); /* nothing leads on from there */
	ck_assert_uint_eq(mine.window, 3);
	ck_assert_uint_eq(after(7), 9);
	ck_assert_uint_eq(after(0), 2);
	ck_assert_uint_eq(miss(20, MOST), 1);
	ck_assert_uint_eq(mine.window, 1);
	ck_assert_uint_eq(after(100), 21); /* the end of a chain has nothing to lose */
	ck_assert_uint_eq(miss(110, MOST), 0);
	ck_assert_uint_eq(mine.window, 0);
	ck_assert_uint_eq(after(20), 111); /* from now on: the miss before, not the prediction */
	ck_assert_uint_eq(after(21), 23);
	ck_assert_uint_eq(miss(30, MOST), 0);
	ck_assert_uint_eq(after(110), 31);
	ck_assert_uint_eq(miss(40, MOST), 0);
	ck_assert_uint_eq(after(30), 41);
}

UNIT_TEST(a_right_prediction_changes_no_link)
{
	struct sharing_page before[PAGES];

	with_seven();
	memcpy(before, pages, sizeof(pages));
	ck_assert_uint_eq(miss(8, MOST), 15);
	ck_assert_uint_eq(miss(24, MOST), 25); /* up to the end */
	ck_assert_uint_eq(mine.window, 31);
	ck_assert_mem_eq(before, pages, sizeof(pages));
	miss(60, MOST); /* lengthens it */
	ck_assert_uint_eq(after(49), 61);
	ck_assert_uint_eq(after(24), 26);
}

UNIT_TEST(a_new_order_is_learned)
{
	uint32_t missed[PAGES], i;

	pass(&mine, 100, MOST, missed);
	for (i = 0; i < 50; i++) /* backwards */
		miss(nth(99 - i), MOST);
	for (i = 20; i + 1 < 50; i++)
		ck_assert_uint_eq(after(nth(99 - i)), nth(99 - i - 1) + 1);
	miss(nth(79), MOST);
	ck_assert_uint_eq(miss(nth(78), MOST), 1);
	ck_assert_uint_eq(miss(nth(76), MOST), 3);
}

UNIT_TEST(a_circle_ends_at_the_miss)
{
	uint32_t got[PAGES];

	in_a_row(5);
	pages[4].next = 1;
	mine.window = MOST;
	mine.tail = 3;
	ck_assert_uint_eq(miss_by(&mine, 3, MOST, got), 4); /* 4, 0, 1, 2 */
	ck_assert(got[0] == 4 && got[1] == 0 && got[2] == 1 && got[3] == 2);
	/* The next miss is the same block's, and not a new order. */
	ck_assert_uint_eq(mine.tail, 3);
}

/* A circle beside the miss is followed at most four times as far as the window. */
UNIT_TEST(a_circle_beside_the_miss_ends)
{
	unsigned int n = 0;
	uint32_t page;

	in_a_row(5);
	pages[4].next = 3;
	mine.window = 3;
	mine.tail = 1;
	temporal_missed(&mine, pages, 1, MOST);
	temporal_missed(&mine, pages, 1, MOST); /* what was not followed is not saved */
	ck_assert_uint_eq(mine.window, 7);
	while (temporal_next(&mine, pages, &page))
		n++;
	ck_assert_uint_eq(n, 7 * TEMPORAL_LOOKS);
	temporal_missed(&mine, pages, 100, MOST); /* looks anew, and finds no link */
	ck_assert(!temporal_next(&mine, pages, &page));
	temporal_missed(&mine, pages, 0, MOST);
	ck_assert(temporal_next(&mine, pages, &page));
}

UNIT_TEST(a_block_that_is_missed_again_and_again_is_no_order)
{
	uint32_t got[PAGES];
	int i;

	for (i = 0; i < 10; i++)
		ck_assert_uint_eq(miss(9, MOST), 0);
	ck_assert_uint_eq(mine.window, 0);
	ck_assert_uint_eq(after(9), 0);
	with_seven();
	for (i = 0; i < 10; i++)
		ck_assert_uint_eq(miss_by(&mine, 0, MOST, got), 7);
	ck_assert(got[0] == 1 && got[6] == 7);
	ck_assert_uint_eq(after(0), 2);
}

UNIT_TEST(nothing_is_predicted_before_anything_is_missed)
{
	uint32_t page;

	in_a_row(5);
	mine.looks = 4;
	ck_assert(!temporal_next(&mine, pages, &page));
	mine.looks = 0;
	ck_assert_uint_eq(miss(3, MOST), 0);
	ck_assert_uint_eq(after(4), 0);
}

UNIT_SUITE("temporal", .setup = set_up)
