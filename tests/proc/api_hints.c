// SPDX-License-Identifier: BSD-2-Clause
/*
 * api_hints.c - hints of dsm.h: prefetch, acquire, release, pins, binding, placement; and homes
 * that follow use. All ranks run the parts in step.
 */
#include "common.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define K 1024ul
#define M (1024ul * K)

static int last; /* rank */

/* ---- hints ----------------------------------------------------------------------------------- */

/* The kernel helper chooses the NUMA node of its frames itself. */
static int bind_result(void)
{
	const char *backend = getenv("DSM_BACKEND");

	return dsm_nodes() > 1 && backend && !strcmp(backend, "kmod") ? -EOPNOTSUPP : 0;
}

static void part_hints(void)
{
	struct dsm_region_options opt = { .block_size = 16 * K };
	size_t size = 40 * 16 * K, i;
	dsm_region_t *r;
	uint64_t *p;

	MUST(dsm_region_open("hints", size, &opt, &r));
	p = dsm_region_base(r);
	if (!test_rank) {
		MUST(dsm_place(p, size / 2, last));
		EXPECT(dsm_place(p, 1, test_size), -EINVAL);
		EXPECT(dsm_place(p, 1, -1), -EINVAL);
		EXPECT(dsm_place(&r, 1, 0), -EFAULT);
		for (i = 0; i < size / 8; i++)
			p[i] = i;
		MUST(dsm_place(p, size, 0));
	}
	MUST(dsm_barrier());
	for (i = 0; i < 200; i++) {
		MUST(dsm_prefetch(p, size, i % 3 ? DSM_READ : DSM_WRITE));
		MUST(dsm_release(p + i * 300, 10 * 16 * K));
		MUST(dsm_acquire(p + i * 300, 5 * 16 * K, i % 2 ? DSM_READ : DSM_WRITE));
	}
	for (i = 0; i < size / 8; i++)
		REQUIRE(p[i] == i, "word %zu is %lu", i, p[i]);
	MUST(dsm_acquire(p, size, DSM_READ | DSM_WRITE));
	EXPECT(dsm_prefetch(p, 1, (enum dsm_access)0), -EINVAL);
	EXPECT(dsm_acquire(p, 1, (enum dsm_access)8), -EINVAL);
	EXPECT(dsm_pin(p, 1, (enum dsm_access)0), -EINVAL);
	EXPECT(dsm_prefetch(&opt, 1, DSM_READ), -EFAULT);
	EXPECT(dsm_acquire(p, 1ul << 40, DSM_READ), -EFAULT);
	EXPECT(dsm_release((char *)p - 1, 2), -EFAULT);
	EXPECT(dsm_pin((char *)p + 4 * M, 1, DSM_READ), -EFAULT);
	EXPECT(dsm_unpin(&opt, 1), -EFAULT);
	EXPECT(dsm_unpin(p, 1), -EINVAL);
	MUST(dsm_bind_thread(-1));
	MUST(dsm_bind_thread(0));
	MUST(dsm_bind_thread(-1));
	EXPECT(dsm_bind_thread(-2), -EINVAL);
	EXPECT(dsm_bind_thread(12345), -EINVAL);
	EXPECT(dsm_bind_memory(p, size, 0), bind_result());
	EXPECT(dsm_bind_memory(p, size, -1), -EINVAL);
	EXPECT(dsm_bind_memory(p, size, 12345), -EINVAL);
	EXPECT(dsm_bind_memory(&opt, 1, 0), -EFAULT);
	test_close("hints", r);
}

