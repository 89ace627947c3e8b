// SPDX-License-Identifier: BSD-2-Clause
/*
 * mutexes.c - a plain POSIX threads program: mutexes of all types that threads try to lock, or wait
 * for with a time limit, while another thread, the thread itself, or nobody holds them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "steps.h"

enum { NORMAL, CHECKS, REPEATS, KINDS };
enum { RESULTS = 9 };

static const int kinds[KINDS] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK,
				  PTHREAD_MUTEX_RECURSIVE };
static pthread_mutex_t locks[KINDS], busy = PTHREAD_MUTEX_INITIALIZER, short_lived, remade;
static mtx_t mtx;
static int inside, most, errors, early, times, results[RESULTS];

static int is_past(clockid_t clock, const struct timespec *t)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

static void add_early(int is)
{
	__atomic_fetch_add(&early, is, __ATOMIC_SEQ_CST);
}

/* Released if it succeeds; a wait that gives up before its time is an error. */
static int take(pthread_mutex_t *m, clockid_t clock, struct timespec t)
{
	int err = clock == CLOCK_REALTIME ? pthread_mutex_timedlock(m, &t)
					  : pthread_mutex_clocklock(m, clock, &t);

	if (!err)
		pthread_mutex_unlock(m);
	add_early(err == ETIMEDOUT && !is_past(clock, &t));
	return err;
}

static void say(const char *what, const char *of)
{
	int i;

	printf("%s%s:", what, of);
	for (i = 0; i < RESULTS; i++)
		printf(" %s", results[i] ? strerrorname_np(results[i]) : "0");
	printf("\n");
}

/* Each call that need not wait for ever. */
static void take_all(pthread_mutex_t *m, long ms)
{
	const struct timespec bad = { .tv_sec = LONG_MAX, .tv_nsec = 1000000000 },
			      worse = { .tv_nsec = -1 };
	struct timespec past = after_ms(CLOCK_MONOTONIC, 0);

	past.tv_sec--;
	results[0] = pthread_mutex_trylock(m);
	if (!results[0])
		pthread_mutex_unlock(m);
	results[1] = take(m, CLOCK_REALTIME, after_ms(CLOCK_REALTIME, ms));
	results[2] = take(m, CLOCK_MONOTONIC, after_ms(CLOCK_MONOTONIC, ms));
	results[3] = take(m, CLOCK_MONOTONIC, past);
	results[4] = take(m, CLOCK_REALTIME, (struct timespec){ .tv_sec = -1 });
	results[5] = take(m, CLOCK_REALTIME, bad);
	results[6] = take(m, CLOCK_MONOTONIC, worse);
	results[7] = pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &past);
	results[8] = take(m, CLOCK_REALTIME, after_ms(CLOCK_REALTIME, ms / 2));
}

static const char *const names[KINDS] = { "normal", "checks", "repeats" };

static void *other(void *arg)
{
	int i, n = 0;

	for (i = 0; i < KINDS; i++) {
		until(++n);
		take_all(&locks[i], 30);
		go_to(++n);
		until(++n);
		take_all(&locks[i], 20000); /* nobody has it: at once */
		go_to(++n);
	}
	return arg;
}

static void beside_another(void)
{
	pthread_t t;
	int i, n = 0;

	pthread_create(&t, NULL, other, NULL);
	for (i = 0; i < KINDS; i++) {
		pthread_mutex_lock(&locks[i]);
		go_to(++n);
		until(++n);
		say("another has it, ", names[i]);
		pthread_mutex_unlock(&locks[i]);
		go_to(++n);
		until(++n);
		say("nobody has it, ", names[i]);
	}
	pthread_join(t, NULL);
}

static void by_the_holder(void)
{
	int i;

	for (i = 0; i < KINDS; i++) {
		pthread_mutex_lock(&locks[i]);
		take_all(&locks[i], 30);
		say("the holder, ", names[i]);
		pthread_mutex_unlock(&locks[i]);
		take_all(&locks[i], 20000);
		say("then, ", names[i]);
	}
}

/* A limit in the far future: the lock comes before. */
static void *wait_long(void *arg)
{
	const struct timespec never = { .tv_sec = LONG_MAX };

	until(101);
	results[0] = pthread_mutex_timedlock(&locks[NORMAL], &never);
	results[1] = pthread_mutex_unlock(&locks[NORMAL]);
	return arg;
}

static void handed_over(void)
{
	const struct timespec ms = { .tv_nsec = 50000000 };
	pthread_t t;

	pthread_create(&t, NULL, wait_long, NULL);
	pthread_mutex_lock(&locks[NORMAL]);
	go_to(101);
	nanosleep(&ms, NULL);
	pthread_mutex_unlock(&locks[NORMAL]);
	pthread_join(t, NULL);
	printf("handed over: %d %d\n", results[0], results[1]);
}

static void *by_c11(void *arg)
{
	struct timespec t = after_ms(CLOCK_REALTIME, 30);

	until(201);
	results[0] = mtx_timedlock(&mtx, &t) == thrd_timedout;
	go_to(202);
	until(203);
	t = after_ms(CLOCK_REALTIME, 20000);
	results[1] = mtx_timedlock(&mtx, &t) == thrd_success;
	results[2] = mtx_timedlock(&mtx, &t) == thrd_success; /* recursive */
	mtx_unlock(&mtx);
	mtx_unlock(&mtx);
	return arg;
}

