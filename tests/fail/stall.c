// SPDX-License-Identifier: BSD-2-Clause
/*
 * stall.c - waits that last for three seconds, and then end well.
 *
 *   stall barrier|group|mutex|semaphore|condition|block|busy|deadlock
 *
 * Rank 1 is what the others wait for; busy: it computes, and nobody waits. deadlock: ranks 0 and 1
 * wait for each other, for ever.
 */
#include <dsm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common.h"

static struct shared {
	dsm_mutex_t mutex, second;
	dsm_cond_t cond;
	dsm_sem_t sem;
	dsm_barrier_t group;
	char page[8192];
} * shared;

static int me, size;

static void idle(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&t, NULL);
}

static void wait_for_mutex(void)
{
	if (me == 1) {
		MUST(dsm_mutex_lock(&shared->mutex));
		MUST(dsm_barrier());
		idle(3);
	} else {
		MUST(dsm_barrier());
		MUST(dsm_mutex_lock(&shared->mutex));
	}
	MUST(dsm_mutex_unlock(&shared->mutex));
}

static void wait_for_each_other(void)
{
	dsm_mutex_t *first = me ? &shared->second : &shared->mutex,
		    *then = me ? &shared->mutex : &shared->second;

	if (me < 2)
		MUST(dsm_mutex_lock(first));
	MUST(dsm_barrier());
	if (me < 2)
		MUST(dsm_mutex_lock(then));
}

static void wait_for_semaphore(void)
{
	if (me != 1) {
		MUST(dsm_sem_wait(&shared->sem));
		return;
	}
	idle(3);
	MUST(dsm_sem_post(&shared->sem, (uint32_t)size - 1));
}

static void wait_for_condition(void)
{
	if (me == 1)
		idle(3);
	MUST(dsm_mutex_lock(&shared->mutex));
	if (me == 1)
		MUST(dsm_cond_broadcast(&shared->cond));
	else
		MUST(dsm_cond_wait(&shared->cond, &shared->mutex));
	MUST(dsm_mutex_unlock(&shared->mutex));
}

static void wait_for_block(void)
{
	char *p = (char *)(((size_t)shared->page + 4095) & ~4095ul);

	if (me == 1) {
		MUST(dsm_pin(p, 4096, DSM_WRITE));
		*p = 1;
	}
	MUST(dsm_barrier());
	if (me == 1) {
		idle(3);
		MUST(dsm_unpin(p, 4096));
	} else {
		if (*(volatile char *)p != 1)
			exit(3);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	shared = join("shared", sizeof(*shared));
	me = dsm_rank();
	size = dsm_size();
	if (me == 0) {
		MUST(dsm_mutex_init(&shared->mutex));
		MUST(dsm_mutex_init(&shared->second));
		MUST(dsm_cond_init(&shared->cond));
		MUST(dsm_sem_init(&shared->sem, 0));
		if (size > 2)
			MUST(dsm_barrier_init(&shared->group, (int[]){ 1, 2 }, 2, 1));
	}
	MUST(dsm_barrier());
	if (!strcmp(argv[1], "barrier") && me == 1)
		idle(3);
	if (!strcmp(argv[1], "group") && me) {
		if (me == 1)
			idle(3);
		MUST(dsm_barrier_wait(&shared->group));
	}
	if (!strcmp(argv[1], "mutex"))
		wait_for_mutex();
	if (!strcmp(argv[1], "deadlock"))
		wait_for_each_other();
	if (!strcmp(argv[1], "semaphore"))
		wait_for_semaphore();
	if (!strcmp(argv[1], "condition"))
		wait_for_condition();
	if (!strcmp(argv[1], "block"))
		wait_for_block();
	if (!strcmp(argv[1], "busy"))
		idle(3);
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return 0;
}
