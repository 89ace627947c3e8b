// SPDX-License-Identifier: BSD-2-Clause
/* c11.c - threads, locks and storage of C11. */
#define _GNU_SOURCE
#include "cases.h"

#include <threads.h>

static int add_one(void *arg)
{
	return *(int *)arg + 1;
}

static int exit_with(void *arg)
{
	thrd_exit(*(int *)arg + 2);
}

static int end_detached(void *arg)
{
	(void)arg;
	return 0;
}

CASE(c11_threads, EACH)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	int seven = 7, got = 0;
	thrd_t thread;

	say("%d", thrd_create(&thread, add_one, &seven));
	say("%d", thrd_join(thread, &got));
	say("%d", got);
	thrd_create(&thread, exit_with, &seven);
	thrd_join(thread, &got);
	say("%d", got);
	thrd_create(&thread, end_detached, NULL);
	say("%d", thrd_detach(thread));
	say("%d", thrd_equal(thrd_current(), thrd_current()) != 0);
	say("%d", thrd_sleep(&nap, NULL));
	thrd_yield();
}

static mtx_t c11_lock;
static cnd_t c11_changed;
static int c11_turn;

static int c11_other(void *arg)
{
	struct timespec soon = after_ms(CLOCK_REALTIME, 10);

	say("%d", mtx_trylock(&c11_lock) == thrd_busy);
	say("%d", mtx_timedlock(&c11_lock, &soon) == thrd_timedout);
	mtx_lock(arg);
	c11_turn = 1;
	cnd_signal(&c11_changed);
	mtx_unlock(arg);
	return 0;
}

CASE(c11_locks, EACH)
{
	struct timespec soon = after_ms(CLOCK_REALTIME, 10);
	thrd_t thread;

	say("%d", mtx_init(&c11_lock, mtx_timed));
	say("%d", cnd_init(&c11_changed));
	mtx_lock(&c11_lock);
	say("%d", cnd_timedwait(&c11_changed, &c11_lock, &soon) == thrd_timedout);
	thrd_create(&thread, c11_other, &c11_lock);
	wait_ms(50);
	while (!c11_turn)
		cnd_wait(&c11_changed, &c11_lock);
	say("%d", mtx_unlock(&c11_lock));
	thrd_join(thread, NULL);
	cnd_broadcast(&c11_changed);
	cnd_destroy(&c11_changed);
	mtx_destroy(&c11_lock);
	c11_turn = 0;
	say("%d", mtx_init(&c11_lock, mtx_plain | mtx_recursive));
	say("%d", mtx_lock(&c11_lock));
	say("%d", mtx_trylock(&c11_lock));
	mtx_unlock(&c11_lock);
	mtx_unlock(&c11_lock);
	mtx_destroy(&c11_lock);
}

static tss_t c11_key;
static once_flag c11_flag = ONCE_FLAG_INIT;
static int c11_runs;

static void c11_count(void)
{
	c11_runs++;
}

static void c11_destroy(void *value)
{
	say("%s", (char *)value);
}

static int c11_set(void *arg)
{
	call_once(&c11_flag, c11_count);
	say("%d", tss_get(c11_key) == NULL);
	say("%d", tss_set(c11_key, arg));
	return tss_get(c11_key) == arg;
}

CASE(c11_storage, 0)
{
	thrd_t thread;
	int i, got = 0;

	say("%d", tss_create(&c11_key, c11_destroy));
	for (i = 0; i < 3; i++) {
		thrd_create(&thread, c11_set, "freed");
		thrd_join(thread, &got);
		say("%d %d", got, c11_runs);
	}
	tss_delete(c11_key);
}
