// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_sched.c - libdsm/share/schedule: turns, strict priorities, weights, windows, changing
 * priorities.
 */
#include "suite.h"

#include <string.h>

#include "share/schedule.h"

#define CHUNK 1024u

static struct rs_sched sched;
static struct rs_flow flow[8];
static struct rs_chunk chunk[64];

static void begin(uint32_t strict, uint32_t weighted, uint32_t slots)
{
	rs_sched_init(&sched, CHUNK, (const uint32_t[]){ strict, weighted },
		      (const uint32_t[]){ slots, slots });
	for (unsigned int i = 0; i < 8; i++)
		rs_flow_init(&flow[i], 0, 1);
}

static void add(struct rs_flow *f, uint8_t priority, uint8_t weight, uint32_t bytes)
{
	rs_flow_init(f, priority, weight);
	rs_sched_push(&sched, f, bytes);
}

/* Returns the flows of the next n chunks as letters; each chunk completes at once. */
static const char *order(unsigned int n)
{
	static char text[65];
	unsigned int i;

	for (i = 0; i < n && rs_sched_pick(&sched, chunk, 1); i++) {
		text[i] = (char)('a' + (chunk[0].flow - flow));
		rs_sched_done(&sched, chunk[0].flow, chunk[0].lane, chunk[0].len);
	}
	text[i] = 0;
	return text;
}

UNIT_TEST(operations_are_cut_into_chunks_in_order)
{
	begin(1 << 20, 1 << 20, 64);
	rs_sched_push(&sched, &flow[0], 2 * CHUNK + 5);
	rs_sched_push(&sched, &flow[0], 0);
	rs_sched_push(&sched, &flow[0], CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 5);
	static const struct rs_chunk expected[] = { { flow, 0, 0, CHUNK, RS_WEIGHTED, false },
						    { flow, 0, CHUNK, CHUNK, RS_WEIGHTED, false },
						    { flow, 0, 2 * CHUNK, 5, RS_WEIGHTED, true },
						    { flow, 1, 0, 0, RS_WEIGHTED, true },
						    { flow, 2, 0, CHUNK, RS_WEIGHTED, true } };
	for (unsigned int i = 0; i < 5; i++) {
		ck_assert_uint_eq(chunk[i].op, expected[i].op);
		ck_assert_uint_eq(chunk[i].offset, expected[i].offset);
		ck_assert_uint_eq(chunk[i].len, expected[i].len);
		ck_assert_int_eq(chunk[i].last, expected[i].last);
		ck_assert_uint_eq(chunk[i].lane, RS_WEIGHTED);
	}
	ck_assert(!rs_sched_backlog(&sched));
}

UNIT_TEST(flows_of_a_priority_take_turns)
{
	for (uint8_t p = 0; p < RS_PRIORITIES; p += 7) {
		begin(1 << 20, 1 << 20, 64);
		for (unsigned int i = 0; i < 3; i++)
			add(&flow[i], p, 1, 3 * CHUNK);
		ck_assert_str_eq(order(9), "abcabcabc");
	}
}

UNIT_TEST(a_higher_priority_goes_first)
{
	begin(1 << 20, 1 << 20, 64);
	for (unsigned int i = 0; i < 3; i++)
		add(&flow[i], (uint8_t)(2 * i), 1, 2 * CHUNK);
	ck_assert_str_eq(order(3), "ccb");
	rs_sched_push(&sched, &flow[2], 1);
	ck_assert_str_eq(order(9), "cbaa");
}

UNIT_TEST(a_heavier_flow_passes_a_backlog)
{
	begin(1 << 20, 1 << 20, 64);
	add(&flow[0], 0, 1, 100 * CHUNK);
	ck_assert_str_eq(order(5), "aaaaa");
	add(&flow[1], 0, 4, 100 * CHUNK);
	add(&flow[2], 0, 16, 40 * CHUNK);
	/* An epoch has 1, 4 and 16 chunks. The first flow has used its share of this one. */
	ck_assert_str_eq(order(20), "bcbcbcbccccccccccccc");
	ck_assert_str_eq(order(21), "abcbcbcbccccccccccccc");
}

