// SPDX-License-Identifier: BSD-2-Clause
/*
 * release_runs.c - neighbouring release blocks: one call of the kernel, and one fault, for many.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "release.h"

#define WIDE 64
#define WORDS (int)(BYTES / sizeof(uint64_t))

/* Ranks 0 and 1, each a node. */
static bool two_nodes(void)
{
	return test_size == 2 && dsm_nodes() == 2;
}

/* Can the kernel store to this byte, which no thread has stored to since the block was closed? */
static bool is_writable(volatile void *at)
{
	int fd[2];
	bool can;

	REQUIRE(!pipe(fd), "pipe: %m");
	REQUIRE(write(fd[1], "", 1) == 1, "write: %m");
	can = syscall(SYS_read, fd[0], at, 1) == 1;
	close(fd[0]);
	close(fd[1]);
	return can;
}

/* Pages whose home is rank 0, which has stored 1 to each. */
static void *open_made(dsm_region_t **wide)
{
	uint64_t *word = open_more("wide", WIDE, wide);
	int i;

	for (i = 0; test_rank == 0 && i < WIDE; i++)
		word[i * WORDS] = 1;
	test_sync();
	return word;
}

/*
 * All nodes write neighbouring pages again and again: pages are lowered and dropped by one call for
 * many, and the store to the first one opens those behind it (of two nodes: a late notice of a
 * third one may have taken them away).
 */
void part_runs(void)
{
	enum { TURNS = 8, LOWERED_AFTER = 3 };
	struct dsm_stats before = { 0 }, after;
	uint64_t *word, round;
	dsm_region_t *wide;
	int i, r;

	if (sequential)
		return;
	word = open_more("wide", WIDE, &wide);
	for (round = 1; round <= TURNS; round++) {
		test_sync();
		if (round == TURNS / 2)
			before = counted(-1, NULL);
		test_sync();
		for (i = 0; i < WIDE; i++)
			word[i * WORDS + test_rank] = round;
		test_sync();
		for (i = 0; i < WIDE; i++)
			for (r = 0; r < test_size; r++)
				REQUIRE(word[i * WORDS + r] == round, "page %d, rank %d: %lu", i, r,
					word[i * WORDS + r]);
	}
	test_sync();
	after = counted(-1, NULL);
	REQUIRE(after.protect_calls - before.protect_calls <=
			(uint64_t)(TURNS / 2 + 1) * WIDE * dsm_nodes() / 2,
		"%lu calls", after.protect_calls - before.protect_calls);
	for (i = 0; i <= LOWERED_AFTER; i++) /* closes without a difference */
		test_sync();
	word[test_rank] = TURNS + 1;
	REQUIRE(!two_nodes() || is_writable(&word[WORDS + test_rank]),
		"the page behind one that was stored to costs a fault of its own");
	test_close("wide", wide);
}

struct stores {
	uint64_t *word;
	int step;
};

static void store_each(unsigned int thread, void *arg)
{
	const struct stores *s = arg;
	int i;

	for (i = 0; thread == 1 && i < WIDE; i += s->step)
		s->word[i * WORDS + 1] = 2;
}

/*
 * Rank 1 stores 2 to every step-th page, in order, by a thread that has missed nothing yet, and may
 * fetch all before. Counts are of all ranks.
 */
static void store_to_all(dsm_region_t *wide, struct stores s, bool fetches,
			 struct dsm_stats *before, struct dsm_stats *after)
{
	*before = counted(-1, wide);
	test_sync();
	if (test_rank == 1 && fetches)
		MUST(dsm_prefetch(s.word, WIDE * BYTES, DSM_WRITE));
	if (test_rank == 1)
		test_threads(2, store_each, &s);
	test_sync();
	*after = counted(-1, wide);
	test_sync(); /* before a rank reads, and fetches again */
}

/* Each page has what rank 0 has made, and every step-th one what rank 1 has stored since. */
static void end_given(dsm_region_t *wide, const uint64_t *word, int step)
{
	int i;

	for (i = 0; i < WIDE; i++)
		REQUIRE(word[i * WORDS] == 1 && word[i * WORDS + 1] == (i % step ? 0 : 2),
			"page %d has %lu and %lu", i, word[i * WORDS], word[i * WORDS + 1]);
	test_close("wide", wide);
}

