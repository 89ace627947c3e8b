// SPDX-License-Identifier: BSD-2-Clause
/* test_barrier.c - core/barrier: the tree's shape for every size, and whole episodes. */
#include "core.h"

#include "barrier_arrive.h"
#include "core/barrier.h"
#include "core/set.h"

static struct bar_tree trees[1024];

/*
 * Each member but the first has one parent, which lists it as a child. No member has too many
 * children. The first is the root.
 */
static void check_tree(uint64_t mask, uint16_t nnodes)
{
	unsigned int members = 0, children = 0, r, i, k;
	uint16_t root = SET_NOBODY;

	for (r = 0; r < nnodes; r++) {
		bool in = !mask || (r < 64 && mask >> r & 1);

		unit_require(bar_tree(mask, nnodes, (uint16_t)r, &trees[r]) == (in ? 0 : -EINVAL));
		if (!in)
			trees[r].parent = SET_NOBODY, trees[r].nchildren = 0;
		members += in;
		if (in && root == SET_NOBODY)
			root = (uint16_t)r;
	}
	for (r = 0; r < nnodes; r++) {
		unit_require(trees[r].nchildren <= BAR_FANOUT);
		children += trees[r].nchildren;
		for (i = 0; i < trees[r].nchildren; i++) {
			unit_require(trees[r].child[i] < nnodes);
			unit_require(trees[trees[r].child[i]].parent == r);
			for (k = 0; k < i; k++)
				unit_require(trees[r].child[k] != trees[r].child[i]);
		}
		if (trees[r].parent != SET_NOBODY)
			unit_require(trees[r].parent < r); /* so there is no cycle */
	}
	unit_require(children == members - 1);
	unit_require(trees[root].parent == SET_NOBODY);
}

UNIT_TEST(the_tree_of_all_ranks_is_a_tree)
{
	uint16_t n;

	for (n = 1; n <= 1024; n++)
		check_tree(0, n);
}

UNIT_TEST(the_tree_of_a_group_is_a_tree)
{
	uint64_t seed = 0xb7e151628aed2a6bULL;
	unsigned int i;

	for (i = 0; i < 64; i++)
		check_tree(1ull << i, (uint16_t)(i + 1));
	for (i = 0; i < 3000; i++) {
		uint64_t mask = unit_random(&seed);

		if (i & 1)
			mask &= unit_random(&seed);
		check_tree(mask, (uint16_t)(64 + i % 3));
	}
	check_tree(UINT64_MAX, 64);
}

UNIT_TEST(a_rank_outside_the_group_is_refused)
{
	struct bar_tree t;

	ck_assert_int_eq(bar_tree(6, 8, 0, &t), -EINVAL);
	ck_assert_int_eq(bar_tree(6, 8, 3, &t), -EINVAL);
	ck_assert_int_eq(bar_tree(6, 100, 64, &t), -EINVAL);
	ck_assert_int_eq(bar_tree(6, 8, 1, &t), 0);
}

/* Deliver messages to ranks 0 to n - 1, the last one sent first, and count the departures. */
static unsigned int run(uint16_t n, uint32_t threads, struct bar *bars, uint64_t base)
{
	static struct msg queue[4096];
	unsigned int len = 0, i, departed = 0;
	struct actions out;
	uint16_t r;

	for (r = 0; r < n; r++)
		for (i = 0; i < threads; i++)
			queue[len++] = arrive(r, threads, base + r), queue[len - 1].dst = r;
	while (len) {
		struct msg m = queue[--len];

		ck_assert_int_eq(
			bar_step(m.dst, &trees[m.dst], larger, &bars[m.dst], NULL, &m, &out), 0);
		ck_assert_uint_lt(out.n, ACTIONS_MAX);
		for (i = 0; i < out.n; i++)
			if (out.v[i].type == ACT_SEND)
				queue[len++] = out.v[i].msg;
			else
				departed += out.v[i].type == ACT_WAKE_ALL;
	}
	return departed;
}

