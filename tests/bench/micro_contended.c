// SPDX-License-Identifier: BSD-2-Clause
/*
 * micro_contended.c - sections and hand-offs that threads contend for, beside the C library's own
 * objects in the same memory, used by the same threads (one node only: elsewhere a pthread_mutex
 * has no memory to lie in).
 *
 * Threads run for a time, not for a number of rounds, so that they overlap. Counters prove it: each
 * thread had sections, the sum contains all sections, and the library has counted ours.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro.h"

#define RUN_US 30000.0
#define SECTIONS 16 /* between two readings of the clock */
#define THREADS_MAX 2

/* In shared memory; each on a page of its own. */
struct contended {
	pthread_mutex_t mutex;
	sem_t sems[2];
	char pad[BLOCK - sizeof(pthread_mutex_t) - 2 * sizeof(sem_t)];
	uint64_t sections, changes, last; /* plain: the lock makes them right */
};

struct side {
	struct contended *c;
	dsm_mutex_t *ours; /* NULL: the C library's */
	double end;
	uint64_t me, sections;
};

static void enter(struct side *s)
{
	if (s->ours)
		bench_check(dsm_mutex_lock(s->ours), "dsm_mutex_lock");
	else
		pthread_mutex_lock(&s->c->mutex);
}

static void leave(struct side *s)
{
	if (s->ours)
		bench_check(dsm_mutex_unlock(s->ours), "dsm_mutex_unlock");
	else
		pthread_mutex_unlock(&s->c->mutex);
}

static void *contend(void *arg)
{
	struct side *s = arg;

	do {
		enter(s);
		s->c->sections++;
		if (s->c->last != s->me) {
			s->c->last = s->me;
			s->c->changes++;
		}
		leave(s);
	} while (++s->sections % SECTIONS || bench_now_us() < s->end);
	return NULL;
}

static void all_had_theirs(const struct side *sides, unsigned int threads, struct contended *c,
			   uint64_t counted)
{
	uint64_t own = 0, sum = 0, locks = counted;
	unsigned int t;

	for (t = 0; t < threads; t++) {
		if (!sides[t].sections)
			dsm_abort(1, "a thread had no section");
		own += sides[t].sections;
	}
	sum = own;
	bench_check(dsm_reduce(&sum, DSM_UINT64, DSM_SUM), "dsm_reduce");
	bench_check(dsm_reduce(&locks, DSM_UINT64, DSM_SUM), "dsm_reduce");
	if (c->sections != sum || (sides[0].ours && locks != sum) ||
	    c->changes < (uint64_t)micro.size * threads)
		dsm_abort(1, "the sections are not those that were counted");
}

/*
 * Microseconds of a section, over all threads; *changes: how often the lock came to another thread,
 * of 1,000 sections.
 */
static double run_sections(unsigned int threads, struct contended *c, dsm_mutex_t *ours,
			   double *changes)
{
	struct side sides[THREADS_MAX];
	pthread_t ids[THREADS_MAX];
	struct dsm_stats before, after;
	double start, us;
	unsigned int t;

	dsm_barrier();
	if (micro.rank == 0)
		c->sections = c->changes = c->last = 0;
	dsm_barrier();
	bench_check(dsm_stats_get(micro.rank, NULL, &before), "dsm_stats_get");
	start = bench_now_us();
	for (t = 0; t < threads; t++) {
		sides[t] = (struct side){ .c = c,
					  .ours = ours,
					  .end = start + RUN_US,
					  .me = (uint64_t)micro.rank * THREADS_MAX + t + 1 };
		if (pthread_create(&ids[t], NULL, contend, &sides[t]))
			dsm_abort(1, "a thread cannot be made");
	}
	for (t = 0; t < threads; t++)
		pthread_join(ids[t], NULL);
	us = bench_now_us() - start;
	bench_check(dsm_stats_get(micro.rank, NULL, &after), "dsm_stats_get");
	dsm_barrier();
	all_had_theirs(sides, threads, c, after.locks - before.locks);
	*changes = 1e3 * (double)c->changes / (double)c->sections;
	return us / (double)c->sections;
}

static struct contended *shared(dsm_mutex_t *m)
{
	struct contended *c;
	pthread_mutexattr_t a;

