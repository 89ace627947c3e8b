// SPDX-License-Identifier: BSD-2-Clause
/*
 * beside.c - objects of every kind in one block with a word that a thread of the other node writes
 * before each round. main() uses them, and fetches the block at the first use only. Then the other
 * thread makes the objects again, with other counts and clocks, and main() uses the new ones.
 * Misses are counted between nodes; by itself, the program is linked without libdsm.
 */
#define _GNU_SOURCE
#include <dsm.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <threads.h>
#include <time.h>

#include "steps.h"

#pragma weak dsm_call
#pragma weak dsm_stats_get

enum { ROUNDS = 30, FIRST = 2, FEW = 3, MS = 2 };

static struct block {
	volatile long word;
	sem_t go, back, sem;
	pthread_mutex_t lock, checks, repeats;
	pthread_cond_t real, mono;
	pthread_barrier_t barrier;
	pthread_rwlock_t rwlock;
	pthread_spinlock_t spin;
	pthread_once_t once;
	mtx_t mtx;
	cnd_t cnd;
} __attribute__((aligned(4096))) block = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.checks = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
	.repeats = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
	.real = PTHREAD_COND_INITIALIZER,
	.rwlock = PTHREAD_RWLOCK_INITIALIZER,
	.once = PTHREAD_ONCE_INIT,
};

static void init_cond(pthread_cond_t *c, clockid_t clock)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, clock);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

/* ---- what main() does in a round: is it as it should be? ------------------------------------- */

static int use_mutex(pthread_mutex_t *m)
{
	struct timespec t = after_ms(CLOCK_REALTIME, 20000);
	int bad = pthread_mutex_lock(m) || pthread_mutex_unlock(m);

	bad |= pthread_mutex_trylock(m) || pthread_mutex_unlock(m);
	return bad | (pthread_mutex_timedlock(m, &t) || pthread_mutex_unlock(m));
}

static int mutexes(void)
{
	int bad = use_mutex(&block.lock) | use_mutex(&block.checks) | use_mutex(&block.repeats);

	bad |= pthread_mutex_lock(&block.checks) || pthread_mutex_lock(&block.checks) != EDEADLK;
	bad |= pthread_mutex_trylock(&block.checks) != EBUSY || pthread_mutex_unlock(&block.checks);
	bad |= pthread_mutex_lock(&block.repeats) || use_mutex(&block.repeats);
	return bad |
		(pthread_mutex_unlock(&block.repeats) ||
		 pthread_mutex_unlock(&block.repeats) != EPERM);
}

/* Nobody signals: the limit passes, by the condition's clock and not before. */
static int wait_in_vain(pthread_cond_t *c, clockid_t clock)
{
	struct timespec t = after_ms(clock, MS), now;
	int bad = pthread_mutex_lock(&block.lock) ||
		pthread_cond_timedwait(c, &block.lock, &t) != ETIMEDOUT;

	clock_gettime(clock, &now);
	bad |= now.tv_sec < t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec < t.tv_nsec);
	return bad | pthread_mutex_unlock(&block.lock);
}

static int conditions(void)
{
	struct timespec t = after_ms(CLOCK_MONOTONIC, MS);
	int bad = wait_in_vain(&block.real, CLOCK_REALTIME) |
		wait_in_vain(&block.mono, CLOCK_MONOTONIC);

	bad |= pthread_mutex_lock(&block.lock);
	bad |= pthread_cond_clockwait(&block.real, &block.lock, CLOCK_MONOTONIC, &t) != ETIMEDOUT;
	bad |= pthread_mutex_unlock(&block.lock);
	return bad | pthread_cond_signal(&block.real) | pthread_cond_broadcast(&block.mono);
}

static int barriers(void)
{
	const int result = pthread_barrier_wait(&block.barrier);

	return result && result != PTHREAD_BARRIER_SERIAL_THREAD;
}

static int rwlocks(void)
{
	struct timespec t = after_ms(CLOCK_REALTIME, 20000);
	pthread_rwlock_t *l = &block.rwlock;
	int bad =
		pthread_rwlock_rdlock(l) || pthread_rwlock_tryrdlock(l) || pthread_rwlock_unlock(l);

	bad |= pthread_rwlock_trywrlock(l) != EBUSY || pthread_rwlock_unlock(l);
	bad |= pthread_rwlock_wrlock(l) || pthread_rwlock_tryrdlock(l) != EBUSY ||
		pthread_rwlock_unlock(l);
	bad |= pthread_rwlock_timedrdlock(l, &t) || pthread_rwlock_unlock(l);
	return bad | (pthread_rwlock_timedwrlock(l, &t) || pthread_rwlock_unlock(l));
}