UNIT_TEST(everybody_departs_with_the_same_result)
{
	uint16_t sizes[] = { 1, 2, 8, 9, 10, 64, 65, 73, 74, 600, 1024 }, r;
	static struct bar bars[1024];
	unsigned int i, episode;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(bars, 0, sizeof(bars));
		check_tree(0, sizes[i]);
		for (episode = 1; episode <= 3; episode++) {
			ck_assert_uint_eq(run(sizes[i], 3, bars, episode * 10000), sizes[i]);
			for (r = 0; r < sizes[i]; r++) {
				ck_assert_uint_eq(bars[r].gen, episode);
				ck_assert_uint_eq(bars[r].result, episode * 10000 + sizes[i] - 1u);
				ck_assert_int_eq(bars[r].ended, 0);
			}
		}
	}
}

UNIT_TEST(what_no_correct_rank_sends_changes_nothing)
{
	struct bar_tree t = { .parent = 4, .nchildren = 1, .child = { 9 } };
	struct msg one = arrive(1, 1, 5), none = arrive(1, 0, 5), depart = departure(4, 1);
	struct msg child = arrive(9, 1, 2), stray = departure(3, 1),
		   other = unit_msg(MSG_LOCK, 4, 1, 4, 0);
	struct bar b = { 0 }, before;
	struct actions out;

	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &none, &out), -EBADMSG);
	/* no thread waits for it */
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &depart, &out), -EBADMSG);
	/* a child without threads */
	none.src = 9;
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &none, &out), -EBADMSG);
	other.aux = 1;
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &other, &out), -EBADMSG);
	ck_assert_int_eq(bar_step(1, NULL, larger, &b, NULL, &child, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &one, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->dst, 4);
	before = b;
	/* one thread too many */
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &one, &out), -EBADMSG);
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &stray, &out), -EBADMSG);
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &other, &out), -EBADMSG);
	ck_assert_mem_eq(&b, &before, sizeof(b));
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &depart, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 9);
}

UNIT_TEST(without_a_tree_nobody_departs)
{
	struct msg m = arrive(3, 1, 1);
	struct bar b = { .up = 1 };
	struct actions out;

	m.type = MSG_DEPART;
	ck_assert_int_eq(bar_step(1, NULL, larger, &b, NULL, &m, &out), -EBADMSG);
	ck_assert_uint_eq(b.gen, 0);
}

/* An episode that has ended leaves no state behind; its status may be any -errno. */
UNIT_TEST(a_departure_clears_the_episode)
{
	struct bar_tree t = { .parent = 3, .nchildren = 2, .child = { 9, 10 } };
	struct msg m[] = { arrive(9, 1, 1), arrive(10, 1, 2), arrive(1, 1, 3), arrive(3, 1, 77) };
	struct bar b = { 0 };
	struct actions out;
	unsigned int i;

	m[3].type = MSG_DEPART;
	m[1].count = m[3].count = -4095;
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &m[i], &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_ARRIVE)->count, -4095);
	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &m[3], &out), 0);
	ck_assert_int_eq(b.ended, -4095);
	ck_assert_uint_eq(b.result, 77);
	ck_assert_uint_eq(b.children, 0);
	for (i = 0; i < BAR_FANOUT; i++)
		ck_assert_uint_eq(b.from[i], 0);
	ck_assert_int_eq(unit_sent(&out, MSG_DEPART)->count, -4095);
}

/* Rank 0 is no child here, but may claim to be one. The node finds out when it knows the tree. */
UNIT_TEST(rank_0_is_a_stranger_like_others)
{
	struct msg m = arrive(0, 1, 1);
	struct bar b = { 0 };
	struct actions out;

	ck_assert_int_eq(bar_step(1, NULL, larger, &b, NULL, &m, &out), 0);
	ck_assert_uint_eq(b.earlies, 1);
	ck_assert_int_eq(bar_step(1, NULL, larger, &b, NULL, &m, &out), -EBADMSG);
}

UNIT_TEST(ranks_that_contradict_each_other_are_told)
{
	struct bar_tree t = { .parent = SET_NOBODY, .nchildren = 1, .child = { 1 } };
	struct msg mine = arrive(0, 2, 1), child = arrive(1, 3, 1);
	struct bar b = { 0 };
	struct actions out;

	ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &mine, &out), 0);
	ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &child, &out), 0);
	ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &mine, &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_DEPART)->count, -EINVAL);
	ck_assert_int_eq(b.ended, -EINVAL);
	ck_assert_int_eq(b.status, 0); /* the next episode is not spoiled */
}

