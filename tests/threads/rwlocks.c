// SPDX-License-Identifier: BSD-2-Clause
/*
 * rwlocks.c - a plain POSIX threads program: reader-writer locks that threads try to take, or wait
 * for with a limit of time, while another thread has them for reading, for writing, or not at all;
 * and one that a thread unlocks as another begins to wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "steps.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER, busy = PTHREAD_RWLOCK_INITIALIZER;
static int results[10], inside, errors, turn;

enum { HANDS = 6000, PAUSES = 40 };

/* All calls that need not wait for ever, each released if it succeeds. */
static void take_all(long ms)
{
	struct timespec past = after_ms(CLOCK_REALTIME, 0), t;
	int i;

	past.tv_sec--;
	results[0] = pthread_rwlock_tryrdlock(&lock);
	if (!results[0])
		pthread_rwlock_unlock(&lock);
	results[1] = pthread_rwlock_trywrlock(&lock);
	if (!results[1])
		pthread_rwlock_unlock(&lock);
	for (i = 2; i < 8; i++) {
		t = after_ms(i < 4 ? CLOCK_REALTIME : i < 6 ? CLOCK_MONOTONIC : CLOCK_REALTIME, ms);
		results[i] = i == 2 ? pthread_rwlock_timedrdlock(&lock, &t)
			: i == 3    ? pthread_rwlock_timedwrlock(&lock, &t)
			: i == 4    ? pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &t)
			: i == 5    ? pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &t)
			: i == 6    ? pthread_rwlock_clockwrlock(&lock, CLOCK_REALTIME, &t)
				    : pthread_rwlock_timedwrlock(&lock, &past);
		if (!results[i])
			pthread_rwlock_unlock(&lock);
	}
}

static void *other(void *arg)
{
	until(1);
	take_all(30);
	go_to(2);
	until(3);
	take_all(30);
	go_to(4);
	until(5);
	take_all(20000); /* nobody has it: at once */
	go_to(6);
	return arg;
}

static void say(const char *who)
{
	int i;

	printf("%s:", who);
	for (i = 0; i < 8; i++)
		printf(" %s", results[i] ? strerrorname_np(results[i]) : "0");
	printf("\n");
}

static void beside_another(void)
{
	pthread_t t;

	pthread_create(&t, NULL, other, NULL);
	pthread_rwlock_rdlock(&lock);
	go_to(1);
	until(2);
	say("a reader has it");
	pthread_rwlock_unlock(&lock);
	pthread_rwlock_wrlock(&lock);
	go_to(3);
	until(4);
	say("a writer has it");
	pthread_rwlock_unlock(&lock);
	go_to(5);
	until(6);
	say("nobody has it");
	pthread_join(t, NULL);
}

static void by_the_holder(void)
{
	struct timespec t = after_ms(CLOCK_REALTIME, 20000);

	printf("to write: %d\n", pthread_rwlock_timedwrlock(&lock, &t));
	results[0] = pthread_rwlock_tryrdlock(&lock);
	results[1] = pthread_rwlock_trywrlock(&lock);
	results[2] = pthread_rwlock_timedrdlock(&lock, &t);
	results[3] = pthread_rwlock_timedwrlock(&lock, &t);
	pthread_rwlock_unlock(&lock);
	printf("to read: %d\n", pthread_rwlock_tryrdlock(&lock));
	results[4] = pthread_rwlock_tryrdlock(&lock);
	results[5] = pthread_rwlock_trywrlock(&lock);
	results[6] = pthread_rwlock_timedrdlock(&lock, &t);
	pthread_rwlock_unlock(&lock);
	pthread_rwlock_unlock(&lock);
	pthread_rwlock_unlock(&lock);
	results[7] = pthread_rwlock_trywrlock(&lock);
	pthread_rwlock_unlock(&lock);
	say("the holder");
}

static void refused(void)
{
	struct timespec bad = { .tv_nsec = 1000000000 }, worse = { .tv_nsec = -1 };

	results[0] = pthread_rwlock_timedrdlock(&lock, &bad);
	results[1] = pthread_rwlock_timedwrlock(&lock, &worse);
	results[2] = pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &worse);
	results[3] = pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &bad);
	bad.tv_nsec = 0;
	results[4] = pthread_rwlock_clockrdlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &bad);
	results[5] = pthread_rwlock_clockwrlock(&lock, CLOCK_THREAD_CPUTIME_ID, &bad);
	results[6] = pthread_rwlock_trywrlock(&lock);
	results[7] = pthread_rwlock_unlock(&lock);
	say("no such time");
}

/*
 * Limits that pass when the lock is about to come: nobody is inside with a writer, and in the end
 * nobody has it.
 */
static void *cross(void *arg)
{
	unsigned int seed = (unsigned int)(long)arg;
	int i, err;

	for (i = 0; i < 300; i++) {
		struct timespec t = after_ms(CLOCK_REALTIME, 0);
		const int write = (seed = seed * 1103515245 + 12345) >> 16 & 1;

		t.tv_nsec += seed >> 17 & 0x7fff;
		t.tv_sec += t.tv_nsec >= 1000000000;
		t.tv_nsec %= 1000000000;
		err = write ? pthread_rwlock_timedwrlock(&busy, &t)
			    : pthread_rwlock_timedrdlock(&busy, &t);
		if (err)
			__atomic_fetch_add(&errors, err != ETIMEDOUT, __ATOMIC_SEQ_CST);
		else if (write)
			inside++;
		if (!err)
			pthread_rwlock_unlock(&busy);
		if (err || !write)
			continue;
		pthread_rwlock_wrlock(&busy);
		inside--;
		pthread_rwlock_unlock(&busy);
	}
	return NULL;
}

static void crossing(void)
{
	in_threads(4, cross);
	printf("crossing: %d inside, %d errors, then %d\n", inside, errors,
	       pthread_rwlock_trywrlock(&busy));
}

static void await_turn(int n)
{
	int spin;

	for (spin = 0; __atomic_load_n(&turn, __ATOMIC_ACQUIRE) < n; spin++)
		if (spin > 1000)
			sched_yield();
		else
			__builtin_ia32_pause();
}

static void *receive(void *arg)
{
	int i;

	for (i = 0; i < HANDS; i++) {
		await_turn(2 * i + 1);
		errors +=
			(i % 2 ? pthread_rwlock_rdlock(&lock) : pthread_rwlock_wrlock(&lock)) != 0;
		pthread_rwlock_unlock(&lock);
		__atomic_store_n(&turn, 2 * i + 2, __ATOMIC_RELEASE);
	}
	return arg;
}

/* Nobody unlocks it again before the other has had it: a wake that is lost does not come later. */
static void handed_over(void)
{
	pthread_t t;
	int i, k;

	errors = 0;
	pthread_create(&t, NULL, receive, NULL);
	for (i = 0; i < HANDS; i++) {
		pthread_rwlock_wrlock(&lock);
		__atomic_store_n(&turn, 2 * i + 1, __ATOMIC_RELEASE);
		for (k = i % PAUSES; k; k--)
			__builtin_ia32_pause();
		pthread_rwlock_unlock(&lock);
		await_turn(2 * i + 2);
	}
	pthread_join(t, NULL);
	printf("handed over: %d errors\n", errors);
}

int main(void)
{
	beside_another();
	by_the_holder();
	refused();
	crossing();
	handed_over();
	return 0;
}
