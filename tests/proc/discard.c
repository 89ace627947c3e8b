// SPDX-License-Identifier: BSD-2-Clause
/*
 * discard.c - above DSM_MEMORY, memory that was freed goes first, and is not sent; and no live data
 * goes with it. The runner sets DSM_MEMORY=24M.
 */
#include "common.h"

#include <fcntl.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define PAGE 4096
#define WORDS (PAGE / sizeof(uint64_t))
#define BOUND (24 * MIB)

static uint64_t seconds = 2, threads = 3;

/* ---- garbage beside a working set ------------------------------------------------------------ */

#define LIVE (BOUND * 2 / 3) /* of rank 0, and used by the last one */
#define LIVE_PAGES (LIVE / PAGE)
#define GARBAGE (BOUND * 2 / 3)
#define TURNS (8 * BOUND / LIVE)
#define OBJECT (128ul << 10)
#define OBJECTS (GARBAGE / OBJECT)

/* Objects are written, read and freed. */
static void make_garbage(void)
{
	static uint64_t *p[OBJECTS];
	uint64_t i, k;

	for (i = 0; i < OBJECTS; i++) {
		p[i] = dsm_malloc(OBJECT);
		REQUIRE(p[i], "%m");
		for (k = 0; k < OBJECT / PAGE; k++)
			store(&p[i][k * WORDS], i << 16 | k);
	}
	for (i = 0; i < OBJECTS; i++) {
		for (k = 0; k < OBJECT / PAGE; k++)
			REQUIRE(load(&p[i][k * WORDS]) == (i << 16 | k),
				"object %lu, page %lu: %#lx", i, k, load(&p[i][k * WORDS]));
		MUST(dsm_free(p[i]));
	}
}

#define STACK (1ul << 20)
#define STACKS (GARBAGE / STACK)

/* Use most of a shared stack. */
static void *fill_stack(void *arg)
{
	volatile uint64_t words[(STACK - 128 * 1024) / sizeof(uint64_t)];
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i += WORDS)
		words[i] = i + (uintptr_t)arg;
	REQUIRE(dsm_barrier_wait(arg) >= 0, "no barrier");
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i += WORDS)
		REQUIRE(words[i] == i + (uintptr_t)arg, "word %zu: %#lx", i, words[i]);
	return NULL;
}

/* Threads have ended, and their stacks are free. */
static void end_threads(void)
{
	const struct dsm_thread_options opt = { .stack_size = STACK, .shared_stack = 1 };
	dsm_thread_t t[STACKS];
	dsm_barrier_t b;
	unsigned int i;

	MUST(dsm_barrier_init(&b, &test_rank, 1, STACKS));
	for (i = 0; i < STACKS; i++)
		MUST(dsm_spawn(&t[i], test_rank, &opt, fill_stack, &b));
	for (i = 0; i < STACKS; i++)
		MUST(dsm_join(t[i], NULL));
	MUST(dsm_barrier_destroy(&b));
}

/* Each page has its number, and how often it was used. */
static void use(uint64_t *p, uint64_t turn)
{
	uint64_t i;

	for (i = 0; i < LIVE_PAGES; i++) {
		REQUIRE(load(&p[i * WORDS]) == i && load(&p[i * WORDS + 1]) == turn,
			"turn %lu, page %lu: %lu, %lu", turn, i, load(&p[i * WORDS]),
			load(&p[i * WORDS + 1]));
		store(&p[i * WORDS + 1], turn + 1);
	}
}

/* A working set fits, but not beside what was freed before. */
static void use_beside(void (*garbage)(void))
{
	dsm_region_t *r;
	uint64_t *p = (uint64_t *)test_open("live", LIVE, DSM_HOME_FIXED, &r), i, turn;
	struct dsm_stats s, t;

	for (i = 0; !test_rank && i < LIVE_PAGES; i++)
		store(&p[i * WORDS], i);
	test_sync();
	s = test_stats(NULL);
	if (test_is_last())
		garbage();
	for (turn = 0; test_is_last() && turn < TURNS; turn++)
		use(p, turn);
	t = test_stats(NULL);
	if (test_is_last()) {
		const uint64_t out = t.bytes_out - s.bytes_out, in = t.bytes_in - s.bytes_in;

		printf("  rank %d: uses %llu MiB beside %llu MiB that it has freed: %lu KiB sent, %lu KiB came; %lu blocks went, %lu given back\n",
		       test_rank, TURNS * LIVE / MIB, GARBAGE / MIB, out >> 10, in >> 10,
		       t.evicted_clean - s.evicted_clean, t.evicted_owned - s.evicted_owned);
		REQUIRE(in < LIVE + LIVE / 4 && out < LIVE / 4, "%lu KiB were sent, %lu KiB came",
			out >> 10, in >> 10);
	}
	test_sync();
	for (i = 0; i < LIVE_PAGES; i++)
		REQUIRE(load(&p[i * WORDS + 1]) == TURNS, "page %lu: %lu", i,
			load(&p[i * WORDS + 1]));
	test_sync();
	test_close("live", r);
	test_sync();
}