UNIT_TEST(weights_share_bytes_in_the_long_run)
{
	unsigned int bytes[3] = { 0 };

	begin(1 << 20, 1 << 20, 64);
	for (unsigned int i = 0; i < 3; i++)
		rs_flow_init(&flow[i], 0, (uint8_t)(1 << i));
	for (unsigned int n = 0; n < 70000; n++) {
		for (unsigned int i = 0; i < 3; i++) /* sizes that are no multiples of the chunk */
			while (flow[i].end - flow[i].first < 4)
				rs_sched_push(&sched, &flow[i], 100 + 1000 * i);
		unit_require(rs_sched_pick(&sched, chunk, 1) == 1);
		bytes[chunk[0].flow - flow] += chunk[0].len;
		rs_sched_done(&sched, chunk[0].flow, chunk[0].lane, chunk[0].len);
	}
	ck_assert_int_lt(abs((int)(bytes[1] - 2 * bytes[0])), (int)bytes[0] / 20);
	ck_assert_int_lt(abs((int)(bytes[2] - 4 * bytes[0])), (int)bytes[0] / 20);
}

UNIT_TEST(a_mouse_waits_for_a_chunk_of_each_elephant_at_most)
{
	begin(1 << 20, 1 << 20, 64);
	for (unsigned int i = 0; i < 4; i++)
		add(&flow[i], 0, RS_WEIGHT_MAX, 100 * CHUNK);
	ck_assert_str_eq(order(6), "abcdab");
	rs_sched_push(&sched, &flow[4], 64);
	ck_assert_str_eq(order(6), "cdabec");
}

UNIT_TEST(windows_bound_what_is_outstanding)
{
	begin(3 * CHUNK, 2 * CHUNK, 64);
	rs_flow_init(&flow[1], 1, 1);
	rs_sched_push(&sched, &flow[0], 9 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 2);
	rs_sched_push(&sched, &flow[1], 9 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 2, 62), 3);
	/*
	 * The backlog of the strict lane holds up the weighted lane, although that one has room
	 * again.
	 */
	rs_sched_done(&sched, &flow[0], RS_WEIGHTED, CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 0);
	rs_sched_done(&sched, &flow[1], RS_STRICT, CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
	ck_assert_ptr_eq(chunk[0].flow, &flow[1]);
	ck_assert_uint_eq(sched.lane[RS_STRICT].bytes, 3 * CHUNK);
}

UNIT_TEST(slots_bound_the_number_of_chunks)
{
	begin(1 << 20, 1 << 20, 3);
	for (unsigned int i = 0; i < 8; i++)
		rs_sched_push(&sched, &flow[i], 0);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 3);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 0);
	rs_sched_done(&sched, &flow[0], RS_WEIGHTED, 0);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
}

UNIT_TEST(a_chunk_larger_than_the_window_goes_alone)
{
	begin(10, 10, 64);
	rs_sched_push(&sched, &flow[0], 2 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
	rs_sched_done(&sched, &flow[0], RS_WEIGHTED, CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
}

UNIT_TEST(a_full_queue_is_refused)
{
	begin(1 << 20, 1 << 20, 64);
	for (unsigned int i = 0; i < RS_FLOW_OPS; i++)
		ck_assert(rs_sched_push(&sched, &flow[0], 1));
	ck_assert(!rs_sched_push(&sched, &flow[0], 1));
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), RS_FLOW_OPS);
	ck_assert(rs_sched_push(&sched, &flow[0], 1));
}

UNIT_TEST(a_flow_changes_lanes_behind_its_chunks)
{
	begin(1 << 20, 1 << 20, 64);
	rs_sched_push(&sched, &flow[0], 4 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 2), 2);
	rs_sched_set(&sched, &flow[0], 5, 1);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 2, 2), 0);
	rs_sched_done(&sched, &flow[0], RS_WEIGHTED, CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 2, 2), 0);
	rs_sched_done(&sched, &flow[0], RS_WEIGHTED, CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 2, 2), 2);
	ck_assert_uint_eq(chunk[2].lane, RS_STRICT);
	ck_assert_uint_eq(chunk[2].offset, 2 * CHUNK);
	/* In the strict lane, the change takes effect at once. */
	rs_sched_push(&sched, &flow[0], 1);
	rs_sched_set(&sched, &flow[0], 7, 1);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 2), 1);
}