/*
 * A node asks for the homes of neighbouring pages at once, and stores to them: the first home
 * lowers many by one call.
 */
void part_given(void)
{
	struct dsm_stats before, after;
	dsm_region_t *wide;
	uint64_t *word;

	if (sequential || !two_nodes())
		return;
	word = open_made(&wide);
	store_to_all(wide, (struct stores){ word, 1 }, true, &before, &after);
	REQUIRE(after.homes_in - before.homes_in == WIDE, "%lu homes of %d pages have moved",
		after.homes_in - before.homes_in, WIDE);
	REQUIRE(after.protect_calls - before.protect_calls <= WIDE / 4, "%lu calls for %d pages",
		after.protect_calls - before.protect_calls, WIDE);
	end_given(wide, word, 1);
}

/* By a thread that has had no stream. */
static void store_in_order(unsigned int thread, void *arg)
{
	volatile uint64_t *word = arg; /* in this order */

	if (thread != 1)
		return;
	word[1] = 2;
	word[WORDS + 1] = 2;
	REQUIRE(!is_writable(&word[2 * WORDS + 2]), "two pages are no order");
	word[2 * WORDS + 1] = 2;
	REQUIRE(is_writable(&word[3 * WORDS + 2]), "the fourth page costs a fault");
	REQUIRE(is_writable(&word[5 * WORDS + 2]), "the sixth page costs a fault");
	REQUIRE(!is_writable(&word[6 * WORDS + 2]), "three pages brought more than three");
	word[40 * WORDS + 1] = 2;
	REQUIRE(!is_writable(&word[41 * WORDS + 2]), "one page is no order");
}

/*
 * A node has read neighbouring pages of another home, and stores to them for the first time: the
 * third store in order opens those behind it. The node is the first home of these, which have
 * moved: it asks for none.
 */
void part_order(void)
{
	dsm_region_t *wide;
	volatile uint64_t *word; /* in this order */
	uint64_t sum = 0;
	int i;

	if (sequential || !two_nodes())
		return;
	word = open_at(1, "wide", WIDE, &wide);
	for (i = 0; test_rank == 0 && i < WIDE; i++)
		word[i * WORDS] = 1;
	test_sync();
	for (i = 0; i < WIDE; i++)
		sum += word[i * WORDS];
	REQUIRE(sum == WIDE, "the pages have %lu", sum);
	if (test_rank == 1)
		test_threads(2, store_in_order, (void *)word);
	test_sync();
	for (i = 0; i < WIDE; i++)
		REQUIRE(word[i * WORDS + 1] == (i < 3 || i == 40 ? 2 : 0), "page %d has %lu", i,
			word[i * WORDS + 1]);
	test_close("wide", wide);
}

/* A node that was often refused has stopped asking for homes: some closes later it asks again. */
static void close_often(void)
{
	volatile uint64_t *word;
	dsm_region_t *spare;
	uint64_t turn;

	word = open_more("spare", 1, &spare);
	test_sync();
	for (turn = 1; turn <= 100; turn++) {
		if (test_rank == 1)
			*word = turn;
		test_sync();
		REQUIRE(*word == turn, "turn %lu is %lu", turn, *word);
		test_sync();
	}
	test_close("spare", spare);
}

/*
 * A node has read neighbouring pages of another home, and stores to every step-th one in order: it
 * becomes the home of all but the first ones, and sends no more than these. Most of them cost no
 * fault.
 */
