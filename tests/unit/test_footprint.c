// SPDX-License-Identifier: BSD-2-Clause
/* test_footprint.c - miss/footprint.c: which pages of a chunk a miss brings along. */
#include "miss/footprint.h"

#include "job/ctl.h"
#include "suite.h"

#define ALL UINT16_MAX
#define BIT(page) (1u << (page))

static struct footprint chunk;
static int8_t trust;

static void set_up(void)
{
	chunk = (struct footprint){ 0 };
	trust = 0;
}

/*
 * A round: the node uses these pages in order, and then loses all it has. Returns the pages that it
 * has missed. brought: how many pages came along.
 */
static uint16_t use(uint16_t pages, unsigned int *brought)
{
	uint16_t has = 0, missed = 0, more;
	unsigned int page;

	*brought = 0;
	for (page = 0; page < FOOTPRINT_PAGES; page++) {
		if (!(pages >> page & 1) || has >> page & 1)
			continue;
		more = footprint_missed(&chunk, page, ALL, false, &trust) & (uint16_t)~has;
		ck_assert(!(more >> page & 1));
		missed |= (uint16_t)(1u << page);
		has |= more | (uint16_t)(1u << page);
		*brought += (unsigned int)__builtin_popcount(more);
	}
	return missed;
}

static unsigned int misses(uint16_t pages)
{
	unsigned int brought;

	return (unsigned int)__builtin_popcount(use(pages, &brought));
}

UNIT_TEST(one_page_brings_nothing)
{
	unsigned int i;

	for (i = 0; i < 40; i++)
		ck_assert_uint_eq(footprint_missed(&chunk, 9, ALL, false, &trust), 0);
	ck_assert_uint_eq(chunk.used, BIT(9));
}

UNIT_TEST(the_second_page_brings_all_but_one)
{
	ck_assert_uint_eq(footprint_missed(&chunk, 0, ALL, false, &trust), 0);
	ck_assert_uint_eq(footprint_missed(&chunk, 4, ALL, false, &trust),
			  ALL & ~(BIT(1) | BIT(4)));
	ck_assert_uint_eq(chunk.tested, BIT(1));
}

/* Of a chunk that is used as a whole, tests cost at most a miss in a round, and become rare. */
UNIT_TEST(a_whole_chunk_costs_few_misses)
{
	unsigned int round, extra = 0;

	ck_assert_uint_eq(misses(ALL), 3); /* two that begin it, and the page that was left out */
	for (round = 0; round < 64; round++)
		extra += misses(ALL) - 1;
	ck_assert_uint_ge(extra, 3);
	ck_assert_uint_le(extra, 9);
	ck_assert_uint_eq(chunk.used, ALL);
	ck_assert_uint_eq(chunk.pause, 15);
}

/* What is brought in vain is forgotten, by twice as many pages in each round. */
UNIT_TEST(what_is_not_used_is_forgotten)
{
	const uint16_t few = BIT(2) | BIT(7) | BIT(12);
	unsigned int brought, vain = 0, round;

	for (round = 0; round < 8; round++) {
		use(few, &brought);
		vain += brought;
	}
	ck_assert_uint_le(vain, 60);
	ck_assert_uint_eq(chunk.used, few);
	for (round = 0; round < 12; round++)
		use(few, &brought);
	ck_assert_uint_eq(use(few, &brought), BIT(2));
	ck_assert_uint_eq(brought, 2);
	ck_assert_uint_eq(chunk.doubt, 0);
}

/* While there is doubt, a page that is missed joins alone. */
UNIT_TEST(doubt_brings_no_page_that_was_not_missed)
{
	unsigned int brought, i;

	for (i = 0; i < 8; i++)
		use(BIT(2) | BIT(7), &brought);
	ck_assert_uint_gt(chunk.doubt, 0);
	ck_assert_uint_eq(footprint_missed(&chunk, 12, ALL, false, &trust) & ~(BIT(2) | BIT(7)),
			  0u);
	ck_assert_uint_eq(chunk.used, BIT(2) | BIT(7) | BIT(12));
}

