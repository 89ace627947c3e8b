// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_honest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/sync.h"

#define THREADS 2u
#define PAGES 16u  /* pages used in each unit */
#define OTHERS 16u /* objects made before the used one, as targets for guessed names */
#define GO_ON 20u  /* steps that prove progress */

enum phase { FIRST_UNIT = 0, BOTH_UNITS, END, CHECK };

struct honest {
	_Atomic unsigned int phase, warm, ended, wrong, checked;
	_Atomic unsigned long steps, late; /* late: steps on the second unit */
	_Atomic int signal;                /* signal that a thread received */
	_Atomic uint64_t object, added;    /* object: 0: none yet */
	uint64_t written[JOB_RANKS][THREADS][2 * PAGES];
};

static struct honest *h;
static unsigned int me;
static int file;

struct honest *honest_new(void)
{
	return shared_memory(sizeof(struct honest));
}

void honest_begin(struct honest *one)
{
	memset(one, 0, sizeof(*one));
}

/* The second half of the pages is in the second unit. */
static volatile uint64_t *word(unsigned int rank, unsigned int thread, unsigned int page)
{
	const unsigned int at = HONEST_FIRST + page / PAGES * DSM_UNIT_PAGES + page % PAGES;

	return (volatile uint64_t *)(void *)(JOB_BASE + at * PAGE) + rank * THREADS + thread;
}

static bool operate(unsigned int op, uint64_t value, uint64_t *result)
{
	const uint64_t name = atomic_load(&h->object);
	struct dsm_ioc_call c = {
		.op = (uint8_t)op, .object = (uint32_t)name, .gen = name >> 32, .value = value
	};

	if (!name || ioctl(file, DSM_IOC_CALL, &c) || c.status)
		return false;
	*result = c.result;
	return true;
}

/* False: the access ended with a signal. */
static bool count(unsigned int thread, unsigned int page)
{
	const int signal = sigsetjmp(away, 0);
	uint64_t before;

	if (signal) {
		away_set = false;
		atomic_store(&h->signal, signal);
		return false;
	}
	away_set = true;
	h->written[me][thread][page] = *word(me, thread, page) += 1;
	away_set = false;
	if (page % 4 == 0 && operate(SOP_ADD, 1, &before))
		atomic_fetch_add(&h->added, 1);
	atomic_fetch_add(&h->steps, 1);
	if (page >= PAGES)
		atomic_fetch_add(&h->late, 1);
	return true;
}

static void *counter_thread(void *arg)
{
	const unsigned int thread = (unsigned int)(uintptr_t)arg;
	uint64_t random = me * THREADS + thread;
	unsigned int page;

	for (page = 0; page < PAGES; page++)
		if (!count(thread, page))
			return NULL;
	atomic_fetch_add(&h->warm, 1);
	while (atomic_load(&h->phase) < END)
		if (!count(thread,
			   pick(&random, atomic_load(&h->phase) == BOTH_UNITS ? 2 * PAGES : PAGES)))
			return NULL;
	atomic_fetch_add(&h->ended, 1);
	return NULL;
}

static void *check_thread(void *arg)
{
	unsigned int r, t, p;
	uint64_t sum = 0;

	(void)arg;
	while (atomic_load(&h->phase) < CHECK)
		usleep(1000);
	for (r = 0; r < JOB_RANKS; r++)
		for (t = 0; t < THREADS; t++)
			for (p = 0; p < 2 * PAGES; p++)
				if (*word(r, t, p) != h->written[r][t][p]) {
					printf("word of rank %u, thread %u, page %u: %llu, not %llu\n",
					       r, t, p, (unsigned long long)*word(r, t, p),
					       (unsigned long long)h->written[r][t][p]);
					atomic_fetch_add(&h->wrong, 1);
				}
	if (!operate(SOP_LOAD, 0, &sum) || sum != atomic_load(&h->added)) {
		printf("the object is %llu, not %llu\n", (unsigned long long)sum,
		       (unsigned long long)atomic_load(&h->added));
		atomic_fetch_add(&h->wrong, 1);
	}
	fflush(stdout); /* this process is killed later, so nothing else flushes */
	atomic_store(&h->checked, 1);
	return NULL;
}

/* Publish only the last object, which ranks may use at once. */
static void make_objects(void)
{
	uint64_t name = 0;
	unsigned int i;

	for (i = 0; i <= OTHERS; i++) {
		const unsigned int kind = i < OTHERS ? 1 + i % DSM_SYNC_KIND_MAX : SYNC_ATOMIC;
		struct dsm_ioc_call c = { .op = SOP_CREATE, .value2 = (uint64_t)kind << 32 };

		if (ioctl(file, DSM_IOC_CALL, &c) || c.status)
			_exit(5);
		name = c.result;
	}
	atomic_store(&h->object, name);
}

