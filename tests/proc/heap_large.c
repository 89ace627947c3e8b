// SPDX-License-Identifier: BSD-2-Clause
/*
 * heap_large.c - any rank can allocate nearly the whole heap: only the heap's size is the limit.
 * Few of its pages are touched.
 */
#include <errno.h>
#include <stdlib.h>

#include "common.h"

#define MIB (1ul << 20)
#define HEAP (1024 * MIB) /* main() sets it */
#define WHOLE (HEAP / 10 * 9)
#define MOST (HEAP / (8 * MIB))
#define PAGE 4096ul
#define ROUNDS 20

static uint64_t **shared; /* of each rank: MOST addresses */
static uint64_t *counts;  /* and their number */

static uint64_t mark(int rank, uint64_t i)
{
	return (uint64_t)rank << 32 | (i + 1);
}

static bool ends_with(const uint64_t *p, size_t size, uint64_t value)
{
	return p[0] == value && p[size / 8 - 1] == value;
}

/*
 * Each rank in turn allocates nearly all, while all have a little, after the rank before had it;
 * another rank frees it.
 */
static void part_one_piece(void)
{
	int turn, other;

	for (turn = 0; turn < test_size; turn++) {
		uint64_t *p = NULL;

		test_sync();
		if (test_rank == turn) {
			p = dsm_malloc(WHOLE);
			REQUIRE(p, "rank %d gets no %lu MiB of %lu", turn, WHOLE / MIB, HEAP / MIB);
			p[0] = p[WHOLE / 8 - 1] = p[WHOLE / 16] = mark(turn, 0);
			shared[0] = p;
		}
		test_sync();
		p = shared[0];
		other = (turn + 1) % test_size;
		REQUIRE(ends_with(p, WHOLE, mark(turn, 0)) && p[WHOLE / 16] == mark(turn, 0),
			"rank %d wrote others", turn);
		if (test_rank == other) {
			REQUIRE(!dsm_malloc(WHOLE) && errno == ENOMEM,
				"the heap has room for it twice");
			EXPECT(dsm_free((char *)p + WHOLE / 2), -EINVAL);
			MUST(dsm_free(p));
			EXPECT(dsm_free(p), -EINVAL);
		}
	}
	test_sync();
}

/* All ranks want more than half: exactly one of them gets it, each time. */
static void part_race(void)
{
	const size_t size = HEAP / 5 * 3;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		int32_t got;
		uint64_t *p;

		test_sync();
		p = dsm_malloc(size);
		got = p != NULL;
		if (p)
			p[0] = p[size / 8 - 1] = mark(test_rank, 0);
		MUST(dsm_reduce(&got, DSM_INT32, DSM_SUM));
		REQUIRE(got == 1, "%d ranks got more than half of the heap in round %d", got,
			round);
		REQUIRE(!p || ends_with(p, size, mark(test_rank, 0)), "another rank wrote there");
		MUST(dsm_free(p));
	}
}

/*
 * All ranks allocate pieces until there are none. No piece may be given out twice. Only the ends of
 * stripes may remain: a stripe holds two and a half pieces.
 */
static void part_last_pieces(void)
{
	const size_t size = 8 * MIB - 2 * PAGE;
	uint64_t i, n;
	int64_t all;

	for (n = 0; n < MOST; n++) {
		uint64_t *p = n % 2 ? dsm_malloc(size) : dsm_malloc_named(0, size, "piece");

		if (!p)
			break;
		p[0] = p[size / 8 - 1] = mark(test_rank, n);
		shared[(uint64_t)test_rank * MOST + n] = p;
	}
	counts[(unsigned int)test_rank * (PAGE / 8)] = n;
	all = (int64_t)n;
	MUST(dsm_reduce(&all, DSM_INT64, DSM_SUM));
	REQUIRE((uint64_t)all * 8 * MIB >= HEAP / 4 * 3, "only %lu MiB of %lu were allocated",
		(uint64_t)all * 8, HEAP / MIB);
	for (i = 0; i < n; i++)
		REQUIRE(ends_with(shared[(uint64_t)test_rank * MOST + i], size, mark(test_rank, i)),
			"piece %lu is another's", i);
	test_sync();
	n = counts[(unsigned int)((test_rank + 1) % test_size) * (PAGE / 8)];
	for (i = 0; i < n; i++)
		MUST(dsm_free(shared[(uint64_t)((test_rank + 1) % test_size) * MOST + i]));
	test_sync();
}

/*
 * Blocks that this rank has sent since `before`. Released blocks move home at some time: wait until
 * there are `enough`, at most some seconds.
 */
