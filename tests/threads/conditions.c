// SPDX-License-Identifier: BSD-2-Clause
/*
 * conditions.c - a plain POSIX threads program: signals in vain, and signals that somebody waits
 * for, with the mutex of the waiters held, with another one, or with none. If one is lost that no
 * other follows, a wait ends by its limit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "steps.h"

enum { ITEMS = 2000, ROOM = 3, ROUNDS = 200, LIMIT_MS = 15000 };

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER, strange = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int ready;

/* ---- a buffer -------------------------------------------------------------------------------- */

static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int items, used;

/* Some waits give up after a short time. */
static void buffer_wait(pthread_cond_t *cond, unsigned int *seed)
{
	const int in_short = !(rand_r(seed) % 16);
	struct timespec t = after_ms(CLOCK_MONOTONIC, in_short ? 1 : LIMIT_MS);

	check("a signal", !pthread_cond_clockwait(cond, &own, CLOCK_MONOTONIC, &t) || in_short);
}

/* Signal before the mutex is released, after that, or with another one held. */
static void buffer_leave(pthread_cond_t *cond, unsigned int *seed)
{
	const int how = rand_r(seed) % 4;

	if (how < 2)
		pthread_cond_signal(cond);
	pthread_mutex_unlock(&own);
	if (how == 3)
		pthread_mutex_lock(&strange);
	if (how >= 2)
		pthread_cond_signal(cond);
	if (how == 3)
		pthread_mutex_unlock(&strange);
}

static void produce(unsigned int *seed)
{
	pthread_mutex_lock(&own);
	while (items == ROOM)
		buffer_wait(&not_full, seed);
	items++;
	buffer_leave(&not_empty, seed);
}

static void consume(unsigned int *seed)
{
	pthread_mutex_lock(&own);
	while (!items)
		buffer_wait(&not_empty, seed);
	items--;
	used++;
	buffer_leave(&not_full, seed);
}

/* Two threads fill it, and two empty it. */
static void *use_buffer(void *arg)
{
	unsigned int seed = 1 + (unsigned int)(long)arg;
	int i;

	for (i = 0; i < ITEMS; i++)
		((long)arg % 2 ? produce : consume)(&seed);
	return arg;
}

/* ---- one signal ------------------------------------------------------------------------------ */

static void signal_with(pthread_mutex_t *held)
{
	if (held)
		pthread_mutex_lock(held);
	check("pthread_cond_signal", !pthread_cond_signal(&c));
	if (held)
		pthread_mutex_unlock(held);
}

/* It ends at once; threads have waited with this mutex from now on. */
static void wait_in_vain(pthread_mutex_t *with)
{
	struct timespec past = after_ms(CLOCK_MONOTONIC, 0);

	pthread_mutex_lock(with);
	check("a limit", pthread_cond_clockwait(&c, with, CLOCK_MONOTONIC, &past) == ETIMEDOUT);
	pthread_mutex_unlock(with);
}

/* The strange mutex is held, too, with the other one locked after it, or before it. */
static void set_ready(pthread_mutex_t *with, int after)
{
	pthread_mutex_lock(after ? &strange : with);
	pthread_mutex_lock(after ? with : &strange);
	ready = 1;
	check("pthread_cond_signal", !pthread_cond_signal(&c));
	pthread_mutex_unlock(&strange);
	pthread_mutex_unlock(with);
}

/* The other thread is told before this one waits, but with the mutex held. */
static void await_ready(const char *what, pthread_mutex_t *with, int told)
{
	struct timespec t = after_ms(CLOCK_MONOTONIC, LIMIT_MS);
	int err = 0;

	pthread_mutex_lock(with);
	go_to(told);
	while (!ready && !err)
		err = pthread_cond_clockwait(&c, with, CLOCK_MONOTONIC, &t);
	ready = 0;
	pthread_mutex_unlock(with);
	check(what, !err);
}

enum { TURNS = 5 }; /* of a round */

/* A signal may come as the other thread begins to wait, with this mutex or with another one. */
static void *wake(void *arg)
{
	int n, at, i;

	for (n = 0, at = 1; n < ROUNDS; n++, at += TURNS) {
		until(at);
		wait_in_vain(&own);
		go_to(at + 1);
		signal_with(n % 3 == 0 ? &own : n % 3 == 1 ? &strange : NULL);
		signal_with(&own);
		until(at + 2);
		set_ready(n % 2 ? &second : &own, n % 8 != 1);
		until(at + 3);
		for (i = 0; i < 5; i++)
			signal_with(&own);
		go_to(at + 4);
	}
	return arg;
}

static void *be_woken(void *arg)
{
	int n, at;

	for (n = 0, at = 1; n < ROUNDS; n++, at += TURNS) {
		check("pthread_cond_destroy", !pthread_cond_destroy(&c));
		check("pthread_cond_init", !pthread_cond_init(&c, NULL));
		signal_with(n % 4 == 3 ? &strange : NULL); /* so this node knows it first */
		go_to(at);
		until(at + 1);
		await_ready(n % 2 ? "the signal with another mutex" : "the signal",
			    n % 2 ? &second : &own, at + 2);
		go_to(at + 3);
		until(at + 4);
	}
	return arg;
}

static void *wake_or_wait(void *arg)
{
	return arg ? wake(arg) : be_woken(arg);
}

/* ---- signals of a thread that knows nothing of the wait -------------------------------------- */

enum { BLIND = ROUNDS * TURNS + 10, SIGNALS = 2000 };

static volatile int done; /* who signals may never see it */

static void *signal_or_wait(void *arg)
{
	const struct timespec t = after_ms(CLOCK_MONOTONIC, LIMIT_MS), ms = { 0, 1000000 };
	int i;

	if (arg) {
		until(BLIND);
		for (i = 0; i < SIGNALS && !done; i++) {
			signal_with(NULL);
			nanosleep(&ms, NULL);
		}
		return arg;
	}
	pthread_mutex_lock(&own);
	go_to(BLIND);
	check("a blind signal", !pthread_cond_clockwait(&c, &own, CLOCK_MONOTONIC, &t));
	pthread_mutex_unlock(&own);
	done = 1;
	return arg;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* A wait without the mutex fails. */
static void wait_without(void)
{
	pthread_mutex_t checks = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	check("EPERM", pthread_cond_wait(&c, &checks) == EPERM);
	check("pthread_mutex_destroy", !pthread_mutex_destroy(&checks));
}

int main(void)
{
	in_threads(4, use_buffer);
	check("the buffer", used == 2 * ITEMS && !items);
	wait_without();
	in_threads(2, wake_or_wait);
	check("pthread_cond_destroy", !pthread_cond_destroy(&c));
	check("pthread_cond_init", !pthread_cond_init(&c, NULL));
	in_threads(2, signal_or_wait);
	printf("conditions: %s\n", bad ? "WRONG" : "ok");
	return !!bad;
}
