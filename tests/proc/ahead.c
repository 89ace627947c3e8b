// SPDX-License-Identifier: BSD-2-Clause
/*
 * ahead.c - read-ahead for a thread that reads or writes block after block: at most 2 MiB, more
 * than DSM_READAHEAD only for long streams, and nothing beyond the end of the region, by the
 * counters of the region.
 */
#include "common.h"

#define K 1024ul
#define M (1024ul * K)
#define AHEAD 64u /* maximum of DSM_READAHEAD */
#define LONG 4u   /* a long stream may fetch so many times DSM_READAHEAD */

static int last;
static uint64_t set_most = AHEAD; /* DSM_READAHEAD */

/* One thread walks in order: each block is either missed, or requested ahead, once. */
static void walk(const dsm_region_t *r, size_t block, size_t blocks, bool write)
{
	const size_t high = LONG * set_most < AHEAD ? LONG * set_most : AHEAD,
		     most = 2 * M / block < high ? 2 * M / block : high;
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
		REQUIRE(s.prefetched - was.prefetched <= (i / 8 < set_most ? set_most : i / 8),
			"%lu blocks are fetched ahead of one that has had %zu",
			s.prefetched - was.prefetched, i);
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

static void part_long(void)
{
	one_region(4 * K, 400, false);
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

/* Do nodes see in their page tables what they use (miss/sample.h)? */
static bool samples(void)
{
	const char *backend = getenv("DSM_FAULT");

	return dsm_nodes() == test_size && !(backend && !strcmp(backend, "mprotect"));
}

/*
 * The request of the block that the thread waits for is a message of its own: those for the blocks
 * of its chunk follow, in one. Of a release block, no message confirms the answer.
 */
static void part_alone(void)
{
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.home_rank = 0,
						.consistency = DSM_CONSISTENCY_RELEASE };
	/* page 1 is left out, to see whether it is used, if the page table does not tell */
	const uint64_t left = !samples();
	const uint64_t pages[] = { 0, 5, 7, 1 }, ahead[] = { 0, 14 - left, 0, 0 },
		       sends[] = { 1, 2, 0, left };
	uint64_t *p, i, was, fetched;
	dsm_region_t *r;

	MUST(dsm_region_open("alone", BOTH * 4 * K, &opt, &r));
	p = dsm_region_base(r);
	test_sync();
	for (i = 0; test_rank == last && i < 4; i++) {
		was = test_stats(NULL).messages_out;
		fetched = test_stats(r).prefetched;
		load(&p[pages[i] * 512]);
		fetched = test_stats(r).prefetched - fetched;
		was = test_stats(NULL).messages_out - was;
		REQUIRE(fetched == ahead[i], "%lu blocks after page %lu are fetched", fetched,
			pages[i]);
		REQUIRE(was == sends[i], "%lu messages request page %lu and %lu with it", was,
			pages[i], fetched);
	}
	test_sync();
	test_close("alone", r);
}

/*
 * All of a page changes: its home tells others of few such changes in a close, and they have to
 * fetch most pages again.
 */
#define FEW 8u

static void fill_page(uint64_t *page, uint64_t value)
{
	int i;

	for (i = 1; i < 512; i++)
		store(&page[i], value * 0x0101010101010101u);
	store(page, value);
}

/* Has the reader fetched all blocks, once for each round in which they have changed? */
static bool fetched_all(const struct dsm_stats *s, uint64_t blocks, uint64_t rounds)
{
	const uint64_t n = s->read_faults + s->prefetched;

	return n <= blocks * rounds && n + FEW * rounds >= blocks * rounds;
}

/*
 * A node that has fetched a block again is told of its next change, which then is no miss: so
 * release blocks are changed twice between two reads. The first change adds this. The home's node
 * leaves a barrier before its close ends, but not two.
 */
#define UNTOLD (1ull << 40)

/*
 * Who fetches a block soon after each notice is told for longer (core/release.h, rel.steady). So
 * the home closes some more before it is read: of a page that all read.
 */
static void close_more(void)
{
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.consistency = DSM_CONSISTENCY_RELEASE };
	dsm_region_t *r;
	uint64_t i;

	MUST(dsm_region_open("more", 4 * K, &opt, &r));
	for (i = 0; i < 8; i++) {
		if (!test_rank)
			store(dsm_region_base(r), i);
		test_sync();
		REQUIRE(load(dsm_region_base(r)) == i, "turn %lu", i);
		test_sync();
	}
	test_close("more", r);
}