static void objects(void)
{
	use_beside(make_garbage);
}

static void stacks(void)
{
	use_beside(end_threads);
}

/* ---- memory without frames is used again ----------------------------------------------------- */

static bool was_freed(uint64_t *const *old, const uint64_t *p)
{
	unsigned int i;

	for (i = 0; i < OBJECTS && old[i] != p; i++)
		;
	return i < OBJECTS;
}

/* The last rank: frees objects, uses what does not fit beside them, and has the memory again. */
static void free_and_allocate(uint64_t **p)
{
	uint64_t *old[OBJECTS], *live = dsm_malloc(LIVE);
	unsigned int i, k, same = 0;

	for (i = 0; i < OBJECTS; i++) {
		old[i] = dsm_malloc(OBJECT);
		REQUIRE(old[i], "%m");
		for (k = 0; k < OBJECT / PAGE; k++)
			store(&old[i][k * WORDS], 1);
	}
	for (i = 0; i < OBJECTS; i++)
		MUST(dsm_free(old[i]));
	REQUIRE(live, "%m");
	for (i = 0; i < LIVE_PAGES; i++)
		store(&live[i * WORDS], 1);
	for (i = 0; i < OBJECTS; i++) {
		p[i] = dsm_malloc(OBJECT);
		REQUIRE(p[i], "%m");
		same += was_freed(old, p[i]);
	}
	MUST(dsm_free(live));
	REQUIRE(same > OBJECTS / 2, "%u of %llu objects are where others were", same, OBJECTS);
}

/* A system call writes into memory that is pinned, or was only asked for: nobody else uses it. */
static void read_into(void *p, bool pinned)
{
	const int fd = open("/dev/zero", O_RDONLY);

	REQUIRE(fd >= 0, "%m");
	MUST(pinned ? dsm_pin(p, OBJECT, DSM_WRITE) : dsm_acquire(p, OBJECT, DSM_WRITE));
	REQUIRE(read(fd, p, OBJECT) == OBJECT, "pinned %d: %m", pinned);
	MUST(pinned ? dsm_unpin(p, OBJECT) : 0);
	close(fd);
}

/* Other nodes, system calls, or this node are the first to use it. What one node reads, all do. */
static void returns(void)
{
	dsm_region_t *r;
	uint64_t **p = test_open("objects", (OBJECTS + 1) * sizeof(*p), DSM_HOME_FIXED, &r);
	const struct dsm_stats s = test_stats(NULL);
	uint64_t *seen = test_outside(GARBAGE / PAGE * sizeof(*seen)), i, k;

	if (test_is_last())
		free_and_allocate(p);
	REQUIRE(!test_is_last() || test_stats(NULL).evicted_clean > s.evicted_clean,
		"no block has gone");
	test_sync();
	for (i = 0; i < OBJECTS; i++)
		for (k = 0; k < OBJECT / PAGE && !test_rank; k++) {
			uint64_t *at = &p[i][k * WORDS];

			if (i % 4 == 0)
				store(&seen[i * (OBJECT / PAGE) + k], load(at));
			if (i % 4 == 1)
				store(at, i << 16 | k);
		}
	for (i = 2; test_is_last() && i < OBJECTS; i += i % 4 == 2 ? 1 : 3)
		read_into(p[i], i % 4 == 2);
	test_sync();
	for (i = 0; i < OBJECTS; i++)
		for (k = 0; k < OBJECT / PAGE; k++) {
			const uint64_t want = i % 4 == 0 ? load(&seen[i * (OBJECT / PAGE) + k])
				: i % 4 == 1             ? i << 16 | k
							 : 0;

			REQUIRE(load(&p[i][k * WORDS]) == want,
				"object %lu, page %lu: %#lx, not %#lx", i, k,
				load(&p[i][k * WORDS]), want);
		}
	test_sync();
	for (i = 0; test_is_last() && i < OBJECTS; i++)
		for (k = 0; k < OBJECT / PAGE; k++)
			store(&p[i][k * WORDS], i + k);
	test_sync();
	for (i = 0; i < OBJECTS; i++)
		for (k = 0; k < OBJECT / PAGE; k++)
			REQUIRE(load(&p[i][k * WORDS]) == i + k, "object %lu, page %lu: %#lx", i, k,
				load(&p[i][k * WORDS]));
	test_sync();
	for (i = 0; test_is_last() && i < OBJECTS; i++)
		MUST(dsm_free(p[i]));
	test_sync();
	test_close("objects", r);
	test_sync();
}

