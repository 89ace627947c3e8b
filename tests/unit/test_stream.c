// SPDX-License-Identifier: BSD-2-Clause
/* test_stream.c - miss/stream.c: what a thread fetches ahead, by distances of misses. */
#include "miss/stream.h"

#include <stdbool.h>
#include <string.h>

#include "suite.h"

#define B 4096ul /* a block */
#define MOST 16u

static struct streams mine;

static void set_up(void)
{
	mine = (struct streams){ 0 };
}

/* A miss, after which the thread fetches all it may. Returns how many blocks. */
static unsigned int miss_most(size_t off, unsigned int most)
{
	struct stream *s = stream_missed(&mine, off, B, most, most);

	if (!s)
		return 0;
	unit_require(s->window && s->window <= most);
	stream_asked(s, off, s->window);
	return s->window;
}

static unsigned int miss(size_t off)
{
	return miss_most(off, MOST);
}

/* n uses of blocks that start at `at`. Returns how many miss. */
static unsigned int walk(size_t at, long distance, unsigned int n)
{
	unsigned int missed = 0, ahead = 0;

	for (; n; n--, at += (size_t)distance)
		if (ahead) {
			ahead--;
		} else {
			ahead = miss(at);
			missed++;
		}
	return missed;
}

UNIT_TEST(blocks_in_order_are_a_stream_from_the_second_on)
{
	ck_assert_uint_eq(miss(100 * B), 0);
	ck_assert_uint_eq(miss(101 * B), 1);
	ck_assert_uint_eq(miss(103 * B), 3);
	ck_assert_uint_eq(miss(107 * B), 7);
	ck_assert_uint_eq(miss(115 * B), 15);
	ck_assert_uint_eq(miss(131 * B), 16);
	ck_assert_uint_eq(miss(148 * B), 16);
}

UNIT_TEST(blocks_at_a_distance_are_one_from_the_fourth_on)
{
	struct stream *s;

	ck_assert_uint_eq(miss(100 * B) + miss(104 * B) + miss(108 * B), 0);
	s = stream_missed(&mine, 112 * B, B, MOST, MOST);
	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(s->distance, 4 * (long)B);
	ck_assert_uint_eq(s->window, 1);
	stream_asked(s, 112 * B, 1);
	ck_assert_uint_eq(miss(120 * B), 3);
	ck_assert_uint_eq(miss(136 * B), 7);
}

/* 8, 16 and 12 are at equal distances, but not in this order. */
UNIT_TEST(the_blocks_of_a_stream_are_missed_in_its_order)
{
	ck_assert_uint_eq(miss(12 * B) + miss(8 * B) + miss(16 * B), 0);
	ck_assert_uint_eq(miss(20 * B), 0);
	ck_assert_uint_eq(miss(24 * B), 1);
}

UNIT_TEST(backwards_too)
{
	ck_assert_uint_eq(miss(9 * B) + miss(8 * B) + miss(7 * B), 0);
	ck_assert_uint_eq(miss(6 * B), 1);
	ck_assert_uint_eq(miss(4 * B), 3);
	ck_assert_uint_eq(miss(0 * B), 7);
}

UNIT_TEST(a_pass_over_many_blocks_misses_few)
{
	ck_assert_uint_eq(walk(0, B, 1000), 1 + 4 + (1000 - 1 - 2 - 4 - 8 - 16 + 16) / 17);
	set_up();
	ck_assert_uint_lt(walk(0, 1287 * (long)B, 1000), 66);
}

UNIT_TEST(several_arrays_in_turn_are_streams_of_their_own)
{
	unsigned int i, k, ahead[STREAMS] = { 0 }, missed = 0;

	/* as many as it may follow, at unlike distances, from places that are far apart */
	for (i = 0; i < 400; i++)
		for (k = 0; k < STREAMS; k++)
			if (ahead[k]) {
				ahead[k]--;
			} else {
				ahead[k] = miss(((k + 1) * 1000003ul + i * (1 + k % 2 * 3)) * B);
				missed++;
			}
	ck_assert_uint_lt(missed, STREAMS * 35);
}

/* A loop over four rows of a matrix at once has them in an order of its own. */
UNIT_TEST(rows_in_groups_miss_less_than_half)
{
	static const unsigned int order[4] = { 6, 4, 0, 2 };
	unsigned int i, k, ahead[4] = { 0 }, missed = 0;

	for (i = 0; i < 200; i++)
		for (k = 0; k < 4; k++)
			if (ahead[k]) {
				ahead[k]--;
			} else {
				ahead[k] = miss((2048 + i * 8 + order[k]) * B);
				missed++;
			}
	ck_assert_uint_lt(missed, 400);
}

