// SPDX-License-Identifier: BSD-2-Clause
/* micro_sync.c - what synchronisation costs: locks, semaphores, barriers, atomics. */
#include "micro.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define STORM_THREADS 8

/* What it is compared with on one node: a mutex of the C library in shared memory. */
static void bench_pthread_mutex(void)
{
	pthread_mutex_t *m =
		mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;
	double v[REPEATS_MAX], start;
	int r, i, n = micro_rounds(2000);

	if (m == MAP_FAILED)
		return;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(m, &a);
	for (r = 0; r < micro.repeats; r++) {
		start = bench_now_us();
		for (i = 0; i < n; i++) {
			pthread_mutex_lock(m);
			pthread_mutex_unlock(m);
		}
		v[r] = (bench_now_us() - start) / n;
	}
	micro_report("lock + unlock, uncontended, pthread_mutex", micro.rank == 0 ? v : NULL,
		     micro.repeats, "us");
	munmap(m, sizeof(*m));
}

void micro_locks(void)
{
	static dsm_mutex_t m;
	double v[REPEATS_MAX], start;
	int who, r, i, n = micro_rounds(2000), turns = micro_rounds(200) & ~1;

	bench_pthread_mutex();
	micro_fresh();
	if (micro.rank == 0)
		bench_check(dsm_mutex_init(&m), "dsm_mutex_init");
	bench_check(dsm_broadcast(&m, sizeof(m), 0), "dsm_broadcast");
	for (who = 0; who < 2; who++) {
		for (r = 0; r < micro.repeats; r++) {
			start = bench_now_us();
			for (i = 0; micro.rank == who && i < n; i++) {
				dsm_mutex_lock(&m);
				dsm_mutex_unlock(&m);
			}
			v[r] = (bench_now_us() - start) / n;
			dsm_barrier();
		}
		micro_report(who ? "lock + unlock, uncontended, remote"
				 : "lock + unlock, uncontended, home",
			     micro.rank == who ? v : NULL, micro.repeats, "us");
	}
	for (r = 0; r < micro.repeats; r++) {
		double sum = 0;

		for (i = 0; i < turns; i++) {
			if (micro.rank == i % 2) {
				start = bench_now_us();
				dsm_mutex_lock(&m);
				dsm_mutex_unlock(&m);
				sum += bench_now_us() - start;
			}
			dsm_barrier();
		}
		v[r] = sum / (turns / 2);
	}
	micro_report("free lock taken over by the other rank", micro.rank == 1 ? v : NULL,
		     micro.repeats, "us");
	for (r = 0; r < micro.repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; micro.rank < 2 && i < n; i++) {
			dsm_mutex_lock(&m);
			++*(volatile uint64_t *)micro.area;
			dsm_mutex_unlock(&m);
		}
		v[r] = (bench_now_us() - start) / (2 * n);
		dsm_barrier();
	}
	micro_report("contended hand-off with one dirty block", micro.rank == 1 ? v : NULL,
		     micro.repeats, "us");
}

void micro_barrier(void)
{
	double v[REPEATS_MAX], start;
	int r, i, n = micro_rounds(1000);
	char name[64];

	micro_fresh();
	for (r = 0; r < micro.repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; i < n; i++)
			dsm_barrier();
		v[r] = (bench_now_us() - start) / n;
	}
	micro_report("barrier", micro.rank == 0 ? v : NULL, micro.repeats, "us");
	for (r = 0; r < micro.repeats; r++) {
		micro_write_all(0, 1);
		micro_read_all(1);
		start = bench_now_us();
		dsm_barrier();
		v[r] = bench_now_us() - start;
	}
	snprintf(name, sizeof(name), "barrier with %s shared blocks cached",
		 micro.blocks == 1024 ? "1,024" : "some");
	micro_report(name, micro.rank == 0 ? v : NULL, micro.repeats, "us");
}

void micro_atomics(void)
{
	static dsm_atomic_t a;
	double v[REPEATS_MAX], start;
	int r, i, n = micro_rounds(2000);

	if (micro.rank == 0)
		bench_check(dsm_atomic_init(&a, 0, 0), "dsm_atomic_init");
	bench_check(dsm_broadcast(&a, sizeof(a), 0), "dsm_broadcast");
	for (r = 0; r < micro.repeats; r++) {
		start = bench_now_us();
		for (i = 0; micro.rank == 1 && i < n; i++)
			dsm_atomic_fetch_add(&a, 1, NULL);
		v[r] = (bench_now_us() - start) / n;
		dsm_barrier();
	}
	micro_report("atomic fetch-add, remote home", micro.rank == 1 ? v : NULL, micro.repeats,
		     "us");
}

static dsm_atomic_t storm_target;

static void *storm_thread(void *arg)
{
	int i, n = *(int *)arg;

	for (i = 0; i < n; i++)
		bench_check(dsm_atomic_fetch_add(&storm_target, 1, NULL), "dsm_atomic_fetch_add");
	return NULL;
}

/* Threads of all ranks, each with one small request under way at the next rank. */
void micro_storm(void)
{
	double v[REPEATS_MAX], start;
	int r, t, n = micro_rounds(2000) / STORM_THREADS + 1;
	dsm_atomic_t all[64];
	pthread_t ids[STORM_THREADS];

	for (r = 0; r < micro.size && r < 64; r++) {
		if (micro.rank == 0)
			bench_check(dsm_atomic_init(&all[r], 0, (r + 1) % micro.size),
				    "dsm_atomic_init");
		bench_check(dsm_broadcast(&all[r], sizeof(all[r]), 0), "dsm_broadcast");
	}
	storm_target = all[micro.rank % 64];
	for (r = 0; r < micro.repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (t = 0; t < STORM_THREADS; t++)
			if (pthread_create(&ids[t], NULL, storm_thread, &n))
				dsm_abort(1, "a thread cannot be made");
		for (t = 0; t < STORM_THREADS; t++)
			pthread_join(ids[t], NULL);
		dsm_barrier();
		v[r] = (double)micro.size * STORM_THREADS * n / (bench_now_us() - start) * 1e6;
	}
	micro_report("atomics by 8 threads of every rank", micro.rank == 0 ? v : NULL,
		     micro.repeats, "ops/s");
}
