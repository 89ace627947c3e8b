// SPDX-License-Identifier: BSD-2-Clause
/*
 * misuse.c - a plain POSIX threads program: the results of calls by a thread that does not hold the
 * lock, or holds it already, and the state of a lock whose holder has ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
		       again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t left = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
		       plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t many[100];
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static struct timespec soon;

static void say(const char *what, int err)
{
	printf("%s: %s\n", what, strerror(err));
}

/* Results of another thread, which main() prints. */
static int results[8];

static void *other(void *arg)
{
	results[0] = pthread_mutex_unlock(&checked);
	results[1] = pthread_mutex_trylock(&checked);
	results[2] = pthread_mutex_timedlock(&checked, &soon);
	results[3] = pthread_cond_timedwait(&cond, &checked, &soon);
	results[4] = pthread_mutex_unlock(&again);
	results[5] = pthread_mutex_trylock(&again);
	results[6] = pthread_mutex_timedlock(&again, &soon);
	return arg;
}

static void run(void *(*fn)(void *))
{
	pthread_t t;

	pthread_create(&t, NULL, fn, NULL);
	pthread_join(t, NULL);
}

static void checking(void)
{
	int i;

	say("unlock of a free one", pthread_mutex_unlock(&checked));
	say("wait without it", pthread_cond_timedwait(&cond, &checked, &soon));
	say("lock", pthread_mutex_lock(&checked));
	say("lock again", pthread_mutex_lock(&checked));
	say("trylock again", pthread_mutex_trylock(&checked));
	say("timedlock again", pthread_mutex_timedlock(&checked, &soon));
	say("recursive lock", pthread_mutex_lock(&again));
	say("recursive lock again", pthread_mutex_lock(&again));
	say("recursive trylock", pthread_mutex_trylock(&again));
	say("recursive timedlock", pthread_mutex_timedlock(&again, &soon));
	say("recursive wait", pthread_cond_timedwait(&cond, &again, &soon));
	run(other);
	for (i = 0; i < 7; i++)
		say("another thread", results[i]);
	for (i = 0; i < 5; i++)
		say("recursive unlock", pthread_mutex_unlock(&again));
	say("destroy while locked", pthread_mutex_destroy(&checked));
	say("unlock", pthread_mutex_unlock(&checked));
	say("wait with it",
	    (pthread_mutex_lock(&checked), pthread_cond_timedwait(&cond, &checked, &soon)));
	say("trylock after the wait", pthread_mutex_trylock(&checked));
	say("unlock after the wait", pthread_mutex_unlock(&checked));
	say("destroy", pthread_mutex_destroy(&checked));
}

static void *leaves_it(void *arg)
{
	pthread_mutex_lock(&left);
	pthread_mutex_lock(&plain);
	return arg;
}

/* The lock stays with it. */
static void ended(void)
{
	run(leaves_it);
	say("trylock of an ended thread's", pthread_mutex_trylock(&left));
	say("timedlock of an ended thread's", pthread_mutex_timedlock(&left, &soon));
	say("unlock of an ended thread's", pthread_mutex_unlock(&left));
	say("trylock of an ended thread's, plain", pthread_mutex_trylock(&plain));
	say("timedlock of an ended thread's, plain", pthread_mutex_timedlock(&plain, &soon));
}

static void *read_it(void *arg)
{
	results[0] = pthread_rwlock_rdlock(&rwlock);
	results[1] = pthread_rwlock_rdlock(&rwlock);
	results[2] = pthread_rwlock_unlock(&rwlock);
	results[3] = pthread_rwlock_unlock(&rwlock);
	return arg;
}

static int waits; /* atomic */

static void *write_it(void *arg)
{
	__atomic_store_n(&waits, 1, __ATOMIC_SEQ_CST);
	results[0] = pthread_rwlock_wrlock(&rwlock);
	results[1] = pthread_rwlock_unlock(&rwlock);
	return arg;
}

static void readers(void)
{
	pthread_t t;
	int i;

	say("read", pthread_rwlock_rdlock(&rwlock));
	say("read again", pthread_rwlock_rdlock(&rwlock));
	say("give back", pthread_rwlock_unlock(&rwlock));
	run(read_it);
	for (i = 0; i < 4; i++)
		say("another reader", results[i]);
	pthread_create(&t, NULL, write_it, NULL);
	while (!__atomic_load_n(&waits, __ATOMIC_SEQ_CST))
		usleep(1000);
	usleep(20000);
	say("read again, and a writer waits", pthread_rwlock_rdlock(&rwlock));
	say("give back", pthread_rwlock_unlock(&rwlock));
	say("give back", pthread_rwlock_unlock(&rwlock));
	pthread_join(t, NULL);
	say("the writer", results[0] + results[1]);
	say("write", pthread_rwlock_wrlock(&rwlock));
	say("write again", pthread_rwlock_wrlock(&rwlock));
	say("read what is written", pthread_rwlock_rdlock(&rwlock));
	say("give back", pthread_rwlock_unlock(&rwlock));
	say("write", pthread_rwlock_wrlock(&rwlock));
	say("give back", pthread_rwlock_unlock(&rwlock));
}

static void refused(void)
{
	pthread_mutexattr_t attr;
	struct timespec bad = { .tv_nsec = 1000000000 };
	int i, errors = 0;

	pthread_mutex_init(&many[0], NULL);
	pthread_mutex_lock(&many[0]);
	say("time that is none", pthread_mutex_timedlock(&many[0], &bad));
	pthread_mutex_unlock(&many[0]);
	pthread_mutexattr_init(&attr);
	say("no such type", pthread_mutexattr_settype(&attr, 99));
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	for (i = 1; i < 100; i++) {
		pthread_mutex_init(&many[i], &attr);
		errors += pthread_mutex_lock(&many[i]) != 0;
	}
	for (i = 1; i < 100; i++)
		errors += pthread_mutex_unlock(&many[i]) != 0;
	for (i = 1; i < 100; i++)
		errors += pthread_mutex_unlock(&many[i]) != EPERM;
	printf("many: %d\n", errors);
}

int main(void)
{
	clock_gettime(CLOCK_REALTIME, &soon);
	checking();
	ended();
	readers();
	refused();
	return 0;
}
