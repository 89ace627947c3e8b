// SPDX-License-Identifier: BSD-2-Clause
/* test_barrier.c - core/barrier: the tree's shape for every size, and whole episodes. */
#include "core.h"

#include "core/barrier.h"
#include "core/set.h"

static struct bar_tree trees[1024];

/* Every member but the first has one parent, which has it as a child; nobody has too many; the first is at the top. */
static void check_tree(uint64_t mask, uint16_t nranks)
{
	unsigned int members = 0, children = 0, r, i, k;
	uint16_t root = SET_NOBODY;

	for (r = 0; r < nranks; r++) {
		bool in = !mask || (r < 64 && mask >> r & 1);

		unit_require(bar_tree(mask, nranks, (uint16_t)r, &trees[r]) == (in ? 0 : -EINVAL));
		if (!in)
			trees[r].parent = SET_NOBODY, trees[r].nchildren = 0;
		members += in;
		if (in && root == SET_NOBODY)
			root = (uint16_t)r;
	}
	for (r = 0; r < nranks; r++) {
		unit_require(trees[r].nchildren <= BAR_FANOUT);
		children += trees[r].nchildren;
		for (i = 0; i < trees[r].nchildren; i++) {
			unit_require(trees[r].child[i] < nranks);
			unit_require(trees[trees[r].child[i]].parent == r);
			for (k = 0; k < i; k++)
				unit_require(trees[r].child[k] != trees[r].child[i]);
		}
		if (trees[r].parent != SET_NOBODY)
			unit_require(trees[r].parent < r); /* so there is no circle */
	}
	unit_require(children == members - 1);
	unit_require(trees[root].parent == SET_NOBODY);
}

START_TEST(the_tree_of_all_ranks_is_a_tree)
{
	uint16_t n;

	for (n = 1; n <= 1024; n++)
		check_tree(0, n);
}
END_TEST

START_TEST(the_tree_of_a_group_is_a_tree)
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
END_TEST

START_TEST(a_rank_outside_the_group_is_refused)
{
	struct bar_tree t;

	ck_assert_int_eq(bar_tree(6, 8, 0, &t), -EINVAL);
	ck_assert_int_eq(bar_tree(6, 8, 3, &t), -EINVAL);
	ck_assert_int_eq(bar_tree(6, 100, 64, &t), -EINVAL);
	ck_assert_int_eq(bar_tree(6, 8, 1, &t), 0);
}
END_TEST

static uint64_t larger(uint8_t op, uint64_t a, uint64_t b)
{
	(void)op;
	return a > b ? a : b;
}

static struct msg arrive(uint16_t src, uint32_t threads, uint64_t value)
{
	struct msg m = unit_msg(MSG_ARRIVE, src, 0, src, 0);

	m.aux = threads;
	m.value = value;
	return m;
}

/* Deliver to rank 0 .. n - 1 whatever is sent, last come first served, and count who departs. */
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

		ck_assert_int_eq(bar_step(m.dst, &trees[m.dst], larger, &bars[m.dst], &m, &out), 0);
		ck_assert_uint_lt(out.n, ACTIONS_MAX);
		for (i = 0; i < out.n; i++)
			if (out.v[i].type == ACT_SEND)
				queue[len++] = out.v[i].msg;
			else
				departed += out.v[i].type == ACT_WAKE_ALL;
	}
	return departed;
}

START_TEST(everybody_departs_with_the_same_result)
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
END_TEST

START_TEST(what_no_correct_rank_sends_changes_nothing)
{
	struct bar_tree t = { .parent = 4, .nchildren = 1, .child = { 9 } };
	struct msg one = arrive(1, 1, 5), none = arrive(1, 0, 5), depart = unit_msg(MSG_DEPART, 4, 1, 4, 0);
	struct msg child = arrive(9, 1, 2), stray = unit_msg(MSG_DEPART, 3, 1, 3, 0),
		   other = unit_msg(MSG_LOCK, 4, 1, 4, 0);
	struct bar b = { 0 }, before;
	struct actions out;

	ck_assert_int_eq(bar_step(1, &t, larger, &b, &none, &out), -EBADMSG);
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &depart, &out), -EBADMSG); /* nobody waits for it */
	ck_assert_int_eq(bar_step(1, NULL, larger, &b, &child, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &one, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->dst, 4);
	before = b;
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &one, &out), -EBADMSG); /* one thread too many */
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &stray, &out), -EBADMSG);
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &other, &out), -EBADMSG);
	ck_assert_mem_eq(&b, &before, sizeof(b));
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &depart, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DEPART)->dst, 9);
}
END_TEST

START_TEST(ranks_that_contradict_each_other_are_told)
{
	struct bar_tree t = { .parent = SET_NOBODY, .nchildren = 1, .child = { 1 } };
	struct msg mine = arrive(0, 2, 1), child = arrive(1, 3, 1);
	struct bar b = { 0 };
	struct actions out;

	ck_assert_int_eq(bar_step(0, &t, larger, &b, &mine, &out), 0);
	ck_assert_int_eq(bar_step(0, &t, larger, &b, &child, &out), 0);
	ck_assert_int_eq(bar_step(0, &t, larger, &b, &mine, &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_DEPART)->count, -EINVAL);
	ck_assert_int_eq(b.ended, -EINVAL);
	ck_assert_int_eq(b.status, 0); /* the next episode is not spoiled */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("barrier");
	TCase *t = tcase_create("barrier");

	tcase_add_test(t, the_tree_of_all_ranks_is_a_tree);
	tcase_add_test(t, the_tree_of_a_group_is_a_tree);
	tcase_add_test(t, a_rank_outside_the_group_is_refused);
	tcase_add_test(t, everybody_departs_with_the_same_result);
	tcase_add_test(t, what_no_correct_rank_sends_changes_nothing);
	tcase_add_test(t, ranks_that_contradict_each_other_are_told);
	suite_add_tcase(s, t);
	return unit_main(s);
}
