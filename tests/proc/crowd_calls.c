// SPDX-License-Identifier: BSD-2-Clause
/* crowd_calls.c - every call that always completes, whatever other threads wait for. */
#include "crowd.h"

#include <pthread.h>
#include <unistd.h>

void touch(void)
{
	store(&words[test_rank], load(&words[test_rank]) + 1);
	(void)load(&words[(test_rank + 1) % test_size]);
}

static void call_atomic(void)
{
	dsm_atomic_t a;
	uint64_t v = 0;

	MUST(dsm_atomic_init(&a, 1, (test_rank + 1) % test_size));
	MUST(dsm_atomic_fetch_add(&a, 1, NULL));
	MUST(dsm_atomic_load(&a, &v));
	MUST(dsm_atomic_compare_exchange(&a, &v, 3));
	MUST(dsm_atomic_destroy(&a));
}

static void call_sem(void)
{
	uint32_t value;
	dsm_sem_t s;

	MUST(dsm_sem_init(&s, 0));
	EXPECT(dsm_sem_trywait(&s), -EAGAIN);
	EXPECT(dsm_sem_timedwait(&s, 1000), -ETIMEDOUT);
	MUST(dsm_sem_post(&s, 1));
	MUST(dsm_sem_getvalue(&s, &value));
	REQUIRE(value == 1, "the value is %u", value);
	MUST(dsm_sem_wait(&s));
	MUST(dsm_sem_destroy(&s));
}

static void call_mutex(void)
{
	dsm_mutex_t m;
	dsm_cond_t c;

	MUST(dsm_mutex_init(&m));
	MUST(dsm_cond_init(&c));
	MUST(dsm_mutex_trylock(&m));
	MUST(dsm_cond_signal(&c));
	MUST(dsm_cond_broadcast(&c));
	EXPECT(dsm_cond_timedwait(&c, &m, 1000), -ETIMEDOUT);
	MUST(dsm_mutex_unlock(&m));
	MUST(dsm_mutex_lock(&m));
	MUST(dsm_mutex_unlock(&m));
	MUST(dsm_mutex_timedlock(&m, 1000000000));
	MUST(dsm_mutex_unlock(&m));
	MUST(dsm_cond_destroy(&c));
	MUST(dsm_mutex_destroy(&m));
}

static void call_rwlock(void)
{
	dsm_rwlock_t l;

	MUST(dsm_rwlock_init(&l));
	MUST(dsm_rwlock_rdlock(&l));
	MUST(dsm_rwlock_unlock(&l));
	MUST(dsm_rwlock_wrlock(&l));
	MUST(dsm_rwlock_unlock(&l));
	MUST(dsm_rwlock_tryrdlock(&l));
	MUST(dsm_rwlock_unlock(&l));
	MUST(dsm_rwlock_trywrlock(&l));
	MUST(dsm_rwlock_unlock(&l));
	MUST(dsm_rwlock_destroy(&l));
}

static void call_collective(void)
{
	uint64_t v = 1;

	test_sync();
	MUST(dsm_reduce(&v, DSM_UINT64, DSM_SUM));
	REQUIRE(v == (uint64_t)test_size, "the sum is %lu", v);
	MUST(dsm_broadcast(&v, sizeof(v), test_size - 1));
}

static void call_range(void)
{
	MUST(dsm_prefetch(words, 4096, DSM_WRITE));
	MUST(dsm_acquire(words, 4096, DSM_READ));
	MUST(dsm_release(words, 4096));
	MUST(dsm_pin(words, 4096, DSM_WRITE));
	touch();
	MUST(dsm_unpin(words, 4096));
}

/* Place a block that no other rank uses at another home, and back. New memory is placed at once. */
static void call_place(void)
{
	uint64_t *own = &words[(1 + test_rank) * 512], was = load(own), *p;

	store(own, was + 1);
	MUST(dsm_place(own, 8, (test_rank + 1) % test_size));
	REQUIRE(load(own) == was + 1, "the word is %lu instead of %lu", load(own), was + 1);
	MUST(dsm_place(own, 8, test_rank));
	p = dsm_malloc_on(dsm_nodes() - 1, 64);
	REQUIRE(p, "dsm_malloc_on: %m");
	store(p, 1);
	MUST(dsm_free(p));
}