/*
 * Rank 0 writes 32 chunks of a matrix whose rows have four pages, and the last rank reads it column
 * by column: never two pages in a row. It misses three pages of a chunk at first, then one or two,
 * and those that it does not miss come in few messages.
 */
static void part_columns(void)
{
	enum { ROW = 4, CHUNKS = 32, PAGES = CHUNKS * 16, ROUNDS = 6 };
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.consistency = DSM_CONSISTENCY_RELEASE };
	struct dsm_stats was, now;
	uint64_t *p, round, came;
	dsm_region_t *r;
	int i, at, turn;

	MUST(dsm_region_open("columns", PAGES * 4 * K, &opt, &r));
	p = dsm_region_base(r);
	for (round = 1; round <= ROUNDS; round++) {
		for (turn = 0; turn < 2; turn++) {
			for (i = 0; !test_rank && i < PAGES; i++)
				fill_page(&p[i * 512], round + (uint64_t)i + (turn ? 0 : UNTOLD));
			test_sync();
			test_sync();
		}
		close_more();
		was = test_stats(r);
		came = test_stats(NULL).messages_in;
		for (i = 0; test_rank == last && i < PAGES; i++) {
			at = i * ROW % PAGES + i / (PAGES / ROW);
			REQUIRE(load(&p[at * 512]) == round + (uint64_t)at, "page %d of round %lu",
				at, round);
		}
		now = test_stats(r);
		came = test_stats(NULL).messages_in - came;
		now.read_faults -= was.read_faults;
		now.prefetched -= was.prefetched;
		if (test_rank == last) {
			REQUIRE(fetched_all(&now, PAGES, 1), "%lu blocks missed, %lu more",
				now.read_faults, now.prefetched);
			REQUIRE(now.read_faults <= (round == 1 ? 3 : 2) * CHUNKS + 8 &&
					came <= now.read_faults * 2 + CHUNKS,
				"round %lu: %lu misses, %lu messages", round, now.read_faults,
				came);
		}
		test_sync();
	}
	test_close("columns", r);
}

/*
 * The same with rows of eight pages, of which the reader uses four, which it knows in the end: each
 * block that its streams fetch for a column brings those of its chunk.
 */
static void part_halves(void)
{
	enum { ROW = 8, USED = 4, ROWS = 256, PAGES = ROWS * USED, ROUNDS = 8 };
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.consistency = DSM_CONSISTENCY_RELEASE };
	uint64_t *p, round, missed, late = 0;
	dsm_region_t *r;
	int i, at;

	MUST(dsm_region_open("halves", (size_t)ROWS * ROW * 4 * K, &opt, &r));
	p = dsm_region_base(r);
	for (round = 1; round <= ROUNDS; round++) {
		for (i = 0; !test_rank && i < PAGES; i++)
			fill_page(&p[(i / USED * ROW + USED + i % USED) * 512],
				  round + (uint64_t)i);
		test_sync();
		missed = test_stats(r).read_faults;
		for (i = 0; test_rank == last && i < PAGES; i++) {
			at = i % ROWS * USED + i / ROWS;
			REQUIRE(load(&p[(i % ROWS * ROW + USED + i / ROWS) * 512]) ==
					round + (uint64_t)at,
				"page %d of round %lu", at, round);
		}
		missed = test_stats(r).read_faults - missed;
		late += round > ROUNDS / 2 ? missed : 0;
		test_sync();
	}
	REQUIRE(test_rank != last || !samples() || late <= ROWS, "%lu misses in the last rounds",
		late);
	test_close("halves", r);
}

#define LEARNED 512ul /* blocks */
#define CHUNK 16ul    /* pages whose neighbourhood counts: each has one of the blocks */

static dsm_region_t *open_learned(const char *name, bool release)
{
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.home_rank = 0,
						.block_size = 4 * K,
						.consistency = release
							? DSM_CONSISTENCY_RELEASE
							: DSM_CONSISTENCY_SEQUENTIAL };
	dsm_region_t *r;

	MUST(dsm_region_open(name, LEARNED * CHUNK * 4 * K, &opt, &r));
	return r;
}