UNIT_TEST(changing_the_weight_wins_no_bytes)
{
	begin(1 << 20, 1 << 20, 64);
	for (unsigned int i = 0; i < 2; i++)
		rs_sched_push(&sched, &flow[i], 100 * CHUNK);
	for (unsigned int n = 0; n < 10; n++) {
		unsigned int a = 0;
		const char *o = order(4);

		for (unsigned int i = 0; i < 4; i++)
			a += o[i] == 'a';
		ck_assert_uint_eq(a, 2);
		rs_sched_set(&sched, &flow[0], 0, 1);
	}
}

UNIT_TEST(dropped_operations_are_gone)
{
	begin(1 << 20, 1 << 20, 64);
	for (unsigned int i = 0; i < 3; i++)
		rs_sched_push(&sched, &flow[i], 3 * CHUNK);
	ck_assert_str_eq(order(4), "abca");
	rs_sched_drop(&sched, &flow[1]);
	ck_assert_str_eq(order(9), "cac");
	rs_sched_push(&sched, &flow[1], 1);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 1), 1);
	ck_assert_uint_eq(chunk[0].op, 1);
	ck_assert_uint_eq(chunk[0].offset, 0);
}

/* ---- short messages beside long ones --------------------------------------------------------- */

/* A flow of long messages, and with `narrow`, an answer to what a short one does to it. */
static void begin_elephant(uint32_t narrow)
{
	begin(1 << 20, 8 * CHUNK, 64);
	rs_sched_narrow(&sched, narrow);
	rs_sched_push(&sched, &flow[0], 1000 * CHUNK);
}

static void complete(unsigned int first, unsigned int n)
{
	for (unsigned int i = first; i < first + n; i++)
		rs_sched_done(&sched, chunk[i].flow, chunk[i].lane, chunk[i].len);
}

/* Chunks that are on the wire when nothing more may be sent. */
static unsigned int fill(void)
{
	unsigned int n = 0, k;

	while ((k = rs_sched_pick(&sched, chunk + n, 64 - n)))
		n += k;
	return n;
}

UNIT_TEST(a_short_message_narrows_the_window_of_long_ones)
{
	static const uint8_t priority[] = { 0, 7 };

	for (unsigned int i = 0; i < 2; i++) {
		begin_elephant(2 * CHUNK);
		ck_assert_uint_eq(fill(), 8);
		complete(0, 8);
		add(&flow[1], priority[i], 1, CHUNK / 2);
		/*
		 * It goes first, and alone: whoever posts looks for its completion before the long
		 * chunk, and for others after one long chunk.
		 */
		ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
		ck_assert_ptr_eq(chunk[0].flow, &flow[1]);
		ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 1, 63), 1);
		ck_assert_ptr_eq(chunk[1].flow, &flow[0]);
		complete(0, 1);
		ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 2, 62), 1);
		ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 3, 61), 0);
		ck_assert_uint_eq(sched.lane[RS_WEIGHTED].bytes, 2 * CHUNK);
		/* The next short one is not kept waiting by the narrow window. */
		rs_sched_push(&sched, &flow[1], 1);
		ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
		ck_assert_ptr_eq(chunk[0].flow, &flow[1]);
	}
}

/* Flows that always have short messages leave the long ones their turns. */
UNIT_TEST(short_messages_without_end_leave_the_long_ones_their_turns)
{
	unsigned int i, k, n, longs = 0;

	begin_elephant(2 * CHUNK);
	add(&flow[1], 0, 1, CHUNK / 2);
	add(&flow[2], 0, 1, CHUNK / 2);
	for (i = 0; i < 60; i++) {
		n = rs_sched_pick(&sched, chunk, 64);
		ck_assert_uint_gt(n, 0);
		for (k = 0; k < n; k++) {
			longs += chunk[k].flow == &flow[0];
			ck_assert(chunk[k].flow != &flow[0] || n == 1);
		}
		complete(0, n);
		for (k = 0; k < n; k++)
			if (chunk[k].flow != &flow[0])
				rs_sched_push(&sched, chunk[k].flow, CHUNK / 2);
	}
	/* Equal weights: a third of the bytes, as one long chunk for every two pairs of short. */
	ck_assert_uint_ge(longs, 15);
	ck_assert_uint_le(longs, 30);
}