	micro_fresh();
	c = (struct contended *)micro.area;
	if (micro.rank == 0) {
		pthread_mutexattr_init(&a);
		pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
		pthread_mutex_init(&c->mutex, &a);
		sem_init(&c->sems[0], 1, 0);
		sem_init(&c->sems[1], 1, 0);
		bench_check(dsm_mutex_init(m), "dsm_mutex_init");
	}
	bench_check(dsm_broadcast(m, sizeof(*m), 0), "dsm_broadcast");
	dsm_barrier();
	return c;
}

void micro_handoff(void)
{
	static dsm_mutex_t m;
	struct contended *c = shared(&m);
	double us[2][REPEATS_MAX], changes[2][REPEATS_MAX];
	unsigned int threads, who;
	char name[96];
	int r;

	for (threads = 1; threads <= THREADS_MAX; threads++) {
		/* By turns, so that the machine's moods meet both. */
		for (r = 0; r < micro.repeats; r++)
			for (who = dsm_nodes() > 1; who < 2; who++)
				us[who][r] =
					run_sections(threads, c, who ? &m : NULL, &changes[who][r]);
		for (who = dsm_nodes() > 1; who < 2; who++) {
			const char *whose = who ? "dsm_mutex" : "pthread_mutex";

			snprintf(name, sizeof(name),
				 "contended section, %u threads of each rank, %s", threads, whose);
			micro_report(name, micro.rank == 0 ? us[who] : NULL, micro.repeats, "us");
			snprintf(name, sizeof(name),
				 "contended section, %u threads of each rank, %s, hand-offs",
				 threads, whose);
			micro_report(name, micro.rank == 0 ? changes[who] : NULL, micro.repeats,
				     "per 1000");
		}
	}
}

/* ---- producer and consumer ------------------------------------------------------------------- */

static void post(struct contended *c, const dsm_sem_t *ours, int which)
{
	if (ours)
		bench_check(dsm_sem_post(&(dsm_sem_t){ ours[which].id }, 1), "dsm_sem_post");
	else
		sem_post(&c->sems[which]);
}

static void await(struct contended *c, const dsm_sem_t *ours, int which)
{
	if (ours)
		bench_check(dsm_sem_wait(&(dsm_sem_t){ ours[which].id }), "dsm_sem_wait");
	else
		while (sem_wait(&c->sems[which]))
			;
}

/*
 * Semaphores block: each waits for the other all the time. What the consumer reads is what was
 * written for it.
 */
static double run_semaphores(struct contended *c, const dsm_sem_t *ours, int rounds)
{
	unsigned char *data = (unsigned char *)(c + 1);
	double start;
	size_t b;
	int i;

	dsm_barrier();
	start = bench_now_us();
	for (i = 0; micro.rank < 2 && i < rounds; i++) {
		if (micro.rank == 0) {
			memset(data, i & 0xff, BLOCK);
			post(c, ours, 1);
			await(c, ours, 0);
			continue;
		}
		await(c, ours, 1);
		for (b = 0; b < BLOCK; b += 64)
			if (data[b] != (i & 0xff))
				dsm_abort(1, "the consumer read what was not written for it");
		post(c, ours, 0);
	}
	start = (bench_now_us() - start) / (2.0 * rounds);
	dsm_barrier();
	return start;
}

void micro_semaphores(void)
{
	static dsm_sem_t sems[2];
	static dsm_mutex_t unused;
	struct contended *c = shared(&unused);
	double us[2][REPEATS_MAX];
	int r, who, rounds = micro_rounds(500);

	if (micro.rank < 2)
		bench_check(dsm_sem_init(&sems[micro.rank], 0), "dsm_sem_init");
	for (r = 0; r < 2; r++)
		bench_check(dsm_broadcast(&sems[r], sizeof(sems[r]), r), "dsm_broadcast");
	for (r = 0; r < micro.repeats; r++)
		for (who = dsm_nodes() > 1; who < 2; who++)
			us[who][r] = run_semaphores(c, who ? sems : NULL, rounds);
	if (dsm_nodes() == 1)
		micro_report("producer/consumer by sem_t, 4 KiB, one way",
			     micro.rank == 1 ? us[0] : NULL, micro.repeats, "us");
	micro_report("producer/consumer by semaphores, 4 KiB, one way",
		     micro.rank == 1 ? us[1] : NULL, micro.repeats, "us");
}
