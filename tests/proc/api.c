// SPDX-License-Identifier: BSD-2-Clause
/*
 * api.c - every function of dsm.h, except synchronisation (api_sync.c, api_kept.c, api_barrier.c)
 * and hints (api_hints.c): what it does, and every error that it documents. All ranks run the parts
 * in step. In parts that need two ranks, one rank checks what it can see.
 */
#include "common.h"

#include <unistd.h>

#define K 1024ul
#define M (1024ul * K)

static int last, next; /* ranks */
static uint64_t room = 4 * M;
static uint64_t turns = 300;

/* ---- before and after ------------------------------------------------------------------------ */

static void check_not_connected(void)
{
	struct dsm_region_info info;
	struct dsm_hot_block hot;
	struct dsm_stats stats;
	dsm_region_t *r = NULL;
	dsm_barrier_t b = { 0 };
	dsm_atomic_t a = { 0 };
	dsm_mutex_t m = { 0 };
	int here = 0;

	EXPECT(dsm_rank(), -ENOTCONN);
	EXPECT(dsm_size(), -ENOTCONN);
	EXPECT(dsm_barrier(), -ENOTCONN);
	EXPECT(dsm_region_create("x", 1, NULL, &r), -ENOTCONN);
	EXPECT(dsm_region_attach("x", &r), -ENOTCONN);
	EXPECT(dsm_region_open("x", 1, NULL, &r), -ENOTCONN);
	EXPECT(dsm_region_destroy("x"), -ENOTCONN);
	EXPECT(dsm_region_query(&here, &info), -ENOTCONN);
	EXPECT(dsm_mutex_init(&m), -ENOTCONN);
	EXPECT(dsm_mutex_lock(&m), -ENOTCONN);
	EXPECT(dsm_atomic_init(&a, 0, 0), -ENOTCONN);
	EXPECT(dsm_barrier_init(&b, NULL, 0, 1), -ENOTCONN);
	EXPECT(dsm_barrier_wait(&b), -ENOTCONN);
	EXPECT(dsm_reduce(&(uint64_t){ 0 }, DSM_UINT64, DSM_SUM), -ENOTCONN);
	EXPECT(dsm_broadcast(&here, sizeof(here), 0), -ENOTCONN);
	EXPECT(dsm_prefetch(&here, 1, DSM_READ), -ENOTCONN);
	EXPECT(dsm_pin(&here, 1, DSM_READ), -ENOTCONN);
	EXPECT(dsm_bind_thread(0), -ENOTCONN);
	EXPECT(dsm_stats_get(0, NULL, &stats), -ENOTCONN);
	EXPECT(dsm_stats_hot(&hot, 1), -ENOTCONN);
	EXPECT(dsm_stats_reset(), -ENOTCONN);
	EXPECT(dsm_free(&here), -ENOTCONN);
	EXPECT(dsm_finalize(), -ENOTCONN);
	errno = 0;
	REQUIRE(!dsm_malloc(1) && errno == ENOMEM, "dsm_malloc() outside of a job: errno %d",
		errno);
}

static void bad_variable(const char *name, const char *value)
{
	const char *was = getenv(name);
	char *copy = was ? strdup(was) : NULL;
	struct dsm_config cfg;

	setenv(name, value, 1);
	EXPECT(dsm_config_init(&cfg), -EINVAL);
	EXPECT(dsm_init(NULL), -EINVAL);
	if (copy)
		setenv(name, copy, 1);
	else
		unsetenv(name);
	free(copy);
}

