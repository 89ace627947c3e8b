// SPDX-License-Identifier: BSD-2-Clause
/* test_barrier_rules.c - core/barrier: an episode in every order, field by field, with numbers of their full width. */
#include "core.h"

#include "barrier_arrive.h"
#include "core/barrier.h"
#include "core/set.h"

#define WIDE_ME 1000
#define WIDE_PARENT 900
#define WIDE_OBJECT 0x87654321u
#define WIDE_OP 7

/* Tells by its result in which order which values met, and by which operation. */
static uint64_t chain(uint8_t op, uint64_t a, uint64_t b)
{
	return a * 31 + b + (op == WIDE_OP ? 0 : 1ull << 63);
}

static struct msg wide_arrive(uint16_t src, uint64_t value)
{
	struct msg m = arrive(src, 2, value);

	m.dst = WIDE_ME;
	m.object = WIDE_OBJECT;
	m.op = WIDE_OP;
	return m;
}

static void check_names(const struct msg *m, uint16_t dst)
{
	ck_assert_uint_eq(m->version, WIRE_VERSION);
	ck_assert_uint_eq(m->src, WIDE_ME);
	ck_assert_uint_eq(m->req_rank, WIDE_ME);
	ck_assert_uint_eq(m->req_slot, 0);
	ck_assert_uint_eq(m->dst, dst);
	ck_assert_uint_eq(m->object, WIDE_OBJECT);
}

/* Two own threads (0, 1) and two children (2, 3) in any order; one of the four may bring an error or differ. */
static void episode(struct bar *b, const unsigned int *order, unsigned int wrong, bool differs)
{
	static const struct bar_tree t = { .parent = WIDE_PARENT, .nchildren = 2, .child = { 1001, 1002 } };
	int16_t status = wrong > 3 ? 0 : differs ? -EINVAL : -EIO;
	uint32_t gen = b->gen;
	uint64_t acc = 0;
	struct actions out;
	struct msg m, again;
	unsigned int i;
	bool known = false;

	for (i = 0; i < 4; i++) {
		m = wide_arrive(order[i] < 2 ? WIDE_ME : (uint16_t)(999 + order[i]), 0x100000000ull + order[i]);
		known = known || order[i] < 2;
		if (order[i] == wrong && differs)
			m.aux = 3;
		else if (order[i] == wrong)
			m.count = -EIO;
		acc = i ? acc * 31 + m.value : m.value;
		ck_assert_int_eq(bar_step(WIDE_ME, known ? &t : NULL, chain, b, NULL, &m, &out), 0);
		ck_assert_str_eq(unit_text(&out), i < 3 ? "" : "ARRIVE");
	}
	ck_assert_uint_eq(b->any, 1);
	ck_assert_uint_eq(b->up, 1);
	check_names(&out.v[0].msg, WIDE_PARENT);
	ck_assert_uint_eq(out.v[0].msg.op, WIDE_OP);
	ck_assert_uint_eq(out.v[0].msg.aux, 2);
	ck_assert_int_eq(out.v[0].msg.count, status);
	ck_assert_uint_eq(out.v[0].msg.value, acc);
	again = wide_arrive(1001, 1);
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, b, NULL, &again, &out), -EBADMSG);
	ck_assert_uint_eq(b->gen, gen);
	m = unit_msg(MSG_DEPART, WIDE_PARENT, WIDE_ME, WIDE_PARENT, 0);
	m.object = WIDE_OBJECT;
	m.count = status;
	m.value = 0x123456789abcdefull;
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, b, NULL, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART DEPART wake-all");
	for (i = 0; i < 2; i++) {
		check_names(&out.v[i].msg, (uint16_t)(1001 + i));
		ck_assert_int_eq(out.v[i].msg.count, status);
		ck_assert_uint_eq(out.v[i].msg.value, m.value);
	}
	ck_assert_uint_eq(b->gen, gen + 1);
	ck_assert_int_eq(b->ended, status);
	ck_assert_uint_eq(b->result, m.value);
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, b, NULL, &m, &out), -EBADMSG); /* it is over */
}

