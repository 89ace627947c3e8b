// SPDX-License-Identifier: BSD-2-Clause
/*
 * leave.c - a rank that leaves a region hands its blocks to their homes, even if the homes have
 * left the region before, or never opened it.
 */
#include "common.h"

#define BLOCKS 24

static uint64_t rounds = 2;
static const size_t block_sizes[] = { 4096, 65536 };

static dsm_region_t *enter(const char *name, size_t block, enum dsm_home home)
{
	struct dsm_region_options opt = { .block_size = block, .home = home };
	dsm_region_t *r;

	MUST(dsm_region_open(name, BLOCKS * block, &opt, &r));
	return r;
}

static uint64_t *word(dsm_region_t *r, size_t block, unsigned i)
{
	return (uint64_t *)((char *)dsm_region_base(r) + i * block);
}

static void fill(dsm_region_t *r, size_t block, uint64_t first)
{
	unsigned i;

	for (i = 0; i < BLOCKS; i++)
		store(word(r, block, i), first + i);
}

static void check(dsm_region_t *r, size_t block, uint64_t first)
{
	unsigned i;

	for (i = 0; i < BLOCKS; i++)
		REQUIRE(load(word(r, block, i)) == first + i, "block %u is %lu, not %lu", i,
			load(word(r, block, i)), first + i);
}

/* Only one rank opens the region; most of the homes are other ranks. */
static void alone(size_t block, enum dsm_home home, uint64_t first)
{
	int who;

	for (who = 0; who < test_size; who++) {
		if (who == test_rank) {
			dsm_region_t *r = enter("alone", block, home);

			if (who)
				check(r, block, first + (unsigned)who - 1);
			fill(r, block, first + (unsigned)who);
			MUST(dsm_region_detach(r));
		}
		MUST(dsm_barrier());
	}
	if (!test_rank)
		MUST(dsm_region_destroy("alone"));
}

/*
 * All ranks open the region, and leave one after the other, each with the newest copy of
 * everything.
 */
static void in_turn(size_t block, enum dsm_home home, uint64_t first)
{
	dsm_region_t *r = enter("in turn", block, home);
	int who;

	for (who = 0; who < test_size; who++) {
		MUST(dsm_barrier());
		if (who == test_rank) {
			if (who)
				check(r, block, first + (unsigned)who - 1);
			fill(r, block, first + (unsigned)who);
			MUST(dsm_region_detach(r));
		}
	}
	MUST(dsm_barrier());
	if (!test_rank) {
		r = enter("in turn", block, home);
		check(r, block, first + (unsigned)test_size - 1);
		MUST(dsm_region_detach(r));
		MUST(dsm_region_destroy("in turn"));
	}
	MUST(dsm_barrier());
}

static void all_ways(void (*fn)(size_t block, enum dsm_home home, uint64_t first))
{
	unsigned i, b;

	for (i = 0; i < rounds; i++)
		for (b = 0; b < sizeof(block_sizes) / sizeof(*block_sizes); b++) {
			fn(block_sizes[b], DSM_HOME_CYCLIC, 1 + i * 1000);
			fn(block_sizes[b], DSM_HOME_FIRST_TOUCH, 1 + i * 1000);
		}
}

static void homes_that_were_never_there(void)
{
	all_ways(alone);
}

static void homes_that_have_left(void)
{
	all_ways(in_turn);
}

int main(int argc, char **argv)
{
	static const struct test_option options[] = {
		{ "rounds", "N", "how often all of it", &rounds },
	};
	static const struct test_part parts[] = {
		{ "homes_that_were_never_there", homes_that_were_never_there },
		{ "homes_that_have_left", homes_that_have_left },
	};

	test_start(argc, argv, "Leave regions whose homes have left, or never were there.", options,
		   1);
	test_parts(parts, 2);
	return test_end();
}