static void before_init(void)
{
	struct dsm_config cfg, bad;
	int quiet;

	check_not_connected();
	quiet = dup(2);
	REQUIRE(freopen("/dev/null", "w", stderr), "stderr"); /* hide messages meant for people */
	EXPECT(dsm_config_init(NULL), -EINVAL);
	bad_variable("DSM_BLOCK", "3000");
	bad_variable("DSM_BLOCK", "4M");
	bad_variable("DSM_SPACE", "1K");
	bad_variable("DSM_HOLD_US", "-1");
	bad_variable("DSM_FAULT", "maybe");
	setenv("DSM_STRICT", "1", 1);
	bad_variable("DSM_NO_SUCH_SETTING", "1");
	unsetenv("DSM_STRICT");
	bad_variable("DSM_STRICT", "2");
	MUST(dsm_config_init(&cfg));
	REQUIRE(cfg.struct_size == sizeof(cfg) && cfg.block_size && cfg.space, "dsm_config_init");
	bad = cfg;
	bad.struct_size--;
	EXPECT(dsm_init(&bad), -EINVAL);
	bad = cfg;
	bad.block_size = 5000;
	EXPECT(dsm_init(&bad), -EINVAL);
	bad = cfg;
	bad.heap = cfg.space;
	EXPECT(dsm_init(&bad), -EINVAL);
	bad = cfg;
	bad.fault = "magic";
	EXPECT(dsm_init(&bad), -EINVAL);
	fflush(stderr);
	dup2(quiet, 2);
	close(quiet);
	REQUIRE(strstr(dsm_version(), "0.1") == dsm_version(), "dsm_version: %s", dsm_version());
	REQUIRE(dsm_strerror(-EBUSY)[0] && !strcmp(dsm_strerror(-EBUSY), dsm_strerror(EBUSY)) &&
			dsm_strerror(99999)[0],
		"dsm_strerror");
}

static void part_init(void)
{
	EXPECT(dsm_init(NULL), -EALREADY);
	EXPECT(dsm_rank(), test_rank);
	EXPECT(dsm_size(), test_size);
	EXPECT(dsm_nodes(), (test_size + test_width() - 1) / test_width());
	EXPECT(dsm_node(), test_rank / test_width());
	for (int r = 0; r < test_size; r++)
		EXPECT(dsm_node_of(r), r / test_width());
	EXPECT(dsm_node_of(-1), -EINVAL);
	EXPECT(dsm_node_of(test_size), -EINVAL);
}

/* ---- regions --------------------------------------------------------------------------------- */

static int create(const char *name, size_t size, size_t block, int home, int home_rank,
		  const void *contents, size_t n)
{
	struct dsm_region_options opt = { .block_size = block,
					  .home = (enum dsm_home)home,
					  .home_rank = home_rank,
					  .contents = contents,
					  .contents_size = n };
	dsm_region_t *r = NULL;
	int err = dsm_region_create(name, size, &opt, &r);

	REQUIRE(!err == (r != NULL), "a failed call stored a handle");
	if (!err) {
		MUST(dsm_region_destroy(name));
		MUST(dsm_region_detach(r));
	}
	return err;
}

static void part_region_arguments(void)
{
	char longest[DSM_NAME_MAX + 1];
	dsm_region_t *r;

	memset(longest, 'n', sizeof(longest));
	longest[DSM_NAME_MAX] = 0;
	if (test_rank)
		return;
	EXPECT(create(NULL, 1, 0, 0, 0, NULL, 0), -EINVAL);
	EXPECT(create("", 1, 0, 0, 0, NULL, 0), -EINVAL);
	EXPECT(create(longest, 1, 0, 0, 0, NULL, 0), -EINVAL);
	longest[DSM_NAME_MAX - 1] = 0;
	EXPECT(create(longest, 1, 0, 0, 0, NULL, 0), 0);
	EXPECT(create("r", 0, 0, 0, 0, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 2048, 0, 0, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 5000, 0, 0, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 4 * M, 0, 0, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 4096, 3, 0, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 4096, -1, 0, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 4096, DSM_HOME_FIXED, test_size, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 4096, DSM_HOME_FIXED, -1, NULL, 0), -EINVAL);
	EXPECT(create("r", 1, 4096, DSM_HOME_FIXED, last, NULL, 0), 0);
	EXPECT(create("r", 1, 0, 0, 0, "ab", 2), -EINVAL);
	EXPECT(create("r", 1, 0, 0, 0, NULL, 1), -EINVAL);
	EXPECT(create("r", 1ul << 50, 0, 0, 0, NULL, 0), -ENOMEM);
	EXPECT(dsm_region_create("r", 1, NULL, NULL), -EINVAL);
	EXPECT(dsm_region_attach("no such region", &r), -ENOENT);
	EXPECT(dsm_region_destroy("no such region"), -ENOENT);
	EXPECT(dsm_region_detach(NULL), -EINVAL);
	EXPECT(dsm_region_detach((dsm_region_t *)longest), -EINVAL);
	REQUIRE(!dsm_region_base(NULL) && !dsm_region_size(NULL), "of no region");
}

