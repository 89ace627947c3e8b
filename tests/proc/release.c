// SPDX-License-Identifier: BSD-2-Clause
/*
 * release.c - regions with release consistency: several nodes write a page at a time, and see each
 * other's stores after synchronisation, whatever its kind. Handles are in a sequential region.
 */
#include <sched.h>

#include "release.h"

#define PAGES 8u
#define LINES 16u   /* every LINES-th line is written */
#define THREADS 64u /* of all ranks together */

static uint64_t rounds = 200, few;
uint64_t sequential;

static uint8_t *pages; /* release */
static dsm_region_t *region;

static struct objects {
	dsm_mutex_t mutex[THREADS];
	dsm_rwlock_t rwlock;
	dsm_sem_t full, empty, seen;
	dsm_cond_t cond;
	dsm_atomic_t flag;
} * objects;

static void open_pages(enum dsm_home home)
{
	const struct dsm_region_options release = { .consistency = sequential
							    ? DSM_CONSISTENCY_SEQUENTIAL
							    : DSM_CONSISTENCY_RELEASE,
						    .home = home };

	MUST(dsm_region_open("release", (size_t)PAGES * BYTES, &release, &region));
	pages = dsm_region_base(region);
}

/* Pages are zero again afterwards. */
static void close_pages(void)
{
	test_sync();
	MUST(dsm_region_detach(region));
	test_sync();
	if (test_rank == 0)
		MUST(dsm_region_destroy("release"));
	test_sync();
}

struct dsm_stats counted(int rank, const dsm_region_t *of)
{
	struct dsm_stats s;

	MUST(dsm_stats_get(rank, of, &s));
	return s;
}

bool one_node(void)
{
	return dsm_nodes() == 1;
}

/* ---- each thread has a byte of its own in each line ------------------------------------------ */

static uint64_t byte_rounds(void)
{
	return rounds < UINT8_MAX ? rounds : UINT8_MAX;
}

static unsigned int mine(unsigned int thread)
{
	return (unsigned int)test_rank * (THREADS / (unsigned int)test_size) + thread;
}

/* Under its lock, all bytes of a thread are equal, and never less than before. */
static uint8_t look_at(unsigned int whose, uint8_t least)
{
	unsigned int i;
	uint8_t v;

	MUST(dsm_mutex_lock(&objects->mutex[whose]));
	v = pages[whose];
	REQUIRE(v >= least, "a byte of thread %u went from %u to %u", whose, least, v);
	for (i = whose; i < PAGES * BYTES; i += LINES * 64)
		REQUIRE(pages[i] == v, "byte %u of thread %u is %u, the first is %u", i, whose,
			pages[i], v);
	MUST(dsm_mutex_unlock(&objects->mutex[whose]));
	return v;
}

static void write_bytes(unsigned int thread, void *arg)
{
	const unsigned int me = mine(thread),
			   other = (unsigned int)rng_below(&(struct rng){ test_seed + me },
							   THREADS);
	uint8_t seen = 0;
	uint64_t round;
	unsigned int i;

	(void)arg;
	for (round = 1; round <= byte_rounds(); round++) {
		MUST(dsm_mutex_lock(&objects->mutex[me]));
		for (i = me; i < PAGES * BYTES; i += LINES * 64) {
			REQUIRE(pages[i] == (uint8_t)(round - 1), "byte %u is %u in round %lu", i,
				pages[i], round);
			pages[i] = (uint8_t)round;
		}
		MUST(dsm_mutex_unlock(&objects->mutex[me]));
		if (round % 8 == me % 8)
			seen = look_at(other, seen);
	}
}

static void check_bytes(void)
{
	unsigned int i, n = THREADS / (unsigned int)test_size * (unsigned int)test_size;

	for (i = 0; i < PAGES * BYTES; i++) {
		const uint8_t want = i % (LINES * 64) < n ? (uint8_t)byte_rounds() : 0;

		REQUIRE(pages[i] == want, "byte %u is %u, not %u", i, pages[i], want);
	}
}

static void part_bytes(void)
{
	open_pages(DSM_HOME_CYCLIC);
	test_sync();
	test_threads(THREADS / (unsigned int)test_size, write_bytes, NULL);
	test_sync();
	check_bytes();
	close_pages();
}

/* ---- counters that wander, each under a lock of its own -------------------------------------- */