/* The round begins with the page that began the first one, wherever the others begin. */
UNIT_TEST(only_the_first_page_begins_a_round)
{
	unsigned int i;

	footprint_missed(&chunk, 3, ALL, false, &trust);
	footprint_missed(&chunk, 5, ALL, false, &trust);
	ck_assert_uint_eq(chunk.tested, 1);
	for (i = 0; i < 20; i++)
		footprint_missed(&chunk, 8, ALL, false, &trust);
	ck_assert_uint_eq(chunk.tested, 1);
	ck_assert_uint_eq(footprint_missed(&chunk, 3, ALL, false, &trust),
			  ALL & ~(BIT(0) | BIT(1) | BIT(2) | BIT(3)));
	ck_assert_uint_eq(chunk.tested, BIT(1) | BIT(2));
	ck_assert_uint_eq(chunk.used, ALL & ~1);
}

/* All pages are tested at last, and no more than there are. */
UNIT_TEST(doubt_has_an_end)
{
	unsigned int i, brought;

	use(ALL, &brought);
	for (i = 0; i < 8; i++)
		use(1, &brought);
	ck_assert_uint_eq(chunk.used, 1);
	ck_assert_uint_eq(chunk.doubt, FOOTPRINT_DOUBT);
	for (i = 0; i < 20; i++)
		use(1, &brought);
	ck_assert_uint_eq(chunk.doubt, FOOTPRINT_DOUBT); /* there was nothing to test */
}

/* Another prediction asks for the page that was left out: it is neither used nor unused. */
UNIT_TEST(what_another_prediction_asks_for_is_not_judged)
{
	footprint_missed(&chunk, 0, ALL, false, &trust);
	footprint_missed(&chunk, 4, ALL, false, &trust);
	footprint_asked(&chunk, 2);
	ck_assert_uint_eq(chunk.tested, BIT(1));
	footprint_asked(&chunk, 1);
	ck_assert_uint_eq(chunk.tested, 0);
	ck_assert_uint_eq(footprint_missed(&chunk, 0, ALL, false, &trust), ALL & ~1);
	ck_assert_uint_eq(chunk.used, ALL);
}

/* A thread whose tests fail brings no whole chunk, until as many have succeeded. */
UNIT_TEST(a_thread_learns_from_its_tests)
{
	unsigned int i, brought;

	for (i = 0; i < 7; i++)
		use(BIT(0) | BIT(5), &brought);
	ck_assert_int_lt(trust, 0);
	chunk = (struct footprint){ 0 };
	use(BIT(3) | BIT(4), &brought);
	ck_assert_uint_eq(brought, 0);
	ck_assert_uint_eq(chunk.used, BIT(3) | BIT(4));
	for (i = 0; i < 80; i++)
		use(BIT(3) | BIT(4), &brought);
	ck_assert_int_ge(trust, 0);
	for (i = 0; i < 600; i++)
		use(BIT(3) | BIT(4), &brought);
	ck_assert_int_eq(trust, FOOTPRINT_TRUST);
	chunk = (struct footprint){ 0 };
	use(BIT(3) | BIT(4), &brought);
	ck_assert_uint_eq(brought, FOOTPRINT_PAGES - 3);
	for (i = 0; i < 20; i++) {
		chunk = (struct footprint){ .first = 1, .used = ALL, .tested = 2 };
		footprint_missed(&chunk, 0, ALL, false, &trust);
	}
	ck_assert_int_eq(trust, -FOOTPRINT_TRUST);
}

/* What this node need not fetch is neither tested nor brought. */
UNIT_TEST(pages_of_this_node_are_left_alone)
{
	const uint16_t away = ALL & ~(BIT(1) | BIT(6));

	footprint_missed(&chunk, 0, away, false, &trust);
	ck_assert_uint_eq(footprint_missed(&chunk, 4, away, false, &trust),
			  away & ~(BIT(2) | BIT(4)));
	ck_assert_uint_eq(chunk.tested, BIT(2));
	chunk = (struct footprint){ .first = 1, .used = ALL };
	footprint_missed(&chunk, 0, away, false, &trust);
	ck_assert_uint_eq(chunk.tested, BIT(2));
}

/* ---- samples --------------------------------------------------------------------------------- */

/*
 * A round in a node that samples: as use(), and in the end the node drops all it has. Returns how
 * many pages it has missed.
 */