static void part_region_priorities(void)
{
	struct dsm_region_options opt = { .priority = DSM_PRIORITY_HIGH },
				  other = { .priority = DSM_PRIORITY_LOW };
	struct dsm_region_info info;
	dsm_region_t *r = NULL, *none = NULL;
	uint64_t *p;
	int i;

	if (!test_rank) {
		for (i = DSM_PRIORITY_NORMAL; i <= DSM_PRIORITY_URGENT; i++) {
			opt.priority = (enum dsm_priority)i;
			MUST(dsm_region_create("priority", 1, &opt, &r));
			MUST(dsm_region_query(dsm_region_base(r), &info));
			REQUIRE((int)info.priority == i, "priority %d is %d", i,
				(int)info.priority);
			MUST(dsm_region_destroy("priority"));
			MUST(dsm_region_detach(r));
		}
		for (i = -1; i <= 1; i += 2) {
			opt.priority = (enum dsm_priority)(i < 0 ? -1 : DSM_PRIORITY_URGENT + 1);
			EXPECT(dsm_region_create("priority", 1, &opt, &none), -EINVAL);
			EXPECT(dsm_region_open("priority", 1, &opt, &none), -EINVAL);
		}
	}
	opt.priority = DSM_PRIORITY_HIGH;
	MUST(dsm_barrier());
	MUST(dsm_region_open("priority", 8 * (size_t)test_size, &opt, &r));
	EXPECT(dsm_region_open("priority", 8 * (size_t)test_size, &opt, &none), -EALREADY);
	p = dsm_region_base(r);
	p[test_rank] = (uint64_t)test_rank + 1;
	MUST(dsm_barrier());
	for (i = 0; i < test_size; i++)
		REQUIRE(p[i] == (uint64_t)i + 1, "word %d is %lu", i, p[i]);
	MUST(dsm_barrier());
	if (test_rank == last && last) {
		MUST(dsm_region_detach(r));
		EXPECT(dsm_region_open("priority", 8 * (size_t)test_size, &other, &none), -EEXIST);
		EXPECT(dsm_region_open("priority", 8 * (size_t)test_size, NULL, &none), -EEXIST);
		MUST(dsm_region_attach("priority", &r));
		MUST(dsm_region_query(dsm_region_base(r), &info));
		REQUIRE(info.priority == DSM_PRIORITY_HIGH, "priority %d after attaching",
			(int)info.priority);
	}
	MUST(dsm_barrier());
	test_close("priority", r);
}

/* Create and destroy regions of this name, through all generations, with no rank attached. */
static void query_among_heirs(const char *name, const void *base)
{
	struct dsm_region_info info;
	dsm_region_t *heir;
	int i;

	for (i = 0; i < 20; i++) {
		MUST(dsm_region_create(name, 5, NULL, &heir));
		MUST(dsm_region_detach(heir));
		MUST(dsm_region_query(base, &info));
		REQUIRE(info.base == base && info.attached, "heir %d: query: %p, attached %u", i,
			info.base, info.attached);
		MUST(dsm_region_destroy(name));
	}
}

