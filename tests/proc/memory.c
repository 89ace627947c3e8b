// SPDX-License-Identifier: BSD-2-Clause
/*
 * memory.c - the bound of a node's memory: the last rank uses several times as much as its node may
 * have. Frames and tables are measured at the memory objects. The runner sets DSM_MEMORY=24M, and
 * 16M for 16 ranks in two nodes.
 */
#include "common.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define PAGE 4096
#define WORDS (PAGE / sizeof(uint64_t))
#define BOUND (24 * MIB)
#define SIZE (64 * MIB)
#define PAGES (SIZE / PAGE)
#define SLACK MIB

static int frames_fd = -1, control_fd = -1;
static uint64_t most; /* memory of this node, as this rank has seen it */
static uint64_t *go;  /* outside libdsm: the writers stop */

static void find_objects(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	REQUIRE(d, "%m");
	while ((e = readdir(d))) {
		char path[300], to[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		if (readlink(path, to, sizeof(to) - 1) > 0 && strstr(to, "libdsm-frames"))
			frames_fd = atoi(e->d_name);
		if (strstr(to, "libdsm-control"))
			control_fd = atoi(e->d_name);
	}
	closedir(d);
	REQUIRE(frames_fd >= 0 && control_fd >= 0, "no frames, or no tables");
}

static uint64_t used(void)
{
	struct stat frames, control;
	uint64_t sum;

	MUST(fstat(frames_fd, &frames));
	MUST(fstat(control_fd, &control));
	sum = (uint64_t)(frames.st_blocks + control.st_blocks) * 512;
	if (sum > most)
		most = sum;
	return sum;
}

/* A region whose home is rank 0, which has written it. */
static uint64_t *written(const char *name, dsm_region_t **r)
{
	uint64_t *p = (uint64_t *)test_open(name, SIZE, DSM_HOME_FIXED, r), i;

	for (i = 0; !test_rank && i < PAGES; i++)
		store(&p[i * WORDS], i * 3 + 1);
	test_sync();
	return p;
}

/* Other ranks go on writing the second word of pages, upwards. */
static void write_beside(uint64_t *p)
{
	struct rng rng = rng_of((uint64_t)test_rank);

	while (!see(go)) {
		uint64_t *at = &p[rng_below(&rng, PAGES) * WORDS + 1 + (uint64_t)test_rank];

		store(at, load(at) + 1);
		test_delay(2000);
	}
}

static void scan(uint64_t *p)
{
	static uint64_t before[PAGES];
	const struct dsm_stats s = test_stats(NULL);
	struct dsm_stats t;
	uint64_t i, turn;

	most = 0;
	for (turn = 0; turn < 2; turn++)
		for (i = 0; i < PAGES; i++) {
			const uint64_t now = load(&p[i * WORDS + 1]);

			REQUIRE(load(&p[i * WORDS]) == i * 3 + 1, "page %lu: %lu", i,
				load(&p[i * WORDS]));
			REQUIRE(now >= before[i], "page %lu: %lu after %lu", i, now, before[i]);
			before[i] = now;
			if (i % 64 == 0)
				used();
		}
	t = test_stats(NULL);
	printf("  rank %d: at most %lu KiB, %lu copies dropped, %lu given back, %lu looks in vain\n",
	       test_rank, most >> 10, t.evicted_clean - s.evicted_clean,
	       t.evicted_owned - s.evicted_owned, t.evict_short - s.evict_short);
	REQUIRE(most <= BOUND + SLACK, "the node had %lu KiB", most >> 10);
	REQUIRE(most >= BOUND / 2, "the node had %lu KiB only", most >> 10);
}

static void reads(void)
{
	dsm_region_t *r;
	uint64_t *p = written("reads", &r);

	if (test_is_last()) {
		scan(p);
		__atomic_store_n(go, 1, __ATOMIC_SEQ_CST);
	} else {
		write_beside(p);
	}
	test_sync();
	store(go, 0);
	test_close("reads", r);
	test_sync();
}

/* What the last rank writes goes to its home. */
static void writes(void)
{
	dsm_region_t *r;
	uint64_t *p = written("writes", &r), i;
	const struct dsm_stats s = test_stats(NULL);

	most = 0;
	for (i = 0; test_is_last() && i < PAGES; i++) {
		store(&p[i * WORDS + 2], i + 7);
		if (i % 64 == 0)
			used();
	}
	if (test_is_last()) {
		const struct dsm_stats t = test_stats(NULL);

		printf("  rank %d: at most %lu KiB, %lu copies dropped, %lu given back, %lu looks in vain\n",
		       test_rank, most >> 10, t.evicted_clean - s.evicted_clean,
		       t.evicted_owned - s.evicted_owned, t.evict_short - s.evict_short);
		REQUIRE(most <= BOUND + SLACK, "the node had %lu KiB", most >> 10);
		REQUIRE(t.evicted_owned > s.evicted_owned, "nothing was given back");
	}
	test_sync();
	for (i = 0; i < PAGES; i++)
		REQUIRE(load(&p[i * WORDS + 2]) == i + 7, "page %lu: %lu", i,
			load(&p[i * WORDS + 2]));
	test_sync();
	test_close("writes", r);
	test_sync();
}

#define OWN (BOUND / 2)    /* of the last rank, whose node is the home */
#define COPIES (PAGES / 2) /* of release blocks */

/* Release blocks: the last rank reads them, writes a word of each, and reads again what it and the
 * others have written. Between two barriers, ranks store to different words. What its node is the
 * home of leaves so little room that blocks have to be closed. */
static void copies(void)
{
	const struct dsm_region_options opt = { .consistency = DSM_CONSISTENCY_RELEASE,
						.home = DSM_HOME_FIXED };
	const uint64_t mine = 1 + (uint64_t)test_rank;
	struct dsm_stats s, t;
	dsm_region_t *r, *own;
	uint64_t *p, *q, i, k, turn;

	q = (uint64_t *)test_open("own", OWN, DSM_HOME_FIRST_TOUCH, &own);
	for (i = 0; test_is_last() && i < OWN / PAGE; i++)
		store(&q[i * WORDS], i);
	MUST(dsm_region_open("copies", COPIES * PAGE, &opt, &r));
	p = dsm_region_base(r);
	for (i = 0; !test_rank && i < COPIES; i++)
		p[i * WORDS] = i * 3 + 1;
	test_sync();
	s = test_stats(NULL);
	most = 0;
	for (turn = 1; turn <= 2; turn++) {
		for (i = 0; i < COPIES; i++) {
			REQUIRE(p[i * WORDS] == i * 3 + 1, "page %lu: %lu", i, p[i * WORDS]);
			if (test_is_last() && i % 64 == 0)
				used();
			if (test_is_last() || i % 3 == 0)
				p[i * WORDS + mine] += i + turn;
		}
		test_sync();
		for (i = 0; i < COPIES; i++)
			for (k = 0; k < (uint64_t)test_size; k++) {
				const uint64_t n =
					k + 1 == (uint64_t)test_size || i % 3 == 0 ? turn : 0;

				REQUIRE(p[i * WORDS + 1 + k] == n * i + n * (n + 1) / 2,
					"page %lu, rank %lu, turn %lu: %lu", i, k, turn,
					p[i * WORDS + 1 + k]);
			}
		test_sync();
	}
	t = test_stats(NULL);
	if (test_is_last()) {
		printf("  rank %d: at most %lu KiB, %lu copies dropped, %lu closed, %lu closes, %lu twins\n",
		       test_rank, most >> 10, t.evicted_clean - s.evicted_clean,
		       t.evicted_owned - s.evicted_owned, t.closes - s.closes, t.twins_most);
		/* Ranks of one node bring blocks while another one gives some up. */
		REQUIRE((most <= BOUND + SLACK || dsm_nodes() < test_size) && most >= BOUND / 2,
			"the node had %lu KiB", most >> 10);
		REQUIRE(t.evicted_clean > s.evicted_clean && t.evicted_owned > s.evicted_owned,
			"nothing was dropped, or nothing was closed");
	}
	test_sync();
	test_close("copies", r);
	test_close("own", own);
	test_sync();
}

/* A page that is read again and again stays, and so does a pinned one. */
static void hot(void)
{
	dsm_region_t *r, *one;
	uint64_t *p = written("cold", &r), *q, i, sum = 0;
	struct dsm_stats s;

	q = (uint64_t *)test_open("hot", 2 * PAGE, DSM_HOME_FIXED, &one);
	if (!test_rank)
		store(q, 5), store(&q[WORDS], 6);
	test_sync();
	if (test_is_last()) {
		const struct dsm_stats before = test_stats(NULL);
		struct dsm_stats after;

		MUST(dsm_pin(&q[WORDS], PAGE, DSM_READ));
		for (i = 0; i < PAGES; i++) {
			REQUIRE(load(q) == 5 && load(&q[WORDS]) == 6, "page %lu", i);
			sum += load(&p[i * WORDS]);
		}
		REQUIRE(sum == PAGES * (PAGES - 1) / 2 * 3 + PAGES, "%lu", sum);
		after = test_stats(NULL);
		printf("  rank %d: a scan of %d blocks: %lu came, %lu went, %lu messages\n",
		       test_rank, (int)PAGES, after.blocks_in - before.blocks_in,
		       after.evicted_clean - before.evicted_clean,
		       after.messages_out - before.messages_out);
		REQUIRE(after.blocks_in - before.blocks_in < PAGES + 16, "%lu blocks",
			after.blocks_in - before.blocks_in);
		MUST(dsm_unpin(&q[WORDS], PAGE));
		s = test_stats(one);
		printf("  rank %d: %lu misses of the hot page and the pinned one\n", test_rank,
		       s.read_faults + s.prefetched);
		REQUIRE(s.read_faults + s.prefetched <= 6, "%lu misses",
			s.read_faults + s.prefetched);
	}
	test_sync();
	test_close("hot", one);
	test_close("cold", r);
	test_sync();
}

/* Misses of random reads, as a share of the reads, in a part of the region. */
static double misses_in(const char *name, uint64_t pages)
{
	const uint64_t reads = 16384;
	struct rng rng = rng_of(1);
	dsm_region_t *r;
	uint64_t *p = written(name, &r), i;
	struct dsm_stats s = { 0 }, t = { 0 };
	double share;

	for (i = 0; test_is_last() && i < pages; i++)
		REQUIRE(load(&p[i * WORDS]) == i * 3 + 1, "page %lu", i);
	s = test_stats(r);
	for (i = 0; test_is_last() && i < reads; i++) {
		const uint64_t page = rng_below(&rng, pages);

		REQUIRE(load(&p[page * WORDS]) == page * 3 + 1, "page %lu", page);
	}
	t = test_stats(r);
	test_close(name, r);
	/* Blocks that were read ahead before may come in between: count requests. */
	share = (double)(t.read_faults + t.prefetched - s.read_faults - s.prefetched) /
		(double)reads;
	if (test_is_last())
		printf("  rank %d: %.3f blocks are asked for by a random read in %lu MiB\n",
		       test_rank, share, pages * PAGE >> 20);
	return share;
}

/* Random reads in half of what the node may have, in as much, and in twice as much. */
static void sets(void)
{
	const double half = misses_in("half", PAGES / 8), same = misses_in("same", PAGES / 4),
		     twice = misses_in("twice", PAGES / 2);

	REQUIRE(!test_is_last() || (half == 0 && same < 0.2 && twice < 0.65), "%.3f, %.3f, %.3f",
		half, same, twice);
}

#define HELD (BOUND / 3) /* of each node's: all others pin it */
#define WINDOW 64        /* pages that a thread fetches ahead */
#define LOCKS 300
#define PATIENCE 10000000000ull

/* Nothing of a node can go: it is the home, or has pinned it. Each thread writes what the others
 * have, fetches ahead, and takes a lock. */
static void stuck(void)
{
	dsm_region_t *r, *kept, *one;
	const uint64_t nodes = (uint64_t)dsm_nodes(), pages = HELD / PAGE * nodes;
	uint64_t *held = (uint64_t *)test_open("held", pages * PAGE, DSM_HOME_CYCLIC, &kept);
	uint64_t *p = (uint64_t *)test_open("stuck", pages * PAGE, DSM_HOME_CYCLIC, &r);
	struct shared {
		dsm_mutex_t lock;
		uint64_t sum;
	} *s = test_open("lock", PAGE, DSM_HOME_FIXED, &one);
	struct rng rng = rng_of((uint64_t)test_rank);
	uint64_t i, since;

	if (!test_rank)
		MUST(dsm_mutex_init(&s->lock));
	for (i = (uint64_t)test_rank; i < pages; i += (uint64_t)test_size)
		store(&held[i * WORDS], i + 1), store(&p[i * WORDS], 1);
	test_sync();
	MUST(dsm_pin(held, pages * PAGE, DSM_READ));
	test_sync();
	since = test_ns();
	for (i = 0; i < LOCKS; i++) {
		const uint64_t at = rng_below(&rng, pages - WINDOW);

		MUST(dsm_prefetch(&p[at * WORDS], WINDOW * PAGE, i % 2 ? DSM_READ : DSM_WRITE));
		MUST(dsm_mutex_lock(&s->lock));
		s->sum += i;
		store(&p[at * WORDS + 1], load(&p[at * WORDS + 1]) + i);
		MUST(dsm_mutex_unlock(&s->lock));
	}
	since = test_ns() - since;
	printf("  rank %d: %lu KiB, %d locks in %lu ms\n", test_rank, used() >> 10, LOCKS,
	       since / 1000000);
	REQUIRE(since < PATIENCE, "%lu ms", since / 1000000);
	REQUIRE(used() >= BOUND - 2 * MIB, "the node has %lu KiB only", used() >> 10);
	for (i = 0; i < pages; i++)
		REQUIRE(load(&held[i * WORDS]) == i + 1, "page %lu", i);
	test_sync();
	for (i = since = 0; i < pages; i++)
		since += load(&p[i * WORDS + 1]);
	REQUIRE(s->sum == since && since == (uint64_t)LOCKS * (LOCKS - 1) / 2 * (uint64_t)test_size,
		"%lu, %lu", s->sum, since);
	MUST(dsm_unpin(held, pages * PAGE));
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&s->lock));
	test_close("lock", one);
	test_close("stuck", r);
	test_close("held", kept);
	test_sync();
}

