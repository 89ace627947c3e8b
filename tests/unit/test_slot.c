// SPDX-License-Identifier: BSD-2-Clause
/* test_slot.c - engine/slot: lasting requests beyond the last slot fail, in a job of one rank; what is brief goes on. */
#include "suite.h"

#include <dsm.h>

#include "engine/inside.h"
#include "engine/job.h"
#include "engine/slot.h"

#define LASTING (CTL_ALL_SLOTS - CTL_BRIEF_END)

static int slots[LASTING];

static void take_all(void)
{
	unsigned int i;

	for (i = 0; i < LASTING; i++) {
		slots[i] = slot_get(SLOT_LASTING);
		unit_require(slots[i] >= CTL_BRIEF_END && slots[i] < CTL_ALL_SLOTS);
	}
}

START_TEST(the_last_slot_is_followed_by_eagain)
{
	dsm_mutex_t m, held;
	dsm_cond_t c;
	dsm_rwlock_t rw;
	dsm_sem_t s;
	int slot;

	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_int_eq(LASTING, 62464); /* as dsm.h says */
	ck_assert_int_eq(dsm_mutex_init(&m), 0);
	ck_assert_int_eq(dsm_mutex_init(&held), 0);
	ck_assert_int_eq(dsm_cond_init(&c), 0);
	ck_assert_int_eq(dsm_rwlock_init(&rw), 0);
	ck_assert_int_eq(dsm_sem_init(&s, 1), 0);
	ck_assert_int_eq(dsm_mutex_lock(&held), 0);
	take_all();
	ck_assert_int_eq(slot_get(SLOT_LASTING), -EAGAIN);
	ck_assert_int_eq(dsm_sem_wait(&s), -EAGAIN);
	ck_assert_int_eq(dsm_sem_timedwait(&s, 1000000), -EAGAIN);
	ck_assert_int_eq(dsm_mutex_lock(&m), -EAGAIN);
	ck_assert_int_eq(dsm_rwlock_rdlock(&rw), -EAGAIN);
	ck_assert_int_eq(dsm_rwlock_wrlock(&rw), -EAGAIN);
	ck_assert_int_eq(dsm_cond_wait(&c, &held), -EAGAIN);
	/* What its home answers at once needs none of them; so those who wait are woken. */
	slot = slot_get(SLOT_BRIEF);
	ck_assert_int_ge(slot, 0);
	slot_put((uint16_t)slot);
	ck_assert_int_eq(dsm_sem_post(&s, 1), 0);
	ck_assert_int_eq(dsm_sem_trywait(&s), 0);
	ck_assert_int_eq(dsm_mutex_trylock(&m), 0);
	ck_assert_int_eq(dsm_mutex_unlock(&m), 0);
	ck_assert_int_eq(dsm_cond_broadcast(&c), 0);
	ck_assert_int_eq(dsm_mutex_unlock(&held), 0); /* the failed wait has kept it */
	slot_put((uint16_t)slots[LASTING / 2]);
	ck_assert_int_eq(dsm_sem_wait(&s), 0);
	ck_assert_int_eq(slot_get(SLOT_LASTING), slots[LASTING / 2]);
	ck_assert_int_eq(slot_get(SLOT_LASTING), -EAGAIN);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("slot");
	TCase *t = tcase_create("slot");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_last_slot_is_followed_by_eagain);
	suite_add_tcase(s, t);
	return unit_main(s);
}
