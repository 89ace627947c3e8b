// SPDX-License-Identifier: BSD-2-Clause
/*
 * ahead.c - read-ahead for a thread that reads or writes block after block: at most 2 MiB, and nothing beyond the end
 * of the region, by the counters of the region.
 */
#include "common.h"

#define K 1024ul
#define M (1024ul * K)
#define AHEAD 64u /* maximum of DSM_READAHEAD */

static int last;

static struct dsm_stats counted(const dsm_region_t *r)
{
	struct dsm_stats s;

	MUST(dsm_stats_get(test_rank, r, &s));
	return s;
}

/* One thread walks in order: each block is either missed, or requested ahead, once. */
static void walk(const dsm_region_t *r, size_t block, size_t blocks, bool write)
{
	const size_t most = 2 * M / block < AHEAD ? 2 * M / block : AHEAD;
	struct dsm_stats was = counted(r), s;
	uint64_t *p = dsm_region_base(r), missed, largest = 0;
	size_t i;

	for (i = 0; i < blocks; i++) {
		if (write)
			store(&p[i * block / 8], i);
		else
			REQUIRE(load(&p[i * block / 8]) == i, "block %zu has %lu", i, p[i * block / 8]);
		s = counted(r);
		REQUIRE(s.prefetched - was.prefetched <= most, "%lu blocks of %zu KiB are fetched ahead at block %zu",
			s.prefetched - was.prefetched, block / K, i);
		if (s.prefetched - was.prefetched > largest)
			largest = s.prefetched - was.prefetched;
		was = s;
	}
	missed = s.read_faults + s.write_faults;
	REQUIRE(missed + s.prefetched == blocks, "%lu blocks missed and %lu fetched ahead, of %zu", missed,
		s.prefetched, blocks);
	REQUIRE(largest == most, "%lu blocks of %zu KiB at most are fetched ahead instead of %zu", largest, block / K,
		most);
}

/* Rank 0 writes, and another node reads. Or the last rank writes blocks whose home it is. */
static void one_region(size_t block, size_t blocks, bool write)
{
	const struct dsm_region_options opt = { .block_size = block,
						.home = DSM_HOME_FIXED,
						.home_rank = write ? last : 0 };
	dsm_region_t *r;
	uint64_t *p;
	size_t i;

	MUST(dsm_region_open("ahead", block * blocks, &opt, &r));
	p = dsm_region_base(r);
	for (i = 0; !write && !test_rank && i < blocks; i++)
		store(&p[i * block / 8], i);
	test_sync();
	if (test_rank == last)
		walk(r, block, blocks, write);
	test_close("ahead", r);
}

static void part_read(void)
{
	one_region(M, 16, false);
	one_region(256 * K, 40, false);
	one_region(4 * K, 200, false);
}

static void part_write(void)
{
	one_region(M, 16, true);
	one_region(4 * K, 200, true);
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = { { "a reader", part_read }, { "a writer", part_write } };

	setenv("DSM_READAHEAD", "64", 1);
	test_start(argc, argv, "What is fetched ahead ends at 2 MiB, and at the end of the region.", NULL, 0);
	REQUIRE(dsm_nodes() > 1, "two nodes are needed");
	last = test_size - 1;
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