/* While a rank has a block pinned, no other rank gets conflicting access. */
static void pins_between_nodes(uint64_t *p, uint64_t *out)
{
	if (!test_rank) {
		MUST(dsm_pin(p, 3 * 4096, DSM_WRITE));
		store(p, 1);
	}
	MUST(dsm_barrier());
	if (test_rank == last) {      /* a rank of another node */
		uint64_t v = load(p); /* waits until rank 0 unpins */

		REQUIRE(__atomic_load_n(out, __ATOMIC_SEQ_CST) == 1,
			"a pinned block was taken away");
		REQUIRE(v == 2, "read %lu", v);
	} else if (!test_rank) {
		test_nap(100000000);
		REQUIRE(load(p) == 1, "the block");
		store(p, 2);
		__atomic_store_n(out, 1, __ATOMIC_SEQ_CST);
		MUST(dsm_unpin(p, 3 * 4096));
	}
	MUST(dsm_barrier());
	/* Readers may share a block pinned for reading; a writer must wait. */
	MUST(dsm_pin(p + 512, 4096, DSM_READ));
	MUST(dsm_barrier());
	(void)load(p + 512);
	__atomic_fetch_add(&out[1], 1, __ATOMIC_SEQ_CST);
	MUST(dsm_unpin(p + 512, 4096));
	store(p + 512, 1);
}

static void part_pins(void)
{
	dsm_region_t *r;
	uint64_t *p = test_open("pins", 64 * K, DSM_HOME_CYCLIC, &r), *out = test_outside(4096), i;

	for (i = 0; i < 255 && !test_rank; i++)
		MUST(dsm_pin(p, 1, DSM_WRITE));
	if (!test_rank && dsm_nodes() > 1)
		EXPECT(dsm_pin(p, 1, DSM_WRITE), -EAGAIN);
	for (i = 0; i < 255 && !test_rank; i++)
		MUST(dsm_unpin(p, 1));
	EXPECT(dsm_unpin(p, 1), -EINVAL);
	MUST(dsm_barrier());
	if (dsm_nodes() > 1)
		pins_between_nodes(p, out);
	test_close("pins", r);
}

/* Can the kernel read the word for this process, and write it? The word is here. */
static int kernel_access(uint64_t *word)
{
	int ends[2], access = 0;
	uint64_t value = 0;

	REQUIRE(!pipe(ends), "no pipe");
	if (write(ends[1], word, 8) == 8)
		access |= DSM_READ;
	else
		REQUIRE(errno == EFAULT && write(ends[1], &value, 8) == 8, "errno %d", errno);
	if (read(ends[0], word, 8) == 8)
		access |= DSM_WRITE;
	else
		REQUIRE(errno == EFAULT, "errno %d", errno);
	close(ends[0]);
	close(ends[1]);
	return access;
}

/* One rank after the other uses two pages, of which this one may not write or touch them. */
static void use_closed(uint64_t *p, bool limited)
{
	int turn;

	for (turn = 0; turn < test_size; turn++) {
		MUST(dsm_barrier());
		if (turn != test_rank)
			continue;
		REQUIRE(load(p + 1024) == (uint64_t)turn, "%lu for %d", load(p + 1024), turn);
		store(p, (uint64_t)turn);
		store(p + 1536, (uint64_t)turn);
		if (!limited) {
			store(p + 512, (uint64_t)turn);
			store(p + 1025, (uint64_t)turn);
		}
		REQUIRE(kernel_access(p + 512) == (limited ? 0 : DSM_READ | DSM_WRITE),
			"a page without access");
		REQUIRE(kernel_access(p + 1025) == (limited ? DSM_READ : DSM_READ | DSM_WRITE),
			"a page without stores");
		if (turn + 1 < test_size)
			store(p + 1024, (uint64_t)turn + 1);
	}
	MUST(dsm_barrier());
}

