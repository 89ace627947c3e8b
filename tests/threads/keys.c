// SPDX-License-Identifier: BSD-2-Clause
/*
 * keys.c - thread-specific data: keys are used again after pthread_key_delete(), a new key has no
 * values, destructors run for values of keys that exist, and there may be PTHREAD_KEYS_MAX keys at
 * a time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <threads.h>

#include "steps.h"

#define THREADS 3
#define PAIRS 3000

static int destroyed, again;
static pthread_key_t key, other, many[PTHREAD_KEYS_MAX + 1];

static void destroy(void *value)
{
	(void)value;
	__atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static void set_again(void *value)
{
	__atomic_fetch_add(&again, 1, __ATOMIC_SEQ_CST);
	pthread_setspecific(other, value);
}

/* Pairs of threads of all ranks at the same time. */
static void *make_and_delete(void *arg)
{
	pthread_key_t k;
	tss_t c11;
	int i, good = 1;

	for (i = 0; i < PAIRS; i++) {
		good &= !pthread_key_create(&k, NULL) && !pthread_getspecific(k);
		good &= !pthread_setspecific(k, arg) && pthread_getspecific(k) == arg;
		good &= !pthread_key_delete(k);
	}
	check("pairs", good);
	good = tss_create(&c11, NULL) == thrd_success && !tss_get(c11) &&
		tss_set(c11, arg) == thrd_success && tss_get(c11) == arg;
	tss_delete(c11);
	check("tss", good);
	return NULL;
}

static void on_threads(void *(*fn)(void *), int steps)
{
	pthread_t t[THREADS];
	intptr_t i;

	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, fn, (void *)(i + 1));
	if (steps) {
		until(THREADS);
		check("delete", !pthread_key_delete(key));
		check("delete twice", pthread_key_delete(key) == EINVAL);
		check("no value of no key",
		      !pthread_getspecific(key) && pthread_setspecific(key, &key) == EINVAL);
		check("create", !pthread_key_create(&key, destroy));
		go_to(100);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

/* It has a value of a key that is deleted, and made anew, before it ends. */
static void *outlives(void *arg)
{
	pthread_setspecific(key, arg);
	check("value", pthread_getspecific(key) == arg);
	pthread_mutex_lock(&step_lock);
	step++;
	pthread_cond_broadcast(&stepped);
	pthread_mutex_unlock(&step_lock);
	until(100);
	check("a new key has no value", !pthread_getspecific(key));
	if (arg == (void *)1)
		pthread_setspecific(key, arg);
	return NULL;
}

static void *sets(void *arg)
{
	int i;

	for (i = 0; i < 900; i += 100)
		pthread_setspecific(many[i], arg);
	for (i = 0; i < 900; i += 100)
		check("values of many",
		      pthread_getspecific(many[i]) == arg && !pthread_getspecific(many[i + 1]));
	return NULL;
}

static void *sets_other(void *arg)
{
	pthread_setspecific(other, &other);
	return arg;
}

int main(void)
{
	int n, err = 0;

	on_threads(make_and_delete, 0);

	pthread_key_create(&key, destroy);
	pthread_setspecific(key, &key);
	on_threads(outlives, 1);
	check("main() has no value of it", !pthread_getspecific(key));
	check("destroyed once", destroyed == 1);
	pthread_key_delete(key);

	pthread_key_create(&other, set_again);
	in_thread(sets_other, NULL);
	check("destroyed as often as there are rounds", again == PTHREAD_DESTRUCTOR_ITERATIONS);
	for (n = 0; n <= PTHREAD_KEYS_MAX && !err; n++)
		err = pthread_key_create(&many[n], destroy);
	check("as many as there may be", n > 1000 && n <= PTHREAD_KEYS_MAX && err == EAGAIN);
	destroyed = 0;
	on_threads(sets, 0);
	check("all destroyed", destroyed == 9 * THREADS);
	while (--n > 0)
		check("delete of many", !pthread_key_delete(many[n - 1]));
	return conclude();
}