/* The i-th block of an order that is no stream (miss/stream.h): i with its bits reversed. */
static uint64_t *learned(const dsm_region_t *r, uint64_t i)
{
	uint64_t bit, at = 0;

	for (bit = 1; bit < LEARNED; bit *= 2)
		at = 2 * at + !!(i & bit);
	return (uint64_t *)dsm_region_base(r) + at * CHUNK * 512;
}

enum pass { PASS_BOTH, PASS_BACK, PASS_APART };

/* The i-th block that a thread reads of two regions: of each in turn, or of one, then the other. */
static uint64_t *passed(dsm_region_t *const *r, enum pass pass, uint64_t i)
{
	if (pass == PASS_APART)
		return learned(r[i / LEARNED], i % LEARNED);
	return learned(r[i % 2], pass == PASS_BACK ? LEARNED - i / 2 : i / 2);
}

/*
 * Rank 0 writes the blocks of both regions. Then the last rank reads them. Returns what it has
 * missed, fetched ahead and received meanwhile.
 */
static struct dsm_stats read_both(dsm_region_t *const *r, uint64_t value, enum pass pass)
{
	struct dsm_stats was[2], now = { 0 };
	unsigned int k, turn;
	uint64_t i, came;

	for (turn = 0; turn < 2; turn++) {
		for (i = 0; !test_rank && i < 2 * LEARNED; i++)
			fill_page(passed(r, PASS_BOTH, i), value + (turn ? 0 : UNTOLD));
		test_sync();
		test_sync();
	}
	close_more();
	came = test_stats(NULL).messages_in;
	for (k = 0; k < 2; k++)
		was[k] = test_stats(r[k]);
	for (i = 0; test_rank == last && i < 2 * LEARNED; i++)
		REQUIRE(load(passed(r, pass, i)) == value, "the read %lu of pass %lu is of %lu", i,
			value, load(passed(r, pass, i)));
	for (k = 0; k < 2; k++) {
		now.read_faults += test_stats(r[k]).read_faults - was[k].read_faults;
		now.prefetched += test_stats(r[k]).prefetched - was[k].prefetched;
	}
	now.messages_in = test_stats(NULL).messages_in - came;
	if (test_rank == last)
		printf("  pass %lu: %lu blocks missed, %lu fetched ahead, %lu messages received\n",
		       value, now.read_faults, now.prefetched, now.messages_in);
	test_sync();
	return now;
}

/*
 * A thread reads release blocks in an order that is no row, again and again, after another node has
 * written them. From the second time on it fetches them ahead, and they come in few messages. Then
 * it reads them backwards. Two regions do not disturb each other's order.
 */
static void learned_orders(unsigned int thread, void *arg)
{
	uint64_t round, least = 2 * LEARNED / (set_most + 1);
	dsm_region_t *r[2];
	struct dsm_stats s;

	(void)arg;
	if (!thread)
		return;
	r[0] = open_learned("one", true);
	r[1] = open_learned("two", true);
	test_sync();
	for (round = 1; round <= 8; round++) {
		s = read_both(r, round, round > 4 ? PASS_BACK : PASS_BOTH);
		if (test_rank != last)
			continue;
		REQUIRE(fetched_all(&s, 2 * LEARNED, 1), "%lu blocks missed, %lu fetched ahead",
			s.read_faults, s.prefetched);
		REQUIRE(s.read_faults + FEW >= least, "more than %lu blocks are fetched at once",
			set_most);
		if (round == 1 || !set_most)
			REQUIRE(s.prefetched == 0, "an order that nobody knows is followed");
		else if (round < 5 || round > 6)
			REQUIRE(s.read_faults <= least + LEARNED / 8 &&
					s.messages_in <= 2 * least + LEARNED / 4,
				"pass %lu: %lu misses, %lu messages", round, s.read_faults,
				s.messages_in);
	}
	test_close("one", r[0]);
	test_close("two", r[1]);
}

/* By a thread that has had no stream. */
static void part_learned(void)
{
	test_threads(2, learned_orders, NULL);
}