/* The last rank limits its own access. */
static void limits(uint64_t *p)
{
	const bool mine = test_rank == last;

	if (mine) {
		EXPECT(dsm_guard(p + 512, 4096, DSM_NO_ACCESS), 1);
		EXPECT(dsm_guard(p + 512, 4096, DSM_NO_ACCESS), 0);
		EXPECT(dsm_guard(p + 1024, 4096, DSM_READ), 1);
	}
	EXPECT((int)dsm_guard_get(p + 513), mine ? DSM_NO_ACCESS : DSM_READ | DSM_WRITE);
	EXPECT((int)dsm_guard_get(p + 1535), mine ? DSM_READ : DSM_READ | DSM_WRITE);
	EXPECT((int)dsm_guard_get(p + 1536), DSM_READ | DSM_WRITE);
	use_closed(p, mine);
	if (mine)
		EXPECT(dsm_guard(p, 4 * 4096, DSM_READ | DSM_WRITE), 1);
	EXPECT(dsm_guard(p, 4 * 4096, DSM_READ | DSM_WRITE), 0);
	MUST(dsm_barrier());
	if (!test_rank)
		store(p + 1024, 0);
	use_closed(p, false);
}

static void part_closed_pages(void)
{
	struct dsm_region_options opt = { .block_size = 8192 };
	const char *backend = getenv("DSM_BACKEND");
	dsm_region_t *r;
	uint64_t *p;

	MUST(dsm_region_open("closed", 4 * 4096, &opt, &r));
	p = dsm_region_base(r);
	EXPECT(dsm_guard(p, 4095, DSM_READ), -EINVAL);
	EXPECT(dsm_guard(p + 1, 4096, DSM_READ), -EINVAL);
	EXPECT(dsm_guard(p, 4096, (enum dsm_access)4), -EINVAL);
	EXPECT(dsm_guard(p, 0, DSM_READ), -EFAULT);
	EXPECT(dsm_guard(p, 1ul << 30, DSM_READ), -EFAULT);
	EXPECT(dsm_guard(&opt, 4096, DSM_READ), -EFAULT);
	EXPECT((int)dsm_guard_get(&opt), DSM_READ | DSM_WRITE);
	if (dsm_nodes() > 1 && backend && !strcmp(backend, "kmod")) {
		EXPECT(dsm_guard(p, 4096, DSM_READ), -ENOTSUP);
		test_close("closed", r);
		return;
	}
	limits(p);
	EXPECT(dsm_guard(p, 4096, DSM_READ), 1);
	test_close("closed", r);
	p = test_open("closed again", 4 * 4096, DSM_HOME_CYCLIC, &r);
	EXPECT((int)dsm_guard_get(p), DSM_READ | DSM_WRITE);
	MUST(dsm_barrier());
	store(p + test_rank, 1);
	test_close("closed again", r);
}

#define TURNS 50u
#define TOO_MANY (100 * TURNS)

static uint64_t *wanted, *turns; /* per rank */
static uint64_t turn_ns;         /* of each pin: the others request the block in this time */

#define MOVES 8u /* of each rank, after one that is not measured */

/* The mean time that a rank waits for a block which another has just written. */
static uint64_t time_of_move(uint64_t *word)
{
	uint64_t sum = 0, start;
	int turn;

	for (turn = 0; turn < (int)(MOVES + 1) * test_size; turn++) {
		MUST(dsm_barrier());
		if (turn % test_size != test_rank)
			continue;
		start = test_ns();
		store(word, (uint64_t)turn);
		if (turn >= test_size)
			sum += test_ns() - start;
	}
	MUST(dsm_barrier());
	return sum / MOVES;
}

static uint64_t fewest_turns(void)
{
	uint64_t fewest = TURNS, n;
	int r;

	for (r = 0; r < test_size; r++) {
		n = __atomic_load_n(&turns[r], __ATOMIC_SEQ_CST);
		fewest = n < fewest ? n : fewest;
	}
	return fewest;
}

static uint64_t turns_of_others(void)
{
	uint64_t sum = 0;
	int r;

	for (r = 0; r < test_size; r++)
		sum += r == test_rank ? 0 : __atomic_load_n(&turns[r], __ATOMIC_SEQ_CST);
	return sum;
}