/* All nodes have more than they may, and write what the others have. */
static void full(void)
{
	dsm_region_t *r;
	uint64_t *p = (uint64_t *)test_open("full", PAGES / 2 * PAGE, DSM_HOME_CYCLIC, &r), i, k;
	struct rng rng = rng_of((uint64_t)test_rank);

	for (i = 0; i < PAGES / 2; i++)
		store(&p[i * WORDS + (uint64_t)test_rank], 1);
	for (i = 0; i < 2000; i++) {
		uint64_t *at = &p[rng_below(&rng, PAGES / 2) * WORDS + (uint64_t)test_rank];

		store(at, load(at) + 1);
	}
	test_sync();
	for (i = k = 0; i < PAGES / 2; i++)
		k += load(&p[i * WORDS + (uint64_t)(test_rank + 1) % (uint64_t)test_size]);
	REQUIRE(k == PAGES / 2 + 2000, "%lu", k);
	test_sync();
	test_close("full", r);
	test_sync();
}

/* What is freed is used again before the heap takes other memory: almost nothing is sent. */
static void garbage(void)
{
	const struct dsm_stats s = test_stats(NULL);
	struct dsm_stats t;
	uint64_t *p, i, k, size, sum = 0;

	most = 0;
	for (i = 0; test_is_last() && sum < 8 * BOUND; i++, sum += size) {
		size = BOUND / 12 * (1 + i * 5 % 7);
		p = dsm_malloc(size);
		REQUIRE(p, "%m");
		for (k = 0; k < size / PAGE; k++)
			store(&p[k * WORDS], k);
		used();
		MUST(dsm_free(p));
	}
	t = test_stats(NULL);
	if (test_is_last()) {
		printf("  rank %d: %lu MiB in %lu turns, at most %lu KiB, %lu blocks given back, %lu messages\n",
		       test_rank, (unsigned long)(sum / MIB), i, most >> 10,
		       t.evicted_owned - s.evicted_owned, t.messages_out - s.messages_out);
		REQUIRE(most <= BOUND + SLACK, "the node had %lu KiB", most >> 10);
		REQUIRE(t.evicted_owned - s.evicted_owned < sum / PAGE / 200, "%lu blocks",
			t.evicted_owned - s.evicted_owned);
	}
	test_sync();
}