/*
 * Stores to rows of `cols` blocks, tile by tile: 16 rows of a column, then those of the next one.
 * `n` rows. Returns how many miss, if no more is taken than stream_owed().
 */
static unsigned int tiles(unsigned int cols, unsigned int n)
{
	static bool here[16 * 1024];
	unsigned int missed = 0, row, col, i, k, take;
	struct stream *s;

	memset(here, 0, sizeof(here));
	unit_require(cols * n <= sizeof(here));
	for (i = 0; i < n * cols; i++) {
		col = i / 16 % cols;
		row = i / (16 * cols) * 16 + i % 16;
		if (here[row * cols + col])
			continue;
		missed++;
		s = stream_missed(&mine, (row * cols + col) * B, B, MOST, MOST);
		if (!s)
			continue;
		take = s->window < stream_owed(s) ? s->window : stream_owed(s);
		for (k = 1; k <= take && row + k < n; k++)
			here[(row + k) * cols + col] |= s->distance == (long)(cols * B);
		stream_asked(s, (row * cols + col) * B, take);
	}
	return missed;
}

UNIT_TEST(columns_of_tiles_miss_few)
{
	ck_assert_uint_lt(tiles(4, 1024), 4 * 64 * 5 / 4);
	set_up();
	ck_assert_uint_lt(tiles(8, 1024), 8 * 64 * 5 / 4);
	set_up();
	ck_assert_uint_lt(tiles(16, 1024), 16 * 64 * 3);
}

/* A column of n blocks from block `at` on, four apart. */
static void column(size_t at, unsigned int n)
{
	walk(at * B, 4 * (long)B, n);
}

UNIT_TEST(a_block_beside_a_column_begins_one)
{
	static const int beside[] = { 1, -1, 5, -7 }, not [] = { 45, 2, -37, 41 };
	struct stream *s;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		set_up();
		column(100, 17); /* misses 0, 1, 2, 3, 5, 9: nine blocks are sure */
		s = stream_missed(&mine, (size_t)(100 + beside[i]) * B, B, MOST, MOST);
		ck_assert_ptr_nonnull(s);
		ck_assert_int_eq(s->distance, 4 * (long)B);
		set_up();
		column(100, 17);
		ck_assert_uint_eq(miss((size_t)(100 + not [i]) * B), 0);
	}
}

/* Blocks that are expected in a column that begins at a block; 0: none begins. */
static unsigned int expected(size_t at)
{
	const struct stream *s = stream_missed(&mine, at * B, B, MOST, MOST);

	return s ? s->expected : 0;
}

UNIT_TEST(only_a_column_has_one_beside)
{
	column(100, 4); /* three blocks are sure: a triple by chance */
	ck_assert_uint_eq(expected(101), 0);
	set_up();
	walk(100 * B, B, 17); /* misses 100, 101, 103, 107, 115 */
	ck_assert_uint_eq(miss(110 * B), 0);
}

UNIT_TEST(a_column_is_as_long_as_what_is_left_of_the_one_beside)
{
	struct stream *s;

	column(100, 17);
	s = stream_missed(&mine, 101 * B, B, MOST, MOST);
	ck_assert_uint_eq(stream_owed(s), 9 - 1);
	ck_assert_uint_ge(s->window, 9 - 1);
	stream_asked(s, 101 * B, 8);
	miss(9000 * B);
	ck_assert_uint_eq(expected(102), 4); /* nothing shows that those were used */
	ck_assert_ptr_null(stream_missed(&mine, 107 * B, B, 0, 0));
	set_up();
	column(100, 17);
	ck_assert_uint_eq(expected(109), 7);
	set_up();
	column(100, 17);
	ck_assert_uint_eq(expected(93), 9);
	set_up();
	column(100, 200);
	ck_assert_uint_gt(expected(101), 2 * STREAM_PAST);
	miss(9000 * B);
	ck_assert_uint_eq(expected(102), STREAM_PAST / 2);
}

/* Each beside the last one, wherever that is, and none goes on. */
UNIT_TEST(columns_by_chance_end_soon)
{
	static const unsigned int want[] = { STREAM_PAST / 2, STREAM_PAST / 4, 0 };
	unsigned int i;

	walk(1000 * B, 16 * (long)B, 200);
	ck_assert_uint_gt(expected(1001), 2 * STREAM_PAST);
	for (i = 0; i < 3; i++) {
		miss((90000 + i * i * i * 7) * B);
		ck_assert_uint_eq(expected(1002 + i - 16 * i), want[i]);
	}
}