/* *waited: turns of other ranks while this thread waited for its own. */
static void take_turns(unsigned thread, void *waited)
{
	uint64_t sum = 0, before;

	while (fewest_turns() < TURNS) {
		before = turns_of_others();
		MUST(dsm_pin(wanted, 1, DSM_WRITE));
		sum += turns_of_others() - before;
		test_nap(turn_ns);
		MUST(dsm_unpin(wanted, 1));
		REQUIRE(__atomic_add_fetch(&turns[test_rank], 1, __ATOMIC_SEQ_CST) < TOO_MANY,
			"another rank does not get a block that this one has pinned so many times");
	}
	if (!thread)
		*(uint64_t *)waited = sum;
}

static void pins_in_turn(void)
{
	uint64_t waited;

	take_turns(0, &waited);
	/* A rank of the same node pins the neighbouring block. */
	REQUIRE(dsm_nodes() < test_size || waited < turns[test_rank] * (uint64_t)test_size * 2,
		"others had %lu turns in the time of %lu of mine", waited, turns[test_rank]);
	MUST(dsm_barrier());
	__atomic_store_n(&turns[test_rank], 0, __ATOMIC_SEQ_CST);
	MUST(dsm_barrier());
	test_threads(2, take_turns, &waited);
	MUST(dsm_barrier());
}

/* All ranks pin a migratory block for reading at once, then wait for each other. */
static void part_pins_together(void)
{
	dsm_region_t *r;
	uint64_t *p = test_open("pins together", 4096, DSM_HOME_FIRST_TOUCH, &r);
	int i, turn;

	for (i = 0; i < 4; i++)
		for (turn = 0; turn < test_size; turn++) {
			if (turn == test_rank)
				store(p, load(p) + 1);
			MUST(dsm_barrier());
		}
	MUST(dsm_pin(p, 4096, DSM_READ));
	MUST(dsm_barrier());
	REQUIRE(load(p) == 4u * (unsigned)test_size, "%lu of %d increments", load(p),
		4 * test_size);
	MUST(dsm_barrier());
	MUST(dsm_unpin(p, 4096));
	store(p + 1 + test_rank, 1);
	test_close("pins together", r);
}

/* All ranks want the same block, repeatedly. */
static void part_pins_in_turn(void)
{
	dsm_region_t *r;

	wanted = test_open("pins in turn", 4096, DSM_HOME_CYCLIC, &r);
	turns = test_outside((size_t)test_size * sizeof(*turns));
	MUST(dsm_barrier());
	if (dsm_nodes() > 1) { /* ranks of a node do not exclude each other by pins */
		turn_ns = time_of_move(wanted) * 2 + 200000;
		pins_in_turn();
	}
	test_close("pins in turn", r);
}

/* ---- homes ----------------------------------------------------------------------------------- */

/* blocks, with an unused one between any two, so that no reader looks sequential */
#define HOMES 16u

/* The messages of three rounds: the writer writes all blocks, and another node reads them. */
static uint64_t three_rounds(dsm_region_t *r, int writer, int reader, uint64_t *homes)
{
	volatile uint64_t *p = dsm_region_base(r);
	struct dsm_stats before, after;
	unsigned int round, i;

	MUST(dsm_barrier());
	MUST(dsm_stats_get(-1, NULL, &before));
	MUST(dsm_barrier());
	for (round = 0; round < 3; round++) {
		for (i = 0; i < HOMES && test_rank == writer; i++)
			p[i * 1024]++;
		MUST(dsm_barrier());
		for (i = 0; i < HOMES && test_rank == reader; i++)
			(void)p[i * 1024];
		MUST(dsm_barrier());
	}
	MUST(dsm_stats_get(writer, r, &after));
	*homes = after.homes_in;
	MUST(dsm_stats_get(-1, NULL, &after));
	return after.messages_out - before.messages_out;
}

/*
 * A home moves to the node that writes. After that, reads of the other node and writes of the
 * writer take fewer messages.
 */