#define COUNTERS 48u

struct counter {
	uint64_t n, twice; /* twice: in another page */
};

static uint64_t *counter_at(unsigned int c, bool twice)
{
	uint64_t *words = (uint64_t *)(void *)pages;

	return &words[(twice ? PAGES * BYTES / 16 : 0) + c * 3];
}

static void wander(unsigned int thread, void *arg)
{
	struct rng r = rng_of(mine(thread));
	uint64_t i;

	(void)arg;
	for (i = 0; i < rounds; i++) {
		const unsigned int c = (unsigned int)rng_below(&r, COUNTERS);
		uint64_t *n = counter_at(c, false), *twice = counter_at(c, true);

		if (rng_below(&r, 8))
			MUST(dsm_mutex_lock(&objects->mutex[c]));
		else
			while (dsm_mutex_timedlock(&objects->mutex[c], 20000))
				;
		REQUIRE(*twice == 2 * *n, "counter %u is %lu, and twice that is %lu", c, *n,
			*twice);
		++*n;
		*twice += 2;
		MUST(dsm_mutex_unlock(&objects->mutex[c]));
	}
}

static void part_counters(void)
{
	const unsigned int threads = 4;
	uint64_t sum = 0;
	unsigned int c;

	open_pages(DSM_HOME_CYCLIC);
	test_sync();
	test_threads(threads, wander, NULL);
	test_sync();
	for (c = 0; c < COUNTERS; c++)
		sum += *counter_at(c, false);
	REQUIRE(sum == rounds * threads * (unsigned int)test_size, "the counters' sum is %lu", sum);
	close_pages();
}

/* ---- each kind of synchronisation as the only edge ------------------------------------------- */

/* The last rank produces, rank 0 consumes and answers. */
static void produce(uint64_t round)
{
	unsigned int i;

	for (i = 0; i < PAGES; i++)
		((uint64_t *)(void *)(pages + i * BYTES))[5] = round + i;
}

static void consume(uint64_t round)
{
	unsigned int i;

	for (i = 0; i < PAGES; i++) {
		const uint64_t v = ((uint64_t *)(void *)(pages + i * BYTES))[5];

		REQUIRE(v == round + i, "page %u has %lu, not %lu", i, v, round + i);
	}
}

static bool produces(void)
{
	return test_rank == test_size - 1;
}

static bool consumes(void)
{
	return test_rank == 0;
}

static void by_semaphore(uint64_t round)
{
	if (produces()) {
		MUST(dsm_sem_wait(&objects->empty));
		produce(round);
		MUST(dsm_sem_post(&objects->full, 1));
	}
	if (consumes()) {
		MUST(dsm_sem_wait(&objects->full));
		consume(round);
		MUST(dsm_sem_post(&objects->empty, 1));
	}
}

static void by_barrier(uint64_t round)
{
	if (produces())
		produce(round);
	MUST(dsm_barrier());
	consume(round);
	MUST(dsm_barrier());
}

/* The flag is twice the round when it is produced, and one more when it is consumed. */
static void await_flag(uint64_t want)
{
	uint64_t v;

	do
		MUST(dsm_atomic_load(&objects->flag, &v));
	while (v != want);
}

static void by_flag(uint64_t round)
{
	if (produces()) {
		await_flag(2 * round - 1);
		produce(round);
		MUST(dsm_atomic_store(&objects->flag, 2 * round));
	}
	if (consumes()) {
		await_flag(2 * round);
		consume(round);
		MUST(dsm_atomic_store(&objects->flag, 2 * round + 1));
	}
}

/* Under the lock, in the page itself. */
static void await_word(volatile uint64_t *word, uint64_t want, bool cond)
{
	MUST(dsm_mutex_lock(&objects->mutex[0]));
	while (*word != want)
		if (cond) {
			MUST(dsm_cond_wait(&objects->cond, &objects->mutex[0]));
		} else {
			MUST(dsm_mutex_unlock(&objects->mutex[0]));
			MUST(dsm_mutex_lock(&objects->mutex[0]));
		}
}

static void store_word(volatile uint64_t *word, uint64_t v, bool cond)
{
	*word = v;
	if (cond)
		MUST(dsm_cond_broadcast(&objects->cond));
	MUST(dsm_mutex_unlock(&objects->mutex[0]));
}

