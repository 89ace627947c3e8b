// SPDX-License-Identifier: BSD-2-Clause
/*
 * heap.c - the heap is not divided among the ranks: each rank gets memory as long as any is free,
 * and all ranks can use freed memory, whichever rank freed it.
 */
#include "common.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define HEAP_MIB 64ul /* main() sets it */
#define MOST 4096

static uint64_t **table; /* shared: allocated addresses, for other ranks to check and free */
static uint64_t *counts; /* shared: their numbers */
/* shared outside libdsm: 1, the owner sleeps or is stopped; 2, all is freed */
static uint64_t *away;

static void meet(void)
{
	MUST(dsm_barrier());
}

static uint64_t mark(int rank, uint64_t i)
{
	return (uint64_t)rank << 32 | (i + 1);
}

/* Allocate until there is no more; returns the number. The first and last word identify each. */
static uint64_t take_all(size_t size, uint64_t most)
{
	uint64_t i;

	for (i = 0; i < most; i++) {
		uint64_t *p = i % 2 ? dsm_malloc(size) : dsm_calloc(1, size);

		if (!p) {
			REQUIRE(errno == ENOMEM, "errno %d", errno);
			break;
		}
		REQUIRE(i % 2 || (!p[0] && !p[size / 8 - 1]),
			"dsm_calloc() gives what is not zero");
		p[0] = p[size / 8 - 1] = mark(test_rank, i);
		table[test_rank * MOST + (int)i] = p;
	}
	counts[test_rank * 512] = i;
	return i;
}

static void check_all(int rank, size_t size)
{
	uint64_t i;

	for (i = 0; i < counts[rank * 512]; i++) {
		const uint64_t *p = table[rank * MOST + (int)i];

		REQUIRE(p[0] == mark(rank, i) && p[size / 8 - 1] == mark(rank, i),
			"object %lu of rank %d has %#lx and %#lx", i, rank, p[0], p[size / 8 - 1]);
	}
}

static void free_all(int rank)
{
	uint64_t i;

	for (i = 0; i < counts[rank * 512]; i++) {
		MUST(dsm_free(table[rank * MOST + (int)i]));
		if (i % 64 == 0)
			EXPECT(dsm_free(table[rank * MOST + (int)i]), -EINVAL);
	}
}

/* One rank, then another, allocates nearly the whole heap. */
static void part_one_takes_all(void)
{
	/* jemalloc adds a page to each, and keeps some pages */
	const uint64_t objects = HEAP_MIB * 3 / 4;
	int turn;

	for (turn = 0; turn < (test_size < 3 ? test_size : 3); turn++) {
		uint64_t n = 0;

		meet();
		if (test_rank == turn)
			n = take_all(MIB - 8192, MOST);
		meet();
		if (test_rank == turn)
			REQUIRE(n >= objects && n <= HEAP_MIB, "rank %d got %lu MiB of %lu", turn,
				n, HEAP_MIB);
		check_all(turn, MIB - 8192);
		if (test_rank != turn && test_size > 1) { /* nothing is left for the others */
			void *p = dsm_malloc(2 * MIB);

			REQUIRE(!p || test_size > 8, "there is still room for 2 MiB");
			MUST(dsm_free(p));
		}
		meet();
		if (test_rank == (turn + 1) % test_size)
			free_all(turn);
		meet();
	}
}

/* All ranks allocate small objects, several at a time; their neighbours free them, repeatedly. */
static void part_all_take(void)
{
	static const size_t sizes[] = { 64 << 10, 512, 1024, 8 << 10 };
	unsigned int round;

	for (round = 0; round < sizeof(sizes) / sizeof(sizes[0]); round++) {
		/* The first rank allocates its share before the others begin. */
		void *large[HEAP_MIB];
		uint64_t i, n = 0;

		meet();
		for (n = 0; !test_rank && n < HEAP_MIB / (uint64_t)test_size &&
		     (large[n] = dsm_malloc(MIB - 8192));
		     n++)
			;
		meet();
		take_all(sizes[round], sizes[round] < 8192 ? MOST : MOST / 4);
		REQUIRE(counts[test_rank * 512] > 0 || sizes[round] > 1024, "rank %d got nothing",
			test_rank);
		meet();
		check_all((test_rank + 1) % test_size, sizes[round]);
		meet();
		free_all((test_rank + 1) % test_size);
		for (i = 0; i < n; i++)
			MUST(dsm_free(large[i]));
		meet();
	}
}

