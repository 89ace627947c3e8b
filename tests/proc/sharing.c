// SPDX-License-Identifier: BSD-2-Clause
/*
 * sharing.c - a miss counts as repeated if the node has lost the block since its last acquire
 * (docs/memory-model.md). If nodes pass data by synchronisation, no miss is repeated. If they write
 * different data in one block without synchronisation, nearly all are.
 */
#include "common.h"

#include <sched.h>

#define PAGES 8
#define WORDS (4096 / sizeof(uint64_t))
#define MIN_FAULTS 20 /* fewer faults prove nothing */
#define FEW 100       /* enough to ignore the first misses */

static uint64_t rounds = 20, milliseconds = 500;

/* Counters of all ranks, while none of them touches the region. */
static void faults_of(const dsm_region_t *r, uint64_t *faults, uint64_t *repeated)
{
	struct dsm_stats s;

	test_sync();
	MUST(dsm_stats_get(-1, r, &s));
	*faults = s.read_faults + s.write_faults + s.upgrades;
	*repeated = s.repeated_faults;
	test_sync();
}

static void expect_none(const dsm_region_t *r, const char *what)
{
	uint64_t faults, repeated;

	faults_of(r, &faults, &repeated);
	test_say("%s: %lu faults, %lu repeated", what, (unsigned long)faults,
		 (unsigned long)repeated);
	REQUIRE(faults >= MIN_FAULTS, "%lu faults", (unsigned long)faults);
	REQUIRE(repeated == 0, "%s: %lu of %lu faults count as repeated", what,
		(unsigned long)repeated, (unsigned long)faults);
}

/*
 * One rank writes, the others read. (Blocks that ranks write in turn migrate: a read takes them
 * away.)
 */
static void barriers(void)
{
	dsm_region_t *r;
	uint64_t *p = test_open("barriers", PAGES * 4096, DSM_HOME_CYCLIC, &r), i, k, sum = 0;

	for (i = 0; i < rounds; i++) {
		for (k = 0; test_rank == 0 && k < PAGES; k++)
			store(&p[k * WORDS], i);
		test_sync();
		for (k = 0; test_rank && k < PAGES; k++)
			sum += load(&p[k * WORDS]);
		test_sync();
	}
	REQUIRE(!test_rank || sum == PAGES * rounds * (rounds - 1) / 2, "sum %lu",
		(unsigned long)sum);
	expect_none(r, "barriers");
	test_close("barriers", r);
}

static struct board {
	dsm_mutex_t mutex;
	dsm_sem_t turn[2]; /* of the first rank, and of the last, which is on another node */
} * board;

/*
 * All ranks count under one lock until it has come from another node often enough. On a busy host
 * one rank may take it many times in a row.
 */
static void locks(void)
{
	dsm_region_t *r;
	uint64_t *p = test_open("locks", 4096, DSM_HOME_CYCLIC, &r), *last = p + 1, *moves = p + 2,
		 own = 0, sum;

	for (bool more = true; more; test_nap(1000000)) {
		MUST(dsm_mutex_lock(&board->mutex));
		store(moves, load(moves) + (load(last) != (uint64_t)dsm_node()));
		store(last, (uint64_t)dsm_node());
		store(p, load(p) + 1);
		own++;
		more = load(moves) < MIN_FAULTS + rounds;
		MUST(dsm_mutex_unlock(&board->mutex));
	}
	sum = own;
	MUST(dsm_reduce(&sum, DSM_UINT64, DSM_SUM));
	REQUIRE(test_rank || load(p) == sum, "%lu of %lu rounds", (unsigned long)load(p),
		(unsigned long)sum);
	expect_none(r, "locks");
	test_close("locks", r);
}

/* Pass data from node to node by semaphores. */
static void semaphores(void)
{
	dsm_region_t *r;
	uint64_t *p = test_open("semaphores", 4096, DSM_HOME_CYCLIC, &r), i;

	for (i = 0; i < rounds; i++) {
		const int writer = (int)(i % 2), reader = 1 - writer,
			  rank[2] = { 0, test_size - 1 };

		if (test_rank == rank[writer]) {
			store(p, i);
			MUST(dsm_sem_post(&board->turn[reader], 1));
		} else if (test_rank == rank[reader]) {
			MUST(dsm_sem_wait(&board->turn[reader]));
			REQUIRE(load(p) == i, "round %lu: %lu", (unsigned long)i,
				(unsigned long)load(p));
		}
	}
	expect_none(r, "semaphores");
	test_close("semaphores", r);
}

/*
 * Each rank writes its own word, without synchronisation. The first misses of each rank are not
 * repeated. On a busy host, where there are few others, try again for longer.
 */
static void false_sharing(void)
{
	dsm_region_t *r;
	uint64_t *p = test_open("false", 4096, DSM_HOME_CYCLIC, &r), *own = &p[test_rank * 8], end;
	uint64_t faults, repeated, faults_before, repeated_before, ms = milliseconds;

	do {
		faults_of(r, &faults_before, &repeated_before);
		for (end = test_ns() + ms * 1000000; test_ns() < end;) {
			store(own, load(own) + 1);
			sched_yield();
		}
		faults_of(r, &faults, &repeated);
		faults -= faults_before;
		repeated -= repeated_before;
		test_say("false sharing: %lu faults, %lu repeated", (unsigned long)faults,
			 (unsigned long)repeated);
		ms *= 2;
	} while (faults < FEW && ms <= milliseconds * 32);
	REQUIRE(faults >= FEW, "%lu faults", (unsigned long)faults);
	REQUIRE(repeated <= faults && repeated * 10 >= faults * 9,
		"%lu of %lu faults count as repeated", (unsigned long)repeated,
		(unsigned long)faults);
	test_close("false", r);
}

static const struct test_part parts[] = {
	{ "barriers", barriers },
	{ "locks", locks },
	{ "semaphores", semaphores },
	{ "false sharing", false_sharing },
};

int main(int argc, char **argv)
{
	static const struct test_option options[] = {
		{ "rounds", "N", "rounds of what is synchronised (20)", &rounds },
		{ "milliseconds", "N", "of false sharing (500)", &milliseconds },
	};
	struct dsm_stats s;

	test_start(argc, argv, "Count repeated misses.", options, 2);
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIXED, 0);
	if (test_rank == 0) {
		MUST(dsm_mutex_init(&board->mutex));
		MUST(dsm_sem_init(&board->turn[0], 0));
		MUST(dsm_sem_init(&board->turn[1], 0));
	}
	test_sync();
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	MUST(dsm_stats_get(-1, NULL, &s));
	REQUIRE(s.repeated_faults <= s.read_faults + s.write_faults + s.upgrades,
		"%lu repeated faults", (unsigned long)s.repeated_faults);
	return test_end();
}