static void c11(void)
{
	pthread_t t;

	mtx_init(&mtx, mtx_timed | mtx_recursive);
	pthread_create(&t, NULL, by_c11, NULL);
	mtx_lock(&mtx);
	go_to(201);
	until(202);
	mtx_unlock(&mtx);
	go_to(203);
	pthread_join(t, NULL);
	printf("C11: %d %d %d\n", results[0], results[1], results[2]);
}

/* A thread has given up waiting: the mutex is nobody's as soon as it is unlocked. */
static void *give_up(void *arg)
{
	*(int *)arg = take(&short_lived, CLOCK_REALTIME, after_ms(CLOCK_REALTIME, 20));
	return arg;
}

static void destroyed(void)
{
	int i;

	for (i = 0; i < 3; i++) {
		pthread_mutex_init(&short_lived, NULL);
		pthread_mutex_lock(&short_lived);
		in_thread(give_up, &results[0]);
		results[1] = pthread_mutex_unlock(&short_lived);
		results[2] = pthread_mutex_destroy(&short_lived);
		printf("destroyed: %s %d %d\n", strerrorname_np(results[0]), results[1],
		       results[2]);
	}
}

/*
 * Limits that pass when the lock is about to come: one thread at a time is inside, and in the end
 * none.
 */
static void *cross(void *arg)
{
	unsigned int seed = (unsigned int)(long)arg + 1;
	int i, err;

	for (i = 0; i < 400; i++) {
		struct timespec t = after_ms(CLOCK_MONOTONIC, 0);

		seed = seed * 1103515245 + 12345;
		t.tv_nsec += seed >> 16 & 0x3ffff;
		t.tv_sec += t.tv_nsec >= 1000000000;
		t.tv_nsec %= 1000000000;
		err = seed >> 15 & 1 ? pthread_mutex_lock(&busy)
				     : pthread_mutex_clocklock(&busy, CLOCK_MONOTONIC, &t);
		if (err) {
			add_early(err == ETIMEDOUT && !is_past(CLOCK_MONOTONIC, &t));
			__atomic_fetch_add(&errors, err != ETIMEDOUT, __ATOMIC_SEQ_CST);
			continue;
		}
		inside++;
		most = inside > most ? inside : most;
		times++;
		inside--;
		pthread_mutex_unlock(&busy);
	}
	return NULL;
}

static void crossing(void)
{
	in_threads(6, cross);
	printf("crossing: %d inside, %d at most, %d errors, often %d, then %d\n", inside, most,
	       errors, times > 1000, take(&busy, CLOCK_REALTIME, after_ms(CLOCK_REALTIME, 20000)));
}

static void make(pthread_mutex_t *m, int kind)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, kinds[kind]);
	pthread_mutex_init(m, &attr);
}

/* Without a call, as std::recursive_mutex does it in memory that was a std::mutex. */
static void set(pthread_mutex_t *m, int kind)
{
	static const pthread_mutex_t initial[KINDS] = { PTHREAD_MUTEX_INITIALIZER,
							PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
							PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP };

	*m = initial[kind];
}

static void use(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	pthread_mutex_unlock(m);
}

static void *make_again(void *arg)
{
	int i, n = 300;

	for (i = 0; i < KINDS * KINDS; i++) {
		until(++n);
		use(&remade);
		pthread_mutex_destroy(&remade);
		make(&remade, i % KINDS);
		go_to(++n);
	}
	for (i = 0; i < KINDS; i++) {
		until(++n);
		use(&remade);
		set(&remade, i);
		go_to(++n);
	}
	return arg;
}

/* How often the holder may lock it, and then unlock it. */
static void lock_often(int kind)
{
	int up = 0, down = 0, err = 0;

	pthread_mutex_lock(&remade);
	while (kind != NORMAL && up < 5 &&
	       !(err = kind == REPEATS && !up ? pthread_mutex_trylock(&remade)
					      : pthread_mutex_lock(&remade)))
		up++;
	while (down < (kind == NORMAL ? 1 : 9) && !pthread_mutex_unlock(&remade))
		down++;
	printf("set anew, %s: %d %d %d\n", names[kind], up, down, err);
}

/* Each type follows each type, at one address, after both threads have used it. */
static void made_again(void)
{
	pthread_t t;
	int i, n = 300;

	pthread_create(&t, NULL, make_again, NULL);
	for (i = 0; i < KINDS * KINDS; i++) {
		make(&remade, i / KINDS);
		use(&remade);
		go_to(++n);
		until(++n);
		pthread_mutex_lock(&remade);
		take_all(&remade, 2);
		say("made anew, ", names[i % KINDS]);
		pthread_mutex_unlock(&remade);
		take_all(&remade, 20000);
		say("then, ", names[i % KINDS]);
		printf("destroyed: %d\n", pthread_mutex_destroy(&remade));
	}
	for (i = 0; i < KINDS; i++) {
		make(&remade, NORMAL);
		use(&remade);
		go_to(++n);
		until(++n);
		lock_often(i);
		printf("destroyed: %d\n", pthread_mutex_destroy(&remade));
	}
	pthread_join(t, NULL);
}

int main(void)
{
	int i;

	for (i = 0; i < KINDS; i++)
		make(&locks[i], i);
	beside_another();
	by_the_holder();
	handed_over();
	c11();
	destroyed();
	made_again();
	crossing();
	printf("too early: %d\n", early);
	return 0;
}