static void part_homes(void)
{
	struct dsm_region_options opt = { .home = DSM_HOME_FIXED };
	int reader = test_width(), writer = 2 * test_width();
	uint64_t before, moving, after, homes;
	dsm_region_t *r;

	if (dsm_nodes() < 3)
		return;
	MUST(dsm_region_open("homes", 2 * HOMES * 4096, &opt, &r));
	before = three_rounds(r, writer, reader, &homes);
	REQUIRE(!homes, "%lu homes have moved after three writes in a row", homes);
	moving = three_rounds(r, writer, reader, &homes);
	REQUIRE(homes == HOMES, "%lu homes of %u have moved after the fourth", homes, HOMES);
	after = three_rounds(r, writer, reader, &homes);
	REQUIRE(homes == HOMES, "homes move on: %lu", homes);
	test_say("  %lu messages, while homes move %lu, afterwards %lu", before, moving, after);
	/* dsm.ko counts no messages between ranks of one host. */
	REQUIRE(getenv("DSM_BACKEND") || after + 2 * HOMES < before,
		"%lu messages before the homes moved, %lu after", before, after);
	test_close("homes", r);
}

/* ---- placement of blocks in use -------------------------------------------------------------- */

#define PLACES 64u /* number of blocks */

static uint64_t homes_moved(dsm_region_t *r)
{
	struct dsm_stats s;

	MUST(dsm_barrier());
	MUST(dsm_stats_get(-1, r, &s));
	MUST(dsm_barrier());
	return s.homes_in;
}

/* Every word must be its index plus `more`. */
static void check_words(const volatile uint64_t *p, uint64_t more)
{
	size_t i;

	for (i = 0; i < PLACES * 512; i++)
		REQUIRE(p[i] == i + more, "word %zu is %lu", i, p[i]);
	MUST(dsm_barrier());
}

/*
 * A block that one rank has written and others have read moves to another rank, with its contents.
 * It stays there, whichever rank writes it.
 */
static void place_touched(dsm_region_t *r)
{
	volatile uint64_t *p = dsm_region_base(r);
	const int writer = test_width() < test_size ? test_width() : 0;
	uint64_t before, moved;
	size_t i, round;

	for (i = 0; i < PLACES * 512 && !test_rank; i++)
		p[i] = i;
	before = homes_moved(r);
	for (i = 0; i < PLACES && test_rank == last; i += 2) {
		/* it has read copies of some, and owns others */
		uint64_t v = p[i * 512];

		if (i % 4)
			p[i * 512] = v;
	}
	MUST(dsm_barrier());
	if (!test_rank)
		MUST(dsm_place((void *)p, PLACES * 4096, last));
	moved = homes_moved(r);
	REQUIRE(moved - before == (dsm_nodes() > 1 ? PLACES : 0),
		"%lu homes have moved, %u blocks were placed", moved - before, PLACES);
	check_words(p, 0);
	if (test_rank == writer)
		MUST(dsm_place((void *)p, PLACES * 4096, last)); /* at their present home */
	for (round = 1; round <= 6; round++) {
		for (i = 0; i < PLACES * 512 && test_rank == writer; i++)
			p[i]++;
		MUST(dsm_barrier());
		for (i = 0; i < PLACES && !test_rank; i++)
			REQUIRE(p[i * 512] == i * 512 + round, "block %zu, round %zu: %lu", i,
				round, p[i * 512]);
		MUST(dsm_barrier());
	}
	REQUIRE(homes_moved(r) == moved, "placed blocks follow who writes them");
	check_words(p, 6);
}

struct placer {
	uint64_t *p;
	uint64_t *stop;
};

static void place_and_write(unsigned int thread, void *arg)
{
	const struct placer *a = arg;
	struct rng rng = rng_of(77 + (uint64_t)test_rank);
	int i;

	for (i = 0; !thread && i < 30; i++) {
		uint64_t *at = a->p + 512 * rng_below(&rng, PLACES - 8);

		MUST(dsm_place(at, 8 * 4096, (int)rng_below(&rng, (uint64_t)test_size)));
	}
	if (!thread)
		__atomic_fetch_add(a->stop, 1, __ATOMIC_SEQ_CST);
	while (thread && __atomic_load_n(a->stop, __ATOMIC_SEQ_CST) < (uint64_t)test_size) {
		for (i = 0; i < 8; i++)
			__atomic_fetch_add(&a->p[512 * rng_below(&rng, PLACES)], 1,
					   __ATOMIC_SEQ_CST);
		test_nap(1000000);
	}
}

