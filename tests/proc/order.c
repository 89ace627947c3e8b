// SPDX-License-Identifier: BSD-2-Clause
/*
 * order.c - what release consistency allows, and what it must not: a program with a race sees old
 * data until it synchronises; stores of a thread that never synchronises stay while others of its
 * node acquire; system calls store into pages that a close looks at; sequential and release regions
 * under one lock; a page whose sharing has ended costs nothing.
 */
#include "common.h"

#include <fcntl.h>
#include <unistd.h>

#define PAGES 5u
#define BYTES 4096u
#define OWN 64u /* bytes of a thread that only stores */

static uint64_t rounds = 200, sequential;

static uint8_t *pages; /* release, at home on rank 0 */
static uint64_t *both; /* sequential */
static struct outside {
	uint64_t written, looked, end, begun;
} * outside;

static struct objects {
	dsm_mutex_t mutex[2];
} * objects;

static uint64_t *word_of(unsigned int page, unsigned int i)
{
	return (uint64_t *)(void *)(pages + page * BYTES) + i;
}

/* ---- old data -------------------------------------------------------------------------------- */

static void wait_for(const uint64_t *word, uint64_t v)
{
	while (see(word) < v)
		test_nap(1000);
}

/*
 * Ranks meet outside, which orders nothing for libdsm. The reader keeps its copy until it acquires.
 */
static void part_old(void)
{
	uint64_t round, old = 0, v;

	for (round = 1; round <= rounds; round++) {
		if (test_is_last())
			REQUIRE(load(word_of(0, 0)) == round - 1,
				"%lu after the barrier of round %lu", load(word_of(0, 0)), round);
		test_sync();
		if (test_rank == 0) {
			store(word_of(0, 0), round);
			__atomic_store_n(&outside->written, round, __ATOMIC_SEQ_CST);
		}
		if (test_is_last()) {
			wait_for(&outside->written, round);
			v = load(word_of(0, 0));
			REQUIRE(v == round || v == round - 1, "%lu in round %lu", v, round);
			old += v != round;
		}
		test_sync();
	}
	if (test_is_last() && (sequential || dsm_nodes() == 1))
		REQUIRE(!old, "old data was seen %lu times", old);
	else if (test_is_last())
		REQUIRE(old, "no race has shown old data: %lu rounds", rounds);
}

/* ---- a thread that only stores --------------------------------------------------------------- */

/* The other threads lock all the time, and write other bytes of the same page. */
static void store_or_lock(unsigned int thread, void *arg)
{
	const unsigned int me = (unsigned int)test_rank;
	uint8_t *own = pages + BYTES + me * OWN;
	uint64_t i;

	(void)arg;
	if (thread == 0) {
		for (i = 0; i < rounds * 200; i++) {
			own[i % OWN]++;
			REQUIRE(i < OWN || own[(i + 1) % OWN] == (uint8_t)((i + 1) / OWN),
				"byte %lu is %u after %lu stores", (i + 1) % OWN,
				own[(i + 1) % OWN], i + 1);
			if (i % 64 == 0)
				test_delay(500);
		}
		add(&outside->end);
		return;
	}
	while (see(&outside->end) < (uint64_t)test_size) {
		MUST(dsm_mutex_lock(&objects->mutex[0]));
		++*word_of(1, 200);
		MUST(dsm_mutex_unlock(&objects->mutex[0]));
		__atomic_fetch_add(&outside->looked, 1, __ATOMIC_SEQ_CST);
	}
}

static void part_stores(void)
{
	unsigned int r, i;

	test_threads(2, store_or_lock, NULL);
	test_sync();
	for (r = 0; r < (unsigned int)test_size; r++)
		for (i = 0; i < OWN; i++) {
			const uint64_t n = rounds * 200 / OWN + (i < rounds * 200 % OWN);

			REQUIRE(pages[BYTES + r * OWN + i] == (uint8_t)n,
				"byte %u of rank %u is %u, not %u", i, r,
				pages[BYTES + r * OWN + i], (uint8_t)n);
		}
	REQUIRE(*word_of(1, 200) == outside->looked, "%lu of %lu turns are left", *word_of(1, 200),
		outside->looked);
	test_sync();
}

/* ---- system calls ---------------------------------------------------------------------------- */

/*
 * Each rank reads lines of a file into its part of page 2, while another thread closes the page
 * again and again.
 */
static void read_or_lock(unsigned int thread, void *arg)
{
	uint64_t *own = word_of(2, (unsigned int)test_rank * 8), line[8], i, k;
	const int fd = *(int *)arg;
	ssize_t n;

	if (thread == 1) {
		while (see(&outside->end) < 2 * (uint64_t)test_size) {
			MUST(dsm_mutex_lock(&objects->mutex[1]));
			++*word_of(2, 200);
			MUST(dsm_mutex_unlock(&objects->mutex[1]));
		}
		return;
	}
	for (i = 1; i <= rounds * 4; i++) {
		for (k = 0; k < 8; k++)
			line[k] = i * 8 + k;
		REQUIRE(pwrite(fd, line, sizeof(line), 0) == sizeof(line), "pwrite: %m");
		do {
			MUST(dsm_acquire(own, sizeof(line), DSM_WRITE));
			n = pread(fd, own, sizeof(line), 0);
			REQUIRE(n == sizeof(line) || (n < 0 && errno == EFAULT), "pread: %zd, %m",
				n);
		} while (n < 0);
		for (k = 0; k < 8; k++)
			REQUIRE(own[k] == i * 8 + k, "word %lu is %lu in round %lu", k, own[k], i);
	}
	add(&outside->end);
}