/* A stranger does not count in place of a missing child. */
UNIT_TEST(a_child_comes_once)
{
	struct bar_tree t = { .parent = SET_NOBODY, .nchildren = 2, .child = { 1, 2 } };
	struct msg mine = arrive(0, 1, 1), child = arrive(1, 1, 1), second = arrive(2, 1, 1);
	unsigned int early;

	for (early = 0; early < 2; early++) {
		struct bar b = { 0 }, before;
		struct actions out;

		if (!early)
			ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &mine, &out), 0);
		ck_assert_int_eq(bar_step(0, early ? NULL : &t, larger, &b, NULL, &child, &out), 0);
		before = b;
		ck_assert_int_eq(bar_step(0, early ? NULL : &t, larger, &b, NULL, &child, &out),
				 -EBADMSG);
		ck_assert_mem_eq(&b, &before, sizeof(b));
		if (early)
			ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &mine, &out), 0);
		ck_assert_uint_eq(b.gen, 0);
		ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &second, &out), 0);
		ck_assert_uint_eq(b.gen, 1);
		ck_assert_int_eq(b.ended, 0);
	}
}

/*
 * Ranks name different groups. A rank that arrives at a node of which it is no child is told so,
 * and no node departs without its own children.
 */
UNIT_TEST(a_stranger_is_turned_away)
{
	struct bar_tree t = { .parent = 3, .nchildren = 1, .child = { 9 } };
	struct msg mine = arrive(700, 1, 1), child = arrive(9, 1, 1), stranger = arrive(521, 1, 99);
	struct bar b = { 0 };
	struct actions out;

	mine.object = child.object = stranger.object = 0x12345;
	/* The group is known: the stranger is told, and the state does not change. */
	ck_assert_int_eq(bar_step(700, &t, larger, &b, NULL, &mine, &out), 0);
	ck_assert_int_eq(bar_step(700, &t, larger, &b, NULL, &stranger, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 521);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->src, 700);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->object, 0x12345);
	ck_assert_int_eq(unit_sent(&out, MSG_DEPART)->count, -EINVAL);
	ck_assert_uint_eq(b.children, 0);
	ck_assert_int_eq(bar_step(700, &t, larger, &b, NULL, &child, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->dst, 3);
	ck_assert_int_eq(unit_sent(&out, MSG_ARRIVE)->count, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->value, 1);
	/* nor when all have come */
	ck_assert_int_eq(bar_step(700, &t, larger, &b, NULL, &stranger, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 521);

	/* The group is not known yet: the stranger's value waits, too, but is in no sum. */
	b = (struct bar){ 0 };
	ck_assert_int_eq(bar_step(700, NULL, larger, &b, NULL, &stranger, &out), 0);
	ck_assert_int_eq(bar_step(700, &t, larger, &b, NULL, &mine, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 521);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->src, 700);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->object, 0x12345);
	ck_assert_ptr_null(unit_sent(&out, MSG_ARRIVE));
	ck_assert_uint_eq(b.children, 0);
	ck_assert_uint_eq(b.from[0], 0);
	ck_assert_int_eq(bar_step(700, &t, larger, &b, NULL, &child, &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_ARRIVE)->count, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->value, 1);

	/* The first of several threads names the group. */
	b = (struct bar){ 0 };
	mine.aux = 2;
	ck_assert_int_eq(bar_step(700, NULL, larger, &b, NULL, &stranger, &out), 0);
	ck_assert_int_eq(bar_step(700, &t, larger, &b, NULL, &mine, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 521);
	ck_assert_uint_eq(b.children, 0);
}

UNIT_TEST(a_stranger_among_all_children_is_turned_away)
{
	struct bar_tree t = { .parent = 3,
			      .nchildren = BAR_FANOUT,
			      .child = { 9, 10, 11, 12, 13, 14, 15, 16 } };
	struct msg stranger = arrive(17, 1, 1);
	struct bar b = { 0 };
	struct actions out;

	ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &stranger, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 17);
}

