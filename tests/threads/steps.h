/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * steps.h - for programs of this folder: steps for threads that take turns, times that they wait
 * until, and checks.
 */
#ifndef THREADS_STEPS_H
#define THREADS_STEPS_H

#include <pthread.h>
#include <stdio.h>

#include "../after.h"

static pthread_mutex_t step_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stepped = PTHREAD_COND_INITIALIZER;
static int step;

/* Go on to this step, or wait for it. */
static inline void go_to(int n)
{
	pthread_mutex_lock(&step_lock);
	step = n;
	pthread_cond_broadcast(&stepped);
	pthread_mutex_unlock(&step_lock);
}

static inline void until(int n)
{
	pthread_mutex_lock(&step_lock);
	while (step < n)
		pthread_cond_wait(&stepped, &step_lock);
	pthread_mutex_unlock(&step_lock);
}

static int bad; /* checks that have failed; atomic */

static inline void check(const char *what, int good)
{
	if (good)
		return;
	printf("%s: WRONG\n", what);
	__atomic_fetch_add(&bad, 1, __ATOMIC_SEQ_CST);
}

/* Run a thread to its end, or n of them at once: their arguments are 0 to n - 1. */
static inline void in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	check("pthread_create", !pthread_create(&t, NULL, fn, arg) && !pthread_join(t, NULL));
}

static inline void in_threads(int n, void *(*fn)(void *))
{
	pthread_t t[n];
	long i;

	for (i = 0; i < n; i++)
		check("pthread_create", !pthread_create(&t[i], NULL, fn, (void *)i));
	for (i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/*
 * What threads print in turn. Lines of several ranks reach the standard output in no order, so the
 * last step prints them. The caller has its turn.
 */
static char told[1 << 16];
static int told_bytes __attribute__((unused));

#define tell(...) \
	(told_bytes += snprintf(told + told_bytes, sizeof(told) - (size_t)told_bytes, __VA_ARGS__))

/* The last line, and the status of the program. */
static inline int conclude(void)
{
	fwrite(told, 1, (size_t)told_bytes, stdout);
	printf("%d wrong\n", bad);
	return bad != 0;
}

#endif