/* All ranks place all blocks anywhere, while all write to them. */
static void place_in_use(dsm_region_t *r)
{
	struct placer a = { .p = dsm_region_base(r), .stop = test_outside(4096) };

	MUST(dsm_barrier());
	test_threads(2, place_and_write, &a);
	MUST(dsm_barrier());
}

/*
 * A placement waits for a pinned block, but not forever; the rank that has pinned it does not wait
 * at all.
 */
static void place_pinned(dsm_region_t *r)
{
	uint64_t *p = dsm_region_base(r), start;

	if (!test_rank) {
		MUST(dsm_place(p, 4096, 0));
		MUST(dsm_pin(p, 4096, DSM_WRITE));
		EXPECT(dsm_place(p, 4096, last), -EBUSY);
	}
	MUST(dsm_barrier());
	start = test_ns();
	if (test_rank == last)
		EXPECT(dsm_place(p, 4096, last), -EBUSY);
	REQUIRE(test_ns() - start < 20000000000ull, "placing a pinned block takes %lu ns",
		test_ns() - start);
	MUST(dsm_barrier());
	if (!test_rank) {
		test_nap(100000000);
		MUST(dsm_unpin(p, 4096));
	} else if (test_rank == last) {
		MUST(dsm_place(p, 4096, last));
	}
	MUST(dsm_barrier());
}

/*
 * A node knows a region as soon as one of its ranks is attached, whichever rank handles the
 * message.
 */
static void place_where_some_are(void)
{
	const int first =
		/* first rank of the last node: rank 0 sends its messages to it */
		test_width() * (dsm_nodes() - 1);
	const bool stays_out = test_rank == first && first && first < last;
	dsm_region_t *r = NULL;
	uint64_t *p = stays_out ? NULL : test_open("place some", 4096, DSM_HOME_FIRST_TOUCH, &r);

	MUST(dsm_barrier());
	if (!test_rank) {
		store(p, 7);
		MUST(dsm_place(p, 4096, last));
		MUST(dsm_region_destroy("place some"));
	}
	MUST(dsm_barrier());
	if (stays_out)
		return;
	REQUIRE(load(p) == 7, "the word is %lu", load(p));
	MUST(dsm_region_detach(r));
}

static void part_place(void)
{
	dsm_region_t *r, *alone;
	uint64_t *p;

	test_open("place", PLACES * 4096, DSM_HOME_FIRST_TOUCH, &r);
	place_touched(r);
	place_in_use(r);
	if (dsm_nodes() > 1)
		place_pinned(r);
	if (!test_rank) {
		p = test_open("place alone", 4096, DSM_HOME_FIRST_TOUCH, &alone);
		store(p, 1);
		EXPECT(dsm_place(p, 4096, last), dsm_nodes() > 1 ? -ENXIO : 0);
		MUST(dsm_place(p, 4096, 0));
		MUST(dsm_region_destroy("place alone"));
		MUST(dsm_region_detach(alone));
	}
	test_close("place", r);
	place_where_some_are();
}

/* ---- frames that other ranks of the node have brought ---------------------------------------- */