UNIT_TEST(the_strict_window_is_never_narrow)
{
	begin_elephant(2 * CHUNK);
	rs_flow_init(&flow[1], 3, 1);
	rs_flow_init(&flow[2], 7, 1);
	rs_sched_push(&sched, &flow[1], 5 * CHUNK);
	rs_sched_push(&sched, &flow[2], 1);
	ck_assert_uint_eq(sched.alert, RS_ALERT_CHUNKS);
	ck_assert_uint_eq(fill(), 1 + 5 + 2);
}

UNIT_TEST(the_window_is_wide_again_after_as_many_long_chunks)
{
	begin_elephant(2 * CHUNK);
	rs_sched_push(&sched, &flow[1], 1);
	ck_assert_uint_eq(sched.alert, RS_ALERT_CHUNKS);
	ck_assert_str_eq(order(1), "b");
	for (unsigned int i = 0; i < RS_ALERT_CHUNKS; i++) {
		ck_assert_uint_eq(sched.alert, RS_ALERT_CHUNKS - i);
		ck_assert_str_eq(order(1), "a");
	}
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 8);
	complete(0, 8);
	rs_sched_push(&sched, &flow[1], CHUNK / 4);
	ck_assert_uint_eq(fill(), 2);
}

UNIT_TEST(without_a_narrow_window_a_short_message_changes_nothing)
{
	begin_elephant(0);
	rs_sched_push(&sched, &flow[1], 1);
	ck_assert_uint_eq(sched.alert, 0);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 8);
	ck_assert_ptr_eq(chunk[0].flow, &flow[0]);
	/* One that is not narrower bounds nothing. */
	begin_elephant(9 * CHUNK);
	rs_sched_push(&sched, &flow[1], 1);
	ck_assert_uint_eq(fill(), 8);
	ck_assert_uint_eq(sched.lane[RS_WEIGHTED].bytes, 7 * CHUNK + RS_COST_MIN);
	ck_assert_uint_gt(sched.alert, 0);
	rs_sched_narrow(&sched, 0);
	ck_assert_uint_eq(sched.alert, 0);
}

UNIT_TEST(which_messages_narrow_the_window)
{
	/* Half a chunk is short, more is not. */
	begin_elephant(2 * CHUNK);
	rs_sched_push(&sched, &flow[1], CHUNK / 2 + 1);
	ck_assert_uint_eq(sched.alert, 0);
	/* Its flow is not idle while that is queued, nor while it is on the wire. */
	rs_sched_push(&sched, &flow[1], 1);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 4), 4);
	ck_assert_uint_eq(flow[1].outstanding, 2);
	rs_sched_push(&sched, &flow[1], 1);
	ck_assert_uint_eq(sched.alert, 0);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk + 4, 2), 2);
	complete(0, 6);
	rs_sched_push(&sched, &flow[1], 1);
	ck_assert_uint_eq(sched.alert, RS_ALERT_CHUNKS);
}

UNIT_TEST(the_header_of_a_long_message_does_not)
{
	begin_elephant(2 * CHUNK);
	/* A write of one chunk without header is not long. */
	ck_assert(rs_sched_push_longer(&sched, &flow[1], CHUNK + 8, 8));
	ck_assert_uint_eq(flow[1].bulky, 0);
	ck_assert(rs_sched_push_longer(&sched, &flow[2], CHUNK + 9, 8));
	ck_assert_uint_eq(flow[2].bulky, RS_BULKY_OPS);
	ck_assert_str_eq(order(5), "abcac");
	for (unsigned int i = 1; i < RS_BULKY_OPS; i++) {
		rs_sched_push(&sched, &flow[2], 1);
		ck_assert_uint_eq(strlen(order(2)), 2);
		ck_assert_uint_eq(sched.alert, 0);
	}
	rs_sched_push(&sched, &flow[2], 1);
	ck_assert_uint_eq(sched.alert, RS_ALERT_CHUNKS);
	ck_assert_str_eq(order(2), "ca");
}