static void by_lock_and(uint64_t round, bool cond)
{
	volatile uint64_t *word = (uint64_t *)(void *)(pages + 512);

	if (produces()) {
		await_word(word, 2 * round - 1, cond);
		produce(round);
		store_word(word, 2 * round, cond);
	}
	if (consumes()) {
		await_word(word, 2 * round, cond);
		consume(round);
		store_word(word, 2 * round + 1, cond);
	}
}

static void by_lock(uint64_t round)
{
	by_lock_and(round, false);
}

static void by_condition(uint64_t round)
{
	by_lock_and(round, true);
}

/* The mutex stays with the consumer's node: only the signal tells of the stores. */
static void by_signal(uint64_t round)
{
	if (produces()) {
		produce(round);
		do
			MUST(dsm_cond_signal(&objects->cond));
		while (dsm_sem_trywait(&objects->seen));
		MUST(dsm_sem_post(&objects->full, 1)); /* no signal of this round comes any more */
	}
	if (consumes()) {
		MUST(dsm_mutex_lock(&objects->mutex[1]));
		MUST(dsm_cond_wait(&objects->cond, &objects->mutex[1]));
		consume(round);
		MUST(dsm_mutex_unlock(&objects->mutex[1]));
		MUST(dsm_sem_post(&objects->seen, 1));
		MUST(dsm_sem_wait(&objects->full));
	}
}

static void by_rwlock(uint64_t round)
{
	volatile uint64_t *word = (uint64_t *)(void *)(pages + 512);
	uint64_t v = 0;

	while (produces() && v != 2 * round - 1) {
		MUST(dsm_rwlock_wrlock(&objects->rwlock));
		v = *word;
		if (v == 2 * round - 1) {
			produce(round);
			*word = 2 * round;
		}
		MUST(dsm_rwlock_unlock(&objects->rwlock));
	}
	while (consumes() && v != 2 * round) {
		MUST(dsm_rwlock_rdlock(&objects->rwlock));
		v = *word;
		if (v == 2 * round)
			consume(round);
		MUST(dsm_rwlock_unlock(&objects->rwlock));
	}
	if (consumes()) {
		MUST(dsm_rwlock_wrlock(&objects->rwlock));
		*word = 2 * round + 1;
		MUST(dsm_rwlock_unlock(&objects->rwlock));
	}
}

static void by_broadcast(uint64_t round)
{
	static uint64_t large[1024];

	if (produces())
		produce(round);
	MUST(dsm_broadcast(large, sizeof(large), test_size - 1));
	consume(round);
	MUST(dsm_reduce_array(large, 1024, DSM_UINT64, DSM_SUM));
}

/* The page is here before the thread begins, and with the spawner before it ends. */
static void *spawned(void *arg)
{
	const uint64_t round = (uintptr_t)arg;

	consume(round);
	produce(round + 1);
	return NULL;
}

static void by_spawn(uint64_t round)
{
	dsm_thread_t t;

	test_sync();
	consume(2 * round - 2);
	test_sync();
	if (test_rank == 0) {
		produce(2 * round - 1);
		MUST(dsm_spawn(&t, test_size - 1, NULL, spawned,
			       (void *)(uintptr_t)(2 * round - 1)));
		MUST(dsm_join(t, NULL));
		consume(2 * round);
	}
}

static void begin_at(uint64_t first)
{
	if (test_rank == 0) {
		produce(0);
		*(uint64_t *)(void *)(pages + 512) = first;
		MUST(dsm_atomic_store(&objects->flag, first));
	}
	test_sync();
}

static void part_edges(void)
{
	static const struct {
		const char *name;
		void (*fn)(uint64_t round);
	} kinds[] = {
		{ "semaphore", by_semaphore }, { "barrier", by_barrier },
		{ "flag", by_flag },           { "lock", by_lock },
		{ "condition", by_condition }, { "rwlock", by_rwlock },
		{ "signal", by_signal },       { "broadcast", by_broadcast },
		{ "spawn", by_spawn },
	};
	uint64_t round, start;
	size_t k;

	open_pages(DSM_HOME_CYCLIC);
	for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		begin_at(1);
		start = test_ns();
		for (round = 1; round <= rounds / 4; round++)
			kinds[k].fn(round);
		test_sync();
		test_say("  by %s, %lu us a round", kinds[k].name,
			 (test_ns() - start) / 1000 / (rounds / 4));
	}
	close_pages();
}

