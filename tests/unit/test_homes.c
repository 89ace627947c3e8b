// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_homes.c - job/job.c: the home of a block that nobody has touched, by the region's options
 * and by DSM_HOME.
 */
#include "suite.h"

#include <string.h>

#include "job/job.h"

#define NODES 3
#define RANKS 6 /* two on each node */
#define K ((size_t)1 << 10)
#define M ((size_t)1 << 20)

static uint16_t nodes_of[RANKS] = { 0, 0, 1, 1, 2, 2 };

static void begin(void)
{
	job.nodes = NODES;
	job.size = RANKS;
	job.node_of = nodes_of;
	job.heap = 512 * M;
	job.heap_shape = units_shape(512 * M, RANKS);
	job.set.homes = HOMES_FIRST;
	job.set.home_run = 0;
}

static struct dsm_region region(uint16_t id, size_t size, uint32_t block, enum dsm_home policy)
{
	return (struct dsm_region){ .id = id,
				    .off = id ? 1024 * M : 0,
				    .size = size,
				    .bytes = size,
				    .block_size = block,
				    .home_policy = (uint16_t)policy,
				    .home_rank = 4 };
}

static uint16_t home(const struct dsm_region *r, size_t at)
{
	return region_home(r, r->off + at);
}

UNIT_TEST(runs_of_blocks_have_a_manager_for_the_first_touch)
{
	const struct dsm_region r = region(1, 16 * M, 4096, DSM_HOME_FIRST_TOUCH),
				heap = region(0, 512 * M, 4096, 0);
	size_t at;

	for (at = 0; at < r.size; at += 4096)
		unit_require(home(&r, at) == at / (64 * K) % NODES);
	for (at = 0; at < heap.size; at += 4096)
		unit_require(home(&heap, at) ==
			     nodes_of[units_home(&job.heap_shape, (uint32_t)(at / UNIT_BYTES))]);
	ck_assert(region_first_touch(&r) && region_first_touch(&heap));
	ck_assert_uint_eq(region_run(&r) + region_run(&heap), 0);
}

/* A turn is never less than a block. */
UNIT_TEST(cyclic_deals_out_runs)
{
	static const size_t runs[] = { 4 * K, 64 * K, 2 * M };
	static const uint32_t blocks[] = { 4 * K, 16 * K, 256 * K };
	unsigned int i, k;
	size_t at;

	job.set.homes = HOMES_CYCLIC;
	for (i = 0; i < 3; i++)
		for (k = 0; k < 3; k++) {
			const struct dsm_region r =
				region(k ? 1 : 0, 16 * M, blocks[k], DSM_HOME_FIRST_TOUCH);
			const size_t run = runs[i] > blocks[k] ? runs[i] : blocks[k];

			job.set.home_run = runs[i];
			ck_assert_uint_eq(region_run(&r), run);
			ck_assert(!region_first_touch(&r));
			for (at = 0; at < r.size; at += blocks[k])
				unit_require(home(&r, at) == at / run % NODES);
		}
}

/*
 * The parts are whole blocks, each node has at most one, in order, and none is larger than the
 * first.
 */
UNIT_TEST(blocked_gives_each_node_a_part)
{
	static const size_t sizes[] = { 4 * K, 8 * K, 12 * K, 16 * K, 64 * K + 1, 15 * M, 16 * M };
	static const uint32_t blocks[] = { 4 * K, 64 * K };
	unsigned int i, k;
	size_t at, n[NODES];

	job.set.homes = HOMES_BLOCKED;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (k = 0; k < 2; k++) {
			const struct dsm_region r =
				region(1, sizes[i], blocks[k], DSM_HOME_FIRST_TOUCH);
			const size_t all = (sizes[i] + blocks[k] - 1) / blocks[k];
			uint16_t last = 0;

			memset(n, 0, sizeof(n));
			ck_assert(!region_first_touch(&r));
			for (at = 0; at < r.size; at += blocks[k]) {
				unit_require(home(&r, at) >= last && home(&r, at) < NODES);
				last = home(&r, at);
				n[last]++;
			}
			ck_assert_uint_eq(n[0], (all + NODES - 1) / NODES);
			ck_assert(n[1] <= n[0] && n[2] <= n[0]);
		}
}

/* A part of the heap says nothing of an allocation: those are placed one by one. */
UNIT_TEST(blocked_leaves_the_heap_to_its_allocations)
{
	const struct dsm_region heap = region(0, 512 * M, 4096, DSM_HOME_FIRST_TOUCH);

	job.set.homes = HOMES_BLOCKED;
	ck_assert(region_first_touch(&heap));
	ck_assert_uint_eq(home(&heap, 511 * M), nodes_of[units_home(&job.heap_shape, 255)]);
}

UNIT_LOOP_TEST(what_the_program_says_comes_first, 0, 2)
{
	const struct dsm_region fixed = region(1, 16 * M, 4096, DSM_HOME_FIXED),
				cyclic = region(1, 16 * M, 8192, DSM_HOME_CYCLIC);
	size_t at;

	job.set.homes = _i ? HOMES_BLOCKED : HOMES_CYCLIC;
	job.set.home_run = _i ? 0 : 64 * K;
	ck_assert(!region_first_touch(&fixed) && !region_first_touch(&cyclic));
	for (at = 0; at < 16 * M; at += 8192)
		unit_require(home(&fixed, at) == 2 && home(&cyclic, at) == at / 8192 % NODES);
}

UNIT_SUITE("homes", .setup = begin)
