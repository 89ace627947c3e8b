// SPDX-License-Identifier: BSD-2-Clause
/*
 * coarse.c - a job with more ranks than the copyset has bits, so that a bit stands for several
 * neighbours. Blocks are read by all ranks; read by some and written by one; written by each in
 * turn; or written by all at once. Also placement at ranks beyond the 64th, and a mutex.
 *
 * Every word of a block holds the round of its last writer. A rank that reads after the barrier
 * must see that round in every word, even if only its neighbour has read before, so that it gets
 * invalidations for copies that it never had.
 */
#include "common.h"

#define WORDS 512 /* words of a block of 4 KiB */
#define BLOCKS 8

static uint64_t rounds = 6;

struct block {
	uint64_t word[WORDS];
};

struct heart {
	dsm_mutex_t mutex;
	uint64_t count, last;
};

static unsigned writer_of(uint64_t round, unsigned block)
{
	return (unsigned)((round * 31 + block * 17) % (unsigned)test_size);
}

static void read_block(const struct block *b, uint64_t expected, const char *which, unsigned n)
{
	unsigned i;

	for (i = 0; i < WORDS; i++)
		REQUIRE(load(&b->word[i]) == expected,
			"%s block %u word %u is %llu instead of %llu", which, n, i,
			(unsigned long long)b->word[i], (unsigned long long)expected);
}

static void write_block(struct block *b, uint64_t value)
{
	unsigned i;

	for (i = 0; i < WORDS; i++)
		store(&b->word[i], value);
}

/*
 * Which ranks read before the write: all, every other one (one of each pair of neighbours), or
 * none.
 */
static bool reads_before(uint64_t round)
{
	return round % 3 == 0 || (round % 3 == 1 && test_rank % 2 == 0);
}

static void share(struct block *b, const char *which)
{
	uint64_t round;
	unsigned k;

	for (round = 1; round <= rounds; round++) {
		for (k = 0; k < BLOCKS; k++)
			if (reads_before(round))
				read_block(&b[k], round - 1, which, k);
		MUST(dsm_barrier());
		for (k = 0; k < BLOCKS; k++)
			if (writer_of(round, k) == (unsigned)test_rank) {
				read_block(&b[k], round - 1, which, k);
				write_block(&b[k], round);
			}
		MUST(dsm_barrier());
		for (k = 0; k < BLOCKS; k++)
			read_block(&b[k], round, which, k);
		MUST(dsm_barrier());
	}
}

/*
 * All have a copy, then all write: a late rank has lost its copy, while a neighbour's copy keeps
 * their bit set.
 */
static void compete(struct block *b)
{
	uint64_t round, sum;
	unsigned k;

	for (round = 1; round <= rounds; round++) {
		for (k = 0; k < BLOCKS; k++)
			(void)load(&b[k].word[0]);
		MUST(dsm_barrier());
		for (k = 0; k < BLOCKS; k++)
			__atomic_fetch_add(&b[(k + (unsigned)test_rank / 2) % BLOCKS].word[k], 1u,
					   __ATOMIC_SEQ_CST);
		MUST(dsm_barrier());
		for (k = 0; k < BLOCKS; k++) {
			unsigned i;

			for (i = 0, sum = 0; i < BLOCKS; i++)
				sum += load(&b[k].word[i]);
			REQUIRE(sum == round * (unsigned)test_size,
				"%llu of %llu additions to block %u", (unsigned long long)sum,
				(unsigned long long)round * (unsigned)test_size, k);
		}
		MUST(dsm_barrier());
	}
}

static void place_at_the_end(struct block *b)
{
	unsigned k;

	for (k = 0; k < BLOCKS && !test_rank; k++)
		MUST(dsm_place(&b[k], sizeof(b[k]), test_size - 1 - (int)k % test_size));
	MUST(dsm_barrier());
}

static void go_round(struct heart *heart)
{
	uint64_t sum = 1u + (unsigned)test_rank, i;

	if (!test_rank)
		MUST(dsm_mutex_init(&heart->mutex));
	MUST(dsm_barrier());
	for (i = 0; i < rounds; i++) {
		MUST(dsm_mutex_lock(&heart->mutex));
		heart->count++;
		heart->last += sum;
		MUST(dsm_mutex_unlock(&heart->mutex));
	}
	MUST(dsm_reduce(&sum, DSM_UINT64, DSM_SUM));
	MUST(dsm_barrier());
	REQUIRE(heart->count == rounds * (unsigned)test_size && heart->last == rounds * sum,
		"the mutex let %llu in, who added %llu", (unsigned long long)heart->count,
		(unsigned long long)heart->last);
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "rounds", "N", "writes of each block", &rounds },
	};
	struct block *touched, *cyclic, *placed;

	test_start(argc, argv, "more ranks than a copyset has bits", options,
		   sizeof(options) / sizeof(options[0]));
	touched = test_region("touched", BLOCKS * sizeof(*touched), sizeof(*touched),
			      DSM_HOME_FIRST_TOUCH, 0);
	cyclic = test_region("cyclic", BLOCKS * sizeof(*cyclic), sizeof(*cyclic), DSM_HOME_CYCLIC,
			     0);
	placed = test_region("placed", BLOCKS * sizeof(*placed), sizeof(*placed),
			     DSM_HOME_FIRST_TOUCH, 0);
	place_at_the_end(placed);
	share(touched, "touched");
	share(cyclic, "cyclic");
	share(placed, "placed");
	compete(test_region("wanted", BLOCKS * sizeof(struct block), sizeof(struct block),
			    DSM_HOME_CYCLIC, 0));
	go_round(test_region("heart", sizeof(struct heart), 0, DSM_HOME_FIXED, test_size - 1));
	return test_end();
}
