// SPDX-License-Identifier: BSD-2-Clause
/* test_heap_threads.c - one rank's part of the shared heap, used by many of its threads. */
#include "heap_range.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { THREADS = 8, EXCHANGE = 512, OPERATIONS = 60000 };
struct parcel {
	uint32_t size;
	uint32_t seed;
};
static struct parcel *exchange[EXCHANGE];

static void check_parcel(const struct parcel *q)
{
	const unsigned char *c = (const unsigned char *)(q + 1);

	ck_assert(all(c, (unsigned char)q->seed, q->size));
}

/*
 * Exchange a new object for that of a random slot, and free the latter, whichever thread allocated
 * it.
 */
static void *trade(void *arg)
{
	uint64_t x = 0x12345 + (uintptr_t)arg * 7919;

	for (int i = 0; i < OPERATIONS / THREADS; i++) {
		size_t n = random_size(&x, 100000);
		struct parcel *q = heap_alloc(false, sizeof(*q) + n, 0, i % 4 == 0,
					      i % 16 ? NULL : "parcel", trade);

		ck_assert_ptr_nonnull(q);
		if (i % 4 == 0)
			ck_assert(all(q, 0, sizeof(*q) + n));
		q->size = (uint32_t)n;
		q->seed = (uint32_t)next_random(&x);
		memset(q + 1, (unsigned char)q->seed, n);
		q = __atomic_exchange_n(&exchange[next_random(&x) % EXCHANGE], q, __ATOMIC_ACQ_REL);
		if (q) {
			check_parcel(q);
			give(q);
		}
	}
	return NULL;
}

static void run_threads(void *(*f)(void *), int n)
{
	pthread_t t[THREADS];

	for (int i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, f, (void *)(uintptr_t)i), 0);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

UNIT_LOOP_TEST(threads_trade_objects, 0, 2)
{
	start_with(_i != 0);
	run_threads(trade, THREADS);
	for (int i = 0; i < EXCHANGE; i++)
		if (exchange[i])
			give(exchange[i]);
	heap_drain();
	ck_assert_uint_eq(shared->allocations, OPERATIONS);
	ck_assert_uint_eq(shared->frees, OPERATIONS);
	ck_assert_uint_eq(shared->live_bytes, 0);
	for (size_t i = 0; i < SIZE / HEAP_GRAIN / 64; i++)
		ck_assert_uint_eq(((uint64_t *)((char *)shared + shared->live))[i], 0);
	ck_assert_ptr_nonnull(take(56 * MB));
	heap_stop();
}

UNIT_CASE(threads, start)

static void *small_life(void *arg)
{
	void *p[50];

	(void)arg;
	for (int i = 0; i < 50; i++)
		p[i] = take(1000);
	for (int i = 0; i < 50; i++)
		give(p[i]);
	return NULL;
}

UNIT_TEST(ended_threads_leave_nothing_behind)
{
	for (int i = 0; i < 6000; i++) /* more threads than ids of thread caches */
		run_threads(small_life, 1);
	ck_assert_ptr_nonnull(take(56 * MB));
}

static sem_t asleep, wake;

static void *hoard(void *arg)
{
	void *p = take(1000);

	(void)arg;
	give(p);
	sem_post(&asleep);
	sem_wait(&wake);
	return take(1000) ? NULL : (void *)1;
}

UNIT_TEST(heap_stops_under_threads_that_live_on)
{
	pthread_t t;
	void *failed;

	sem_init(&asleep, 0, 0);
	sem_init(&wake, 0, 0);
	pthread_create(&t, NULL, hoard, NULL);
	sem_wait(&asleep);
	heap_stop();
	sem_post(&wake);
	pthread_join(t, &failed);
	ck_assert_ptr_nonnull(failed);
}

/*
 * Allocate nearly all memory in small objects, then free them. The last ones freed, which the
 * thread's cache keeps, are spread over the heap.
 */
static void *scatter(void *arg)
{
	enum { N = 96 << 10, EACH = 384 };
	static void *p[N];
	int i;

	for (i = 0; i < N; i++)
		p[i] = take(512);
	for (i = 0; i < N; i++)
		if (i % EACH)
			give(p[i]);
	for (i = 0; i < N; i += EACH)
		give(p[i]);
	sem_post(&asleep);
	sem_wait(&wake);
	return arg;
}

UNIT_TEST(sleeping_threads_keep_no_memory)
{
	pthread_t t;

	sem_init(&asleep, 0, 0);
	sem_init(&wake, 0, 0);
	pthread_create(&t, NULL, scatter, NULL);
	sem_wait(&asleep);
	ck_assert_ptr_nonnull(take(56 * MB));
	sem_post(&wake);
	pthread_join(t, NULL);
	heap_stop();
}

enum { CROWD = 2000 };

