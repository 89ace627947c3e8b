// SPDX-License-Identifier: BSD-2-Clause
/*
 * ahead.c - read-ahead for a thread that reads or writes block after block: at most 2 MiB, and
 * nothing beyond the end of the region, by the counters of the region.
 */
#include "common.h"

#define K 1024ul
#define M (1024ul * K)
#define AHEAD 64u /* maximum of DSM_READAHEAD */

static int last;

/* One thread walks in order: each block is either missed, or requested ahead, once. */
static void walk(const dsm_region_t *r, size_t block, size_t blocks, bool write)
{
	const size_t most = 2 * M / block < AHEAD ? 2 * M / block : AHEAD;
	struct dsm_stats was = test_stats(r), s;
	uint64_t *p = dsm_region_base(r), missed, largest = 0;
	size_t i;

	for (i = 0; i < blocks; i++) {
		if (write)
			store(&p[i * block / 8], i);
		else
			REQUIRE(load(&p[i * block / 8]) == i, "block %zu has %lu", i,
				p[i * block / 8]);
		s = test_stats(r);
		REQUIRE(s.prefetched - was.prefetched <= most,
			"%lu blocks of %zu KiB are fetched ahead at block %zu",
			s.prefetched - was.prefetched, block / K, i);
		if (s.prefetched - was.prefetched > largest)
			largest = s.prefetched - was.prefetched;
		was = s;
	}
	missed = s.read_faults + s.write_faults;
	REQUIRE(missed + s.prefetched == blocks, "%lu blocks missed and %lu fetched ahead, of %zu",
		missed, s.prefetched, blocks);
	REQUIRE(largest == most, "%lu blocks of %zu KiB at most are fetched ahead instead of %zu",
		largest, block / K, most);
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

#define BOTH 400ul /* blocks */

/* Two regions whose blocks rank 0 has written. */
static uint64_t *written(const char *name, dsm_region_t **r)
{
	uint64_t *p = test_open(name, BOTH * 4 * K, DSM_HOME_FIRST_TOUCH, r);
	size_t i;

	for (i = 0; !test_rank && i < BOTH; i++)
		store(&p[i * 512], i);
	test_sync();
	return p;
}

/*
 * A thread reads one array and writes another, both of another node. Neither hides the order of the
 * other. Of blocks that it writes, it takes at most a quarter of those before ahead: others may be
 * using them.
 */
static void part_both(void)
{
	dsm_region_t *from, *to;
	uint64_t *a = written("from", &from), *b = written("to", &to), ahead = 0, i;
	struct dsm_stats s;

	for (i = 0; test_rank == last && i < BOTH; i++) {
		store(&b[i * 512], load(&a[i * 512]) + 7);
		s = test_stats(to);
		REQUIRE(s.prefetched - ahead <= (i + 1) / 4, "%lu blocks are taken ahead after %lu",
			s.prefetched - ahead, i);
		ahead = s.prefetched;
	}
	if (test_rank == last) {
		s = test_stats(from);
		REQUIRE(s.read_faults <= 16, "%lu blocks of %lu are missed by a reader",
			s.read_faults, BOTH);
		s = test_stats(to);
		REQUIRE(s.write_faults <= 40, "%lu blocks of %lu are missed by a writer",
			s.write_faults, BOTH);
	}
	test_sync();
	for (i = 0; i < BOTH; i++)
		REQUIRE(load(&b[i * 512]) == i + 7, "block %lu has %lu", i, load(&b[i * 512]));
	test_close("from", from);
	test_close("to", to);
}

/* Blocks behind a short run are left alone. */
static void part_short(void)
{
	dsm_region_t *r;
	uint64_t *p = written("short", &r), i, k;
	struct dsm_stats s;

	for (i = 0; test_rank == last && i < BOTH; i += 8)
		for (k = i; k < i + 4; k++)
			store(&p[k * 512], k + 7);
	if (test_rank == last) {
		s = test_stats(r);
		REQUIRE(s.prefetched == 0 && s.write_faults == BOTH / 2,
			"%lu blocks of others, %lu misses", s.prefetched, s.write_faults);
	}
	test_sync();
	test_close("short", r);
}

#define MANY 4096ul /* blocks: 16 MiB */

/*
 * Messages that this rank sends while it reads, or writes, the blocks in a row; the time is of that
 * alone.
 */
static uint64_t sends_for(uint64_t *p, bool write, double *ms)
{
	const uint64_t was = test_stats(NULL).messages_out, from = test_ns();
	uint64_t i;

	if (write)
		MUST(dsm_acquire(p, MANY * 4 * K, DSM_WRITE));
	for (i = 0; i < MANY; i++)
		if (write)
			store(&p[i * 512], i + 7);
		else
			REQUIRE(load(&p[i * 512]) == i, "block %lu has %lu", i, p[i * 512]);
	*ms = (double)(test_ns() - from) / 1e6;
	return test_stats(NULL).messages_out - was;
}

/*
 * Requests of a run of blocks, the blocks themselves, and the ends of the requests are one message
 * each, and not one for each block. Rank 0 is the home, and has written the blocks, or nobody has.
 */
static void part_bundles(void)
{
	const struct dsm_region_options opt = { .block_size = 4 * K,
						.home = DSM_HOME_FIXED,
						.home_rank = 0 };
	unsigned int kind;

	for (kind = 0; kind < 3; kind++) {
		static const char *const what[] = { "reads", "writes", "first writes" };
		uint64_t i, sends, *p, came;
		dsm_region_t *r;
		double ms;

		MUST(dsm_region_open("bundles", MANY * 4 * K, &opt, &r));
		p = dsm_region_base(r);
		for (i = 0; kind < 2 && !test_rank && i < MANY; i++)
			store(&p[i * 512], i);
		test_sync();
		came = test_stats(NULL).messages_in;
		if (test_rank == last) {
			sends = sends_for(p, kind, &ms);
			came = test_stats(NULL).messages_in - came;
			printf("  %s: %lu messages sent and %lu received for %lu blocks, %.1f ms\n",
			       what[kind], sends, came, MANY, ms);
			REQUIRE(sends <= MANY / 8 && came <= MANY / 8,
				"%lu messages sent and %lu received for %lu %s", sends, came, MANY,
				what[kind]);
		}
		test_sync();
		for (i = 0; kind && i < MANY; i++)
			REQUIRE(load(&p[i * 512]) == i + 7, "block %lu has %lu", i,
				load(&p[i * 512]));
		test_close("bundles", r);
	}
}

/*
 * The request of the block that the thread waits for is a message of its own: those for the blocks
 * after it follow. Of a release block, no message confirms the answer.
 */
static void part_alone(void)
{
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.home_rank = 0,
						.consistency = DSM_CONSISTENCY_RELEASE };
	const uint64_t ahead[] = { 0, 1, 0, 3 }, sends[] = { 1, 2, 0, 2 }; /* by block */
	uint64_t *p, i, was, fetched;
	dsm_region_t *r;

	MUST(dsm_region_open("alone", BOTH * 4 * K, &opt, &r));
	p = dsm_region_base(r);
	test_sync();
	for (i = 0; test_rank == last && i < 4; i++) {
		was = test_stats(NULL).messages_out;
		fetched = test_stats(r).prefetched;
		load(&p[i * 512]);
		fetched = test_stats(r).prefetched - fetched;
		was = test_stats(NULL).messages_out - was;
		REQUIRE(fetched == ahead[i], "%lu blocks after block %lu are fetched", fetched, i);
		REQUIRE(was >= sends[i], "%lu messages request block %lu and %lu after it", was, i,
			fetched);
	}
	test_sync();
	test_close("alone", r);
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = {
		{ "a reader", part_read }, { "a writer", part_write },
		{ "both", part_both },     { "a short run", part_short },
		{ "alone", part_alone },   { "bundles", part_bundles }
	};

	setenv("DSM_READAHEAD", "64", 1);
	test_start(argc, argv, "What is fetched ahead ends at 2 MiB, and at the end of the region.",
		   NULL, 0);
	REQUIRE(dsm_nodes() > 1, "two nodes are needed");
	last = test_size - 1;
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