static void raised(int step, int alone)
{
	const unsigned int n = WIDE / (unsigned int)step;
	struct dsm_stats before, after;
	dsm_region_t *wide;
	uint64_t *word;
	int i;

	word = open_made(&wide);
	for (i = 0; test_rank == 1 && i < WIDE; i++)
		REQUIRE(word[i * WORDS] == 1, "page %d has %lu", i, word[i * WORDS]);
	test_sync();
	store_to_all(wide, (struct stores){ word, step }, false, &before, &after);
	REQUIRE(after.homes_in - before.homes_in == n - (unsigned int)alone,
		"%lu homes of %u pages have moved", after.homes_in - before.homes_in, n);
	REQUIRE(after.blocks_in == before.blocks_in, "%lu pages have come again",
		after.blocks_in - before.blocks_in);
	REQUIRE(after.upgrades - before.upgrades <= n / 2, "%lu faults for %u pages",
		after.upgrades - before.upgrades, n);
	REQUIRE(step > 1 || after.protect_calls - before.protect_calls <= WIDE / 8,
		"%lu calls lower pages", after.protect_calls - before.protect_calls);
	end_given(wide, word, step);
}

/* The second store is in order; at one distance, the fourth is. */
void part_raised(void)
{
	if (sequential || !two_nodes())
		return;
	close_often();
	raised(1, 1);
	raised(2, 3);
}

/*
 * Nobody has touched the pages of this home: a touch maps those behind it, as long as they are in
 * order, or as there are pages around them. Once other nodes have copies, a store opens those
 * behind it.
 */
void part_touch(void)
{
	dsm_region_t *wide;
	volatile uint64_t *word; /* in this order */
	uint64_t sum = 0;
	int i;

	if (sequential || one_node())
		return;
	word = open_more("wide", WIDE, &wide);
	test_sync();
	if (test_rank == 0) {
		word[0] = 1;
		REQUIRE(!is_writable(&word[WORDS + 1]), "one page is no order");
		word[WORDS] = 1;
		REQUIRE(is_writable(&word[2 * WORDS + 1]), "the third page costs a fault");
		REQUIRE(!is_writable(&word[3 * WORDS + 1]), "two pages brought more than one");
		word[3 * WORDS] = 1;
		REQUIRE(is_writable(&word[6 * WORDS + 1]), "the seventh page costs a fault");
		word[40 * WORDS] = 1;
		word[44 * WORDS] = 1;
		REQUIRE(is_writable(&word[45 * WORDS + 1]), "of a chunk with a page, the next");
		REQUIRE(!is_writable(&word[43 * WORDS + 1]),
			"the page before one that was touched");
		word[50 * WORDS] = 1; /* and downwards */
		word[49 * WORDS] = 1;
		REQUIRE(is_writable(&word[48 * WORDS + 1]), "the third page down costs a fault");
		word[47 * WORDS] = 1;
		REQUIRE(is_writable(&word[46 * WORDS + 1]), "the fifth page down costs a fault");
	}
	test_sync();
	for (i = 0; i < WIDE; i++)
		sum += word[i * WORDS] << (i % 8);
	REQUIRE(sum == 1 + 2 + 8 + 1 + 16 + 4 + 2 + 128, "the pages have %lu", sum);
	test_sync();
	if (test_rank == 0) {
		word[0] = 2;
		REQUIRE(is_writable(&word[WORDS + 1]), "a page that was exclusive costs a fault");
	}
	test_close("wide", wide);
}

/* Nobody has touched these pages: their home grants them, and no contents travel. */
void part_fresh(void)
{
	struct dsm_stats before, after;
	dsm_region_t *wide;
	volatile uint64_t *word;
	uint64_t sum = 0;
	int i;

	if (sequential || !two_nodes())
		return;
	word = open_more("wide", WIDE, &wide);
	test_sync();
	before = counted(-1, wide);
	test_sync();
	for (i = 0; test_rank == 1 && i < WIDE; i++) /* half are read first, half are written */
		word[i * WORDS] = i < WIDE / 2 ? word[i * WORDS] + 1 : 1;
	test_sync();
	after = counted(-1, wide);
	REQUIRE(after.blocks_in == before.blocks_in, "%lu pages have travelled",
		after.blocks_in - before.blocks_in);
	REQUIRE(after.homes_in - before.homes_in >= WIDE * 3 / 4, "%lu pages have moved",
		after.homes_in - before.homes_in);
	test_sync();
	for (i = 0; i < WIDE; i++)
		sum += word[i * WORDS];
	REQUIRE(sum == WIDE, "the pages have %lu", sum);
	test_close("wide", wide);
}
