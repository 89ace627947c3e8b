// SPDX-License-Identifier: BSD-2-Clause
/* test_hold.c - engine/step: a hold record is given back when it becomes free, and only then. */
#include "suite.h"

#include <dsm.h>

#include "engine/job.h"
#include "engine/slot.h"
#include "engine/step.h"

/*
 * The home asks whether the lock is idle where it was last. By the time the question comes, the lock has gone on, and its record
 * is free, or another thread has taken it for another lock but not begun.
 */
static void ask_record(uint32_t index)
{
	const struct msg m = { .version = WIRE_VERSION, .type = MSG_RECALL, .object = 1u << 24 | 7, .aux = index };
	struct actions acts;

	ck_assert_int_eq(step_message(&m, NULL, 0, &acts), 0);
	ck_assert_uint_eq(acts.n, 1);
	ck_assert_uint_eq(acts.v[0].msg.type, MSG_RECALLED);
	ck_assert_int_eq(acts.v[0].msg.count, -EBUSY);
}

START_TEST(a_question_about_a_record_that_is_taken_gives_it_to_nobody)
{
	int64_t taken;

	ck_assert_int_eq(dsm_init(NULL), 0);
	taken = hold_take();
	ck_assert_int_ge(taken, 0);
	ask_record((uint32_t)taken);
	ck_assert_int_ne(hold_take(), taken);
}
END_TEST

START_TEST(a_question_about_a_free_record_does_not_free_it_again)
{
	int64_t first;

	ck_assert_int_eq(dsm_init(NULL), 0);
	first = hold_take();
	ck_assert_int_ge(first, 0);
	hold_give((uint32_t)first);
	ask_record((uint32_t)first);
	ck_assert_int_eq(hold_take(), first);
	ck_assert_int_ne(hold_take(), first);
}
END_TEST

START_TEST(a_record_is_free_when_its_lock_has_gone)
{
	int64_t hold;
	dsm_mutex_t m;

	ck_assert_int_eq(dsm_init(NULL), 0);
	hold = hold_take();
	hold_give((uint32_t)hold);
	ck_assert_int_eq(dsm_mutex_init(&m), 0);
	ck_assert_int_eq(dsm_mutex_lock(&m), 0);
	ck_assert_int_eq(job.me->holds[hold].state, HOLD_HELD);
	ck_assert_int_eq(dsm_mutex_unlock(&m), 0);
	ck_assert_int_eq(dsm_mutex_destroy(&m), 0); /* RECALL, RECALLED, FREED */
	ck_assert_int_eq(job.me->holds[hold].state, HOLD_FREE);
	ck_assert_int_eq(hold_take(), hold);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hold");
	TCase *t = tcase_create("hold");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_question_about_a_record_that_is_taken_gives_it_to_nobody);
	tcase_add_test(t, a_question_about_a_free_record_does_not_free_it_again);
	tcase_add_test(t, a_record_is_free_when_its_lock_has_gone);
	suite_add_tcase(s, t);
	return unit_main(s);
}