/* ---- what a page costs ----------------------------------------------------------------------- */

static uint64_t *word_of(unsigned int page, int rank)
{
	return (uint64_t *)(void *)(pages + page * BYTES) + rank;
}

/*
 * Nobody else has a copy: the home writes without a twin, and nobody hears of it. Until another
 * rank reads a page.
 */
static void part_alone(void)
{
	struct dsm_stats before, after;
	uint64_t round;
	unsigned int i;

	open_pages(DSM_HOME_FIXED);
	test_sync();
	before = counted(-1, NULL);
	test_sync();
	for (round = 1; round <= rounds; round++) {
		for (i = 0; test_rank == 0 && i < PAGES; i++)
			*word_of(i, 0) = round;
		test_sync();
	}
	after = counted(-1, NULL);
	test_sync();
	REQUIRE(after.twins_most == before.twins_most && after.notices == before.notices &&
			after.flushes == before.flushes && after.closes == before.closes,
		"%lu twins, %lu notices, %lu flushes, %lu closes for the only writer",
		after.twins_most, after.notices - before.notices, after.flushes - before.flushes,
		after.closes - before.closes);
	REQUIRE(*word_of(PAGES - 1, 0) == rounds, "the last page has %lu", *word_of(PAGES - 1, 0));
	test_sync();
	if (test_rank == 0)
		*word_of(PAGES - 1, 0) = 7;
	test_sync(); /* the home's threads do not wait for its close */
	test_sync();
	after = counted(-1, NULL);
	REQUIRE(one_node() || (after.closes > before.closes && after.notices > before.notices),
		"%lu closes, and %lu notices, of a page that others read",
		after.closes - before.closes, after.notices - before.notices);
	REQUIRE(*word_of(PAGES - 1, 0) == 7, "the last page has %lu", *word_of(PAGES - 1, 0));
	close_pages();
}

/*
 * Rank 0 has made the pages, and another rank writes them, alone: it becomes their home, whether it
 * reads them first (even pages) or not, and sends nothing from then on. Then all read what it has
 * written.
 */
static void part_moves(void)
{
	struct dsm_stats before, after;
	uint64_t round, sent = 0;
	unsigned int i;

	open_pages(DSM_HOME_FIXED);
	for (i = 0; test_rank == 0 && i < PAGES; i++)
		*word_of(i, 0) = i;
	test_sync();
	before = counted(-1, region);
	test_sync();
	for (round = 1; round <= 8; round++) {
		for (i = 0; produces() && i < PAGES; i++) {
			if (!(i & 1))
				REQUIRE(*word_of(i, 0) == i, "page %u has %lu", i, *word_of(i, 0));
			*word_of(i, 1) = round;
		}
		test_sync();
		if (round == 6)
			sent = counted(-1, NULL).flushes;
		test_sync();
	}
	after = counted(-1, region);
	REQUIRE(sequential || one_node() || after.homes_in - before.homes_in == PAGES,
		"%lu homes of %u pages have moved", after.homes_in - before.homes_in, PAGES);
	after = counted(-1, NULL);
	REQUIRE(after.flushes == sent, "%lu flushes of a home", after.flushes - sent);
	test_sync();
	for (i = 0; i < PAGES; i++)
		REQUIRE(*word_of(i, 0) == i && *word_of(i, 1) == 8, "page %u has %lu and %lu", i,
			*word_of(i, 0), *word_of(i, 1));
	test_sync();
	if (test_rank == 0) /* the first home writes, as an ordinary node */
		*word_of(0, 2) = 9;
	test_sync();
	REQUIRE(*word_of(0, 2) == 9, "page 0 has %lu", *word_of(0, 2));
	close_pages();
}

/*
 * All nodes write one page, and meet: each of them fetches it, or opens it, once. With more than
 * two nodes, a notice of one that has arrived already may reach another that still leaves the
 * barrier before: that fetches the page once more.
 */
