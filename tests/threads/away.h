/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * away.h - for the programs of this folder that make system calls on the memory of all their
 * threads: a thread that writes to memory on request, so that over the ranks of a job it is not
 * here afterwards; one that does so all the time; and the checks. begin() starts the threads,
 * finish() ends them and returns the status of the program.
 */
#ifndef THREADS_AWAY_H
#define THREADS_AWAY_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096ul
/* A variable that shares no page with the stack: the caller's next step would bring that back. */
#define APART static __attribute__((aligned(PAGE)))
#define SMALL 100ul
#define LARGE (320ul << 10) /* it is pinned, of a file */
#define HUGE (1280ul << 10) /* several pieces */

static char text[HUGE], back[HUGE];
static int bad;

/* ---- the threads that take memory away ------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char *wanted;
static size_t wanted_size;
static int over, restless, rounds; /* atomic */

static void touch(char *at, size_t size)
{
	char *const end = at + size;

	for (; at < end; at = (char *)(((unsigned long)at & -PAGE) + PAGE))
		__atomic_fetch_or(at, 0, __ATOMIC_SEQ_CST);
}

static void *take_asked(void *arg)
{
	pthread_mutex_lock(&lock);
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		if (wanted) {
			touch(wanted, wanted_size);
			wanted = NULL;
			pthread_cond_broadcast(&changed);
		} else {
			pthread_cond_wait(&changed, &lock);
		}
	}
	pthread_mutex_unlock(&lock);
	return arg;
}

static void *take_always(void *arg)
{
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		if (__atomic_load_n(&restless, __ATOMIC_SEQ_CST)) {
			touch(text, LARGE);
			touch(back, LARGE);
			__atomic_fetch_add(&rounds, 1, __ATOMIC_SEQ_CST);
		}
		usleep(100);
	}
	return arg;
}

/* Whether the third thread writes to the buffers all the time. */
static void disturb(int always)
{
	__atomic_store_n(&restless, always, __ATOMIC_SEQ_CST);
}

/* Another thread writes to it: afterwards it is there. */
static void away(void *at, size_t size)
{
	const int saved = errno;

	pthread_mutex_lock(&lock);
	wanted = at;
	wanted_size = size;
	pthread_cond_broadcast(&changed);
	while (wanted)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	errno = saved;
}

#define AWAY(object) away(&(object), sizeof(object))

/* ---- checks ---------------------------------------------------------------------------------- */

static void check(const char *what, int good)
{
	const int err = errno;

	if (!good)
		bad++;
	printf("%s%s%s\n", what, good ? "" : ": WRONG, ", good ? "" : strerror(err));
}

static void fill(char *at, size_t size, int seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		at[i] = (char)(seed + i / 7 + i / PAGE);
}

static int is_filled(const char *at, size_t size, int seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (at[i] != (char)(seed + i / 7 + i / PAGE))
			return 0;
	return 1;
}

static pthread_t asked, always;

static void begin(void)
{
	pthread_create(&asked, NULL, take_asked, NULL);
	pthread_create(&always, NULL, take_always, NULL);
}

static int finish(void)
{
	pthread_mutex_lock(&lock);
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	pthread_join(asked, NULL);
	pthread_join(always, NULL);
	printf("%d wrong\n", bad);
	return bad != 0;
}

#endif