UNIT_TEST(no_step_does_more_than_it_may)
{
	struct bar_tree t = { .parent = SET_NOBODY };
	struct msg mine = arrive(0, 1, 1), one;
	struct bar b = { 0 };
	struct actions out;
	uint16_t i;

	for (i = 1; i <= BAR_FANOUT; i++) {
		one = arrive((uint16_t)(i * 7 % 11), 1, 1);
		ck_assert_int_eq(bar_step(0, NULL, larger, &b, NULL, &one, &out), 0);
	}
	one = arrive(12, 1, 1);
	ck_assert_int_eq(bar_step(0, NULL, larger, &b, NULL, &one, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 12);
	ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &mine, &out), 0);
	ck_assert_uint_eq(out.n, BAR_FANOUT + 1);
	ck_assert_uint_lt(out.n, ACTIONS_MAX);
	ck_assert_int_eq(b.ended, 0);
	ck_assert_uint_eq(b.earlies, 0);
}

/*
 * The threads of a rank name different numbers: the rank waits for the smallest number of threads,
 * and all get an error.
 */
UNIT_TEST(threads_of_one_rank_that_contradict_each_other_are_told)
{
	struct bar_tree t = { .parent = SET_NOBODY };
	static const uint32_t says[][3] = {
		{ 2, 3 }, { 3, 2 }, { 4, 3, 5 }, { 3, 4, 5 }, { 5, 4, 3 }
	};
	static const unsigned int come[] = { 2, 2, 3, 3, 3 };
	unsigned int i, k;

	for (i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		struct bar b = { 0 };
		struct actions out;

		for (k = 0; k < come[i]; k++) {
			struct msg m = arrive(0, says[i][k], 1);

			ck_assert_uint_eq(b.gen, 0);
			ck_assert_int_eq(bar_step(0, &t, larger, &b, NULL, &m, &out), 0);
		}
		ck_assert_ptr_nonnull(unit_action(&out, ACT_WAKE_ALL, 0));
		ck_assert_uint_eq(b.gen, 1);
		ck_assert_int_eq(b.ended, -EINVAL);
	}
}

/* Each rank of a node counts its own threads; the node is complete when all of its ranks are. */
UNIT_TEST(a_node_waits_for_each_of_its_ranks)
{
	struct bar_tree t = { .parent = 7 };
	struct bar_part parts[3] = { 0 };
	struct bar b = { .locals = 3 };
	struct msg m, depart = departure(7, 1);
	struct actions out;
	unsigned int round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 6; i++) {
			m = arrive(1, 2, i);
			ck_assert_int_eq(bar_step(1, &t, larger, &b, &parts[i % 3], &m, &out), 0);
			ck_assert_uint_eq(out.n, i == 5);
			if (i == 3) /* rank 0 is complete, the others are not */
				ck_assert_int_eq(bar_step(1, &t, larger, &b, &parts[0], &m, &out),
						 -EBADMSG);
		}
		m.op = 0;
		ck_assert_uint_eq(b.up, 1);
		ck_assert_int_eq(bar_step(1, &t, larger, &b, NULL, &depart, &out), 0);
		ck_assert_uint_eq(b.gen, round + 1);
		ck_assert_int_eq(b.ended, 0);
	}
}

/*
 * One rank names another number of threads than the other ranks of its node: none waits forever,
 * none departs early, all get an error.
 */
UNIT_TEST(ranks_of_a_node_that_contradict_each_other_are_told)
{
	static const unsigned int orders[][5] = { { 0, 1, 2, 2, 2 },
						  { 2, 2, 2, 1, 0 },
						  { 2, 0, 2, 1, 2 } };
	struct bar_tree t = { .parent = SET_NOBODY };
	unsigned int k, i;

	for (k = 0; k < 3; k++) {
		struct bar_part parts[3] = { 0 };
		struct bar b = { .locals = 3 };
		struct actions out;

		for (i = 0; i < 5; i++) {
			struct msg m = arrive(0, orders[k][i] == 2 ? 3 : 1, 1);

			ck_assert_uint_eq(b.gen, 0);
			ck_assert_int_eq(
				bar_step(0, &t, larger, &b, &parts[orders[k][i]], &m, &out), 0);
		}
		ck_assert_uint_eq(b.gen, 1);
		ck_assert_int_eq(b.ended, -EINVAL);
	}
}

UNIT_SUITE("barrier")