/* Blocks are fetched ahead one by one, until it shows that the thread follows the order. */
static void part_begins(void)
{
	dsm_region_t *before = open_learned("before", true), *r = open_learned("begins", true);
	uint64_t i, pass, was, want;

	/* a thread that has missed so many other blocks continues no stream (miss/stream.h) */
	for (i = 0; !test_rank && i < 32; i++)
		store(learned(before, i), i);
	test_sync();
	for (i = 0; test_rank == last && i < 32; i++)
		REQUIRE(load(learned(before, i)) == i, "block %lu before", i);
	test_sync();
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; !test_rank && i < 15; i++)
			store(learned(r, i), pass);
		test_sync();
		for (i = 0; test_rank == last && i < 15; i++) {
			want = pass && (i == 1 || i == 3 || i == 7) ? i : 0;
			was = test_stats(r).prefetched;
			REQUIRE(load(learned(r, i)) == pass, "block %lu of pass %lu", i, pass);
			was = test_stats(r).prefetched - was;
			REQUIRE(was == want, "%lu blocks after block %lu instead of %lu", was, i,
				want);
		}
		test_sync();
	}
	test_close("before", before);
	test_close("begins", r);
}

/*
 * A thread reads a column of a matrix, and then three arrays of the same size in turn. It misses
 * few blocks, of either kind, and asks for none that it does not read.
 */
static void part_streams(void)
{
	static const struct {
		uint64_t first, second, third, distance, n;
	} walks[] = {
		{ 0, 0, 0, 7, 500 },
		{ 0, 1200, 2400, 1, 1000 },
		{ 3500, 3500, 3500, -5ull, 600 },
	};
	const uint64_t blocks = 3600;
	struct dsm_stats s;
	unsigned int w, k;
	uint64_t i;

	for (w = 0; w < 3; w++) {
		const uint64_t first[] = { walks[w].first, walks[w].second, walks[w].third };
		const unsigned int rows = first[1] == first[0] ? 1 : 3;
		dsm_region_t *r;
		uint64_t *p = test_open("streams", blocks * 4 * K, DSM_HOME_FIRST_TOUCH, &r);

		for (i = 0; !test_rank && i < blocks; i++)
			store(&p[i * 512], i);
		test_sync();
		for (i = 0; test_rank == last && i < walks[w].n; i++)
			for (k = 0; k < rows; k++) {
				const uint64_t at = first[k] + i * walks[w].distance;

				REQUIRE(load(&p[at * 512]) == at, "block %lu", at);
			}
		s = test_stats(r);
		REQUIRE(test_rank != last ||
				(s.read_faults <= rows * (8 + walks[w].n / 15) &&
				 s.read_faults + s.prefetched <= rows * (walks[w].n + AHEAD)),
			"walk %u: %lu blocks missed, %lu fetched ahead", w, s.read_faults,
			s.prefetched);
		test_sync();
		test_close("streams", r);
	}
}

/* Read a block, for which so many are fetched ahead. */
static void read_one(const dsm_region_t *r, const uint64_t *p, uint64_t block, uint64_t ahead)
{
	uint64_t n = test_stats(r).prefetched;

	REQUIRE(load(&p[block * 512]) == block, "block %lu has %lu", block, p[block * 512]);
	n = test_stats(r).prefetched - n;
	REQUIRE(n == ahead, "block %lu: %lu are fetched ahead, not %lu", block, n, ahead);
}

#define SLOTS 112ul /* blocks that a node fetches ahead at a time */

static void slots(unsigned int thread, void *arg)
{
	dsm_region_t *kept, *r;
	uint64_t *others, *p, i;

	(void)arg;
	if (!thread)
		return;
	others = written("kept", &kept);
	p = written("slots", &r);
	if (!test_rank)
		MUST(dsm_pin(others, SLOTS * 4 * K, DSM_WRITE));
	test_sync();
	if (test_rank == last) {
		MUST(dsm_prefetch(others, SLOTS * 4 * K, DSM_READ));
		read_one(r, p, 0, 0);
		read_one(r, p, 1, 0);
	}
	test_sync();
	if (!test_rank)
		MUST(dsm_unpin(others, SLOTS * 4 * K));
	test_sync();
	for (i = 0; test_rank == last && i < SLOTS; i++)
		read_one(kept, others, i, 0);
	if (test_rank == last) {
		read_one(r, p, 2, 3);
		read_one(r, p, 6, 7);
	}
	test_sync();
	test_close("slots", r);
	test_close("kept", kept);
}

