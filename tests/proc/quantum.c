// SPDX-License-Identifier: BSD-2-Clause
/*
 * quantum.c - locks that bounce between nodes: each node in turn keeps them for a while
 * (DSM_QUANTUM_MS). Nobody gets much more than others, and a node that computes gives them away in
 * time.
 */
#include "common.h"

#define LOCKS 256
#define LINE 8 /* words from one counter to the next */

static uint64_t sections = 40000, off;
static struct board { /* shared through libdsm */
	dsm_mutex_t mutex[LOCKS];
	uint64_t counter[LOCKS * LINE];
} * board;
static struct out { /* shared outside libdsm */
	uint64_t had[64];
	uint32_t done;
} * out;

static struct dsm_stats all_stats(void)
{
	struct dsm_stats s;

	test_sync();
	MUST(dsm_stats_get(-1, NULL, &s));
	test_sync();
	return s;
}

static void add_under(unsigned int i)
{
	MUST(dsm_mutex_lock(&board->mutex[i]));
	board->counter[i * LINE]++;
	MUST(dsm_mutex_unlock(&board->mutex[i]));
}

/* ---- many locks ------------------------------------------------------------------------------ */

static uint64_t sum(void)
{
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < LOCKS; i++)
		n += board->counter[i * LINE];
	return n;
}

/* All ranks use all locks. Returns how many were kept. */
static uint64_t many_once(struct rng *r)
{
	struct dsm_stats before = all_stats(), after;
	const uint64_t had = sum();
	uint64_t i, kept;

	test_sync();
	for (i = 0; i < sections; i++)
		add_under((unsigned int)rng_below(r, LOCKS));
	after = all_stats();
	REQUIRE(sum() - had == sections * (uint64_t)test_size, "%lu of %lu sections", sum() - had,
		sections * (uint64_t)test_size);
	kept = after.locks_kept - before.locks_kept;
	test_say("%lu sections of each rank: %lu waits, %lu locks kept\n", sections,
		 after.lock_waits - before.lock_waits, kept);
	return kept;
}

/* On a busy machine it may take a while until locks bounce fast enough. */
#define TURNS 50

static void part_many(void)
{
	struct rng r = rng_of((uint64_t)test_rank);
	uint64_t kept;
	int i;

	for (i = 0; i < TURNS; i++) {
		kept = many_once(&r);
		if (off || kept)
			break;
	}
	REQUIRE(off ? !kept : kept, "%lu locks are kept", kept);
}

/* ---- one lock -------------------------------------------------------------------------------- */

#define ONE_NS 300000000u

/* True: no rank gets the lock more than twice as often as another one. */
static bool is_fair(void)
{
	uint64_t least = UINT64_MAX, most = 0, end;
	int r;

	test_sync();
	out->had[test_rank] = 0;
	test_sync();
	for (end = test_ns() + ONE_NS; test_ns() < end; out->had[test_rank]++)
		add_under(0);
	test_sync();
	for (r = 0; r < test_size; r++) {
		least = out->had[r] < least ? out->had[r] : least;
		most = out->had[r] > most ? out->had[r] : most;
	}
	test_sync();
	test_say("one lock: %lu to %lu times\n", least, most);
	return most <= 2 * least;
}

/* On a busy machine ranks do not get the same time, so one turn of some must be fair. */
static void part_one(void)
{
	int i;

	for (i = 0; i < TURNS; i++)
		if (is_fair())
			return;
	FAIL("none of %d turns was fair", TURNS);
}

/* ---- a node that computes -------------------------------------------------------------------- */

#define LATE_NS 100000000u /* a message is kept for 2 ms */

/* Rank 1 takes some locks while rank 0, which may have its quantum, makes no call. */
static uint64_t longest_wait(struct rng *r)
{
	uint64_t start, longest = 0;
	int i;

	if (!test_rank) {
		while (!__atomic_load_n(&out->done, __ATOMIC_ACQUIRE))
			test_delay(1000);
		return 0;
	}
	for (i = 0; i < 4; i++) {
		start = test_ns();
		add_under((unsigned int)rng_below(r, LOCKS));
		longest = test_ns() - start > longest ? test_ns() - start : longest;
	}
	__atomic_store_n(&out->done, 1, __ATOMIC_RELEASE);
	return longest;
}

/* It gives them away all the same, and in time. */
static void part_late(void)
{
	struct dsm_stats before = all_stats(), after;
	struct rng r = rng_of((uint64_t)test_rank);
	unsigned int late = 0, turn;
	uint64_t i;

	for (turn = 0; turn < TURNS; turn++) {
		if (!test_rank)
			out->done = 0;
		test_sync();
		for (i = 0; i < sections / 4; i++)
			add_under((unsigned int)rng_below(&r, LOCKS));
		late += longest_wait(&r) > LATE_NS;
		test_sync();
	}
	after = all_stats();
	test_say("%lu locks kept\n", after.locks_kept - before.locks_kept);
	REQUIRE(late <= TURNS / 10, "in %u of %d turns a lock came late", late, TURNS);
}

static const struct test_part parts[] = {
	{ "many", part_many },
	{ "late", part_late },
	{ "one", part_one },
};

int main(int argc, char **argv)
{
	static const struct test_option options[] = {
		{ "sections", "N", "critical sections of each rank", &sections },
		{ "off", NULL, "nothing may be kept, as DSM_QUANTUM_MS is 0", &off },
	};
	unsigned int i;

	test_start(argc, argv, "Locks that bounce between nodes.", options, 2);
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	out = test_outside(sizeof(*out));
	if (!test_rank)
		for (i = 0; i < LOCKS; i++)
			MUST(dsm_mutex_init(&board->mutex[i]));
	test_sync();
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
