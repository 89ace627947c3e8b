// SPDX-License-Identifier: BSD-2-Clause
/*
 * push.c - blocks that their home reads repeatedly after another node wrote them are pushed to the
 * home at barriers. Rank 0 is the home, and the first rank of the second node writes. Counters show
 * which blocks were missed, and which were pushed.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

/* docs/protocol.md, "Pushing". */
#define AFTER 2u
#define FEW 7u
#define MANY 31u
#define LISTED 8192ul

#define BLOCKS 96ul
/* an unused block between any two, so that no reader looks sequential */
#define STEP (2 * 4096 / sizeof(uint64_t))
/* on a busy host a home may be too slow to request pushed blocks, but not each time */
#define TRIES 20
#define ROUNDS (AFTER + FEW + 1 + MANY + 1 + 2)

static int writer;
static uint64_t *memory;

static struct outside {
	uint64_t missed[ROUNDS]; /* misses of the home */
	uint64_t pushed[ROUNDS], upgrades[ROUNDS];
	uint64_t good;
} * outside;

/* Is pushing enabled in the writer? */
static bool pushes(void)
{
	const char *set = getenv("DSM_PUSH");

	return !test_in_kernel() && !(set && !strcmp(set, "off"));
}

static void write_all(uint64_t value, uint64_t blocks)
{
	uint64_t i;

	for (i = 0; i < blocks; i++)
		store(&memory[i * STEP], value + i);
}

static void read_all(uint64_t value, uint64_t blocks)
{
	uint64_t i;

	for (i = 0; i < blocks; i++)
		REQUIRE(load(&memory[i * STEP]) == value + i, "block %lu holds %lu, not %lu", i,
			load(&memory[i * STEP]), value + i);
}

/* The writer writes, and a rank reads the blocks, or none does. */
static void iterate(dsm_region_t *r, unsigned int round, int reader)
{
	struct dsm_stats before = test_stats(r), after;

	if (test_rank == writer)
		write_all(round + 1, BLOCKS);
	test_sync();
	if (test_rank == writer) {
		after = test_stats(r);
		outside->pushed[round] = after.pushed - before.pushed;
		outside->upgrades[round] = after.upgrades - before.upgrades;
	}
	if (test_rank == reader)
		read_all(round + 1, BLOCKS);
	if (test_rank == 0)
		outside->missed[round] = test_stats(r).read_faults - before.read_faults;
	test_sync();
}

static dsm_region_t *open_region(const char *name, uint64_t blocks)
{
	dsm_region_t *r;

	memory = test_open(name, blocks * STEP * sizeof(uint64_t), DSM_HOME_FIXED, &r);
	return r;
}

/* Must the home miss in this round? */
static bool is_missed(unsigned int round)
{
	const unsigned int sample = AFTER + FEW;

	return !pushes() || round < AFTER || round == sample || round == sample + 1 + MANY;
}

static bool as_expected(void)
{
	unsigned int i;

	for (i = 0; i < ROUNDS; i++)
		if (outside->missed[i] != (is_missed(i) ? BLOCKS : 0) ||
		    outside->pushed[i] != (is_missed(i) ? 0 : BLOCKS))
			return false;
	return true;
}

static void part_read(void)
{
	unsigned int i, t;
	dsm_region_t *r;

	outside->good = 0; /* all ranks do, before the next barrier */
	for (t = 0; t < TRIES && !see(&outside->good); t++) {
		r = open_region("read", BLOCKS);
		for (i = 0; i < ROUNDS; i++)
			iterate(r, i, 0);
		if (!test_rank)
			outside->good = as_expected();
		test_close("read", r);
	}
	for (i = 0; i < ROUNDS && !outside->good; i++)
		test_say("  round %u: %lu misses, %lu pushed", i, outside->missed[i],
			 outside->pushed[i]);
	REQUIRE(outside->good,
		"in none of %u tries the home missed what it was to miss, and no more", TRIES);
}

/* The home stops reading: the writer notices, and keeps its blocks. */
static void part_unread(void)
{
	uint64_t pushed = 0, upgrades = 0;
	unsigned int i;
	dsm_region_t *r = open_region("unread", BLOCKS);

	for (i = 0; i < ROUNDS; i++) {
		iterate(r, i, i < AFTER ? 0 : -1);
		pushed += outside->pushed[i];
		if (i > AFTER + FEW)
			upgrades += outside->upgrades[i];
	}
	REQUIRE(pushed <= FEW * BLOCKS, "%lu blocks were pushed that nobody has read", pushed);
	REQUIRE(!pushes() || pushed, "nothing was pushed");
	REQUIRE(!upgrades, "the writer lost its blocks %lu times afterwards", upgrades);
	if (!test_rank)
		read_all(ROUNDS, BLOCKS);
	test_close("unread", r);
}