UNIT_TEST(a_column_takes_no_more_than_the_one_beside_had)
{
	struct stream *s;

	column(100, 17);
	ck_assert_uint_eq(miss(101 * B), 8);
	/* it is longer: from there on it is like a new stream */
	ck_assert_uint_eq(miss((101 + 4 * 9) * B), 1);
	ck_assert_uint_eq(miss((101 + 4 * 11) * B), 3);
	ck_assert_uint_eq(miss((101 + 4 * 15) * B), 7);
	ck_assert_uint_eq(expected(102), 15);
	set_up();
	column(100, 17);
	miss_most(101 * B, 4);
	ck_assert_uint_eq(miss((101 + 4 * 5) * B), 3);
	set_up();
	column(100, 17);
	miss_most(101 * B, 7);
	s = stream_missed(&mine, (101 + 4 * 8) * B, B, MOST, MOST); /* the last one */
	ck_assert_uint_eq(s->window, 0);
	stream_asked(s, (101 + 4 * 8) * B, 0);
	ck_assert_uint_eq(miss((101 + 4 * 9) * B), 1);
}

/* A row after the first block of a column, a block that is missed again. */
UNIT_TEST(not_each_block_beside_a_column_begins_one)
{
	struct stream *s;

	column(100, 17);
	ck_assert_uint_eq(expected(105), 8);
	s = stream_missed(&mine, 106 * B, B, MOST, MOST);
	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(s->distance, (long)B);
	set_up();
	column(100, 17);
	ck_assert_uint_eq(expected(105), 8);
	miss(9000 * B);
	ck_assert_uint_eq(expected(105), 0);
}

UNIT_TEST(a_column_elsewhere_begins_with_what_the_last_one_had)
{
	column(100, 17);
	ck_assert_uint_eq(expected(101), 9); /* half of that, for want of another miss */
	miss(5000 * B);
	miss(5004 * B);
	miss(5008 * B);
	ck_assert_uint_eq(miss(5012 * B), 3);
}

UNIT_TEST(a_writer_takes_a_quarter_of_what_it_had)
{
	struct stream *s;

	walk(100 * B, B, 16); /* misses 100, 101, 103, 107, 115 */
	s = stream_missed(&mine, 131 * B, B, MOST, MOST);
	ck_assert_uint_eq(s->length, 31);
	ck_assert_uint_eq(stream_owed(s), 31 / 4);
}

/* As after a store that asked for homes, was refused, and is repeated. */
UNIT_TEST(what_was_asked_may_be_said_again)
{
	struct stream *s;

	miss(100 * B);
	s = stream_missed(&mine, 101 * B, B, MOST, MOST);
	stream_asked(s, 101 * B, 5);
	stream_asked(s, 101 * B, 1);
	ck_assert_uint_eq(s->length, 3);
	ck_assert_uint_eq(miss(103 * B), 3);
}

UNIT_TEST(columns_wait_longer_than_other_streams)
{
	static const size_t next[] = { 168, 101 }; /* of the column, and beside it */
	unsigned int i, k, others;

	for (k = 0; k < 2; k++)
		for (others = 2 * STREAM_PAST - 1; others <= 2 * STREAM_PAST; others++) {
			set_up();
			column(100, 17);
			for (i = 0; i < others; i++)
				miss((1000 + i * i * i * 7) * B);
			ck_assert_uint_eq(miss(next[k] * B) > 0, others < 2 * STREAM_PAST);
		}
}

UNIT_TEST(what_has_no_distance_is_no_stream)
{
	size_t at = 1, i, sum = 0;

	for (i = 0; i < 1000; i++) {
		at = (at * 1103515245 + 12345) % 2147483648u;
		sum += miss(at / 16 * B);
	}
	ck_assert_uint_eq(sum, 0);
}

UNIT_TEST(one_block_again_and_again_is_none)
{
	unsigned int i;

	for (i = 0; i < 50; i++)
		ck_assert_uint_eq(miss(7 * B), 0);
	/* two in turn: neither is the third at any distance */
	for (i = 0; i < 50; i++)
		ck_assert_uint_eq(miss(7 * B) + miss(9 * B), 0);
}

UNIT_TEST(of_two_distances_the_next_block_wins)
{
	struct stream *s;

	miss(10 * B);
	miss(14 * B);
	miss(17 * B);
	s = stream_missed(&mine, 18 * B, B, MOST, MOST); /* 10, 14, 18 and 17, 18 */
	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(s->distance, (long)B);
}