static void part_faults(void)
{
	struct dsm_stats before, after;
	const uint64_t most = dsm_nodes() > 2 ? 2 * rounds : rounds;
	uint64_t round, faults;
	int r;

	open_pages(DSM_HOME_FIXED);
	*word_of(0, test_rank) = 0;
	test_sync();
	before = counted(test_rank, region);
	for (round = 1; round <= rounds; round++) {
		for (r = 0; r < test_size; r++)
			REQUIRE(*word_of(0, r) == round - 1, "rank %d has %lu in round %lu", r,
				*word_of(0, r), round);
		test_sync();
		*word_of(0, test_rank) = round;
		test_sync();
	}
	after = counted(test_rank, region);
	faults = after.read_faults - before.read_faults + after.write_faults - before.write_faults +
		after.upgrades - before.upgrades;
	REQUIRE(faults <= most, "%lu faults in %lu rounds", faults, rounds);
	REQUIRE(after.downgrades - before.downgrades <= most, "%lu downgrades in %lu rounds",
		after.downgrades - before.downgrades, rounds);
	close_pages();
}

/*
 * Ranks write a page by turns. Of two nodes, each is told what the other has written, and misses
 * nothing. One that does not use the page any more is told twice by its home, and then gets a
 * notice.
 */
static void part_told(void)
{
	const bool two = !sequential && dsm_nodes() == 2 && test_size == 2;
	const uint64_t turns = 16 + 2 * rounds;
	struct dsm_stats before = { 0 }, after;
	uint64_t round, told = 0, sent = 0;
	int home;

	open_pages(DSM_HOME_FIXED);
	test_sync();
	for (round = 0; round < turns; round++) {
		if (round == 16) {
			before = counted(-1, region);
			told = counted(-1, NULL).told;
			sent = counted(-1, NULL).messages_out;
			test_sync();
		}
		if (round % (uint64_t)test_size == (uint64_t)test_rank) {
			REQUIRE(*word_of(0, 0) == round, "turn %lu of %lu", *word_of(0, 0), round);
			++*word_of(0, 0);
		}
		test_sync();
	}
	after = counted(-1, region);
	told = counted(-1, NULL).told - told;
	sent = counted(-1, NULL).messages_out - sent;
	test_sync();
	REQUIRE(!two ||
			after.read_faults + after.write_faults + after.upgrades ==
				before.read_faults + before.write_faults + before.upgrades,
		"%lu turns miss", turns);
	REQUIRE(!two || told == rounds, "%lu of %lu turns are told", told, 2 * rounds);
	/* A message of the barrier, another with the change, and an acknowledgement. */
	REQUIRE(!two || sent < 6 * rounds + 64, "%lu messages in %lu turns", sent, 2 * rounds);
	told = counted(-1, NULL).told;
	/* Stores in order, as those before may have been, ask for it. */
	home = two && counted(1, region).homes_in;
	test_sync();
	for (round = 0; round < 8; round++) {
		if (test_rank == home)
			++*word_of(0, 0);
		test_sync();
	}
	told = counted(-1, NULL).told - told;
	/* Rank 1 has told its last turn, too. */
	REQUIRE(!two || told == 2u - (unsigned int)home,
		"what is not used any more is told %lu times by rank %d", told, home);
	REQUIRE(*word_of(0, 0) == turns + 8, "%lu turns", *word_of(0, 0));
	close_pages();
}

void *open_more(const char *name, unsigned int n, dsm_region_t **r)
{
	return open_at(0, name, n, r);
}

void *open_at(int home, const char *name, unsigned int n, dsm_region_t **r)
{
	const struct dsm_region_options release = { .consistency = DSM_CONSISTENCY_RELEASE,
						    .home = DSM_HOME_FIXED,
						    .home_rank = home };

	MUST(dsm_region_open(name, (size_t)n * BYTES, &release, r));
	return dsm_region_base(*r);
}

/*
 * The home, which others share, stores 1 and then again the 0 that was there, without a close
 * between: its diff has neither. A node that fetches the block between must not keep the 1. That it
 * fetches then is arranged by a sequential region, which orders no stores to others.
 */
