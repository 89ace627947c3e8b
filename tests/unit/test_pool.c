// SPDX-License-Identifier: BSD-2-Clause
/* test_pool.c - job/pool.h: each number has one owner, while many threads take and give numbers. */
#include <pthread.h>
#include <stdbool.h>

#include "job/pool.h"
#include "suite.h"

#define LIMIT 7u
#define THREADS 4
#define ROUNDS 4000000

static struct pool pool;
static uint32_t next[LIMIT];
static uint8_t owned[LIMIT];

UNIT_TEST(numbers_come_back_last_first)
{
	struct pool p = { 0 };
	uint32_t list[4] = { 0 };

	ck_assert_int_eq(pool_take(&p, list, 4), 0);
	ck_assert_int_eq(pool_take(&p, list, 4), 1);
	ck_assert_int_eq(pool_take(&p, list, 4), 2);
	pool_give(&p, list, 0);
	pool_give(&p, list, 2);
	ck_assert_int_eq(pool_take(&p, list, 4), 2);
	ck_assert_int_eq(pool_take(&p, list, 4), 0);
	ck_assert_int_eq(pool_take(&p, list, 4), 3);
	ck_assert_int_eq(pool_take(&p, list, 4), -EAGAIN);
	pool_give(&p, list, 1);
	ck_assert_int_eq(pool_take(&p, list, 4), 1);
	ck_assert_int_eq(pool_take(&p, list, 4), -EAGAIN);
}

/* Each thread keeps up to a few numbers, so that lists of several numbers cross. */
static void *take_and_give(void *arg)
{
	int64_t mine[3];
	uint32_t n = 0, round, seed = (uint32_t)(uintptr_t)arg + 1;

	for (round = 0; round < ROUNDS; round++) {
		seed = seed * 1664525u + 1013904223u;
		if (n < 3 && (seed >> 16) % 2) {
			int64_t number = pool_take(&pool, next, LIMIT);

			if (number < 0)
				continue;
			if (number >= LIMIT ||
			    __atomic_exchange_n(&owned[number], 1, __ATOMIC_RELAXED))
				return (void *)1;
			mine[n++] = number;
		} else if (n) {
			uint32_t k = (seed >> 20) % n;

			__atomic_store_n(&owned[mine[k]], 0, __ATOMIC_RELAXED);
			pool_give(&pool, next, (uint32_t)mine[k]);
			mine[k] = mine[--n];
		}
	}
	while (n) {
		__atomic_store_n(&owned[mine[--n]], 0, __ATOMIC_RELAXED);
		pool_give(&pool, next, (uint32_t)mine[n]);
	}
	return NULL;
}

UNIT_TEST(no_number_has_two_owners)
{
	pthread_t id[THREADS];
	void *bad;
	uintptr_t i;

	for (i = 0; i < THREADS; i++)
		ck_assert(!pthread_create(&id[i], NULL, take_and_give, (void *)i));
	for (i = 0; i < THREADS; i++) {
		pthread_join(id[i], &bad);
		ck_assert_msg(!bad, "a number was given to two");
	}
	for (i = 0; i < LIMIT; i++)
		ck_assert_int_ge(pool_take(&pool, next, LIMIT), 0);
	ck_assert_int_eq(pool_take(&pool, next, LIMIT), -EAGAIN);
}

UNIT_SUITE("pool", .seconds = 60)