UNIT_TEST(of_two_distances_the_least_wins)
{
	miss(100 * B);
	miss(104 * B);
	miss(112 * B);
	miss(110 * B);
	miss(120 * B); /* 100, 110, 120 and 104, 112, 120 */
	ck_assert_uint_eq(miss(130 * B), 0);
	set_up();
	miss(100 * B);
	miss(104 * B);
	miss(110 * B);
	miss(112 * B);
	miss(120 * B);
	ck_assert_uint_eq(miss(128 * B), 1);
}

UNIT_TEST(arrays_of_one_size_in_turn_are_no_stream)
{
	unsigned int i;

	for (i = 0; i < 8; i++)
		ck_assert_uint_eq(miss(i * (STREAM_FAR + B)), 0);
	set_up();
	for (i = 0; i < 3; i++)
		ck_assert_uint_eq(miss(i * STREAM_FAR), 0);
	ck_assert_uint_eq(miss(3 * STREAM_FAR), 1);
}

UNIT_TEST(old_misses_are_forgotten)
{
	unsigned int i, others;

	for (others = STREAM_PAST - 2; others <= STREAM_PAST - 1; others++) {
		set_up();
		miss(100 * B);
		miss(104 * B);
		for (i = 0; i < others; i++)
			miss((1000 + i * i * i * 7) * B);
		miss(108 * B);
		ck_assert_uint_eq(miss(112 * B), others == STREAM_PAST - 2);
	}
}

UNIT_TEST(the_stream_that_waits_longest_goes)
{
	unsigned int i;

	for (i = 0; i < STREAMS; i++) {
		miss((i + 1) * 100000 * B);
		ck_assert_uint_eq(miss(((i + 1) * 100000 + 1) * B), 1);
	}
	ck_assert_uint_eq(miss((100000 + 3) * B), 3); /* the first goes on: the second is oldest */
	miss(50 * B);
	ck_assert_uint_eq(miss(51 * B), 1);
	ck_assert_uint_eq(miss((100000 + 7) * B), 7);
	ck_assert_uint_eq(miss((300000 + 3) * B), 3);
	ck_assert_uint_eq(miss((200000 + 3) * B), 0);
}

UNIT_TEST(a_stream_that_waits_for_long_is_over)
{
	unsigned int i, others;

	for (others = STREAM_PAST - 1; others <= STREAM_PAST; others++) {
		set_up();
		miss(100 * B);
		ck_assert_uint_eq(miss(101 * B), 1);
		for (i = 0; i < others; i++)
			miss((1000 + i * i * i * 7) * B);
		ck_assert_uint_eq(miss(103 * B), others == STREAM_PAST - 1 ? 3 : 0);
	}
}

/* The memory may have had blocks of another size before. */
UNIT_TEST(distances_are_of_whole_blocks)
{
	struct stream *s;
	unsigned int i;

	miss(20 * B);
	ck_assert_uint_eq(miss(21 * B), 1);
	ck_assert_uint_eq(miss(23 * B), 3); /* it expects 27 */
	ck_assert_ptr_null(stream_missed(&mine, 27 * B, 2 * B, MOST, MOST));
	set_up();
	for (i = 0; i < 3; i++)
		ck_assert_uint_eq(miss((20 + 3 * i) * B), 0);
	ck_assert_ptr_null(stream_missed(&mine, 29 * B, 2 * B, MOST, MOST));
	ck_assert_ptr_null(stream_missed(&mine, 32 * B, 2 * B, MOST, MOST));
	set_up();
	for (i = 0; i < 3; i++)
		ck_assert_uint_eq(miss((20 + 4 * i) * B), 0);
	s = stream_missed(&mine, 32 * B, 2 * B, MOST, MOST);
	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(s->distance, 4 * (long)B);
}

UNIT_TEST(nothing_is_fetched_ahead_where_it_is_off)
{
	ck_assert_uint_eq(miss_most(1 * B, 0) + miss_most(2 * B, 0) + miss_most(3 * B, 0), 0);
	ck_assert_uint_eq(miss_most(4 * B, 1), 1);
	ck_assert_uint_eq(miss_most(6 * B, 1), 1);
	ck_assert_uint_eq(miss_most(8 * B, 5), 3);
	ck_assert_uint_eq(miss_most(12 * B, 5), 5);
	ck_assert_uint_eq(miss_most(18 * B, 5), 5);
}

UNIT_TEST(the_first_block_of_all_counts)
{
	ck_assert_uint_eq(miss(0), 0);
	ck_assert_uint_eq(miss(B), 1);
	set_up();
	ck_assert_uint_eq(miss(2 * B), 0); /* nothing was missed at 0 */
	ck_assert_uint_eq(miss(4 * B), 0);
	ck_assert_uint_eq(miss(B), 0);
}