static void part_region_names(void)
{
	static const char text[] = "these bytes are there from the start";
	struct dsm_region_options opt = { .contents = text, .contents_size = sizeof(text) },
				  other = { .block_size = 64 * K };
	struct dsm_region_info info;
	dsm_region_t *r = NULL, *again, *heir;
	size_t size = 3 * M + 5;
	char *base;

	if (!test_rank)
		MUST(dsm_region_create("shared", size, &opt, &r));
	MUST(dsm_barrier());
	if (test_rank) {
		EXPECT(dsm_region_create("shared", size, &opt, &again), -EEXIST);
		EXPECT(dsm_region_create("shared", size + 1, NULL, &again), -EEXIST);
		EXPECT(dsm_region_open("shared", size + 1, &opt, &again), -EEXIST);
		EXPECT(dsm_region_open("shared", size, &other, &again), -EEXIST);
		EXPECT(dsm_region_open("shared", size, NULL, &again), -EEXIST); /* other contents */
		if (test_rank % 2)
			MUST(dsm_region_attach("shared", &r));
		else
			MUST(dsm_region_open("shared", size, &opt, &r));
	}
	EXPECT(dsm_region_attach("shared", &again), -EALREADY);
	EXPECT(dsm_region_open("shared", size, &opt, &again), -EALREADY);
	EXPECT(dsm_region_create("shared", size, &opt, &again), -EEXIST);
	base = dsm_region_base(r);
	REQUIRE(dsm_region_size(r) == size, "size");
	REQUIRE(!memcmp(base, text, sizeof(text)), "initial contents on rank %d: %.20s", test_rank,
		base);
	REQUIRE(!base[sizeof(text)] && !base[2 * M] && !base[size - 1], "the rest is zero");
	MUST(dsm_barrier());
	MUST(dsm_region_query(base + size - 1, &info));
	REQUIRE(!strcmp(info.name, "shared") && info.base == base && info.size == size &&
			info.creator == 0 && info.attached == (unsigned)test_size &&
			info.home == DSM_HOME_FIRST_TOUCH && info.block_size >= 4 * K,
		"query: %s %p %zu creator %d attached %u", info.name, info.base, info.size,
		info.creator, info.attached);
	EXPECT(dsm_region_query(base, NULL), -EINVAL);
	EXPECT(dsm_region_query(&info, &info), -ENOENT);
	EXPECT(dsm_region_query(NULL, &info), -ENOENT);
	MUST(dsm_barrier());
	/*
	 * The name is destroyed. The memory remains for attached ranks, and the name may be used
	 * again.
	 */
	if (!test_rank) {
		MUST(dsm_region_destroy("shared"));
		EXPECT(dsm_region_destroy("shared"), -ENOENT);
		EXPECT(dsm_region_attach("shared", &again), -ENOENT);
		MUST(dsm_region_create("shared", 5, NULL, &heir));
		REQUIRE((char *)dsm_region_base(heir) != base, "a new place");
		*(char *)dsm_region_base(heir) = 1;
		MUST(dsm_region_destroy("shared"));
		MUST(dsm_region_detach(heir));
		EXPECT(dsm_region_detach(heir), -EINVAL);
		query_among_heirs("shared", base);
	}
	MUST(dsm_barrier());
	base[M + (size_t)test_rank] = (char)(test_rank + 1);
	MUST(dsm_barrier());
	REQUIRE(base[M + (size_t)next] == (char)(next + 1), "after destroy");
	MUST(dsm_barrier());
	MUST(dsm_pin(base + M, 1, DSM_READ));
	EXPECT(dsm_region_detach(r), -EBUSY);
	MUST(dsm_unpin(base + M, 1));
	MUST(dsm_region_detach(r));
	EXPECT(dsm_region_detach(r), -EINVAL);
	EXPECT(dsm_region_query(base, &info), -ENOENT);
	EXPECT(dsm_prefetch(base, 1, DSM_READ), -EFAULT);
}

/*
 * Ranks leave one after the other. Their writes remain for the others, and for those that come
 * back.
 */