static void part_populate(void)
{
	const size_t bytes = 8 * M;
	struct dsm_stats before, after;
	dsm_region_t *r;
	char *p = test_open("populate", bytes, DSM_HOME_FIRST_TOUCH, &r);
	uint64_t chunks, *left = (uint64_t *)p;

	before = test_stats(NULL);
	MUST(dsm_barrier());
	/* who leaves the barrier late would map some of the chunks while they are written */
	if (test_rank)
		__atomic_fetch_add(left, 1, __ATOMIC_SEQ_CST);
	while (!test_rank && __atomic_load_n(left, __ATOMIC_SEQ_CST) < (uint64_t)test_size - 1)
		test_nap(100000);
	if (!test_rank)
		memset(p, 1, bytes);
	test_nap(5000000); /* the library counts frames at most every millisecond */
	MUST(dsm_barrier());
	after = test_stats(NULL);
	chunks = after.populated - before.populated;
	if (test_size == dsm_nodes())
		REQUIRE(!chunks, "%lu chunks mapped ahead", chunks);
	else if (dsm_nodes() == 1 && !madvise(p, 0, MADV_POPULATE_READ))
		REQUIRE(chunks >= bytes / (64 * K), "%lu chunks mapped ahead", chunks);
	REQUIRE(p[bytes - 1] == 1, "the last byte is %d", p[bytes - 1]);
	test_close("populate", r);
}

/*
 * In each chunk of 64 KiB, rank 0 writes the pages below TO_COME. The handler touches the others,
 * one at a time.
 */
#define TO_COME 4u
#define SLICE (8 * M)
#define SLICES 2u

static char *volatile slice;
static volatile sig_atomic_t next; /* page of the chunk */

static void alarm_in(int us)
{
	const struct itimerval t = { { 0, 0 }, { 0, us } };

	MUST(setitimer(ITIMER_REAL, &t, NULL));
}

/* Cause a miss in each chunk, also in the one whose lock the interrupted thread may hold. */
static void on_alarm(int sig, siginfo_t *info, void *context)
{
	size_t off;

	if (next >= 16 || dsm_signal_defer(sig, info, context))
		return;
	for (off = 0; off < SLICE; off += 64 * K)
		slice[off + (size_t)next * 4 * K] = 2;
	next++;
	alarm_in(100);
}

static void write_slice(void)
{
	size_t off;

	for (off = 0; off < SLICE; off += 64 * K)
		memset(slice + off, 1, TO_COME * 4 * K);
}

/* All ranks meet; then rank 1 maps what rank 0 has written, and is interrupted. */
static void meet_interrupted(dsm_barrier_t *b)
{
	if (test_rank == 1) {
		/* rank 1 is last; the library counts frames at most every millisecond */
		test_nap(5000000);
		alarm_in(100);
	}
	REQUIRE(dsm_barrier_meet(b, (unsigned int)test_size) >= 0, "the ranks have not met");
	next = 16;
	alarm_in(0);
}

static void part_populate_interrupted(void)
{
	const struct sigaction sa = { .sa_sigaction = on_alarm,
				      .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction before;
	dsm_region_t *r;
	size_t off;
	unsigned int i;
	char *p;

	if (test_width() == 1)
		return; /* no other rank writes */
	p = test_open("interrupted", SLICES * SLICE + 4 * K, DSM_HOME_FIRST_TOUCH, &r);
	MUST(sigaction(SIGALRM, &sa, &before));
	for (i = 0; i < SLICES; i++) {
		slice = p + i * SLICE;
		next = TO_COME;
		if (!test_rank)
			write_slice();
		meet_interrupted((dsm_barrier_t *)(p + SLICES * SLICE));
		for (off = 0; off < SLICE; off += test_rank == 1 ? 4 * K : 64 * K)
			REQUIRE(off / (4 * K) % 16 >= TO_COME || slice[off] == 1, "byte %zu is %d",
				off, slice[off]);
	}
	MUST(sigaction(SIGALRM, &before, NULL));
	test_close("interrupted", r);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct test_part parts[] = {
	{ "hints", part_hints },
	{ "pins", part_pins },
	{ "pins in turn", part_pins_in_turn },
	{ "pins together", part_pins_together },
	{ "closed pages", part_closed_pages },
	{ "homes", part_homes },
	{ "place", part_place },
	{ "populate", part_populate },
	{ "populate, interrupted", part_populate_interrupted },
};

int main(int argc, char **argv)
{
	test_start(argc, argv, "Hints and homes: every function, and every error.", NULL, 0);
	last = test_size - 1;
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
