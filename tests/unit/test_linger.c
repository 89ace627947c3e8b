// SPDX-License-Identifier: BSD-2-Clause
/* test_linger.c - when the service thread leaves the transport unarmed (watch/linger.h). */
#include "suite.h"

#include "watch/linger.h"

static void wake_in_vain(struct linger *l, int times)
{
	while (times--)
		linger_for(l, false, true, true);
}

UNIT_TEST(some_wakes_in_vain_are_no_reason)
{
	struct linger l = { 0 };

	wake_in_vain(&l, LINGER_VAIN - 1);
	ck_assert(!linger_for(&l, false, false, true));
	ck_assert(linger_for(&l, false, true, true));
	ck_assert(linger_for(&l, false, false, true));
}

UNIT_TEST(it_arms_for_a_message_that_has_waited)
{
	struct linger l = { 0 };

	wake_in_vain(&l, 1000);
	ck_assert(linger_for(&l, false, false, true));
	ck_assert(!linger_for(&l, true, false, true));
	wake_in_vain(&l, LINGER_VAIN - 1);
	ck_assert(!linger_for(&l, false, false, true));
}

UNIT_TEST(it_arms_where_nobody_waits)
{
	struct linger l = { 0 };

	wake_in_vain(&l, LINGER_VAIN);
	ck_assert(!linger_for(&l, false, false, false));
	ck_assert(linger_for(&l, false, false, true));
}

/* Every second wake-up takes a message: the thread is needed. */
UNIT_TEST(wakes_in_vain_count_in_a_row)
{
	struct linger l = { 0 };
	int i;

	for (i = 0; i < 1000; i++) {
		wake_in_vain(&l, 1);
		ck_assert(!linger_for(&l, true, true, true));
	}
}

UNIT_TEST(it_polls_less_and_less_often_while_all_is_in_vain)
{
	struct linger l = { 0 };
	int i;

	wake_in_vain(&l, LINGER_VAIN - 1);
	for (i = 1; i < 1000; i++)
		ck_assert_uint_eq(linger_for(&l, false, i == 1, true),
				  i < LINGER_POLLS * LINGER_DOUBLINGS
					  ? LINGER_NS << i / LINGER_POLLS
					  : LINGER_NS << LINGER_DOUBLINGS);
	linger_for(&l, true, false, true);
	wake_in_vain(&l, LINGER_VAIN - 1);
	ck_assert_uint_eq(linger_for(&l, false, true, true), LINGER_NS);
}

UNIT_SUITE("linger")