static void part_region_leave(void)
{
	struct dsm_region_options opt = { .block_size = 8 * K };
	size_t n = 64 * K, i;
	dsm_region_t *r;
	uint64_t *p;
	int turn;

	MUST(dsm_region_open("leave", n * 8, &opt, &r));
	p = dsm_region_base(r);
	for (i = (size_t)test_rank; i < n; i += (size_t)test_size)
		p[i] = i * 3;
	MUST(dsm_barrier());
	for (turn = 1; turn < test_size; turn++) {
		if (test_rank == turn)
			MUST(dsm_region_detach(r));
		MUST(dsm_barrier());
		if (test_rank == 0)
			for (i = 0; i < n; i++)
				REQUIRE(p[i] == i * 3, "word %zu is %lu after rank %d left", i,
					p[i], turn);
	}
	MUST(dsm_barrier());
	if (test_rank)
		MUST(dsm_region_attach("leave", &r));
	for (i = 0; i < n; i += 97)
		REQUIRE(p[i] == i * 3, "word %zu is %lu after coming back", i, p[i]);
	test_close("leave", r);
	MUST(dsm_region_open("leave", n * 8, NULL, &r));
	p = dsm_region_base(r);
	for (i = 0; i < n; i += 61)
		REQUIRE(!p[i], "a new region's word %zu is %lu", i, p[i]);
	test_close("leave", r);
}

static void part_block_sizes(void)
{
	size_t block, i, size = room + 4096, words = size / 8;
	char name[64];
	int home;

	for (block = 4 * K; block <= room / 2; block *= 2)
		for (home = 0; home <= DSM_HOME_FIXED; home++) {
			struct dsm_region_options opt = { .block_size = block,
							  .home = (enum dsm_home)home,
							  .home_rank = last };
			struct dsm_region_info info;
			dsm_region_t *r;
			uint64_t *p;

			snprintf(name, sizeof(name), "blocks %zu %d", block, home);
			MUST(dsm_region_open(name, size, &opt, &r));
			p = dsm_region_base(r);
			MUST(dsm_region_query(p, &info));
			REQUIRE(info.block_size == block && (int)info.home == home, "query of %s",
				name);
			for (i = (size_t)test_rank * 129; i < words; i += (size_t)test_size * 129)
				p[i] = i ^ block;
			MUST(dsm_barrier());
			for (i = 0; i < words; i += 129)
				REQUIRE(p[i] == (i ^ block), "%s: word %zu is %#lx", name, i, p[i]);
			MUST(dsm_barrier());
			MUST(dsm_region_detach(r));
			MUST(dsm_barrier());
			if (!test_rank)
				MUST(dsm_region_destroy(name));
		}
}

static void part_many_regions(void)
{
	static dsm_region_t *all[1100];
	char name[32];
	int n, i;

	if (test_rank != last)
		return;
	for (n = 0; n < 1100; n++) {
		snprintf(name, sizeof(name), "many %d", n);
		MUST(dsm_region_create(name, 1, NULL, &all[n]));
		*(char *)dsm_region_base(all[n]) = 1;
	}
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "many %d", i);
		MUST(dsm_region_destroy(name));
		MUST(dsm_region_detach(all[i]));
	}
	EXPECT(create("one more", 1, 0, 0, 0, NULL, 0), 0);
}

/* ---- heap ------------------------------------------------------------------------------------ */

