// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_diff_fast.c - miss/diff: every way of this processor makes and stores the diff that
 * core/diff makes and stores, reads and writes nothing beside it, and loses no store of another
 * thread.
 */
#include "core.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "miss/diff.h"

static uint64_t seed = 88172645463325252ULL;
static uint8_t *page, *twin; /* the last pages of mappings */
static uint8_t before[DIFF_PAGE], want[DIFF_MAX], got[DIFF_MAX + 1];

/* The last n bytes before memory that is not accessible, after such memory. */
static uint8_t *last(size_t n)
{
	uint8_t *room = mmap(NULL, 4 * DIFF_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(room != MAP_FAILED);
	ck_assert_int_eq(mprotect(room + DIFF_PAGE, 2 * DIFF_PAGE, PROT_READ | PROT_WRITE), 0);
	return room + 3 * DIFF_PAGE - n;
}

static void first(void)
{
	page = last(2 * DIFF_PAGE);
	twin = last(DIFF_PAGE);
}

/* In every eighth turn, doubles that differ in all but their exponents. */
static void change(unsigned int turn)
{
	const unsigned int every = 1 + turn % 600;
	unsigned int i;

	for (i = 0; i < DIFF_PAGE; i++) {
		const uint8_t byte = (uint8_t)unit_random(&seed);

		before[i] = twin[i] = (uint8_t)unit_random(&seed);
		/* in runs of up to 32 bytes; 1 in `every` */
		page[i] = i & (turn & 31) || unit_random(&seed) % every ? twin[i] : byte;
		if (turn % 8 == 7)
			page[i] = i % 8 < 6 ? byte : twin[i];
	}
}

UNIT_TEST(every_way_makes_the_same_diff)
{
	unsigned int n, m, turn;
	const struct diff_ops *all = diff_all_ops(&n);

	first();
	ck_assert_uint_ge(n, 1);
	for (turn = 0; turn < 2000; turn++) {
		size_t size;

		change(turn);
		size = diff_make(page, twin, want);
		for (m = 0; m < n; m++) {
			got[DIFF_MAX] = 0x5a;
			memcpy(twin, before, DIFF_PAGE);
			ck_assert_uint_eq(all[m].update(page, twin, got), size);
			unit_require(!memcmp(want, got, size) && got[DIFF_MAX] == 0x5a &&
				     !memcmp(page, twin, DIFF_PAGE));
			ck_assert_uint_eq(all[m].update(page, twin, got), 0);
			memcpy(twin, before, DIFF_PAGE);
			ck_assert_uint_eq(all[m].update(page, twin, NULL), !!size);
			unit_require(!memcmp(page, twin, DIFF_PAGE));
		}
	}
}

/* Into the page alone, too; the diff ends before memory that is not accessible. */
UNIT_TEST(every_way_stores_the_diff)
{
	unsigned int n, m, turn;
	const struct diff_ops *all = diff_all_ops(&n);
	uint8_t *diff;

	first();
	for (turn = 0; turn < 2000; turn++) {
		size_t size;

		change(turn);
		size = diff_make(page, twin, want);
		if (!size)
			continue;
		diff = last(size);
		memcpy(diff, want, size);
		for (m = 0; m < n; m++) {
			static uint8_t both[2][DIFF_PAGE];

			memcpy(both[0], before, DIFF_PAGE);
			memcpy(both[1], before, DIFF_PAGE);
			all[m].store(both[0], both[1], diff);
			unit_require(!memcmp(both[0], page, DIFF_PAGE) &&
				     !memcmp(both[1], page, DIFF_PAGE));
			memcpy(twin, before, DIFF_PAGE);
			all[m].store(twin, NULL, diff);
			unit_require(!memcmp(twin, page, DIFF_PAGE));
		}
		munmap(diff + size - 3 * DIFF_PAGE, 4 * DIFF_PAGE);
	}
}

static uint8_t *alias; /* the page, as threads of the program see it */

/*
 * A page with two mappings, as frames have. The stores of threads are no races of this code: it
 * takes each byte as it finds it.
 */
static void map_twice(void)
{
	const int fd = memfd_create("page", 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, DIFF_PAGE), 0);
	page = mmap(NULL, DIFF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	alias = mmap(NULL, DIFF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(page != MAP_FAILED && alias != MAP_FAILED);
	close(fd);
}

/* A thread that counts in each odd byte, until it is told to stop. */
static void *count(void *stop)
{
	unsigned int i, n = 0;

	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		for (n++, i = 1; i < DIFF_PAGE; i += 2)
			__atomic_store_n(&alias[i], (uint8_t)n, __ATOMIC_RELAXED);
	return NULL;
}

/* Diffs of the page follow each other into a copy; others come for the bytes between. */
UNIT_TEST(no_store_of_another_thread_is_lost)
{
	static uint8_t copy[DIFF_PAGE], other[DIFF_PAGE], zeros[DIFF_PAGE], diff[DIFF_MAX];
	unsigned int n, m, turn, i;
	const struct diff_ops *all = diff_all_ops(&n);
	pthread_t t;

	first();
	map_twice();
	for (m = 0; m < n; m++) {
		int stop = 0;

		memset(page, 0, DIFF_PAGE);
		memset(twin, 0, DIFF_PAGE);
		memset(copy, 0, DIFF_PAGE);
		ck_assert_int_eq(pthread_create(&t, NULL, count, &stop), 0);
		for (turn = 1; turn < 3000; turn++) {
			for (i = 0; i < DIFF_PAGE; i += 2)
				other[i] = (uint8_t)(turn % 255 + 1);
			diff_make(other, zeros, diff);
			all[m].store(page, twin, diff);
			if (all[m].update(page, twin, got))
				all[m].store(copy, NULL, got);
			for (i = 1; i < DIFF_PAGE; i += 2)
				unit_require(copy[i] == twin[i]); /* the same store of two */
		}
		__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
		pthread_join(t, NULL);
		if (all[m].update(page, twin, got))
			all[m].store(copy, NULL, got);
		for (i = 0; i < DIFF_PAGE; i++)
			unit_require(page[i] == twin[i] &&
				     (i % 2 ? copy[i] == page[1] && page[i] == page[1]
					    : page[i] == other[i] && !copy[i]));
	}
}

UNIT_SUITE("diff_fast")
