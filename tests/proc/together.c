// SPDX-License-Identifier: BSD-2-Clause
/*
 * together.c - threads of a rank touch the same fresh blocks at the same moment, at the blocks'
 * home and elsewhere: a thread that arrives while another one's request or first touch is in
 * progress is woken with it.
 */
#include "common.h"

#include <pthread.h>

#define BLOCKS 32

static uint64_t rounds = 4, threads = 3;
static const size_t block_sizes[] = { 4096, 262144 };

static pthread_barrier_t step;
static char *area;
static size_t block;

static void touch(unsigned thread, void *arg)
{
	unsigned i;

	(void)arg;
	for (i = 0; i < BLOCKS; i++) {
		uint64_t *word =
			(uint64_t *)(area + i * block) + (unsigned)test_rank * threads + thread;

		pthread_barrier_wait(&step);
		store(word, load(word) + 1 + i + thread);
	}
}

static void check(void)
{
	unsigned i, k;

	for (i = 0; i < BLOCKS; i++)
		for (k = 0; k < (unsigned)test_size * threads; k++) {
			const uint64_t *word = (const uint64_t *)(area + i * block) + k;

			REQUIRE(load(word) == 1 + i + k % threads, "block %u, word %u is %lu", i, k,
				load(word));
		}
}

int main(int argc, char **argv)
{
	const struct test_option options[] = { { "rounds", "N", "how often", &rounds },
					       { "threads", "N", "of each rank", &threads } };
	dsm_region_t *r;
	uint64_t round;

	test_start(argc, argv, "Threads that touch fresh blocks together.", options, 2);
	REQUIRE(threads >= 1 && threads <= 16, "1 to 16 threads");
	pthread_barrier_init(&step, NULL, (unsigned)threads);
	for (round = 0; round < rounds; round++) {
		struct dsm_region_options opt = { .block_size = block_sizes[round % 2],
						  .home = DSM_HOME_FIXED,
						  .home_rank = (int)(round / 2) % test_size };

		block = opt.block_size;
		MUST(dsm_region_open("together", BLOCKS * block, &opt, &r));
		area = dsm_region_base(r);
		test_threads((unsigned)threads, touch, NULL);
		MUST(dsm_barrier());
		check();
		MUST(dsm_barrier());
		MUST(dsm_region_detach(r));
		MUST(dsm_barrier());
		if (!test_rank)
			MUST(dsm_region_destroy("together"));
		MUST(dsm_barrier());
	}
	pthread_barrier_destroy(&step);
	return test_end();
}