static void part_heap_errors(void)
{
	dsm_region_t *r;
	char *p;

	errno = 0;
	REQUIRE(!dsm_malloc(1ul << 48) && errno == ENOMEM, "too much: errno %d", errno);
	errno = 0;
	REQUIRE(!dsm_calloc(1ul << 40, 1ul << 40) && errno == ENOMEM, "overflow: errno %d", errno);
	errno = 0;
	REQUIRE(!dsm_aligned_alloc(24, 1) && errno == EINVAL, "alignment 24: errno %d", errno);
	errno = 0;
	REQUIRE(!dsm_aligned_alloc(4 * M, 1) && errno == EINVAL, "alignment 4M: errno %d", errno);
	errno = 0;
	REQUIRE(!dsm_aligned_alloc(0, 1) && errno == EINVAL, "alignment 0: errno %d", errno);
	EXPECT(dsm_free(NULL), 0);
	EXPECT(dsm_free(&r), -EINVAL);
	p = dsm_malloc(1000);
	REQUIRE(p, "dsm_malloc: %m");
	EXPECT(dsm_free(p + 1), -EINVAL);
	EXPECT(dsm_free(p + 64), -EINVAL);
	EXPECT(dsm_free(p), 0);
	EXPECT(dsm_free(p), -EINVAL);
	MUST(dsm_region_open("not heap", 4096, NULL, &r));
	EXPECT(dsm_free(dsm_region_base(r)), -EINVAL);
	MUST(dsm_region_detach(r));
	p = dsm_malloc(0);
	MUST(dsm_free(p));
	REQUIRE((p = dsm_aligned_alloc(2 * M, 100)) && !((uintptr_t)p & (2 * M - 1)),
		"2M aligned: %p", (void *)p);
	MUST(dsm_free(p));
	REQUIRE((p = dsm_malloc_named(256, 100, "named")) && !((uintptr_t)p & 255),
		"256 aligned: %p", (void *)p);
	MUST(dsm_free(p));
}