/* After all that, each rank still gets its share. */
static void part_given_back(void)
{
	const uint64_t share = HEAP_MIB * 4 / (uint64_t)test_size;
	uint64_t n;

	meet();
	/* 2 MiB hold seven, and some of those have small objects */
	n = take_all(MIB / 4 - 8192, share * 5 / 8);
	REQUIRE(n == share * 5 / 8, "rank %d got %lu quarters of a MiB of %lu", test_rank, n,
		share);
	meet();
	free_all(test_rank);
	meet();
}

/* more than twice the frees after which an owner is notified (HEAP_RING) */
#define FREED 3000u
#define STOPPED 500000000ull /* ns */
#define SOON 700000000ull    /* ns; less than a service thread sleeps if nothing wakes it */
#define TRIES 4

/*
 * Rank 0 frees while the owner does not check by itself. Returns the time it took. A rank that
 * waits must not ask continuously.
 */
static uint64_t free_many(int owner)
{
	struct dsm_stats before, after;
	const uint64_t start = test_ns();
	uint64_t i;

	MUST(dsm_stats_get(0, NULL, &before));
	for (i = 0; i < FREED; i++)
		MUST(dsm_free(table[owner * MOST + (int)i]));
	MUST(dsm_stats_get(0, NULL, &after));
	REQUIRE(after.messages_out - before.messages_out < FREED * 5 / 4,
		"%lu messages for %u objects", after.messages_out - before.messages_out, FREED);
	return test_ns() - start;
}

/* Rank 0 frees the owner's allocations while the owner sleeps, or its whole process is stopped. */
static uint64_t freed_by_another(bool stopped)
{
	const int owner = test_size - 1;
	uint64_t took = 0;
	pid_t child = 0;
	int status;

	meet();
	if (!test_rank)
		*away = stopped ? 0 : 1;
	if (test_rank == owner)
		REQUIRE(take_all(64, FREED) == FREED, "there is no room for %u small objects",
			FREED);
	meet();
	if (test_rank == owner && stopped) {
		child = fork();
		if (!child) {
			kill(getppid(), SIGSTOP);
			store(away, 1);
			test_nap(STOPPED);
			kill(getppid(), SIGCONT);
			_exit(0);
		}
		REQUIRE(child > 0, "no child");
	}
	while (!see(away))
		test_nap(1000000);
	if (!test_rank) {
		took = free_many(owner);
		store(away, 2);
	}
	while (see(away) < 2)
		test_nap(1000000);
	if (child)
		REQUIRE(waitpid(child, &status, 0) == child && !status, "the child that stops: %d",
			status);
	meet();
	return took;
}

static void part_freed_while_asleep(void)
{
	uint64_t took;
	int tries = 0;

	do {
		took = freed_by_another(false);
		MUST(dsm_reduce(&took, DSM_UINT64, DSM_MAX));
	} while (took > SOON && ++tries < TRIES);
	REQUIRE(took <= SOON, "%u objects were freed in %lu ms at best", FREED, took / 1000000);
}

static void part_freed_while_stopped(void)
{
	if (test_size > 1)
		freed_by_another(true);
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = { { "one takes all", part_one_takes_all },
						  { "all take", part_all_take },
						  { "given back", part_given_back },
						  { "freed while asleep", part_freed_while_asleep },
						  { "freed while stopped",
						    part_freed_while_stopped } };

	setenv("DSM_HEAP", "64M", 1);
	test_start(argc, argv, "Every rank may have all of the heap.", NULL, 0);
	table = test_region("table", (size_t)test_size * MOST * sizeof(*table), 4096,
			    DSM_HOME_CYCLIC, 0);
	counts = test_region("counts", (size_t)test_size * 4096, 4096, DSM_HOME_CYCLIC, 0);
	away = test_outside(sizeof(*away));
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
