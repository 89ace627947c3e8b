// SPDX-License-Identifier: BSD-2-Clause
/* test_lock.c - core/lock: every state of a hold record with every event, the home, and UNLOCK crossing NEXT. */
#include "core.h"

#include "core/lock.h"

#define HOME 0
#define RECORD 6

static struct msg from_home(uint8_t type, uint64_t value)
{
	struct msg m = unit_msg(type, HOME, 1, 3, 2);

	m.home = RECORD;
	m.value = value;
	return m;
}

START_TEST(every_pair_is_bounded_and_illegal_ones_change_nothing)
{
	unsigned int state, ev;

	for (state = 0; state <= HOLD_STATES; state++)
		for (ev = 0; ev <= HE_EVENTS; ev++) {
			struct hold h = { .state = (uint8_t)state, .home = HOME, .slot = 4, .next_rank = 3 },
				    before = h;
			struct actions out = { .n = 99 };
			struct msg m = from_home(MSG_NEXT, 0);
			int err = hold_step(1, RECORD, &h, (enum hold_event)ev, &m, &out);

			ck_assert(!err || err == -EBADMSG);
			ck_assert_uint_lt(out.n, ACTIONS_MAX);
			if (state == HOLD_STATES || ev == HE_EVENTS || hold_rule_name(state, ev)[0] == '-')
				ck_assert_int_eq(err, -EBADMSG);
			else
				ck_assert_int_eq(err, 0);
			if (err)
				ck_assert_mem_eq(&h, &before, sizeof(h));
		}
}
END_TEST

START_TEST(everything_has_a_name)
{
	unsigned int s, e;

	for (s = 0; s < HOLD_STATES; s++)
		for (e = 0; e < HE_EVENTS; e++) {
			ck_assert_ptr_nonnull(hold_rule_name(s, e));
			ck_assert_str_ne(hold_rule_name(s, e), "?");
			ck_assert_str_ne(hold_state_name(s), "?");
			ck_assert_str_ne(hold_event_name(e), "?");
		}
	ck_assert_str_eq(hold_state_name(HOLD_STATES), "?");
	ck_assert_str_eq(hold_event_name(HE_EVENTS), "?");
	ck_assert_str_eq(hold_rule_name(HOLD_STATES, 0), "?");
}
END_TEST

static struct msg ask(uint8_t type, uint16_t rank, uint16_t record)
{
	struct msg m = unit_msg(type, rank, HOME, rank, 1);

	m.home = record;
	return m;
}

START_TEST(the_home_tells_the_last_in_line_who_comes_next)
{
	struct sync s = { .kind = SYNC_MUTEX };
	struct msg a = ask(MSG_LOCK, 0, 0), b = ask(MSG_LOCK, 5, 9), c = ask(MSG_TRYLOCK, 6, 2);
	struct actions out;

	ck_assert_int_eq(lock_home_step(HOME, &s, &a, &out), 0); /* rank 0, record 0: not to be taken for a free lock */
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 0);
	ck_assert(!sync_idle(&s));
	ck_assert_int_eq(lock_home_step(HOME, &s, &b, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->dst, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->home, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->req_rank, 5);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->value, 9);
	ck_assert_int_eq(lock_home_step(HOME, &s, &c, &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_FREED)->count, -EBUSY);
	a.type = MSG_UNLOCK;
	ck_assert_int_eq(lock_home_step(HOME, &s, &a, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->value, 1);
	ck_assert(!sync_idle(&s));
	b.type = MSG_UNLOCK;
	ck_assert_int_eq(lock_home_step(HOME, &s, &b, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->value, 0);
	ck_assert(sync_idle(&s));
	a.type = MSG_SYNC;
	ck_assert_int_eq(lock_home_step(HOME, &s, &a, &out), -EBADMSG);
}
END_TEST

/* UNLOCK and NEXT have crossed: whichever of NEXT and FREED comes first, the lock goes on once. */
START_TEST(a_crossed_unlock_frees_the_record_after_both_answers)
{
	struct msg next = from_home(MSG_NEXT, 8), crossed = from_home(MSG_FREED, 1);
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct hold h = { .state = HOLD_LEAVING, .home = HOME };
		struct actions out;

		ck_assert_int_eq(hold_step(1, RECORD, &h, i ? HE_FREED : HE_NEXT, i ? &crossed : &next, &out), 0);
		ck_assert_uint_ne(h.state, HOLD_FREE);
		ck_assert_ptr_eq(i ? unit_sent(&out, MSG_LOCKED) : NULL, NULL);
		if (!i)
			ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->home, 8);
		ck_assert_int_eq(hold_step(1, RECORD, &h, i ? HE_NEXT : HE_FREED, i ? &next : &crossed, &out), 0);
		ck_assert_uint_eq(h.state, HOLD_FREE);
		if (i)
			ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 3);
	}
}
END_TEST

START_TEST(a_successor_known_before_the_grant_is_not_forgotten)
{
	struct hold h = { .state = HOLD_WAITING, .home = HOME, .slot = 4 };
	struct msg next = from_home(MSG_NEXT, 8), locked = from_home(MSG_LOCKED, 0);
	struct actions out;

	ck_assert_int_eq(hold_step(1, RECORD, &h, HE_NEXT, &next, &out), 0);
	ck_assert_int_eq(hold_step(1, RECORD, &h, HE_LOCKED, &locked, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 4);
	ck_assert_int_eq(hold_step(1, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 3);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->req_slot, 2);
	ck_assert_uint_eq(h.state, HOLD_FREE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lock");
	TCase *t = tcase_create("lock");

	tcase_add_test(t, every_pair_is_bounded_and_illegal_ones_change_nothing);
	tcase_add_test(t, everything_has_a_name);
	tcase_add_test(t, the_home_tells_the_last_in_line_who_comes_next);
	tcase_add_test(t, a_crossed_unlock_frees_the_record_after_both_answers);
	tcase_add_test(t, a_successor_known_before_the_grant_is_not_forgotten);
	suite_add_tcase(s, t);
	return unit_main(s);
}
