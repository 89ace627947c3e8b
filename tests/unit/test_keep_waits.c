// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_keep_waits.c - which waits pause the quantum of the node (miss/keep.h): those for other
 * threads, until they end, in whatever way. A wait for a lock is none.
 */
#include "suite.h"

#include <dsm.h>
#include <pthread.h>
#include <unistd.h>

#include "job/job.h"

static dsm_sem_t sem;
static dsm_mutex_t mutex;
static dsm_cond_t cond;
static dsm_barrier_t *meeting, barrier; /* a meeting's is in shared memory */

static void wait_sem(void)
{
	dsm_sem_wait(&sem);
}

static void wait_sem_timed(void)
{
	dsm_sem_timedwait(&sem, 3600000000000ull);
}

static void end_sem(void)
{
	dsm_sem_post(&sem, 1);
}

static void wait_cond(void)
{
	dsm_mutex_lock(&mutex);
	dsm_cond_wait(&cond, &mutex);
	dsm_mutex_unlock(&mutex);
}

static void end_cond(void)
{
	dsm_cond_signal(&cond);
}

static void meet(void)
{
	dsm_barrier_meet(meeting, 2);
}

static void arrive(void)
{
	dsm_barrier_wait(&barrier);
}

static const struct wait {
	void (*begin)(void), (*end)(void); /* end NULL: the thread is cancelled */
} waits[] = {
	{ wait_sem, end_sem }, { wait_sem_timed, end_sem }, { wait_cond, end_cond },
	{ meet, meet },        { arrive, arrive },
#ifndef __SANITIZE_THREAD__ /* it ends the process if a thread is cancelled in its own code */
	{ wait_sem, NULL },    { wait_cond, NULL },
#endif
};

static uint32_t idle(void)
{
	return __atomic_load_n(&job.me->keep.idle, __ATOMIC_RELAXED);
}

static void *waiter(void *wait)
{
	((const struct wait *)wait)->begin();
	return NULL;
}

static void start(void)
{
	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_uint_eq(job.me->keep.quantum.length, 0); /* of one node: it is off */
	job.me->keep.quantum.length = 1;
	ck_assert(!dsm_sem_init(&sem, 0) && !dsm_mutex_init(&mutex) && !dsm_cond_init(&cond));
	ck_assert_int_eq(dsm_barrier_init(&barrier, NULL, 0, 2), 0);
	meeting = dsm_malloc(sizeof(*meeting));
	unit_require(meeting);
	*meeting = (dsm_barrier_t){ 0 };
}

UNIT_LOOP_TEST(a_wait_for_others_counts_until_it_ends, 0, sizeof(waits) / sizeof(waits[0]))
{
	const struct wait *w = &waits[_i];
	pthread_t thread;

	start();
	ck_assert_uint_eq(idle(), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, waiter, (void *)(uintptr_t)w), 0);
	while (idle() != 1)
		usleep(1000);
	if (w->end)
		w->end();
	else
		ck_assert_int_eq(pthread_cancel(thread), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(idle(), 0);
}

static void *want(void *arg)
{
	dsm_mutex_lock(&mutex);
	dsm_mutex_unlock(&mutex);
	return arg;
}

UNIT_TEST(a_wait_for_a_lock_does_not)
{
	pthread_t thread;

	start();
	ck_assert_int_eq(dsm_mutex_lock(&mutex), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, want, NULL), 0);
	usleep(100000);
	ck_assert_uint_eq(idle(), 0);
	ck_assert_int_eq(dsm_mutex_unlock(&mutex), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

UNIT_SUITE("keep_waits", .seconds = 30)