/* ---- random objects of all threads of all ranks ---------------------------------------------- */

#define SLOTS 96

struct slot {
	dsm_mutex_t lock;
	uint64_t *p, words, seed; /* an object, of any rank; p NULL: none */
	uint64_t pad[4];
};

static struct slot *slots;

static uint64_t random_size(struct rng *rng)
{
	static const uint64_t most[] = { 512,     4 * PAGE, 16 * PAGE, 16 * PAGE,
					 MIB / 2, MIB / 2,  MIB,       3 * MIB };

	if (rng_below(rng, 40) == 0)
		return 4 * MIB + rng_below(rng, 3 * MIB); /* units of its own */
	return 16 + rng_below(rng, most[rng_below(rng, 8)]);
}

/* Words that are used: the first and the last ones of each page. */
static uint64_t next_word(uint64_t k)
{
	return k % WORDS == 3 ? k + WORDS - 6 : k + 1;
}

static void check_object(const struct slot *s)
{
	uint64_t k;

	for (k = 0; k < s->words; k = next_word(k))
		REQUIRE(load(&s->p[k]) == s->seed + k, "word %lu of %lu at %p: %#lx, not %#lx", k,
			s->words, (void *)s->p, load(&s->p[k]), s->seed + k);
}

static void fill_object(struct slot *s, uint64_t seed)
{
	uint64_t k;

	s->seed = seed;
	for (k = 0; k < s->words; k = next_word(k))
		store(&s->p[k], seed + k);
}

static void new_object(struct slot *s, struct rng *rng)
{
	const uint64_t size = random_size(rng), zero = rng_below(rng, 3) == 0;
	uint64_t k;

	s->p = zero ? dsm_calloc(1, size) : dsm_malloc(size);
	REQUIRE(s->p, "%m");
	s->words = size / sizeof(*s->p);
	for (k = 0; zero && k < s->words; k = next_word(k))
		REQUIRE(!load(&s->p[k]), "word %lu of %lu: dsm_calloc() gives %#lx", k, s->words,
			load(&s->p[k]));
	fill_object(s, rng_next(rng));
}

static void act(unsigned thread, void *arg)
{
	struct rng rng = rng_of((uint64_t)test_rank << 8 | thread);
	const uint64_t until = test_ns() + seconds * 1000000000;
	uint64_t *done = arg;

	while (test_ns() < until) {
		struct slot *s = &slots[rng_below(&rng, SLOTS)];

		MUST(dsm_mutex_lock(&s->lock));
		if (!s->p) {
			new_object(s, &rng);
		} else {
			check_object(s);
			if (rng_below(&rng, 3)) {
				MUST(dsm_free(s->p));
				s->p = NULL;
			} else {
				fill_object(s, rng_next(&rng));
			}
		}
		MUST(dsm_mutex_unlock(&s->lock));
		__atomic_fetch_add(done, 1, __ATOMIC_RELAXED);
	}
}

static void random_objects(void)
{
	struct dsm_stats s, t;
	dsm_region_t *r;
	uint64_t i, done = 0;

	slots = test_open("slots", SLOTS * sizeof(*slots), DSM_HOME_FIXED, &r);
	for (i = 0; !test_rank && i < SLOTS; i++)
		MUST(dsm_mutex_init(&slots[i].lock));
	test_sync();
	s = test_stats(NULL);
	test_threads((unsigned)threads, act, &done);
	t = test_stats(NULL);
	printf("  rank %d: %lu steps, %lu blocks went, %lu were given back\n", test_rank, done,
	       t.evicted_clean - s.evicted_clean, t.evicted_owned - s.evicted_owned);
	test_sync();
	for (i = 0; i < SLOTS; i++)
		if (slots[i].p)
			check_object(&slots[i]);
	test_sync();
	for (i = 0; !test_rank && i < SLOTS; i++) {
		MUST(dsm_free(slots[i].p));
		MUST(dsm_mutex_destroy(&slots[i].lock));
	}
	test_sync();
	test_close("slots", r);
	test_sync();
}

int main(int argc, char **argv)
{
	static const struct test_option options[] = {
		{ "seconds", "N", "of random operations", &seconds },
		{ "threads", "N", "of each rank", &threads },
	};
	static const struct test_part parts[] = {
		{ "objects", objects },
		{ "stacks", stacks },
		{ "returns", returns },
		{ "random", random_objects },
	};

	test_start(argc, argv, "memory that was freed goes first", options, 2);
	test_parts(parts, 4);
	return test_end();
}