static void part_undone(void)
{
	volatile uint64_t *turn, *word;
	dsm_region_t *undone;

	if (sequential || dsm_nodes() < 3)
		return;
	turn = test_region("turn", sizeof(*turn), 4096, DSM_HOME_FIXED, 0);
	word = open_more("undone", 1, &undone);
	test_sync();
	REQUIRE(test_rank != test_size - 1 || !word[0], "word 0 is %lu", word[0]);
	test_sync();
	if (test_rank == 0) {
		word[5] = 1;
		*turn = 1;
		while (*turn != 2)
			sched_yield();
		word[5] = 0;
	} else if (test_rank == 1) {
		while (*turn != 1)
			sched_yield();
		REQUIRE(!word[6], "word 6 is %lu", word[6]);
		*turn = 2;
	}
	test_sync();
	REQUIRE(!word[5], "rank %d has %lu, which was stored before the last 0", test_rank,
		word[5]);
	test_close("undone", undone);
}

/* More than a message takes: each of those that carry it counts. */
static void part_pieces(void)
{
	enum { LARGE = 64 };
	struct dsm_stats before, after;
	dsm_region_t *large;
	uint8_t *base;
	unsigned int i;

	if (sequential)
		return;
	base = open_more("large", LARGE, &large);
	test_sync();
	/* A writer without copies, or one in order, would become the home, and send nothing. */
	for (i = 0; produces() && i < LARGE * BYTES; i += BYTES)
		REQUIRE(!base[i], "byte %u is %u", i, base[i]);
	if (produces())
		MUST(dsm_prefetch(base, LARGE * BYTES, DSM_WRITE));
	test_sync();
	before = counted(-1, NULL);
	test_sync();
	for (i = 0; produces() && i < LARGE * BYTES; i++)
		base[i] = (uint8_t)(i % 255 + 1);
	test_sync();
	after = counted(-1, NULL);
	REQUIRE(one_node() || after.flushes - before.flushes >= LARGE * BYTES / (128u << 10),
		"%lu messages carried %lu bytes of diffs", after.flushes - before.flushes,
		after.flushed_bytes - before.flushed_bytes);
	for (i = 0; i < LARGE * BYTES; i++)
		REQUIRE(base[i] == (uint8_t)(i % 255 + 1), "byte %u is %u", i, base[i]);
	test_close("large", large);
}

/*
 * All bytes of many pages are written by turns. The other node is told, in pieces, and misses none.
 */
static void part_much(void)
{
	enum { WIDE = 256, TURNS = 16 };
	const bool two = dsm_nodes() == 2 && test_size == 2;
	struct dsm_stats before = { 0 }, after;
	dsm_region_t *much;
	unsigned int turn, i;
	uint8_t *base;

	if (sequential)
		return;
	base = open_more("much", WIDE, &much);
	for (turn = 1; turn <= TURNS; turn++) {
		test_sync();
		if (turn == TURNS / 2 + 1)
			before = counted(-1, NULL);
		test_sync();
		for (i = 0; turn % (unsigned)test_size == (unsigned)test_rank && i < WIDE * BYTES;
		     i++)
			base[i] = (uint8_t)(37 * turn + i / BYTES);
		test_sync();
		for (i = 0; i < WIDE * BYTES; i++)
			REQUIRE(base[i] == (uint8_t)(37 * turn + i / BYTES), "turn %u, byte %u: %u",
				turn, i, base[i]);
	}
	test_sync();
	after = counted(-1, NULL);
	REQUIRE(!two || after.refetches == before.refetches, "%lu copies are fetched again",
		after.refetches - before.refetches);
	REQUIRE(!two || after.told - before.told >= TURNS / 4 * WIDE, "%lu changes are told",
		after.told - before.told);
	test_close("much", much);
}

/*
 * One node writes many pages, others read them. Where whole pages are written, few are told: nodes
 * fetch the others again. Where a part of each is, all are told that were before.
 */
static void part_whole(void)
{
	enum { WIDE = 256, TURNS = 16, FEW = (64 << 10) / BYTES + 1 };
	const bool two = dsm_nodes() == 2 && test_size == 2;
	struct dsm_stats before = { 0 }, after;
	dsm_region_t *wide;
	unsigned int turn, part, i;
	uint8_t *base;

	if (sequential)
		return;
	base = open_more("whole", WIDE, &wide);
	for (part = 0; part < 2; part++) {
		for (turn = 1; turn <= TURNS; turn++) {
			test_sync();
			if (turn == 5)
				before = counted(-1, NULL);
			test_sync();
			for (i = 0; produces() && i < WIDE * BYTES; i++)
				if (!part || i % BYTES < BYTES / 2)
					base[i] = (uint8_t)(37 * turn + part + i / BYTES);
			test_sync();
			for (i = 0; i < WIDE * BYTES; i += BYTES / 4)
				REQUIRE(i % BYTES >= BYTES / 2 ||
						base[i] == (uint8_t)(37 * turn + part + i / BYTES),
					"turn %u, byte %u: %u", turn, i, base[i]);
		}
		test_sync();
		after = counted(-1, NULL);
		REQUIRE(!two || part || after.told - before.told <= (TURNS - 4) * FEW,
			"%lu whole pages are told", after.told - before.told);
		REQUIRE(!two || !part || after.told - before.told >= (TURNS - 4) / 3 * WIDE,
			"%lu changes are told", after.told - before.told);
	}
	test_close("whole", wide);
}