static void *come_back(void *arg)
{
	return arg;
}

static void *stay(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void call_spawn(void)
{
	const struct dsm_thread_options small = { .stack_size = STACK };
	const struct dsm_thread_options shared = { .stack_size = 64 << 10, .shared_stack = 1 };
	const int next = (test_rank + 1) % test_size;
	dsm_thread_t t;
	void *result;

	MUST(dsm_spawn(&t, next, &small, come_back, &words[test_rank]));
	MUST(dsm_join(t, &result));
	REQUIRE(result == &words[test_rank], "the thread has returned %p", result);
	MUST(dsm_spawn(&t, next, &shared, come_back, NULL));
	MUST(dsm_timedjoin(t, 60000000000u, NULL));
	MUST(dsm_spawn(&t, next, &small, stay, NULL));
	EXPECT(dsm_timedjoin(t, 0, NULL), -EBUSY);
	EXPECT(dsm_timedjoin(t, 1000, NULL), -ETIMEDOUT);
	MUST(dsm_cancel(t));
	MUST(dsm_join(t, &result));
	REQUIRE(result == PTHREAD_CANCELED, "the thread was not cancelled");
}

static void call_region(void)
{
	struct dsm_region_info info;
	/* When the others leave, their writes move to the last rank. */
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.home_rank = test_size - 1 };
	dsm_region_t *r;
	uint64_t *p;

	MUST(dsm_region_open("crowd-more", 64 << 10, &opt, &r));
	p = dsm_region_base(r);
	store(&p[test_rank * 512 % 8192], 1);
	MUST(dsm_region_query(p, &info));
	MUST(dsm_region_detach(r));
	test_sync();
	if (!test_rank)
		MUST(dsm_region_destroy("crowd-more"));
	test_sync();
}

static void call_heap(void)
{
	uint64_t *p = dsm_malloc(64);

	REQUIRE(p, "no memory");
	store(p, 1);
	MUST(dsm_broadcast(&p, sizeof(p), 0));
	test_sync();
	if (test_rank == test_size - 1)
		MUST(dsm_free(p));
}

/* Ask for more memory than there is: all ranks are asked for memory to give back. */
static void call_full(void)
{
	struct dsm_region_info heap;
	void *some = dsm_malloc(64), *all;

	REQUIRE(some, "no memory");
	MUST(dsm_region_query(some, &heap));
	all = dsm_malloc(heap.size);
	REQUIRE(!all && errno == ENOMEM, "dsm_malloc of the heap: %p, %m", all);
	MUST(dsm_free(some));
}

static void call_stats(void)
{
	struct dsm_hot_block hot[4];
	struct dsm_stats s;

	MUST(dsm_stats_get(-1, NULL, &s));
	REQUIRE(dsm_stats_hot(hot, 4) >= 0, "no hot blocks");
}

/* clang-format off */
const struct call calls[] = {
	{ "touching a block", touch, false, false },
	{ "an atomic", call_atomic, false, false },
	{ "a free semaphore", call_sem, false, false },
	{ "a free mutex, a signal", call_mutex, false, false },
	{ "a free rwlock", call_rwlock, false, false },
	{ "a collective", call_collective, true, false },
	{ "dsm_prefetch, dsm_acquire, dsm_pin", call_range, false, false },
	{ "dsm_place, dsm_malloc_on", call_place, false, true },
	{ "dsm_spawn, dsm_cancel, dsm_timedjoin", call_spawn, false, false },
	{ "a region", call_region, true, false },
	{ "the heap", call_heap, true, false },
	{ "an allocation without room", call_full, false, false },
	{ "statistics", call_stats, false, false },
};
/* clang-format on */
const size_t calls_n = sizeof(calls) / sizeof(calls[0]);