/*
 * A node that is full does not become the home of what it touches first; and what is freed is gone.
 */
static void touches(void)
{
	dsm_region_t *r;
	uint64_t *p = (uint64_t *)test_open("touches", SIZE, DSM_HOME_FIRST_TOUCH, &r), i;
	const uint64_t before = used();

	most = 0;
	for (i = 0; test_is_last() && i < PAGES; i++) {
		store(&p[i * WORDS], i + 1);
		if (i % 64 == 0)
			used();
	}
	if (test_is_last()) {
		printf("  rank %d: at most %lu KiB of %lu touched\n", test_rank, most >> 10,
		       (unsigned long)SIZE >> 10);
		REQUIRE(most <= BOUND + SLACK, "the node had %lu KiB", most >> 10);
	}
	test_sync();
	for (i = 0; i < PAGES; i++)
		REQUIRE(load(&p[i * WORDS]) == i + 1, "page %lu: %lu", i, load(&p[i * WORDS]));
	test_sync();
	test_close("touches", r);
	test_sync();
	for (i = 0; used() > before + SLACK && i < 1000; i++)
		test_nap(5000000);
	REQUIRE(used() <= before + SLACK, "%lu KiB are left of a region that is gone",
		used() >> 10);
	test_sync();
}

#define CROWD 16 /* ranks, in two nodes */
#define CROWD_BOUND (16 * MIB)

