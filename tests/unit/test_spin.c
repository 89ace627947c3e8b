// SPDX-License-Identifier: BSD-2-Clause
/* test_spin.c - engine/spin: what a thread has waited for says how long it polls. */
#include "suite.h"

#include "engine/spin.h"

#define SET 20000u

static void waits(struct spin *s, unsigned int n, uint64_t ns)
{
	while (n--)
		spin_saw(s, ns, SET);
}

START_TEST(who_has_seen_nothing_polls_as_long_as_is_set)
{
	struct spin s = { 0 };

	ck_assert_uint_eq(spin_limit(&s, SET), SET);
	ck_assert_uint_eq(spin_limit(&s, 0), 0);
}
END_TEST

/* The answer that comes just after the limit is waited for the next time, also when the sleep made it seem later. */
START_TEST(answers_just_after_the_limit_are_waited_for)
{
	uint64_t ns;

	for (ns = SET / 2; ns <= SPIN_TIMES / 2 * SET; ns += 100) {
		struct spin s = { 0 };

		waits(&s, 1, ns);
		ck_assert_uint_ge(spin_limit(&s, SET), ns);
		ck_assert_uint_ge(spin_limit(&s, SET), SET);
		ck_assert_uint_le(spin_limit(&s, SET), SPIN_TIMES * SET);
	}
}
END_TEST

START_TEST(long_waits_are_not_polled_for)
{
	struct spin s = { 0 };

	waits(&s, 1, 1000 * SET);
	ck_assert_uint_eq(spin_limit(&s, SET), SET);
	waits(&s, 100, 1ull << 50);
	ck_assert_uint_eq(spin_limit(&s, SET), SET);
}
END_TEST

/* Either habit takes over after a few waits, however long the other lasted. */
START_TEST(habits_change)
{
	struct spin s = { 0 };

	waits(&s, 1000, 1ull << 40);
	waits(&s, 8, SET * 3 / 2);
	ck_assert_uint_ge(spin_limit(&s, SET), SET * 3 / 2);
	ck_assert_uint_gt(spin_limit(&s, SET), SET);
	waits(&s, 1000, SET * 3 / 2);
	waits(&s, 3, 1ull << 40);
	ck_assert_uint_eq(spin_limit(&s, SET), SET);
	waits(&s, 1000, 10);
	ck_assert_uint_eq(spin_limit(&s, SET), SET);
}
END_TEST

/* One long wait among many short ones changes little. */
START_TEST(an_exception_is_one)
{
	struct spin s = { 0 };

	waits(&s, 50, SET);
	waits(&s, 1, 1ull << 40);
	waits(&s, 2, SET);
	ck_assert_uint_gt(spin_limit(&s, SET), SET);
}
END_TEST

START_TEST(who_must_not_poll_does_not)
{
	struct spin s = { 0 };

	spin_saw(&s, 50, 0);
	spin_saw(&s, 5000000, 0);
	ck_assert_uint_eq(spin_limit(&s, 0), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spin");
	TCase *t = tcase_create("spin");

	tcase_add_test(t, who_has_seen_nothing_polls_as_long_as_is_set);
	tcase_add_test(t, answers_just_after_the_limit_are_waited_for);
	tcase_add_test(t, long_waits_are_not_polled_for);
	tcase_add_test(t, habits_change);
	tcase_add_test(t, an_exception_is_one);
	tcase_add_test(t, who_must_not_poll_does_not);
	suite_add_tcase(s, t);
	return unit_main(s);
}