static void *keep_a_page(void *arg)
{
	ck_assert_ptr_nonnull(take(4096));
	sem_post(&asleep);
	sem_wait(&wake);
	return arg;
}

/*
 * If each cache kept ten pages, the heap would be used up, and no two adjacent pages would be free
 * where one in ten was in use.
 */
UNIT_TEST(a_crowd_does_not_scatter_its_pages)
{
	static pthread_t t[CROWD];
	pthread_attr_t attr;
	int i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	sem_init(&asleep, 0, 0);
	sem_init(&wake, 0, 0);
	for (i = 0; i < CROWD; i++) {
		ck_assert_int_eq(pthread_create(&t[i], &attr, keep_a_page, NULL), 0);
		sem_wait(&asleep);
	}
	ck_assert_ptr_nonnull(take(68 << 10));
	ck_assert_ptr_nonnull(take(32 * MB));
	for (i = 0; i < CROWD; i++)
		sem_post(&wake);
	for (i = 0; i < CROWD; i++)
		pthread_join(t[i], NULL);
	pthread_attr_destroy(&attr);
	heap_stop();
}

/* All find the heap without a page at the same time: the first one takes a unit for all. */
UNIT_TEST(a_crowd_takes_one_unit)
{
	pthread_t t[THREADS];
	size_t taken = 0, i;

	sem_init(&asleep, 0, 0);
	sem_init(&wake, 0, 0);
	round_trip = 50000;
	for (i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, keep_a_page, NULL), 0);
	for (i = 0; i < THREADS; i++)
		sem_wait(&asleep);
	for (i = 0; i < SIZE / UNIT_BYTES; i++)
		taken += units_owner(units, (uint32_t)i) != 0;
	ck_assert_uint_eq(taken, 1);
	for (i = 0; i < THREADS; i++)
		sem_post(&wake);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	round_trip = 0;
	heap_stop();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they map memory themselves */

enum { LATE = 32 };

static void *use_first(void *p)
{
	sem_post(&asleep);
	sem_wait(&wake);
	give(p);
	p = take(1000);
	if (p)
		give(p);
	return NULL;
}

/* As in libdsm/pthread/alloc.c. */
__attribute__((visibility("default"))) const char *malloc_conf = "narenas:1,tcache:false";

/* As where the process has all mappings that the kernel allows. */
UNIT_TEST(threads_begin_and_end_when_nothing_can_be_mapped)
{
	struct rlimit before, none;
	pthread_t t[LATE];
	int i;

	sem_init(&asleep, 0, 0);
	sem_init(&wake, 0, 0);
	for (i = 0; i < LATE; i++) {
		ck_assert_int_eq(pthread_create(&t[i], NULL, use_first, take(1000)), 0);
		sem_wait(&asleep);
	}
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
	for (i = 0; i < LATE; i++)
		sem_post(&wake);
	for (i = 0; i < LATE; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
	heap_drain();
	ck_assert_uint_eq(shared->live_bytes, 0);
	heap_stop();
}

#endif

static int faults, stuck;

static void *bystander(void *arg)
{
	(void)arg;
	for (;;) {
		sem_wait(&wake);
		for (size_t n = 64; n <= 8 * MB; n *= 8) {
			void *p = take(n);

			if (p)
				heap_free(shared, p);
		}
		sem_post(&asleep);
	}
	return NULL;
}

/*
 * The handler stands in for the runtime's fault handler: while it waits, other threads must be able
 * to use the heap.
 */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	struct timespec t;

	(void)sig, (void)info, (void)context;
	faults++;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 10;
	sem_post(&wake);
	if (sem_timedwait(&asleep, &t))
		stuck++;
	mprotect(range, SIZE, PROT_READ | PROT_WRITE);
}

UNIT_TEST(no_lock_is_held_while_memory_is_zeroed)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	pthread_t t;
	void *kept = take(16); /* so that the heap is never wholly free */
	int total = 0;

	sem_init(&asleep, 0, 0);
	sem_init(&wake, 0, 0);
	ck_assert_int_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	pthread_create(&t, NULL, bystander, NULL);
	for (size_t n = 16; n <= 4 * MB; n *= 4) {
		for (int purged = 0; purged < 2; purged++) {
			void *p = take(n);

			memset(p, 1, n);
			give(p);
			if (purged)
				/* the heap runs out: freed extents are collected */
				ck_assert_ptr_null(take(SIZE));
			faults = 0;
			protect(PROT_NONE);
			p = heap_alloc(false, n, 0, true, NULL, NULL);
			protect(PROT_READ | PROT_WRITE);
			total += faults;
			ck_assert_int_eq(stuck, 0);
			ck_assert(all(p, 0, n));
			give(p);
		}
	}
	give(kept);
	ck_assert_int_ge(total, 10); /* out of 20; the others were never used before */
}

UNIT_SUITE("heap_threads", .seconds = 120)