static int semaphores(void)
{
	struct timespec t = after_ms(CLOCK_REALTIME, MS);
	int value, bad = sem_trywait(&block.sem) != -1 || errno != EAGAIN;

	bad |= sem_timedwait(&block.sem, &t) != -1 || errno != ETIMEDOUT;
	bad |= sem_post(&block.sem) || sem_getvalue(&block.sem, &value) || value != 1;
	return bad | sem_wait(&block.sem);
}

static int spinlocks(void)
{
	int bad = pthread_spin_lock(&block.spin) || pthread_spin_trylock(&block.spin) != EBUSY;

	return bad | pthread_spin_unlock(&block.spin);
}

static int of_c11(void)
{
	struct timespec t = after_ms(CLOCK_REALTIME, MS);
	int bad = mtx_lock(&block.mtx) != thrd_success;

	bad |= cnd_timedwait(&block.cnd, &block.mtx, &t) != thrd_timedout ||
		cnd_signal(&block.cnd) != thrd_success;
	return bad | (mtx_unlock(&block.mtx) != thrd_success);
}

static const struct {
	const char *name;
	int (*use)(void);
	int by_both;
} kinds[] = { { "mutexes", mutexes, 0 },       { "conditions", conditions, 0 },
	      { "barriers", barriers, 1 },     { "rwlocks", rwlocks, 0 },
	      { "semaphores", semaphores, 0 }, { "spin locks", spinlocks, 0 },
	      { "C11's", of_c11, 0 } };
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- the same memory, other objects ---------------------------------------------------------- */

/* Odd rounds: one thread, by the monotonic clock. Even ones: two, by the other. */
static void make_anew(int round)
{
	static const pthread_once_t again = PTHREAD_ONCE_INIT;

	pthread_barrier_destroy(&block.barrier);
	pthread_barrier_init(&block.barrier, NULL, round % 2 ? 1 : 2);
	if (round % 4 > 1) /* not all programs do */
		pthread_cond_destroy(&block.mono);
	if (round % 2)
		init_cond(&block.mono, CLOCK_MONOTONIC);
	else
		block.mono = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	block.once = again;
}

static int ran __attribute__((aligned(4096)));

static void run_once(void)
{
	ran++;
}

static int use_anew(int round)
{
	const int before = ran, result = pthread_barrier_wait(&block.barrier);
	int bad = result && result != PTHREAD_BARRIER_SERIAL_THREAD;

	bad |= round % 2 && !result;
	bad |= wait_in_vain(&block.mono, round % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME);
	bad |= pthread_once(&block.once, run_once) | pthread_once(&block.once, run_once);
	return bad | (ran != before + 1);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void *other(void *arg)
{
	int k, i;

	for (k = 0; k <= KINDS; k++)
		for (i = 0; i < ROUNDS; i++) {
			block.word++;
			if (k == KINDS)
				make_anew(i);
			sem_post(&block.go);
			if (k == KINDS ? i % 2 == 0 : kinds[k].by_both)
				pthread_barrier_wait(&block.barrier);
			sem_wait(&block.back);
		}
	return arg;
}

static void count(void *arg)
{
	struct dsm_stats s;

	*(unsigned long *)arg =
		dsm_stats_get(0, NULL, &s) ? 0 : s.read_faults + s.write_faults + s.upgrades;
}

/* Of this rank. */
static unsigned long misses(void)
{
	unsigned long n = 0;

	if (dsm_call)
		dsm_call(count, &n);
	return n;
}

static void use_kind(int k)
{
	unsigned long before, fetched = 0;
	int i, wrong = 0;

	for (i = 0; i < ROUNDS; i++) {
		before = misses();
		sem_wait(&block.go);
		wrong |= kinds[k].use();
		sem_post(&block.back);
		fetched += i < FIRST ? 0 : misses() - before;
	}
	if (fetched >= FEW)
		printf("%s: %lu blocks in %d rounds\n", kinds[k].name, fetched, ROUNDS - FIRST);
	check(kinds[k].name, !wrong && fetched < FEW);
}

int main(void)
{
	pthread_t t;
	int i, wrong = 0;

	sem_init(&block.go, 0, 0);
	sem_init(&block.back, 0, 0);
	sem_init(&block.sem, 0, 0);
	init_cond(&block.mono, CLOCK_MONOTONIC);
	pthread_barrier_init(&block.barrier, NULL, 2);
	pthread_spin_init(&block.spin, 0);
	mtx_init(&block.mtx, mtx_timed);
	cnd_init(&block.cnd);
	pthread_create(&t, NULL, other, NULL);
	for (i = 0; i < KINDS; i++)
		use_kind(i);
	for (i = 0; i < ROUNDS; i++) {
		sem_wait(&block.go);
		wrong |= use_anew(i);
		sem_post(&block.back);
	}
	check("made anew", !wrong);
	pthread_join(t, NULL);
	return conclude();
}