/* More twins than the node may have: blocks are lowered early, and nothing is lost. */
static void part_short(void)
{
	struct dsm_stats s;
	uint64_t round;
	unsigned int i;

	open_pages(DSM_HOME_CYCLIC);
	for (round = 1; round <= rounds / 4; round++) {
		/* of these, no more are opened ahead than may have twins */
		MUST(dsm_prefetch(word_of(0, 0), PAGES * BYTES, DSM_WRITE));
		for (i = 0; i < PAGES; i++)
			++*word_of(i, test_rank);
		test_sync();
		for (i = 0; i < PAGES; i++)
			REQUIRE(*word_of(i, test_size - 1) == round, "page %u has %lu in round %lu",
				i, *word_of(i, test_size - 1), round);
		test_sync();
	}
	s = counted(-1, NULL);
	REQUIRE(!few || s.twins_most <= few * (unsigned int)dsm_nodes(), "%lu twins at once",
		s.twins_most);
	REQUIRE(one_node() || s.twins_most, "no block had a twin");
	close_pages();
}

/* ---- the region itself ----------------------------------------------------------------------- */

/*
 * What a rank has written survives its leaving, and a region that comes later at the same place is
 * zero.
 */
static void part_left(void)
{
	unsigned int i, turn;

	for (turn = 0; turn < 5; turn++) {
		open_pages(DSM_HOME_CYCLIC);
		for (i = 0; i < PAGES; i++)
			REQUIRE(*word_of(i, test_rank) == 0, "page %u of a new region has %lu", i,
				*word_of(i, test_rank));
		for (i = 0; i < PAGES; i++)
			*word_of(i, test_rank) = 100 * turn + i + 1;
		MUST(dsm_region_detach(region));
		test_sync();
		open_pages(DSM_HOME_CYCLIC);
		/* copies that come are dropped once they are there */
		MUST(dsm_prefetch(word_of(0, 0), PAGES * BYTES, DSM_READ));
		MUST(dsm_region_detach(region));
		test_sync();
		open_pages(DSM_HOME_CYCLIC);
		for (i = 0; i < PAGES * (unsigned int)test_size; i++) {
			const uint64_t v = *word_of(i % PAGES, (int)(i / PAGES));

			REQUIRE(v == 100 * turn + i % PAGES + 1, "page %u has %lu of rank %u",
				i % PAGES, v, i / PAGES);
		}
		close_pages();
	}
}

/*
 * The first home has left when another rank gets the homes, stores what is there already, so that
 * no close notes anybody, and leaves: the copies at the first home do not keep the region.
 */
static void part_last(void)
{
	unsigned int i;

	open_pages(DSM_HOME_FIXED);
	test_sync();
	if (!produces())
		MUST(dsm_region_detach(region));
	test_sync();
	if (produces()) {
		for (i = 0; i < PAGES; i++)
			*word_of(i, 0) = 0;
		MUST(dsm_region_detach(region));
	}
	test_sync();
	if (test_rank == 0)
		MUST(dsm_region_destroy("release"));
	test_sync();
}