static uint64_t page_tables(void)
{
	unsigned long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	REQUIRE(f, "%m");
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmPTE: %lu kB", &kib);
	fclose(f);
	return kib << 10;
}

/* With the page tables of the ranks from `first` on, of which `*tables` are returned. */
static uint64_t used_with(const uint64_t *of, uint64_t first, uint64_t *tables)
{
	uint64_t k;

	for (*tables = 0, k = first; k < (uint64_t)test_size; k++)
		*tables += load(&of[k]);
	return *tables + used();
}

/*
 * All ranks of a node read ten times as much as it may have, a page of each turn. Each has page
 * tables for all of it, and they count: a moment later if a service thread gets no processor.
 */
static void crowd(void)
{
	const uint64_t width = (uint64_t)test_width(), pages = 10 * CROWD_BOUND / PAGE;
	const uint64_t first = (uint64_t)test_size - width, before = page_tables();
	uint64_t *tables = test_outside((uint64_t)test_size * sizeof(*tables)), i, now, sum,
		 peak = 0, part = 0;
	dsm_region_t *r;
	uint64_t *p = (uint64_t *)test_open("crowd", pages * PAGE, DSM_HOME_FIXED, &r);

	for (i = 0; !test_rank && i < pages; i++)
		store(&p[i * WORDS], i + 1);
	test_sync();
	for (i = 0; (uint64_t)test_rank >= first && i < pages; i++) {
		if (i % width == (uint64_t)test_rank - first)
			REQUIRE(load(&p[i * WORDS]) == i + 1, "page %lu", i);
		if (i % 1024)
			continue;
		store(&tables[test_rank], page_tables() - before);
		now = used_with(tables, first, &sum);
		if (now <= peak)
			continue;
		peak = now;
		part = sum;
	}
	test_sync();
	test_nap(300000000);
	for (i = 0; test_is_last() && i < 1024; i++)
		REQUIRE(load(&p[i * WORDS]) == i + 1, "page %lu", i);
	if (test_is_last()) {
		now = used_with(tables, first, &sum);
		printf("  rank %d: %lu KiB with page tables, which are %lu KiB; at most %lu and %lu KiB\n",
		       test_rank, now >> 10, sum >> 10, peak >> 10, part >> 10);
		REQUIRE(sum >= CROWD_BOUND / 8, "the page tables have %lu KiB only", sum >> 10);
		REQUIRE(now <= CROWD_BOUND, "the node has %lu KiB", now >> 10);
		REQUIRE(peak <= CROWD_BOUND + CROWD_BOUND / 6, "the node had %lu KiB", peak >> 10);
	}
	test_sync();
	test_close("crowd", r);
	test_sync();
}

int main(int argc, char **argv)
{
	static const struct test_part alone[] = { { "crowd", crowd } };
	static const struct test_part parts[] = {
		{ "reads", reads },   { "writes", writes }, { "hot", hot },
		{ "sets", sets },     { "full", full },     { "touches", touches },
		{ "copies", copies }, { "stuck", stuck },   { "garbage", garbage },
	};

	test_start(argc, argv, "a node gives up copies above DSM_MEMORY", NULL, 0);
	go = test_outside(sizeof(*go));
	find_objects();
	if (test_size == CROWD)
		test_parts(alone, 1);
	else
		test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