static void part_reads(void)
{
	char name[] = "/tmp/dsm-order-XXXXXX";
	int fd = mkstemp(name);
	unsigned int r;

	REQUIRE(fd >= 0, "mkstemp: %m");
	unlink(name);
	test_sync();
	if (test_rank == 0)
		outside->end = (uint64_t)test_size;
	test_sync();
	test_threads(2, read_or_lock, &fd);
	test_sync();
	for (r = 0; r < (unsigned int)test_size; r++)
		REQUIRE(*word_of(2, r * 8 + 7) == rounds * 32 + 7, "rank %u has read %lu", r,
			*word_of(2, r * 8 + 7));
	test_sync();
	close(fd);
}

/* ---- beside sequential data ------------------------------------------------------------------ */

static void count_both(unsigned int thread, void *arg)
{
	uint64_t i;

	(void)thread, (void)arg;
	for (i = 0; i < rounds; i++) {
		MUST(dsm_mutex_lock(&objects->mutex[0]));
		REQUIRE(*word_of(3, 0) == both[0] && both[0] == *word_of(3, 64), "%lu, %lu and %lu",
			*word_of(3, 0), both[0], *word_of(3, 64));
		++*word_of(3, 0);
		++both[0];
		++*word_of(3, 64);
		MUST(dsm_mutex_unlock(&objects->mutex[0]));
	}
}

static void part_both(void)
{
	test_threads(2, count_both, NULL);
	test_sync();
	REQUIRE(both[0] == rounds * 2 * (uint64_t)test_size && *word_of(3, 0) == both[0],
		"%lu and %lu", both[0], *word_of(3, 0));
	test_sync();
}

/* ---- the end of sharing ---------------------------------------------------------------------- */

/* Rank 0 writes the page alone, in so many rounds. What that has cost all ranks, in `cost`. */
static void write_alone(unsigned int page, uint64_t *value, int n, struct dsm_stats *cost)
{
	struct dsm_stats before, now;

	/* the home's node leaves a barrier before its close ends, but not two */
	test_sync();
	MUST(dsm_stats_get(-1, NULL, &before));
	test_sync();
	for (; n; n--) {
		test_sync();
		++*value;
		if (test_rank == 0)
			store(word_of(page, 7), *value);
		test_sync();
	}
	test_sync();
	MUST(dsm_stats_get(-1, NULL, &now));
	*cost = now;
	cost->notices -= before.notices;
	cost->flushes -= before.flushes;
	cost->closes -= before.closes;
	cost->twins = now.twins > before.twins ? now.twins - before.twins : 0;
}

static bool is_free(const struct dsm_stats *cost)
{
	return !cost->notices && !cost->flushes && !cost->closes && !cost->twins;
}

/*
 * All have used pages 3 and 4. Then rank 0, their home, writes alone: page 4, which nobody has
 * fetched again after a notice, from the third round on as if nobody ever had; page 3 after some
 * more changes of which they are told (core/release.h, rel.steady).
 */
static void part_ends(void)
{
	struct dsm_stats cost;
	uint64_t four = 0, value = 0;
	int tries = 0;

	REQUIRE(load(word_of(4, 7)) == 0, "word 7 of page 4 is %lu", load(word_of(4, 7)));
	test_sync();
	/* rank 0 first, while others have copies: so its home does not move */
	if (test_rank)
		wait_for(&outside->begun, 1);
	store(word_of(4, 8 + (unsigned int)test_rank), 1);
	if (!test_rank)
		__atomic_store_n(&outside->begun, 1, __ATOMIC_RELEASE);
	test_sync();
	write_alone(4, &four, 3, &cost);
	write_alone(4, &four, 17, &cost);
	REQUIRE(sequential || is_free(&cost),
		"%lu notices, %lu flushes, %lu closes, %lu twins of the only writer", cost.notices,
		cost.flushes, cost.closes, cost.twins);
	test_sync();
	REQUIRE(load(word_of(4, 7)) == 20, "word 7 of page 4 is %lu", load(word_of(4, 7)));
	REQUIRE(load(word_of(3, 7)) == 0, "word 7 is %lu", load(word_of(3, 7)));
	do
		write_alone(3, &value, 20, &cost);
	while (!sequential && ++tries < 50 && !is_free(&cost));
	REQUIRE(sequential || tries < 50,
		"%lu notices, %lu flushes, %lu closes, %lu twins of the only writer", cost.notices,
		cost.flushes, cost.closes, cost.twins);
	test_sync();
	REQUIRE(load(word_of(3, 7)) == value, "word 7 is %lu", load(word_of(3, 7)));
	test_sync();
}

int main(int argc, char **argv)
{
	static const struct test_option options[] = {
		{ "rounds", "N", "rounds of each part (200)", &rounds },
		{ "sequential", NULL, "the same with a sequential region: no old data",
		  &sequential },
	};
	static const struct test_part parts[] = {
		{ "old", part_old },   { "stores", part_stores }, { "reads", part_reads },
		{ "both", part_both }, { "ends", part_ends },
	};
	struct dsm_region_options opt = { .home = DSM_HOME_FIXED };
	dsm_region_t *r;
	unsigned int i;

	test_start(argc, argv, "what release consistency allows, and what it must not", options, 2);
	opt.consistency = sequential ? DSM_CONSISTENCY_SEQUENTIAL : DSM_CONSISTENCY_RELEASE;
	MUST(dsm_region_open("release", (size_t)PAGES * BYTES, &opt, &r));
	pages = dsm_region_base(r);
	objects = test_region("objects", sizeof(*objects), 4096, DSM_HOME_CYCLIC, 0);
	both = test_region("both", 4096, 4096, DSM_HOME_FIRST_TOUCH, 0);
	outside = test_outside(sizeof(*outside));
	for (i = 0; test_rank == 0 && i < 2; i++)
		MUST(dsm_mutex_init(&objects->mutex[i]));
	test_sync();
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
