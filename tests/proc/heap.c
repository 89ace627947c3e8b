// SPDX-License-Identifier: BSD-2-Clause
/*
 * heap.c - no rank has a part of the heap: each gets memory as long as there is any, and what is freed, by whomever, is there
 * for all.
 */
#include <errno.h>
#include <stdlib.h>

#include "common.h"

#define MIB (1ul << 20)
#define HEAP_MIB 64ul /* what main() asks for */
#define MOST 4096

static uint64_t **table; /* shared: what was allocated, for others to look at and to free */
static uint64_t *counts; /* shared: how many */

static void meet(void)
{
	MUST(dsm_barrier());
}

static uint64_t mark(int rank, uint64_t i)
{
	return (uint64_t)rank << 32 | (i + 1);
}

/* Until there is no more: how many. Each is told by its first and last word. */
static uint64_t take_all(size_t size, uint64_t most)
{
	uint64_t i;

	for (i = 0; i < most; i++) {
		uint64_t *p = i % 2 ? dsm_malloc(size) : dsm_calloc(1, size);

		if (!p) {
			REQUIRE(errno == ENOMEM, "errno %d", errno);
			break;
		}
		REQUIRE(i % 2 || (!p[0] && !p[size / 8 - 1]), "dsm_calloc() gives what is not zero");
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

/* One rank, then another, has nearly all of it. */
static void part_one_takes_all(void)
{
	const uint64_t objects = HEAP_MIB * 3 / 4; /* jemalloc adds a page to each, and keeps some */
	int turn;

	for (turn = 0; turn < (test_size < 3 ? test_size : 3); turn++) {
		uint64_t n = 0;

		meet();
		if (test_rank == turn)
			n = take_all(MIB - 8192, MOST);
		meet();
		if (test_rank == turn)
			REQUIRE(n >= objects && n <= HEAP_MIB, "rank %d got %lu MiB of %lu", turn, n, HEAP_MIB);
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

/* Small ones, several at a time: all ranks together, freed by their neighbours, again and again. */
static void part_all_take(void)
{
	static const size_t sizes[] = { 64 << 10, 512, 1024, 8 << 10 };
	unsigned int round;

	for (round = 0; round < sizeof(sizes) / sizeof(sizes[0]); round++) {
		/* The first rank has its share before all others begin. */
		void *large[HEAP_MIB];
		uint64_t i, n = 0;

		meet();
		for (n = 0; !test_rank && n < HEAP_MIB / (uint64_t)test_size && (large[n] = dsm_malloc(MIB - 8192));
		     n++)
			;
		meet();
		take_all(sizes[round], sizes[round] < 8192 ? MOST : MOST / 4);
		REQUIRE(counts[test_rank * 512] > 0 || sizes[round] > 1024, "rank %d got nothing", test_rank);
		meet();
		check_all((test_rank + 1) % test_size, sizes[round]);
		meet();
		free_all((test_rank + 1) % test_size);
		for (i = 0; i < n; i++)
			MUST(dsm_free(large[i]));
		meet();
	}
}

/* After all that, each rank gets its share. */
static void part_given_back(void)
{
	const uint64_t share = HEAP_MIB * 4 / (uint64_t)test_size;
	uint64_t n;

	meet();
	n = take_all(MIB / 4 - 8192, share * 5 / 8); /* seven in 2 MiB, and some of those have small objects */
	REQUIRE(n == share * 5 / 8, "rank %d got %lu quarters of a MiB of %lu", test_rank, n, share);
	meet();
	free_all(test_rank);
	meet();
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = { { "one takes all", part_one_takes_all },
						  { "all take", part_all_take },
						  { "given back", part_given_back } };

	setenv("DSM_HEAP", "64M", 1);
	test_start(argc, argv, "Every rank may have all of the heap.", NULL, 0);
	table = test_region("table", (size_t)test_size * MOST * sizeof(*table), 4096, DSM_HOME_CYCLIC, 0);
	counts = test_region("counts", (size_t)test_size * 4096, 4096, DSM_HOME_CYCLIC, 0);
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
