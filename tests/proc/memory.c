// SPDX-License-Identifier: BSD-2-Clause
/*
 * memory.c - the bound of a node's memory: the last rank uses several times as much as its node may
 * have. Frames and tables are measured at the memory objects. The runner sets DSM_MEMORY=24M.
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

int main(int argc, char **argv)
{
	static const struct test_part parts[] = {
		{ "reads", reads }, { "writes", writes },   { "hot", hot },       { "sets", sets },
		{ "full", full },   { "touches", touches }, { "copies", copies },
	};

	test_start(argc, argv, "a node gives up copies above DSM_MEMORY", NULL, 0);
	go = test_outside(sizeof(*go));
	find_objects();
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