/* The home stops reading, but a third node reads: the homes move to the writer. */
static void part_follow(void)
{
	const int reader = 2 * test_width();
	struct dsm_stats s;
	unsigned int i;
	dsm_region_t *r;

	if (dsm_nodes() < 3)
		return;
	r = open_region("follow", BLOCKS);
	for (i = 0; i < ROUNDS; i++)
		iterate(r, i, i < AFTER ? 0 : reader);
	MUST(dsm_stats_get(writer, r, &s));
	REQUIRE(s.homes_in == BLOCKS, "%lu homes of %lu have moved to the writer", s.homes_in,
		BLOCKS);
	test_close("follow", r);
}

/* Blocks pinned across the barrier stay where they are, and no rank waits for them there. */
static void part_pinned(void)
{
	unsigned int i;
	dsm_region_t *r = open_region("pinned", BLOCKS);

	for (i = 0; i < AFTER + 2; i++)
		iterate(r, i, 0);
	if (test_rank == writer) {
		write_all(100, BLOCKS);
		MUST(dsm_pin(memory, BLOCKS * STEP * sizeof(uint64_t), DSM_WRITE));
	}
	test_sync();
	if (test_rank == writer) {
		write_all(101, BLOCKS);
		MUST(dsm_unpin(memory, BLOCKS * STEP * sizeof(uint64_t)));
	}
	test_sync();
	if (!test_rank)
		read_all(101, BLOCKS);
	test_close("pinned", r);
}

struct shared {
	dsm_barrier_t b;
	uint64_t pushed, upgrades;
};

#define THREAD_ROUNDS (AFTER + 5)

/*
 * The second thread of a rank continues to write after the first has arrived, also to blocks that
 * the first has written.
 */
static void two_threads(unsigned int thread, void *arg)
{
	struct shared *s = arg;
	uint64_t round, i;

	for (round = 1; round <= THREAD_ROUNDS; round++) {
		if (test_rank == writer && thread)
			test_nap(5000000);
		for (i = 0; test_rank == writer && i < BLOCKS; i += 2 - thread)
			store(&memory[i * STEP], round + i);
		MUST(dsm_barrier_wait(&s->b));
		if (!test_rank && !thread)
			read_all(round, BLOCKS);
		MUST(dsm_barrier_wait(&s->b));
	}
}

static void part_threads(void)
{
	dsm_region_t *r = open_region("threads", BLOCKS);
	struct shared s;

	if (!test_rank)
		MUST(dsm_barrier_init(&s.b, NULL, 0, 2));
	MUST(dsm_broadcast(&s.b, sizeof(s.b), 0));
	test_threads(2, two_threads, &s);
	test_sync();
	if (test_rank == writer) {
		s.pushed = test_stats(r).pushed;
		s.upgrades = test_stats(r).upgrades;
	}
	MUST(dsm_broadcast(&s.pushed, sizeof(s.pushed), writer));
	MUST(dsm_broadcast(&s.upgrades, sizeof(s.upgrades), writer));
	REQUIRE(!s.pushed == !pushes(), "%lu blocks were pushed", s.pushed);
	REQUIRE(s.upgrades <= (THREAD_ROUNDS - 1) * BLOCKS,
		"%lu upgrades: blocks were pushed that a thread still wrote", s.upgrades);
	if (!test_rank)
		MUST(dsm_barrier_destroy(&s.b));
	test_close("threads", r);
}

/* More blocks than a rank's list can hold: the oldest are not pushed. */
static void part_many(void)
{
	const uint64_t many = LISTED + 512;
	struct dsm_stats before = { 0 }, after;
	dsm_region_t *r = open_region("many", many);
	uint64_t round;

	for (round = 1; round <= AFTER + 2; round++) {
		before = test_stats(r);
		if (test_rank == writer)
			write_all(round, many);
		test_sync();
		after = test_stats(r);
		REQUIRE(after.pushed - before.pushed <= LISTED, "%lu blocks were pushed",
			after.pushed - before.pushed);
		if (!test_rank)
			read_all(round, many);
		test_sync();
	}
	test_close("many", r);
}

static const struct test_part parts[] = {
	{ "what the home reads", part_read }, { "what it does not read", part_unread },
	{ "homes that follow", part_follow }, { "pins", part_pinned },
	{ "threads", part_threads },          { "many", part_many },
};

int main(int argc, char **argv)
{
	setenv("DSM_READAHEAD", "0", 1); /* misses are counted */
	test_start(argc, argv, "blocks that come back to their homes at barriers", NULL, 0);
	outside = test_outside(sizeof(*outside));
	writer = test_width() < test_size ? test_width() : 0;
	REQUIRE(writer, "two nodes are needed");
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