UNIT_TEST(the_length_counts_what_was_fetched)
{
	struct stream *s;

	miss(8 * B);
	s = stream_missed(&mine, 9 * B, B, MOST, MOST);
	ck_assert_uint_eq(s->length, 1);
	stream_asked(s, 9 * B, 1);
	s = stream_missed(&mine, 11 * B, B, MOST, MOST);
	ck_assert_uint_eq(s->length, 3);
	stream_asked(s, 11 * B, 0);
	s = stream_missed(&mine, 12 * B, B, MOST, MOST);
	ck_assert_uint_eq(s->length, 4);
	set_up();
	miss(8 * B);
	miss(11 * B);
	miss(14 * B);
	s = stream_missed(&mine, 17 * B, B, MOST, MOST);
	ck_assert_uint_eq(s->length, 3);
}

/* Where fewer could be fetched than the window has, the next miss is nearer. */
UNIT_TEST(a_stream_goes_on_behind_what_was_fetched)
{
	struct stream *s;

	miss(8 * B);
	s = stream_missed(&mine, 9 * B, B, MOST, MOST);
	stream_asked(s, 9 * B, 0);
	s = stream_missed(&mine, 10 * B, B, MOST, MOST);
	ck_assert_ptr_nonnull(s);
	ck_assert_uint_eq(s->window, 3);
	stream_asked(s, 10 * B, 1);
	ck_assert_uint_eq(miss(12 * B), 7);
	ck_assert_uint_eq(miss(20 * B), 15);
}

/* Where it ends, an eighth of it was fetched in vain at most; or as much as of any other. */
UNIT_TEST(a_long_stream_fetches_more_ahead)
{
	enum { FARTHEST = 4 * MOST };
	unsigned int all = 1, window = 0, before;
	struct stream *s;
	size_t off = 8 * B;

	miss(off);
	for (off += B; window < FARTHEST; off += (1 + window) * B) {
		s = stream_missed(&mine, off, B, MOST, FARTHEST);
		ck_assert_ptr_nonnull(s);
		before = window;
		window = s->window;
		unit_require(window <= MOST || window <= all / 8);
		unit_require(window == before * 2 + 1 || window >= MOST);
		unit_require(window >= before && window <= FARTHEST);
		stream_asked(s, off, window);
		all += 1 + window;
	}
	ck_assert_uint_ge(all, 8 * FARTHEST);
	ck_assert_uint_le(all, 10 * FARTHEST);
	ck_assert_uint_eq(stream_missed(&mine, off, B, MOST, FARTHEST)->window, FARTHEST);
}

/* Rows, or columns, of one matrix: by the last one, what the next may fetch. */
UNIT_TEST(a_stream_begins_as_the_last_one_of_its_distance_ended)
{
	walk(100 * B, 4 * (long)B, 40);
	miss(1001 * B);
	miss(1005 * B);
	ck_assert_uint_eq(miss(1009 * B), 0);
	ck_assert_uint_eq(miss(1013 * B), 16); /* twice a quarter of 40, but not more than 16 */
	set_up();
	walk(100 * B, 4 * (long)B, 8);
	miss(1001 * B);
	miss(1005 * B);
	miss(1009 * B);
	ck_assert_uint_eq(miss(1013 * B), 3);
	miss(2001 * B); /* another distance is another matter */
	miss(2006 * B);
	miss(2011 * B);
	ck_assert_uint_eq(miss(2016 * B), 1);
}

/* What was fetched in vain says nothing of the next one. */
UNIT_TEST(short_streams_after_a_long_one_fetch_as_few_as_before)
{
	unsigned int i, vain = 0;

	walk(100 * B, (long)B, 200);
	walk(1000 * B, 4 * (long)B, 40);
	for (i = 0; i < 20; i++) {
		miss((10000 + 100 * i) * B);
		vain = miss((10001 + 100 * i) * B);
	}
	ck_assert_uint_eq(vain, 1);
	for (i = 0; i < 20; i++) {
		miss((20000 + 100 * i) * B);
		miss((20004 + 100 * i) * B);
		miss((20008 + 100 * i) * B);
		vain = miss((20012 + 100 * i) * B);
	}
	ck_assert_uint_eq(vain, 1);
}

/* Two neighbours may be chance. */
UNIT_TEST(a_stream_in_order_begins_with_few)
{
	walk(100 * B, (long)B, 200);
	miss(1000 * B);
	ck_assert_uint_eq(miss(1001 * B), 7);
	ck_assert_uint_eq(miss(1009 * B), 15);
}

UNIT_SUITE("stream", .setup = set_up)