static unsigned int use_sampled(uint16_t pages, unsigned int *brought)
{
	uint16_t has = 0, more;
	unsigned int page, missed = 0;

	*brought = 0;
	for (page = 0; page < FOOTPRINT_PAGES; page++) {
		if (!(pages >> page & 1) || has >> page & 1)
			continue;
		more = footprint_missed(&chunk, page, ALL, true, &trust) & (uint16_t)~has;
		missed++;
		has |= more | (uint16_t)(1u << page);
		*brought += (unsigned int)__builtin_popcount(more);
	}
	for (page = 0; page < FOOTPRINT_PAGES; page++)
		if (has >> page & 1)
			footprint_dropped(&chunk, page, pages >> page & 1);
	return missed;
}

UNIT_TEST(a_sample_learns_at_once_what_is_used)
{
	const uint16_t few = BIT(2) | BIT(7) | BIT(12);
	unsigned int brought, page, i;

	ck_assert(!footprint_denies(&chunk, 0));
	ck_assert_uint_eq(use_sampled(few, &brought), 2);
	ck_assert_uint_eq(brought, FOOTPRINT_PAGES - 2);
	ck_assert_uint_eq(footprint_used(&chunk), few);
	for (i = 0; i < 40; i++) {
		for (page = 0; page < FOOTPRINT_PAGES; page++)
			ck_assert_int_eq(footprint_denies(&chunk, page), !(few >> page & 1));
		ck_assert_uint_eq(use_sampled(few, &brought), 1);
		ck_assert_uint_eq(brought, 2);
	}
	ck_assert_uint_eq(chunk.used, few);
	ck_assert_uint_eq(chunk.pause, FOOTPRINT_REST);
}

/* Nothing is left out, and samples become rare. */
UNIT_TEST(samples_of_a_whole_chunk_cost_no_miss)
{
	unsigned int brought, i, samples = 0;

	ck_assert_uint_eq(use_sampled(ALL, &brought), 2);
	for (i = 0; i < 64; i++) {
		ck_assert_uint_eq(use_sampled(ALL, &brought), 1);
		ck_assert_uint_eq(brought, FOOTPRINT_PAGES - 1);
		samples += chunk.asks;
	}
	ck_assert_uint_ge(samples, 4);
	ck_assert_uint_le(samples, 9);
	ck_assert(!footprint_denies(&chunk, 5));
}

/* A page that is used again comes back by its miss; what others bring counts if touched. */
UNIT_TEST(what_a_sample_denies_comes_back)
{
	unsigned int brought;

	use_sampled(BIT(1) | BIT(2), &brought);
	ck_assert(footprint_denies(&chunk, 9));
	ck_assert_uint_eq(use_sampled(BIT(1) | BIT(2) | BIT(9), &brought), 2);
	ck_assert(!footprint_denies(&chunk, 9));
	chunk.asks = 1;
	footprint_dropped(&chunk, 14, true);
	footprint_dropped(&chunk, 9, false);
	ck_assert(footprint_denies(&chunk, 9) && !footprint_denies(&chunk, 14));
	ck_assert_uint_eq(footprint_used(&chunk), BIT(1) | BIT(2) | BIT(14));
	/* It was dropped before it was used: it is missed before the round ends. */
	footprint_missed(&chunk, 9, ALL, true, &trust);
	ck_assert(!footprint_denies(&chunk, 9));
	ck_assert_uint_eq(chunk.tested, 0);
}

/* What is not dropped yet is not judged; nor is what is dropped in a round without a sample. */
UNIT_TEST(only_what_a_sample_drops_is_judged)
{
	footprint_missed(&chunk, 0, ALL, true, &trust);
	footprint_missed(&chunk, 4, ALL, true, &trust);
	ck_assert(footprint_sampled(&chunk));
	footprint_dropped(&chunk, 0, true);
	footprint_dropped(&chunk, 8, false);
	ck_assert_uint_eq(footprint_missed(&chunk, 0, ALL, true, &trust), ALL & ~(BIT(0) | BIT(8)));
	ck_assert_uint_eq(chunk.used, ALL & ~BIT(8));
	ck_assert(footprint_sampled(&chunk));
	ck_assert_uint_eq(footprint_missed(&chunk, 0, ALL, true, &trust), ALL & ~(BIT(0) | BIT(8)));
	ck_assert(!footprint_sampled(&chunk));
	footprint_dropped(&chunk, 3, false);
	ck_assert_uint_eq(chunk.tested, 0);
	/* one page alone needs no sample */
	chunk = (struct footprint){ .first = 1, .used = 1 };
	footprint_missed(&chunk, 0, ALL, true, &trust);
	ck_assert(!footprint_sampled(&chunk));
}