/*
 * A stream whose blocks could not be fetched, because the node waits for as many others: it goes on
 * at the next one. Rank 0 keeps those others for a while. By a thread that has had no stream.
 */
static void part_slots(void)
{
	test_threads(2, slots, NULL);
}

/*
 * A copy of a sequential block that its reader does not need costs the writer a wait: orders are
 * not followed. By a thread that has had no stream.
 */
static void no_orders(unsigned int thread, void *arg)
{
	dsm_region_t *r[2];
	uint64_t round;

	(void)arg;
	if (!thread)
		return;
	r[0] = open_learned("one", false);
	r[1] = open_learned("two", false);
	test_sync();
	for (round = 1; round <= 4; round++)
		REQUIRE(read_both(r, round, PASS_BOTH).prefetched == 0, "sequential blocks");
	test_close("one", r[0]);
	test_close("two", r[1]);
}

static void part_sequential(void)
{
	test_threads(2, no_orders, NULL);
}

/* A thread keeps the orders of so many regions apart, by their number, which a handle contains. */
#define ORDERS 4u

static bool share_an_order(const dsm_region_t *a, const dsm_region_t *b)
{
	return ((uintptr_t)a ^ (uintptr_t)b) % ORDERS == 0;
}

/*
 * A thread has read one region, then the other, which is gone now. The last blocks of the first
 * lead to blocks of the second: to what may be there now, or nothing.
 */
static void part_gone(void)
{
	dsm_region_t *r[4 * ORDERS], *both[2];
	struct dsm_stats s;
	char name[16];
	uint64_t round;
	unsigned int i, n = 0;

	do {
		REQUIRE(n < 4 * ORDERS, "no region shares an order with the first");
		snprintf(name, sizeof(name), "gone %u", n);
		r[n++] = open_learned(name, true);
	} while (n == 1 || !share_an_order(r[0], r[n - 1]));
	both[0] = r[0];
	both[1] = r[n - 1];
	test_sync();
	for (round = 1; round <= 6; round++) {
		s = read_both(both, round, PASS_APART);
		REQUIRE(test_rank != last || fetched_all(&s, 2 * LEARNED, 1),
			"%lu blocks missed and %lu fetched ahead", s.read_faults, s.prefetched);
		REQUIRE(test_rank != last || round == 1 || s.prefetched > LEARNED / 2,
			"only %lu fetched ahead", s.prefetched);
		s = test_stats(r[0]);
		REQUIRE(test_rank != last || fetched_all(&s, LEARNED, round),
			"%lu blocks of one region", s.read_faults + s.prefetched);
		if (round != 3)
			continue;
		test_close(name, both[1]);
		both[1] = open_learned("new", true);
		test_sync();
	}
	test_close("new", both[1]);
	for (i = 0; i + 1 < n; i++) {
		snprintf(name, sizeof(name), "gone %u", i);
		test_close(name, r[i]);
	}
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "most", "N", "DSM_READAHEAD, for parts `learned` and `long`", &set_most }
	};
	char value[32];
	static const struct test_part parts[] = {
		{ "a reader", part_read },   { "a writer", part_write },
		{ "both", part_both },       { "a short run", part_short },
		{ "alone", part_alone },     { "bundles", part_bundles },
		{ "columns", part_columns }, { "learned", part_learned },
		{ "begins", part_begins },   { "streams", part_streams },
		{ "slots", part_slots },     { "sequential", part_sequential },
		{ "gone", part_gone },       { "long", part_long },
		{ "halves", part_halves },
	};

	test_options(
		argc, argv,
		"What is fetched ahead: of rows up to 2 MiB and up to the end of the region, of streams, of orders that were "
		"seen before, and nothing else.",
		options, 1);
	snprintf(value, sizeof(value), "%lu", set_most);
	setenv("DSM_READAHEAD", value, 1);
	test_join();
	REQUIRE(dsm_nodes() > 1, "two nodes are needed");
	last = test_size - 1;
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
