// SPDX-License-Identifier: BSD-2-Clause
/*
 * stacks.c - the stacks of threads: as large as the limit says, or the default that any thread has
 * set, or the attributes; with the guard that was asked for; and in memory of the program's.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "steps.h"

#define THREADS 5 /* more than ranks */
#define MIB (1ul << 20)

static struct stack {
	char *low;
	size_t size, guard;
} mine[THREADS];

static __attribute__((noinline)) void use(size_t bytes)
{
	volatile char some[bytes];
	size_t i;

	for (i = 0; i < bytes; i += 4096)
		some[bytes - 1 - i] = 1;
	check("contents", some[bytes - 1] == 1);
}

/* It has a stack of arg bytes, and uses most of them. */
static void *look(void *arg)
{
	struct stack *s = arg;
	pthread_attr_t attr;
	void *low;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &low, &s->size);
	pthread_attr_getguardsize(&attr, &s->guard);
	pthread_attr_destroy(&attr);
	s->low = low;
	use(s->size - (64ul << 10));
	return arg;
}

static void on_threads(const pthread_attr_t *attr)
{
	pthread_t t[THREADS];
	int i;

	memset(mine, 0, sizeof(mine));
	for (i = 0; i < THREADS; i++)
		check("create", !pthread_create(&t[i], attr, look, &mine[i]));
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

static void have(const char *what, size_t size, size_t guard)
{
	int i;

	for (i = 0; i < THREADS; i++)
		check(what, mine[i].size + mine[i].guard >= size && mine[i].guard == guard);
}

static size_t default_size(void)
{
	pthread_attr_t attr;
	size_t size;

	pthread_getattr_default_np(&attr);
	pthread_attr_getstacksize(&attr, &size);
	pthread_attr_destroy(&attr);
	return size;
}

/* By another thread, for all. */
static void *set_default(void *arg)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 3 * MIB);
	pthread_attr_setguardsize(&attr, 8192);
	check("setattr_default", !pthread_setattr_default_np(&attr));
	pthread_attr_destroy(&attr);
	return arg;
}

/* On a stack that main() has allocated. */
static void *on_given(void *arg)
{
	struct stack *s = arg;
	char here = 0;

	check("a local variable is in the given stack",
	      &here >= s->low && &here < s->low + s->size);
	use(s->size - (64ul << 10));
	return NULL;
}

int main(void)
{
	struct rlimit limit;
	pthread_attr_t attr;
	struct stack given;
	pthread_t one;
	int i;

	getrlimit(RLIMIT_STACK, &limit);
	check("the default is the limit",
	      limit.rlim_cur == RLIM_INFINITY || default_size() == limit.rlim_cur);
	on_threads(NULL);
	have("by the limit", default_size(), 4096);

	pthread_attr_init(&attr);
	on_threads(&attr);
	have("by attributes without a size", default_size(), 4096);
	pthread_attr_setstacksize(&attr, 5 * MIB);
	pthread_attr_setguardsize(&attr, 64ul << 10);
	on_threads(&attr);
	have("by attributes", 5 * MIB, 64ul << 10);
	pthread_attr_setguardsize(&attr, 0);
	on_threads(&attr);
	have("without a guard", 5 * MIB, 0);
	pthread_attr_destroy(&attr);

	in_thread(set_default, NULL);
	check("getattr_default", default_size() == 3 * MIB);
	on_threads(NULL);
	have("by the new default", 3 * MIB, 8192);

	given.size = MIB;
	given.low = aligned_alloc(4096, given.size);
	pthread_attr_init(&attr);
	check("setstack", !pthread_attr_setstack(&attr, given.low, given.size));
	for (i = 0; i < THREADS; i++) {
		check("create on it", !pthread_create(&one, &attr, on_given, &given));
		check("join", !pthread_join(one, NULL));
	}
	free(given.low);
	return conclude();
}