/* Where other predictions bring all pages, none is missed, and the sample ends all the same. */
UNIT_TEST(a_sample_ends_when_its_first_page_is_dropped_twice)
{
	unsigned int page, turn;

	footprint_missed(&chunk, 3, ALL, true, &trust);
	ck_assert_uint_eq(footprint_known(&chunk), 0);
	footprint_missed(&chunk, 4, ALL, true, &trust);
	ck_assert_uint_eq(footprint_used(&chunk), ALL);
	ck_assert_uint_eq(footprint_known(&chunk), 0); /* believed, not seen */
	for (turn = 0; turn < 2; turn++)
		for (page = 0; page < FOOTPRINT_PAGES; page++) {
			ck_assert_int_eq(footprint_sampled(&chunk), !turn || page <= 3);
			footprint_dropped(&chunk, page, page < 8);
		}
	ck_assert_uint_eq(chunk.used, 0xff);
	ck_assert_uint_eq(footprint_known(&chunk), 0xff);
	ck_assert(footprint_denies(&chunk, 8) && !footprint_denies(&chunk, 7));
	ck_assert_uint_eq(chunk.tested, 0);
	/* A miss of that page ends what drops have begun. */
	footprint_missed(&chunk, 3, ALL, true, &trust);
	ck_assert(footprint_sampled(&chunk) && !chunk.dropped);
	footprint_dropped(&chunk, 3, true);
	ck_assert(footprint_sampled(&chunk) && chunk.dropped);
	footprint_dropped(&chunk, 9, false);
	footprint_dropped(&chunk, 3, true);
	ck_assert(!footprint_sampled(&chunk));
	/* A page that joins brings others, which nobody has seen used. */
	chunk.doubt = 0;
	footprint_missed(&chunk, 9, ALL, true, &trust);
	ck_assert_uint_eq(footprint_used(&chunk), ALL);
	ck_assert_uint_eq(footprint_known(&chunk), 0);
	ck_assert(footprint_sampled(&chunk) && !chunk.dropped);
}

/* Its rounds are counted by drops, and what is not used any more is noticed. */
UNIT_TEST(a_chunk_that_is_never_missed_is_sampled_again)
{
	unsigned int page, round, samples = 0;
	bool sampled;

	footprint_missed(&chunk, 3, ALL, true, &trust);
	footprint_missed(&chunk, 4, ALL, true, &trust);
	for (round = 0; round < 96; round++) {
		sampled = footprint_sampled(&chunk);
		samples += sampled;
		for (page = 0; page < FOOTPRINT_PAGES; page++)
			if (!footprint_denies(&chunk, page)) /* what is denied does not come */
				footprint_dropped(&chunk, page, page != 9 || round < 48);
		if (round == 47)
			ck_assert_uint_eq(footprint_known(&chunk), ALL);
	}
	ck_assert_uint_ge(samples, 6);
	ck_assert_uint_le(samples, 24);
	ck_assert_uint_eq(footprint_known(&chunk), ALL & ~BIT(9));
	/* one page alone needs no sample */
	chunk = (struct footprint){ .first = 1, .used = 1, .dropped = 1 };
	footprint_dropped(&chunk, 0, true);
	ck_assert(!footprint_sampled(&chunk) && chunk.dropped);
}

/* Half of the pages, or more: whole chunks are still worth it. */
UNIT_TEST(a_thread_learns_from_its_samples)
{
	unsigned int i, brought;

	for (i = 0; i < 2; i++)
		use_sampled(0x5555, &brought);
	ck_assert_int_eq(trust, 1);
	for (i = 0; i < 2; i++) {
		chunk = (struct footprint){ 0 };
		use_sampled(BIT(3) | BIT(4), &brought);
		use_sampled(BIT(3) | BIT(4), &brought);
	}
	ck_assert_int_eq(trust, -1);
	chunk = (struct footprint){ 0 };
	use_sampled(BIT(3) | BIT(4), &brought);
	ck_assert_uint_eq(brought, 0);
	ck_assert_uint_eq(chunk.used, BIT(3) | BIT(4));
	ck_assert(!footprint_denies(&chunk, 5));
}

UNIT_SUITE("footprint", .setup = set_up)
