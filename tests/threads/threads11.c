// SPDX-License-Identifier: BSD-2-Clause
/*
 * threads11.c - a plain program of C11 <threads.h>: all of its calls, by threads that share
 * variables and memory of malloc().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

enum { THREADS = 4, EACH = 200 };

static mtx_t lock, twice;
static cnd_t changed;
static once_flag once = ONCE_FLAG_INIT;
static tss_t key;
static long onces, total, destroyed, turn;
static long zeros; /* under zeroed */
static thrd_t ids[THREADS];
static mtx_t zeroed; /* never initialised, as many programs have it */

static void do_once(void)
{
	onces++;
}

static void destroy(void *value)
{
	mtx_lock(&lock);
	destroyed += *(long *)value;
	mtx_unlock(&lock);
	free(value);
}

static int work(void *arg)
{
	const long me = *(long *)arg;
	long i, *mine = malloc(sizeof(*mine));

	call_once(&once, do_once);
	*mine = me;
	tss_set(key, mine);
	for (i = 0; i < EACH; i++) {
		mtx_lock(&lock);
		total += i;
		mtx_unlock(&lock);
	}
	mtx_lock(&lock);
	while (turn != me)
		cnd_wait(&changed, &lock);
	turn++;
	cnd_broadcast(&changed);
	mtx_unlock(&lock);
	mtx_lock(&zeroed);
	zeros++;
	mtx_unlock(&zeroed);
	mtx_lock(&twice);
	mtx_lock(&twice);
	i = tss_get(key) == mine && thrd_equal(thrd_current(), ids[me]) &&
		!thrd_equal(thrd_current(), ids[(me + 1) % THREADS]);
	mtx_unlock(&twice);
	mtx_unlock(&twice);
	if (me % 2)
		thrd_exit((int)(me * 10 + i));
	return (int)(me * 10 + i);
}

static int detached(void *arg)
{
	mtx_lock(&lock);
	turn = -1;
	cnd_signal(&changed);
	mtx_unlock(&lock);
	return arg == NULL;
}

static int tries(void *result)
{
	struct timespec t;
	int *r = result;

	timespec_get(&t, TIME_UTC);
	r[0] = mtx_trylock(&lock);
	r[1] = mtx_timedlock(&twice, &t);
	return 7;
}

int main(void)
{
	long numbers[THREADS], i;
	struct timespec t;
	int got, r[2];
	thrd_t other;

	if (mtx_init(&lock, mtx_plain) || mtx_init(&twice, mtx_recursive | mtx_timed) ||
	    cnd_init(&changed) || tss_create(&key, destroy))
		return 1;
	mtx_lock(&lock); /* so that the identities are there */
	for (i = 0; i < THREADS; i++) {
		numbers[i] = i;
		if (thrd_create(&ids[i], work, &numbers[i]) != thrd_success)
			return 1;
	}
	mtx_unlock(&lock);
	for (i = 0; i < THREADS; i++) {
		if (thrd_join(ids[i], &got) != thrd_success)
			return 1;
		printf("thread %ld returned %d\n", i, got);
	}
	printf("once %ld, total %ld, zeroed %ld, destroyed %ld\n", onces, total, zeros, destroyed);
	mtx_lock(&lock);
	mtx_lock(&twice);
	thrd_create(&other, tries, r);
	thrd_join(other, &got);
	printf("trylock %s, timedlock %s, returned %d\n", r[0] == thrd_busy ? "busy" : "?",
	       r[1] == thrd_timedout ? "timed out" : "?", got);
	mtx_unlock(&twice);
	timespec_get(&t, TIME_UTC);
	printf("timedwait %s\n",
	       cnd_timedwait(&changed, &lock, &t) == thrd_timedout ? "timed out" : "?");
	thrd_create(&other, detached, NULL);
	printf("detach %s\n", thrd_detach(other) == thrd_success ? "done" : "?");
	while (turn != -1)
		cnd_wait(&changed, &lock);
	mtx_unlock(&lock);
	printf("trylock %s\n", mtx_trylock(&lock) == thrd_success ? "done" : "?");
	mtx_unlock(&lock);
	tss_delete(key);
	cnd_destroy(&changed);
	mtx_destroy(&twice);
	mtx_destroy(&lock);
	return 0;
}