static uint64_t sent_since(const struct dsm_stats *before, uint64_t enough)
{
	struct dsm_stats now;
	int i;

	for (i = 0; i < 500; i++) {
		now = test_stats(NULL);
		if (now.blocks_out - before->blocks_out >= enough)
			break;
		test_nap(10000000);
	}
	return now.blocks_out - before->blocks_out;
}

/*
 * A rank is the home of memory that it has allocated and written, wherever it lies in the heap:
 * giving it back moves no block. Pages of other nodes, given back afterwards, do move: after them,
 * the first ones would have moved, too.
 */
static void part_placement(void)
{
	const size_t size = HEAP / 10 * 8, step = size / 64 & ~(PAGE - 1);
	const int nodes = dsm_nodes();
	uint64_t *p, *away[64], sent;
	struct dsm_stats before;
	size_t i;
	int n;

	test_sync();
	if (test_rank == test_size - 1) {
		p = dsm_malloc(size);
		REQUIRE(p, "no %lu MiB", size / MIB);
		for (n = 0; n < nodes; n++) {
			away[n] = n == dsm_node() ? NULL : dsm_malloc_on(n, PAGE);
			REQUIRE(away[n] || n == dsm_node(), "no page of node %d", n);
		}
		before = test_stats(NULL);
		for (i = 0; i < 64; i++)
			*(uint64_t *)((char *)p + i * step) = i;
		for (i = 0; i < 64; i++)
			MUST(dsm_release((char *)p + i * step, 8));
		for (n = 0; n < nodes; n++)
			if (away[n]) {
				away[n][0] = 1;
				MUST(dsm_release(away[n], 8));
			}
		sent = sent_since(&before, (uint64_t)nodes - 1);
		REQUIRE(sent == (uint64_t)nodes - 1,
			"%lu blocks went away, for %d pages of other nodes", sent, nodes - 1);
		for (i = 0; i < 64; i++)
			REQUIRE(*(uint64_t *)((char *)p + i * step) == i, "lost a write");
		for (n = 0; n < nodes; n++)
			MUST(dsm_free(away[n]));
		MUST(dsm_free(p));
	}
	test_sync();
}

/*
 * A node is the home of its memory, from the start and after others have used it. Sizes are rounded
 * up to whole pages.
 */
static void part_of_a_node(void)
{
	const int nodes = dsm_nodes(), there = (dsm_node() + 1) % nodes;
	const size_t pages = 16;
	struct dsm_stats before;
	uint64_t *p, sum = 0, sent;
	size_t i;

	REQUIRE(!dsm_malloc_on(-1, 1) && errno == EINVAL, "node -1");
	REQUIRE(!dsm_malloc_on(nodes, 1) && errno == EINVAL, "node %d of %d", nodes, nodes);
	REQUIRE(!dsm_malloc_on(0, SIZE_MAX) && errno == ENOMEM, "SIZE_MAX bytes");
	REQUIRE(!dsm_malloc_on(0, 2 * HEAP) && errno == ENOMEM, "twice the heap");
	p = dsm_malloc_on(0, 0);
	REQUIRE(p, "0 bytes");
	MUST(dsm_free(p));
	test_sync();
	if (test_rank == 0) {
		p = dsm_malloc_on(there, pages * PAGE - 7);
		REQUIRE(p && (uintptr_t)p % PAGE == 0, "pages of node %d", there);
		MUST(dsm_stats_get(0, NULL, &before));
		for (i = 0; i < pages * PAGE / 8; i++)
			p[i] = i;
		for (i = 0; i < pages * PAGE / 8; i++)
			sum += p[i];
		MUST(dsm_release(p, pages * PAGE));
		sent = sent_since(&before, nodes > 1 ? pages : 0);
		REQUIRE(sum == (pages * PAGE / 8) * (pages * PAGE / 8 - 1) / 2, "lost a write");
		REQUIRE(sent == (nodes > 1 ? pages : 0), "%lu of %zu blocks are at home on node %d",
			sent, pages, there);
		MUST(dsm_free(p));
	}
	test_sync();
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = {
		{ "placement", part_placement },     { "of a node", part_of_a_node },
		{ "one piece", part_one_piece },     { "race", part_race },
		{ "last pieces", part_last_pieces }, { "one piece again", part_one_piece }
	};

	void *little;

	setenv("DSM_HEAP", "1G", 1);
	test_start(argc, argv,
		   "The heap as a whole is the limit of one rank, and of one allocation.", NULL, 0);
	shared = test_region("shared", (size_t)test_size * MOST * sizeof(*shared), 4096,
			     DSM_HOME_CYCLIC, 0);
	counts = test_region("counts", (size_t)test_size * PAGE, 4096, DSM_HOME_CYCLIC, 0);
	little = dsm_malloc(100);
	REQUIRE(little, "no 100 bytes");
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	MUST(dsm_free(little));
	return test_end();
}
