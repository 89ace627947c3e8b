// SPDX-License-Identifier: BSD-2-Clause
/*
 * mapping.c - a plain POSIX threads program whose shared data, locks included, are in anonymous
 * shared mappings.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 4, EACH = 100, CELLS = 3000, ROUNDS = 12 };

struct shared {
	pthread_mutex_t lock;
	pthread_cond_t turned;
	pthread_barrier_t all;
	long turn, sum, cells[CELLS];
};

static struct shared *shared;
static char *made; /* by a thread, and unmapped by main() */

static void *map(size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void *work(void *arg)
{
	const long me = (long)arg;
	long i;

	for (i = 0; i < EACH; i++) {
		pthread_mutex_lock(&shared->lock);
		shared->sum += i;
		pthread_mutex_unlock(&shared->lock);
	}
	for (i = me; i < CELLS; i += THREADS)
		shared->cells[i] = i + 1;
	pthread_barrier_wait(&shared->all);
	for (i = 0; i < CELLS; i++)
		if (shared->cells[i] != i + 1)
			return (void *)1;
	pthread_mutex_lock(&shared->lock);
	while (shared->turn != me)
		pthread_cond_wait(&shared->turned, &shared->lock);
	shared->turn++;
	pthread_cond_broadcast(&shared->turned);
	pthread_mutex_unlock(&shared->lock);
	if (me == THREADS - 1) {
		made = map(100000);
		if (made)
			memset(made, 'm', 100000);
	}
	return NULL;
}

static int run(void)
{
	pthread_mutexattr_t attr;
	pthread_t t[THREADS];
	void *result;
	long i, bad = 0;

	shared = map(sizeof(*shared));
	if (!shared)
		return 1;
	for (i = 0; i < CELLS; i++)
		bad += shared->cells[i] != 0;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->lock, &attr);
	pthread_cond_init(&shared->turned, NULL);
	pthread_barrier_init(&shared->all, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, (void *)i);
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], &result);
		bad += result != NULL;
	}
	bad += shared->sum != THREADS * EACH * (EACH - 1) / 2 || !made || made[99999] != 'm';
	bad += munmap(made, 100000) || munmap(shared, sizeof(*shared));
	return bad != 0;
}

int main(void)
{
	int i, bad = 0;

	for (i = 0; i < ROUNDS; i++)
		bad += run();
	printf("mapping: %d of %d rounds failed\n", bad, ROUNDS);
	return 0;
}