/* The number that goes up is the smaller one, in whatever order they come. */
START_TEST(a_node_that_contradicts_itself_says_the_smaller_number)
{
	static const unsigned int threads[][3] = { { 1, 2, 2 }, { 2, 2, 1 } };
	struct bar_tree t = { .parent = 7 };
	unsigned int k, i;

	for (k = 0; k < 2; k++) {
		struct bar_part parts[3] = { 0 };
		struct bar b = { .locals = 2 };
		struct actions out;

		for (i = 0; i < 3; i++) {
			struct msg m = arrive(1, threads[k][i], 1);

			ck_assert_int_eq(bar_step(1, &t, larger, &b, &parts[threads[k][i]], &m, &out), 0);
		}
		ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->aux, 1);
		ck_assert_int_eq(unit_sent(&out, MSG_ARRIVE)->count, -EINVAL);
	}
}
END_TEST

START_TEST(threads_are_counted_in_32_bits)
{
	struct bar_tree t = { .parent = 7 };
	struct bar_part part = { 0 };
	struct bar b = { .locals = 1 };
	struct msg m = arrive(1, 0x10001, 1);
	struct actions out;
	unsigned int i;

	for (i = 0; i < 0x10001; i++) {
		unit_require(!b.up);
		unit_require(!bar_step(1, &t, larger, &b, &part, &m, &out));
	}
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->aux, 0x10001);
	ck_assert_int_eq(unit_sent(&out, MSG_ARRIVE)->count, 0);
}
END_TEST

START_TEST(a_smaller_number_and_a_late_episode_have_32_bits)
{
	struct bar_tree t = { .parent = 7 };
	struct bar_part part = { 0 };
	struct bar b = { .locals = 1, .gen = 0x10000 };
	struct msg m = arrive(1, 0x20000, 1);
	struct actions out;

	ck_assert_int_eq(bar_step(1, &t, larger, &b, &part, &m, &out), 0);
	m.aux = 0x10001;
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &part, &m, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	m.aux = 2;
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &part, &m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->aux, 2);
}
END_TEST

START_TEST(an_episode_in_every_order_in_full)
{
	struct bar b = { .gen = UINT32_MAX - 20 }; /* generations wrap */
	unsigned int o[4], wrong, differs;

	for (o[0] = 0; o[0] < 4; o[0]++)
		for (o[1] = 0; o[1] < 4; o[1]++)
			for (o[2] = 0; o[2] < 4; o[2]++) {
				o[3] = 6 - o[0] - o[1] - o[2];
				if (o[0] == o[1] || o[0] == o[2] || o[1] == o[2])
					continue;
				for (wrong = 2; wrong <= 4; wrong++)
					for (differs = 0; differs < 2; differs++)
						episode(&b, o, wrong, differs);
			}
}
END_TEST

/* A thread of a rank that is not in its own group: nothing comes of it, and nothing goes wrong. */
START_TEST(an_arrival_without_a_tree_is_only_noted)
{
	struct bar b = { 0 };
	struct msg own = arrive(WIDE_ME, 1, 5), child = arrive(1001, 1, 9);
	struct actions out;

	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &child, &out), 0);
	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &own, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.arrived, 1);
	ck_assert_uint_eq(b.gen, 0);
}
END_TEST

/* At the root the last of all ends the episode, whoever that is. */
START_TEST(the_root_ends_the_episode)
{
	static const struct bar_tree t = { .parent = SET_NOBODY, .nchildren = 1, .child = { 1001 } };
	unsigned int first;

	for (first = 0; first < 2; first++) {
		struct bar b = { 0 };
		struct msg own = arrive(WIDE_ME, 1, 5), child = arrive(1001, 1, 9);
		struct actions out;

		ck_assert_int_eq(bar_step(WIDE_ME, &t, larger, &b, NULL, first ? &own : &child, &out), 0);
		ck_assert_uint_eq(out.n, 0);
		ck_assert_int_eq(bar_step(WIDE_ME, &t, larger, &b, NULL, first ? &child : &own, &out), 0);
		ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
		ck_assert_uint_eq(out.v[0].msg.value, 9);
		ck_assert_uint_eq(b.result, 9);
		ck_assert_uint_eq(b.threads + b.arrived + b.children + b.any + b.up, 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("barrier_rules");
	TCase *t = tcase_create("barrier_rules");

	tcase_add_test(t, a_node_that_contradicts_itself_says_the_smaller_number);
	tcase_add_test(t, threads_are_counted_in_32_bits);
	tcase_add_test(t, a_smaller_number_and_a_late_episode_have_32_bits);
	tcase_add_test(t, an_episode_in_every_order_in_full);
	tcase_add_test(t, an_arrival_without_a_tree_is_only_noted);
	tcase_add_test(t, the_root_ends_the_episode);
	suite_add_tcase(s, t);
	return unit_main(s);
}
