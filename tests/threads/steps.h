/* SPDX-License-Identifier: BSD-2-Clause */
/* steps.h - for programs of this folder whose threads take turns, and wait until a time: the steps, and times. */
#ifndef THREADS_STEPS_H
#define THREADS_STEPS_H

#include <pthread.h>
#include <time.h>

static pthread_mutex_t step_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stepped = PTHREAD_COND_INITIALIZER;
static int step;

/* Go on to this step, or wait for it. */
static void go_to(int n)
{
	pthread_mutex_lock(&step_lock);
	step = n;
	pthread_cond_broadcast(&stepped);
	pthread_mutex_unlock(&step_lock);
}

static void until(int n)
{
	pthread_mutex_lock(&step_lock);
	while (step < n)
		pthread_cond_wait(&stepped, &step_lock);
	pthread_mutex_unlock(&step_lock);
}

static inline struct timespec after_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

#endif