/* It passes others within its share of the epoch only. */
UNIT_TEST(short_messages_starve_nobody)
{
	unsigned int a = 0;

	begin_elephant(2 * CHUNK);
	for (unsigned int i = 0; i < 100; i++) {
		rs_sched_push(&sched, &flow[1], CHUNK / 2);
		a += *order(1) == 'a';
		if (flow[1].first != flow[1].end)
			a += *order(1) == 'a';
	}
	ck_assert_uint_ge(a, 45);
	ck_assert_uint_le(a, 55);
}

/* ---- queue pairs that are full, completions of many at once: as dsm.ko uses it --------------- */

UNIT_TEST(a_strict_flow_that_is_held_holds_lower_ones_back)
{
	begin(1 << 20, 1 << 20, 64);
	add(&flow[0], 0, 4, 2 * CHUNK);
	add(&flow[1], 6, 1, CHUNK);
	add(&flow[2], 7, 1, 2 * CHUNK);
	add(&flow[3], 7, 1, 2 * CHUNK);
	rs_sched_hold(&sched, &flow[2]);
	ck_assert_str_eq(order(9), "dd"); /* the flow of equal priority continues */
	ck_assert_ptr_null(rs_sched_next(&sched));
	ck_assert(rs_sched_backlog(&sched));
	rs_sched_resume(&sched, &flow[2]);
	ck_assert_str_eq(order(9), "ccbaa");
	/* If a held flow has nothing to send, it delays no other flow. */
	rs_sched_hold(&sched, &flow[2]);
	rs_sched_push(&sched, &flow[0], CHUNK);
	ck_assert_str_eq(order(9), "a");
	rs_sched_push(&sched, &flow[2], CHUNK);
	rs_sched_push(&sched, &flow[0], CHUNK);
	ck_assert_str_eq(order(9), "");
	rs_sched_drop(&sched, &flow[2]);
	ck_assert_str_eq(order(9), "a");
}

UNIT_TEST(a_weighted_flow_that_is_held_is_as_if_idle)
{
	begin(1 << 20, 1 << 20, 64);
	add(&flow[0], 0, 1, 3 * CHUNK);
	add(&flow[1], 0, 1, 3 * CHUNK);
	rs_sched_hold(&sched, &flow[0]);
	ck_assert_str_eq(order(2), "bb");
	rs_sched_resume(&sched, &flow[0]);
	ck_assert_str_eq(order(9), "abaa");
	rs_sched_push(&sched, &flow[0], CHUNK);
	rs_sched_hold(&sched, &flow[0]);
	ck_assert(!rs_sched_backlog(&sched));
	rs_sched_hold(&sched, &flow[0]); /* twice has no more effect */
	rs_sched_resume(&sched, &flow[0]);
	rs_sched_resume(&sched, &flow[0]);
	ck_assert_str_eq(order(9), "a");
}