static void part_refused(void)
{
	struct dsm_region_options opt = { .consistency = DSM_CONSISTENCY_RELEASE,
					  .block_size = 2 * BYTES };
	struct dsm_region_info info;
	dsm_region_t *r;
	dsm_mutex_t *zero;

	EXPECT(dsm_region_open("refused", BYTES, &opt, &r), -ENOTSUP);
	opt = (struct dsm_region_options){ .consistency = (enum dsm_consistency)3 };
	EXPECT(dsm_region_open("refused", BYTES, &opt, &r), -EINVAL);
	open_pages(DSM_HOME_CYCLIC);
	EXPECT(dsm_region_attach("release", &r), -EALREADY);
	MUST(dsm_region_query(pages, &info));
	EXPECT(info.consistency, DSM_CONSISTENCY_RELEASE);
	MUST(dsm_region_query(objects, &info));
	EXPECT(info.consistency, DSM_CONSISTENCY_SEQUENTIAL);
	EXPECT(dsm_pin(pages, BYTES, DSM_READ), one_node() ? 0 : -ENOTSUP);
	if (one_node())
		MUST(dsm_unpin(pages, BYTES));
	EXPECT(dsm_place(pages, BYTES, 0), one_node() ? 0 : -ENOTSUP);
	MUST(dsm_acquire(pages, BYTES, DSM_WRITE));
	MUST(dsm_prefetch(pages, (size_t)PAGES * BYTES, DSM_READ));
	MUST(dsm_release(pages, BYTES));
	zero = (dsm_mutex_t *)(void *)(pages + (size_t)(PAGES - 1) * BYTES);
	EXPECT(dsm_mutex_lock(zero), one_node() ? 0 : -ENOTSUP);
	if (one_node())
		MUST(dsm_mutex_unlock(zero));
	close_pages();
}

/* A region whose option leaves it to the setting; one without an option is sequential. */
static void part_setting(void)
{
	const struct dsm_region_options opt = { .consistency = DSM_CONSISTENCY_SETTING };
	const char *setting = getenv("DSM_CONSISTENCY");
	const bool release = setting && !strcmp(setting, "release");
	struct dsm_region_info info;
	dsm_region_t *r, *other;

	MUST(dsm_region_open("setting", BYTES, &opt, &r));
	MUST(dsm_region_query(dsm_region_base(r), &info));
	EXPECT(info.consistency, release ? DSM_CONSISTENCY_RELEASE : DSM_CONSISTENCY_SEQUENTIAL);
	MUST(dsm_region_open("none", BYTES, NULL, &other));
	MUST(dsm_region_query(dsm_region_base(other), &info));
	EXPECT(info.consistency, DSM_CONSISTENCY_SEQUENTIAL);
	++((uint64_t *)dsm_region_base(r))[test_rank];
	test_sync();
	EXPECT(((uint64_t *)dsm_region_base(r))[test_size - 1 - test_rank], 1);
	test_sync();
	MUST(dsm_region_detach(r));
	MUST(dsm_region_detach(other));
}

int main(int argc, char **argv)
{
	static const struct test_option options[] = {
		{ "rounds", "N", "rounds of each part (200)", &rounds },
		{ "few", "N", "a node may have so few twins (DSM_TWINS), at one thread", &few },
		{ "sequential", NULL, "the same with sequential regions, for comparison",
		  &sequential },
	};
	static const struct test_part parts[] = {
		{ "bytes", part_bytes },     { "counters", part_counters },
		{ "edges", part_edges },     { "alone", part_alone },
		{ "moves", part_moves },     { "faults", part_faults },
		{ "told", part_told },       { "undone", part_undone },
		{ "pieces", part_pieces },   { "much", part_much },
		{ "whole", part_whole },     { "runs", part_runs },
		{ "given", part_given },     { "order", part_order },
		{ "raised", part_raised },   { "touch", part_touch },
		{ "fresh", part_fresh },     { "short", part_short },
		{ "left", part_left },       { "last", part_last },
		{ "refused", part_refused }, { "setting", part_setting },
	};
	unsigned int i;

	test_same_addresses(argv);
	test_start(argc, argv, "regions with release consistency", options, 3);
	objects = test_region("objects", sizeof(*objects), 4096, DSM_HOME_CYCLIC, 0);
	if (test_rank == 0) {
		for (i = 0; i < THREADS; i++)
			MUST(dsm_mutex_init(&objects->mutex[i]));
		MUST(dsm_rwlock_init(&objects->rwlock));
		MUST(dsm_sem_init(&objects->full, 0));
		MUST(dsm_sem_init(&objects->empty, 1));
		MUST(dsm_sem_init(&objects->seen, 0));
		MUST(dsm_cond_init(&objects->cond));
		MUST(dsm_atomic_init(&objects->flag, 1, test_size - 1));
	}
	test_sync();
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
