// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_arrivals.c - net/verbs/arrivals: each is taken once, in order, also by several threads;
 * spilled arrivals.
 */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "net/verbs/arrivals.h"

static struct arrivals in;

static struct arrival numbered(uint32_t n)
{
	return (struct arrival){ .qpn = n, .f = { .seq = ~n } };
}

static void put(uint32_t n)
{
	const struct arrival a = numbered(n);

	arrivals_put(&in, &a, 1);
}

/* Take an arrival and return its number; the arrival must be consistent. */
static uint32_t take(void)
{
	struct arrival a;

	ck_assert(arrivals_take(&in, &a));
	ck_assert_uint_eq(a.f.seq, ~a.qpn);
	return a.qpn;
}

static void spill(uint32_t n)
{
	const struct arrival a = numbered(n);

	ck_assert_int_eq(arrivals_reserve(&in, 1), 0);
	arrivals_spill(&in, &a, 1);
}

UNIT_TEST(arrivals_are_taken_once_in_order)
{
	struct arrival a;
	uint32_t n = 0, next = 0, i;

	arrivals_init(&in);
	in.head = in.tail = 0u - 300; /* numbers wrap around */
	for (i = 0; i < ARRIVALS_ROOM; i++)
		atomic_store(&in.places[(in.tail + i) % ARRIVALS_ROOM].turn, in.tail + i);
	ck_assert(!arrivals_take(&in, &a));
	for (i = 0; i < 1000; i++) {
		for (uint32_t k = i % 60; k; k--)
			put(n++);
		while (next < n)
			ck_assert_uint_eq(take(), next++);
		ck_assert(!arrivals_take(&in, &a));
	}
	arrivals_free(&in);
}

UNIT_TEST(there_is_no_space_for_more_than_there_are_places)
{
	uint32_t i;

	arrivals_init(&in);
	ck_assert_uint_eq(arrivals_space(&in, ARRIVALS_ROOM + 10), ARRIVALS_ROOM);
	ck_assert_uint_eq(arrivals_space(&in, 3), 3);
	for (i = 0; i < ARRIVALS_ROOM; i++)
		put(i);
	ck_assert_uint_eq(arrivals_space(&in, 1), 0);
	ck_assert_uint_eq(take(), 0);
	ck_assert_uint_eq(arrivals_space(&in, 10), 1);
	for (i = 1; i < ARRIVALS_ROOM; i++)
		ck_assert_uint_eq(take(), i);
	ck_assert_uint_eq(arrivals_space(&in, ARRIVALS_ROOM), ARRIVALS_ROOM);
	arrivals_free(&in);
}

/*
 * A place that a thread is still reading is not overwritten. Threads take the other places
 * meanwhile.
 */
UNIT_TEST(a_place_that_is_being_read_is_kept)
{
	uint32_t i;

	arrivals_init(&in);
	for (i = 0; i < ARRIVALS_ROOM; i++)
		put(i);
	atomic_fetch_add(&in.head, 1); /* a thread takes a place, and is preempted at once */
	for (i = 1; i < ARRIVALS_ROOM; i++)
		ck_assert_uint_eq(take(), i);
	ck_assert_uint_eq(arrivals_space(&in, ARRIVALS_ROOM), 0);
	ck_assert_uint_eq(in.places[0].a.qpn, 0);
	atomic_store(&in.places[0].turn, ARRIVALS_ROOM); /* the thread has read the place */
	ck_assert_uint_eq(arrivals_space(&in, ARRIVALS_ROOM), ARRIVALS_ROOM);
	arrivals_free(&in);
}

UNIT_TEST(what_was_spilled_comes_behind_what_had_a_place)
{
	const uint32_t n = 3 * ARRIVALS_ROOM;
	uint32_t next = 0, i;
	struct arrival a;

	arrivals_init(&in);
	ck_assert(!arrivals_unspill(&in, &a));
	for (i = 0; i < 10; i++)
		put(i);
	for (; i < n; i++)
		spill(i);
	while (next < n) {
		if (!arrivals_take(&in, &a))
			ck_assert(arrivals_unspill(&in, &a));
		ck_assert_uint_eq(a.qpn, next++);
		if (next == n / 2)
			for (i = n; i < n + 7; i++) /* again, while some wait */
				spill(i);
	}
	for (i = n; i < n + 7; i++) {
		if (!arrivals_take(&in, &a))
			ck_assert(arrivals_unspill(&in, &a));
		ck_assert_uint_eq(a.qpn, i);
	}
	ck_assert(!arrivals_take(&in, &a) && !arrivals_unspill(&in, &a));
	arrivals_free(&in);
}

#define TAKERS 3
#define NUMBERS 200000

static unsigned char taken[NUMBERS];
static uint32_t taken_n, torn;

static void *takes(void *arg)
{
	struct arrival a;

	while (__atomic_load_n(&taken_n, __ATOMIC_RELAXED) < NUMBERS)
		if (arrivals_take(&in, &a)) {
			__atomic_fetch_add(&torn, a.f.seq != ~a.qpn || a.qpn >= NUMBERS,
					   __ATOMIC_RELAXED);
			__atomic_fetch_add(&taken[a.qpn % NUMBERS], 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&taken_n, 1, __ATOMIC_RELAXED);
		} else {
			sched_yield();
		}
	return arg;
}

UNIT_TEST(threads_take_each_arrival_once)
{
	pthread_t taker[TAKERS];
	uint32_t i;

	arrivals_init(&in);
	for (i = 0; i < TAKERS; i++)
		ck_assert_int_eq(pthread_create(&taker[i], NULL, takes, NULL), 0);
	for (i = 0; i < NUMBERS;)
		if (arrivals_space(&in, 1))
			put(i++);
		else
			sched_yield();
	for (i = 0; i < TAKERS; i++)
		pthread_join(taker[i], NULL);
	ck_assert_uint_eq(torn, 0);
	for (i = 0; i < NUMBERS; i++)
		ck_assert_uint_eq(taken[i], 1);
	arrivals_free(&in);
}

UNIT_SUITE("arrivals", .seconds = 60)