/* Each rank allocates, its neighbour writes and frees. */
static void part_heap_shared(void)
{
	static const size_t sizes[] = { 1, 16, 100, 4096, 5000, 70000, 3 * M };
	struct dsm_region_info info;
	dsm_region_t *r;
	void **table = test_open("heap table", 4096 * (size_t)test_size, DSM_HOME_CYCLIC, &r);
	void **mine = table + 512 * test_rank, **theirs = table + 512 * next;
	int round;
	size_t i, k;

	for (round = 0; round < 5; round++) {
		for (i = 0; i < 7; i++) {
			char *p = mine[i] = i % 2 ? dsm_calloc(sizes[i], 1) : dsm_malloc(sizes[i]);

			REQUIRE(p, "allocation: %m");
			for (k = 0; i % 2 && k < sizes[i]; k++)
				REQUIRE(!p[k], "calloc: byte %zu of %zu is %d", k, sizes[i], p[k]);
			memset(p, test_rank + 1, sizes[i]);
		}
		MUST(dsm_region_query(mine[0], &info));
		REQUIRE(!strcmp(info.name, "(heap)"), "query of heap memory: %s", info.name);
		MUST(dsm_barrier());
		for (i = 0; i < 7; i++) {
			char *p = theirs[i];

			for (k = 0; k < sizes[i]; k++)
				REQUIRE(p[k] == next + 1, "byte %zu of %zu by rank %d is %d", k,
					sizes[i], next, p[k]);
			memset(p, 77, sizes[i]);
			EXPECT(dsm_free(p + 1), -EINVAL);
			MUST(dsm_free(p));
			EXPECT(dsm_free(p), -EINVAL);
		}
		MUST(dsm_barrier());
	}
	test_close("heap table", r);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void part_stats(void)
{
	struct dsm_region_options opt = { .home = DSM_HOME_FIXED };
	struct dsm_hot_block hot[200];
	struct dsm_stats s, all;
	dsm_region_t *r, *pointer;
	uint64_t *p, **shared, faults;
	const uint64_t few = turns / 30;
	int i, n;

	REQUIRE(turns >= 30 && turns <= 1000000, "--turns %lu", turns);
	EXPECT(dsm_stats_get(test_size, NULL, &s), -EINVAL);
	EXPECT(dsm_stats_get(-2, NULL, &s), -EINVAL);
	EXPECT(dsm_stats_get(0, NULL, NULL), -EINVAL);
	EXPECT(dsm_stats_hot(NULL, 1), -EINVAL);
	EXPECT(dsm_stats_hot(hot, 0), -EINVAL);
	MUST(dsm_region_open("stats", M, &opt, &r));
	p = dsm_region_base(r);
	shared = test_open("stats pointer", 4096, DSM_HOME_FIRST_TOUCH, &pointer);
	if (!test_rank)
		*shared = dsm_malloc_named(0, 4096, "hot allocation");
	MUST(dsm_barrier());
	MUST(dsm_stats_reset());
	s = test_stats(r);
	REQUIRE(!s.read_faults && !s.write_faults && !s.blocks_in, "counters after reset");
	MUST(dsm_barrier());
	for (i = 0; i < (int)turns; i++) {
		if (i % test_size == test_rank) {
			p[0]++;
			(*shared)[0]++;
		}
		MUST(dsm_barrier());
	}
	/* the first rank of a node counts the misses */
	MUST(dsm_stats_get(test_width() == 1 ? test_rank : -1, r, &s));
	faults = s.read_faults + s.write_faults + s.upgrades;
	REQUIRE(dsm_nodes() == 1 ||
			(faults >= few && s.blocks_in >= few &&
			 s.latency_count[DSM_LAT_READ_MISS] + s.latency_count[DSM_LAT_WRITE_MISS] +
					 s.latency_count[DSM_LAT_UPGRADE] >=
				 few &&
			 s.bytes_in >= few * 4096),
		"counters of the region: %lu faults, %lu blocks in", faults, s.blocks_in);
	s = test_stats(NULL);
	REQUIRE(s.barriers >= turns, "%lu barriers", s.barriers);
	MUST(dsm_stats_get(-1, NULL, &all));
	REQUIRE(all.barriers >= s.barriers * (uint64_t)test_size - 2 * (uint64_t)test_size,
		"sum of barriers %lu, mine %lu", all.barriers, s.barriers);
	n = dsm_stats_hot(hot, 200);
	REQUIRE(n >= 0 && n <= 200, "dsm_stats_hot: %d", n);
	for (i = 0; i < n && dsm_nodes() > 1 && strcmp(hot[i].name, "hot allocation"); i++)
		REQUIRE(!i || hot[i].transfers <= hot[i - 1].transfers, "the hottest first");
	REQUIRE(dsm_nodes() == 1 ||
			(i < n && hot[i].transfers >= turns / 6 && hot[i].object == *shared &&
			 hot[i].object_size >= 4096),
		"the hot allocation is not among the %d hot blocks", n);
	for (i = 0; i < n && dsm_nodes() > 1 && hot[i].addr != (void *)p; i++)
		;
	REQUIRE(dsm_nodes() == 1 ||
			(i < n && hot[i].object == (void *)p && hot[i].object_size == M &&
			 !strcmp(hot[i].name, "stats")),
		"the hot block of the region is not among the %d hot blocks", n);
	MUST(dsm_barrier());
	if (!test_rank)
		MUST(dsm_free(*shared));
	test_close("stats", r);
	test_close("stats pointer", pointer);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct test_part parts[] = {
	{ "init", part_init },                 { "region arguments", part_region_arguments },
	{ "region names", part_region_names }, { "region priorities", part_region_priorities },
	{ "region leave", part_region_leave }, { "block sizes", part_block_sizes },
	{ "many regions", part_many_regions }, { "heap errors", part_heap_errors },
	{ "heap shared", part_heap_shared },   { "stats", part_stats },
};
/* clang-format on */

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "room", "BYTES", "a region for each block size up to half of this", &room },
		{ "turns", "N", "of the ranks at the hot blocks of part `stats`, at least 30",
		  &turns }
	};
	int status;

	test_options(argc, argv,
		     "Every function of dsm.h (but synchronisation and hints), and every error.",
		     options, 2);
	before_init();
	test_join();
	last = test_size - 1;
	next = (test_rank + 1) % test_size;
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	status = test_end();
	check_not_connected();
	EXPECT(dsm_init(NULL), -EALREADY);
	return status;
}