void honest_start(struct honest *one, int fd, unsigned int rank)
{
	struct dsm_ioc_region g = { .page = HONEST_FIRST,
				    .pages = HONEST_PAGES,
				    .id = 1,
				    .home = DSM_REGION_FIXED,
				    .arg = 0 };
	pthread_t thread;
	unsigned int t;

	h = one;
	me = rank;
	file = fd;
	if (ioctl(fd, DSM_IOC_REGION, &g))
		_exit(5);
	if (!rank)
		make_objects();
	for (t = 0; t < THREADS; t++)
		pthread_create(&thread, NULL, counter_thread, (void *)(uintptr_t)t);
	if (!rank)
		pthread_create(&thread, NULL, check_thread, NULL);
}

struct worker {
	uint64_t random;
	unsigned int ranks;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		if (pick(&w->random, 4)) {
			static const unsigned int some[] = { 24, 64, HONEST_FIRST };

			touch(JOB_BASE + pick(&w->random, some[pick(&w->random, 3)]) * PAGE,
			      pick(&w->random, 2));
		} else {
			struct dsm_ioc_call c = { .call = (uint16_t)pick(&w->random, 3),
						  .home = (uint16_t)pick(&w->random, w->ranks) };

			if (c.call == DSM_CALL_SYNC && pick(&w->random, 4))
				/* the value of a new object */
				c.value2 = (uint64_t)(1 + pick(&w->random, 5)) << 32;
			else
				c.object = 1u << 24 | (1 + pick(&w->random, 8));
			if (c.call == DSM_CALL_SYNC && !c.value2)
				c.op = SOP_ADD;
			if (ioctl(file, DSM_IOC_CALL, &c) || c.status || c.call == DSM_CALL_SYNC ||
			    !pick(&w->random, 4))
				continue;
			c = (struct dsm_ioc_call){ .call = DSM_CALL_UNLOCK, .hold = c.hold };
			ioctl(file, DSM_IOC_CALL, &c);
		}
	}
	return NULL;
}

void honest_disturb(int fd, unsigned int ranks, unsigned int threads, uint64_t seed)
{
	static struct worker w[8];
	pthread_t thread;
	unsigned int i;

	file = fd;
	for (i = 0; i < threads && i < sizeof(w) / sizeof(w[0]); i++) {
		w[i] = (struct worker){ .random = seed + i, .ranks = ranks };
		pthread_create(&thread, NULL, work, &w[i]);
	}
}

unsigned long honest_steps(const struct honest *one)
{
	return atomic_load(&one->steps);
}

static bool until(const struct honest *one, const _Atomic unsigned int *n, unsigned int wanted,
		  const char *what)
{
	const double end = now_s() + patience(20);

	while (atomic_load(n) < wanted && !atomic_load(&one->signal) && now_s() < end)
		usleep(1000);
	if (atomic_load(n) >= wanted)
		return true;
	printf("FAILED: %s: %u of %u after %lu steps, signal %d\n", what, atomic_load(n), wanted,
	       atomic_load(&one->steps), atomic_load(&one->signal));
	return false;
}

/* Wait for GO_ON more steps, and as many on the second unit if the ranks use it. */
static bool goes_on(const struct honest *one)
{
	const bool both = atomic_load(&one->phase) == BOTH_UNITS;
	const unsigned long steps = atomic_load(&one->steps) + GO_ON;
	const double end = now_s() + patience(20);

	while ((atomic_load(&one->steps) < steps || (both && atomic_load(&one->late) < GO_ON)) &&
	       !atomic_load(&one->signal) && now_s() < end)
		usleep(1000);
	if (atomic_load(&one->steps) >= steps && (!both || atomic_load(&one->late) >= GO_ON))
		return true;
	printf("FAILED: honest ranks do not go on%s: %lu steps, %lu there, signal %d\n",
	       both ? " where nobody has been" : "", atomic_load(&one->steps),
	       atomic_load(&one->late), atomic_load(&one->signal));
	return false;
}

bool honest_warm(const struct honest *one, unsigned int ranks)
{
	return until(one, &one->warm, ranks * THREADS, "honest ranks do not begin");
}

bool honest_end(struct honest *one, unsigned int ranks)
{
	if (!goes_on(one))
		return false;
	atomic_store(&one->phase, BOTH_UNITS);
	if (!goes_on(one))
		return false;
	atomic_store(&one->phase, END);
	if (!until(one, &one->ended, ranks * THREADS, "honest ranks do not end"))
		return false;
	atomic_store(&one->phase, CHECK);
	if (!until(one, &one->checked, 1, "contents are not to be had"))
		return false;
	if (atomic_load(&one->wrong))
		printf("FAILED: %u words are wrong\n", atomic_load(&one->wrong));
	return !atomic_load(&one->wrong);
}
