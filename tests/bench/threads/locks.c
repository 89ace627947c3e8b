// SPDX-License-Identifier: BSD-2-Clause
/*
 * locks.c - mutexes as two threads see them: uncontended, in contended sections, and handed from
 * one thread to the other. Argument: pthread, or dsm for dsm_mutex_t, which only a program of
 * dsm-cc has.
 *
 * Output: a JSON object of microseconds, before that of main.c. It fails unless the counter under
 * the lock is the sum of all sections. Both threads run on shared stacks, and call libdsm directly:
 * in a job of one node, which has no misses, they may.
 */
#define _GNU_SOURCE 1 /* sched_setaffinity() */
#include <dsm.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEATS 101 /* of an uncontended loop: each is shorter than a time slice */
#define PAIRS 10000
#define ROUNDS 5        /* of contended sections */
#define SECTIONS 200000 /* of a thread and round */
#define HANDOFFS 400
#define SPINS 1000 /* between two calls of sched_yield() */

#pragma weak dsm_mutex_lock
#pragma weak dsm_mutex_unlock

#define CACHE_LINE __attribute__((aligned(128)))

static struct {
	pthread_mutex_t theirs;
	dsm_mutex_t ours;
} lock CACHE_LINE;
static uint64_t counter CACHE_LINE;
static struct {
	uint32_t held, coming, had;
	double released;
} turn CACHE_LINE;
static struct {
	pthread_barrier_t barrier;
	int ours;
	double delay_us;
	double uncontended[REPEATS], section[2][ROUNDS], handoff[HANDOFFS];
} all CACHE_LINE;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void acquire(void)
{
	if (all.ours ? dsm_mutex_lock(&lock.ours) : pthread_mutex_lock(&lock.theirs))
		abort();
}

static void release(void)
{
	if (all.ours ? dsm_mutex_unlock(&lock.ours) : pthread_mutex_unlock(&lock.theirs))
		abort();
}

static void await(const uint32_t *word, uint32_t value)
{
	unsigned int spins = 0;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
		__builtin_ia32_pause();
		if (++spins % SPINS == 0)
			sched_yield();
	}
}

static void spin_us(double us)
{
	const double end = now_us() + us;

	while (now_us() < end)
		__builtin_ia32_pause();
}

static double pairs(int n)
{
	const double start = now_us();
	int i;

	for (i = 0; i < n; i++) {
		acquire();
		counter++;
		release();
	}
	return (now_us() - start) / n;
}

/* A processor for each thread; a rank of dsmrun has its own already. */
static void pin(unsigned int id)
{
	cpu_set_t allowed, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2)
		return;
	for (cpu = 0; id || !CPU_ISSET(cpu, &allowed); cpu++)
		id -= CPU_ISSET(cpu, &allowed) ? 1 : 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/*
 * From before the holder's unlock to after the lock of the other thread, which has waited for it
 * for delay_us.
 */
static void *hand_over(void *arg)
{
	const int holds = arg == NULL;
	uint32_t i;

	pin(!holds);
	for (i = 1; i <= HANDOFFS; i++) {
		if (holds) {
			acquire();
			__atomic_store_n(&turn.held, i, __ATOMIC_RELEASE);
			await(&turn.coming, i);
			spin_us(all.delay_us);
			turn.released = now_us();
			release();
			await(&turn.had, i);
		} else {
			await(&turn.held, i);
			__atomic_store_n(&turn.coming, i, __ATOMIC_RELEASE);
			acquire();
			all.handoff[i - 1] = now_us() - turn.released;
			release();
			__atomic_store_n(&turn.had, i, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

static void *sections(void *arg)
{
	const int me = arg != NULL;
	int r;

	pin((unsigned int)me);
	pthread_barrier_wait(&all.barrier);
	for (r = 0; me && r < REPEATS; r++)
		all.uncontended[r] = pairs(PAIRS);
	for (r = 0; r < ROUNDS; r++) {
		pthread_barrier_wait(&all.barrier);
		all.section[me][r] = pairs(SECTIONS) / 2;
	}
	return NULL;
}

static int compare(const void *x, const void *y)
{
	return (*(const double *)x > *(const double *)y) -
		(*(const double *)x < *(const double *)y);
}

static double quantile(double *v, size_t n, size_t percent)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n * percent / 100];
}

static void run(void *(*fn)(void *))
{
	pthread_t t[2];
	long i;

	for (i = 0; i < 2; i++)
		if (pthread_create(&t[i], NULL, fn, (void *)i))
			abort();
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

static double handoff(double delay_us)
{
	memset(&turn, 0, sizeof(turn));
	all.delay_us = delay_us;
	run(hand_over);
	return quantile(all.handoff, HANDOFFS, 50);
}

int main(int argc, char **argv)
{
	double soon, late;

	all.ours = argc > 1 && !strcmp(argv[1], "dsm");
	if (all.ours && !dsm_mutex_lock)
		return 2;
	pthread_barrier_init(&all.barrier, NULL, 2);
	run(sections);
	if (counter != 1ul * REPEATS * PAIRS + 2ul * ROUNDS * SECTIONS)
		return 3;
	soon = handoff(2);
	late = handoff(200);
	printf("{\"uncontended\": %.5f, \"section\": %.5f, \"handoff_soon\": %.4f, \"handoff_late\": %.4f, \"acquired\": %lu}\n",
	       quantile(all.uncontended, REPEATS, 10), quantile(all.section[0], ROUNDS, 50), soon,
	       late, (unsigned long)(counter + 4ul * HANDOFFS));
	return 0;
}