UNIT_TEST(a_strict_flow_may_count_in_the_weighted_window)
{
	begin(2 * CHUNK, 2 * CHUNK, 64);
	rs_flow_init_on(&flow[1], 6, 1, RS_WEIGHTED);
	add(&flow[0], 0, 1, 9 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 2);
	rs_sched_push(&sched, &flow[1], 2 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 0);
	add(&flow[2], 7, 1, CHUNK); /* on the strict lane, whose window has room */
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
	ck_assert_ptr_eq(chunk[0].flow, &flow[2]);
	rs_sched_done(&sched, &flow[0], RS_WEIGHTED, CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
	ck_assert_ptr_eq(chunk[0].flow, &flow[1]);
	ck_assert_int_eq(chunk[0].lane, RS_WEIGHTED);
}

UNIT_TEST(what_passes_without_a_turn_counts_in_the_window)
{
	begin(1 << 20, 4 * CHUNK, 64);
	ck_assert(rs_sched_fits(&sched, RS_WEIGHTED, 4 * CHUNK));
	ck_assert(!rs_sched_fits(&sched, RS_WEIGHTED, 4 * CHUNK + 1));
	rs_sched_pass(&sched, RS_WEIGHTED, 3 * CHUNK);
	ck_assert(rs_sched_fits(&sched, RS_WEIGHTED, CHUNK));
	ck_assert(!rs_sched_fits(&sched, RS_WEIGHTED, 2 * CHUNK));
	rs_sched_push(&sched, &flow[0], 2 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
	ck_assert(!rs_sched_fits(&sched, RS_WEIGHTED, 1));
	rs_sched_placed(&sched, &flow[0]);
	rs_sched_landed(&sched, RS_WEIGHTED, 4 * CHUNK);
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 1);
	rs_sched_placed(&sched, &flow[0]);
	rs_sched_landed(&sched, RS_WEIGHTED, CHUNK);
	ck_assert_uint_eq(sched.lane[RS_WEIGHTED].bytes, 0);
	ck_assert_uint_eq(sched.lane[RS_WEIGHTED].chunks, 0);
}

/*
 * As in kmod/net/lane.c: a completion covers all chunks up to a signalled one. A chunk is signalled
 * if half a window of bytes has been posted with it. The flows are those of kmod/net/egress.c:
 * messages of two classes, and blocks of four priorities.
 */
UNIT_TEST(completions_of_half_a_window_never_stall)
{
	static const uint8_t weight[4] = { 4, 1, 16, 1 };
	const uint32_t window = 8 * CHUNK;
	uint64_t random = 1;

	for (unsigned int round = 0; round < 2000; round++) {
		uint32_t unsignalled = 0, signalled[64], first = 0, end = 0, left = 0;

		begin(UINT32_MAX, window, UINT32_MAX);
		for (unsigned int i = 0; i < 4; i++)
			rs_flow_init_on(&flow[i], i == 3 ? 6 : 0, weight[i], RS_WEIGHTED);
		rs_flow_init(&flow[4], 7, 1);
		rs_flow_init(&flow[5], 7, 1);
		for (unsigned int i = 0; i < 40; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			struct rs_flow *f = &flow[(random >> 33) % 6];

			left += rs_sched_push(
				&sched, f,
				f >= &flow[4] ? 0 : 1 + (uint32_t)(random >> 40) % (5 * CHUNK));
		}
		while (left) {
			if (!rs_sched_pick(&sched, chunk, 1)) {
				unit_require(first != end); /* a signalled chunk is in flight */
				rs_sched_landed(&sched, RS_WEIGHTED, signalled[first++ % 64]);
				continue;
			}
			left -= chunk[0].last;
			rs_sched_placed(&sched, chunk[0].flow);
			if (chunk[0].lane == RS_STRICT) {
				rs_sched_landed(&sched, RS_STRICT, rs_cost(chunk[0].len));
				continue;
			}
			unit_require(sched.lane[RS_WEIGHTED].bytes <= window);
			unsignalled += rs_cost(chunk[0].len);
			if (unsignalled >= window / 2) {
				signalled[end++ % 64] = unsignalled;
				unsignalled = 0;
			}
		}
	}
}

/* Operations whose chunks have no header: the chunks are longer by its size. */
UNIT_TEST(chunks_may_be_longer)
{
	const struct rs_chunk *c = chunk;

	begin(1 << 20, 1 << 20, 64);
	ck_assert(rs_sched_push_longer(&sched, &flow[0], 2 * CHUNK + 8, 8));
	ck_assert(rs_sched_push(&sched, &flow[0], CHUNK + 8));
	ck_assert_uint_eq(rs_sched_pick(&sched, chunk, 64), 4);
	ck_assert(c[0].len == CHUNK + 8 && !c[0].last);
	ck_assert(c[1].len == CHUNK && c[1].offset == CHUNK + 8 && c[1].last);
	ck_assert(c[2].len == CHUNK && !c[2].last && c[3].len == 8 && c[3].last);
}

UNIT_SUITE("share_sched")
