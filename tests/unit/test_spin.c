// SPDX-License-Identifier: BSD-2-Clause
/* test_spin.c - miss/spin: a thread's earlier waits determine how long it polls. */
#include "suite.h"

#include "miss/spin.h"

#define SET 20000u

/* Wait as a thread does: sleep if the answer takes longer than the limit. */
static void waits(struct spin *s, unsigned int n, uint64_t ns)
{
	while (n--)
		spin_saw(s, ns, SET, ns > spin_limit(s, SET));
}

/* The limit of waits that are no probe. */
static uint64_t usual(struct spin s)
{
	if (s.waits % SPIN_PROBE == 0)
		s.waits++;
	return spin_limit(&s, SET);
}

UNIT_TEST(who_has_seen_nothing_polls_as_long_as_is_set)
{
	struct spin s = { 0 };

	ck_assert_uint_eq(spin_limit(&s, SET), SET);
	ck_assert_uint_eq(spin_limit(&s, 0), 0);
}

/*
 * If the answer comes just after the limit, the next limit covers it, even if sleeping made it seem
 * later.
 */
UNIT_TEST(answers_just_after_the_limit_are_waited_for)
{
	uint64_t ns;

	for (ns = SET / 2; ns <= SPIN_TIMES * SET; ns += 100) {
		struct spin s = { 0 };

		waits(&s, 1, ns);
		ck_assert_uint_ge(spin_limit(&s, SET), ns);
		ck_assert_uint_ge(spin_limit(&s, SET), SET);
		ck_assert_uint_le(spin_limit(&s, SET), SPIN_TIMES * SET);
	}
}

/* A few long waits change nothing; then the limit is halved repeatedly, to nearly nothing. */
UNIT_TEST(long_waits_are_not_polled_for)
{
	struct spin s = { 0 };
	unsigned int i;

	for (i = 0; i < SPIN_FORGIVEN; i++) {
		waits(&s, 1, 1000 * SET);
		ck_assert_uint_eq(usual(s), SET);
	}
	for (i = 1; i <= SPIN_HALVINGS; i++) {
		waits(&s, 1, 1000 * SET);
		ck_assert_uint_eq(usual(s), SET >> i);
	}
	waits(&s, 100, 1ull << 50);
	ck_assert_uint_eq(usual(s), SET >> SPIN_HALVINGS);
}

/*
 * Answers come late because the waiter polls. It stops polling, and they come at once. It notices
 * when polling pays again.
 */
UNIT_TEST(who_polls_in_vain_ceases_to)
{
	struct spin s = { 0 };
	unsigned int i, polled = 0;

	for (i = 0; i < 1000; i++) {
		uint64_t limit = spin_limit(&s, SET);

		polled += limit >= SET;
		spin_saw(&s, limit + SET / 4, SET, true);
	}
	ck_assert_uint_le(polled, 1000 / SPIN_PROBE + 1 + SPIN_FORGIVEN + SPIN_HALVINGS);
	ck_assert_uint_ge(polled, 1000 / SPIN_PROBE);
	waits(&s, SPIN_PROBE, SET / 2);
	ck_assert_uint_ge(usual(s), SET);
}

/* A long habit ends fast: after one probe, or after a few waits. */
UNIT_TEST(habits_change)
{
	struct spin s = { 0 };

	waits(&s, 1000, 1ull << 40);
	waits(&s, SPIN_PROBE + 8, SET * 3 / 2);
	ck_assert_uint_ge(usual(s), SET * 3 / 2);
	waits(&s, 1000, SET * 3 / 2);
	waits(&s, SPIN_FORGIVEN + SPIN_HALVINGS, 1ull << 40);
	ck_assert_uint_eq(usual(s), SET >> SPIN_HALVINGS);
	waits(&s, 1000, 10);
	ck_assert_uint_eq(usual(s), SET);
}

/*
 * Two threads that wait for each other have both stopped polling, so each answer takes several
 * wake-ups. One probe ends that.
 */
UNIT_TEST(who_sleeps_because_its_peer_does_finds_out)
{
	uint64_t ns;

	for (ns = SET; ns <= SPIN_TIMES * SET; ns += SET / 4) {
		struct spin s = { .mean = ns, .waits = 1, .slept = SPIN_FORGIVEN + SPIN_HALVINGS };

		waits(&s, SPIN_PROBE, ns);
		ck_assert_uint_ge(usual(s), ns);
	}
}

/* If a short limit is enough, the halvings are undone one by one. */
UNIT_TEST(answers_in_time_lengthen_it)
{
	struct spin s = { .mean = SET / 4, .waits = 1, .slept = SPIN_FORGIVEN + SPIN_HALVINGS };
	unsigned int i;

	for (i = SPIN_HALVINGS; i > 0; i--) {
		ck_assert_uint_eq(usual(s), SET >> i);
		waits(&s, 1, 1);
	}
	ck_assert_uint_eq(usual(s), SET);
}

/* One long wait among many short ones changes little. */
UNIT_TEST(an_exception_is_one)
{
	struct spin s = { 0 };

	waits(&s, 50, SET);
	waits(&s, 1, 1ull << 40);
	waits(&s, 2, SET);
	ck_assert_uint_gt(spin_limit(&s, SET), SET);
}

UNIT_TEST(who_must_not_poll_does_not)
{
	struct spin s = { 0 };

	spin_saw(&s, 50, 0, true);
	spin_saw(&s, 5000000, 0, true);
	ck_assert_uint_eq(spin_limit(&s, 0), 0);
}

UNIT_SUITE("spin")
