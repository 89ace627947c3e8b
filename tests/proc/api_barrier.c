// SPDX-License-Identifier: BSD-2-Clause
/*
 * api_barrier.c - barriers, broadcasts and reductions of dsm.h: what they do, and every error that
 * they document.
 */
#include "common.h"

#define PATIENCE 100000000u /* ns to wait for a forbidden event; emulated processors may pause */

static struct board { /* shared through libdsm */
	dsm_barrier_t barrier;
} * board;
static struct out { /* shared outside libdsm */
	uint64_t n, a, settled;
} * out;
static int last;

static void three_threads(unsigned thread, void *arg)
{
	uint64_t i;

	(void)arg;
	for (i = 0; i < 30; i++) {
		if (thread == i % 3)
			test_delay(1000);
		add(&out->a);
		MUST(dsm_barrier_wait(&board->barrier));
		REQUIRE(see(&out->a) == 3 * (i + 1) * (uint64_t)test_size, "%lu of round %lu",
			see(&out->a), i);
		MUST(dsm_barrier_wait(&board->barrier));
	}
}

static void plain_wait(unsigned thread, void *arg)
{
	(void)thread, (void)arg;
	MUST(dsm_barrier_wait(&board->barrier));
}

static void refused_wait(unsigned thread, void *arg)
{
	(void)thread;
	EXPECT(dsm_barrier_wait(arg), -EINVAL);
}

static void wait_while_destroyed(unsigned thread, void *arg)
{
	static uint64_t coming;
	dsm_barrier_t copy = board->barrier;

	if (thread) {
		add(&coming);
		plain_wait(thread, arg);
		return;
	}
	while (!see(&coming))
		test_nap(100000);
	test_nap(PATIENCE);
	EXPECT(dsm_barrier_destroy(&copy), -EBUSY);
	test_threads(2, plain_wait, NULL);
}

static void part_barrier(void)
{
	int ranks[3] = { 0, 0, test_size };
	dsm_barrier_t b, even;
	uint64_t i;

	EXPECT(dsm_barrier_init(&b, ranks, 2, 1), -EINVAL);     /* a rank twice */
	EXPECT(dsm_barrier_init(&b, ranks + 1, 2, 1), -EINVAL); /* a rank that does not exist */
	EXPECT(dsm_barrier_init(&b, ranks, 0, 1), -EINVAL);     /* no ranks */
	EXPECT(dsm_barrier_init(&b, NULL, 0, 0), -EINVAL);      /* no threads */
	test_sync();
	if (!test_rank)
		MUST(dsm_barrier_init(&board->barrier, NULL, 0, 3));
	test_sync();
	test_threads(3, three_threads, NULL);
	test_sync();
	if (test_rank == last)
		test_threads(2, wait_while_destroyed, NULL);
	else
		test_threads(3, plain_wait, NULL);
	/* The ranks disagree: all must get an error. */
	b = board->barrier;
	b.threads = test_rank == last ? 2 : 1;
	if (test_size > 1)
		test_threads(b.threads, refused_wait, &b);
	test_sync();
	if (!test_rank) {
		MUST(dsm_barrier_destroy(&board->barrier));
		ranks[0] = last;
		MUST(dsm_barrier_init(&board->barrier, ranks, 1, 1));
		for (i = 0; i < 2; i++)
			ranks[i] = (int)i;
		MUST(dsm_barrier_init(&even, ranks, test_size > 1 ? 2 : 1, 1));
		MUST(dsm_barrier_destroy(&even));
	}
	test_sync();
	EXPECT(dsm_barrier_wait(&board->barrier), test_rank == last ? 0 : -EINVAL);
	test_sync();
	if (!test_rank)
		MUST(dsm_barrier_destroy(&board->barrier));
	test_sync();
}

static uint64_t again = 65536; /* destructions, after which 16 bits of generation would wrap */

/*
 * The maker destroys the barrier that all ranks have used, and makes others with the same number.
 */
static dsm_barrier_t make_again(int maker, uint64_t times, unsigned threads)
{
	dsm_barrier_t old;

	if (test_rank == maker)
		MUST(dsm_barrier_init(&board->barrier, NULL, 0, threads));
	test_sync();
	test_threads(threads, plain_wait, NULL);
	test_sync();
	old = board->barrier;
	test_sync();
	if (test_rank == maker) {
		while (times--) {
			MUST(dsm_barrier_destroy(&board->barrier));
			MUST(dsm_barrier_init(&board->barrier, NULL, 0, threads));
			REQUIRE(board->barrier.id != old.id, "a handle is there again");
		}
		EXPECT(dsm_barrier_wait(&(dsm_barrier_t){ old.id, old.ranks, old.threads }),
		       -EINVAL);
		EXPECT(dsm_barrier_destroy(&(dsm_barrier_t){ old.id, old.ranks, old.threads }),
		       -EINVAL);
	}
	test_sync();
	return old;
}

static void old_among_new(unsigned thread, void *arg)
{
	const bool old = thread == 2;
	unsigned i;

	if (old == test_rank % 2)
		test_nap(PATIENCE / 4);
	if (old)
		refused_wait(thread, arg);
	for (i = 0; !old && i < 20; i++)
		plain_wait(thread, arg);
}

static uint64_t passed; /* as seen by the last rank */

static void old_before_new(unsigned thread, void *arg)
{
	if (!thread) {
		refused_wait(thread, arg);
		return;
	}
	test_nap(PATIENCE);
	REQUIRE(see(&out->n) == passed, "%lu ranks have passed the barrier", see(&out->n) - passed);
	plain_wait(thread, arg);
}

static void part_generations(void)
{
	const int makers[] = { 0, last };
	dsm_barrier_t old;
	unsigned i;

	for (i = 0; i < 2; i++) {
		/*
		 * Each rank has a thread with the old handle, which arrives before or after those
		 * with the new one.
		 */
		old = make_again(makers[i], i ? 1 : again, 2);
		test_threads(3, old_among_new, &old);
		test_sync();
		if (test_rank == makers[i])
			MUST(dsm_barrier_destroy(&board->barrier));
		test_sync();

		/* A thread with the old handle must not count for a missing one. */
		old = make_again(makers[i], 1, 1);
		passed = see(&out->n);
		test_sync();
		if (test_rank == last) {
			test_threads(2, old_before_new, &old);
		} else {
			plain_wait(0, NULL);
			add(&out->n);
		}
		test_sync();
		if (test_rank == makers[i])
			MUST(dsm_barrier_destroy(&board->barrier));
		test_sync();
	}
}

/*
 * Sizes in bytes: 0, a few, around multiples of a value, a chunk and a ring of chunks (64), and
 * several rings.
 */
static const size_t sizes[] = { 0,    1,    7,    8,    9,      255,    256,    257,
				4079, 4080, 4081, 8160, 261119, 261120, 261121, 1000003 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static unsigned char byte_of(size_t i, size_t size, int root)
{
	return (unsigned char)(i * 31 + i / 4080 + size + (size_t)root);
}

static void part_broadcast(void)
{
	const size_t most = sizes[SIZES - 1];
	unsigned char *buf = malloc(most + 1), *shared = dsm_malloc(most), v = 0;
	size_t s, i;
	int root;

	REQUIRE(buf && shared, "no memory");
	for (root = 0; root<test_size; root += test_size> 4 ? 13 : 1)
		for (s = 0; s < SIZES; s++) {
			const size_t size = sizes[s];

			memset(buf, 0xee, size + 1);
			for (i = 0; i < size && test_rank == root; i++)
				buf[i] = byte_of(i, size, root);
			MUST(dsm_broadcast(buf, size, root));
			for (i = 0; i < size; i++)
				REQUIRE(buf[i] == byte_of(i, size, root),
					"broadcast of %zu from %d: byte %zu is %d", size, root, i,
					buf[i]);
			REQUIRE(buf[size] == 0xee, "broadcast of %zu wrote past its end", size);
		}
	/* From shared memory to shared memory, whose pages may be at other ranks. */
	for (i = 0; i < most && !test_rank; i++)
		shared[i] = byte_of(i, most, 0);
	MUST(dsm_broadcast(shared, most, 0));
	for (i = 0; i < most; i++)
		REQUIRE(shared[i] == byte_of(i, most, 0), "shared byte %zu is %d", i, shared[i]);
	EXPECT(dsm_broadcast(&v, 1, test_size), -EINVAL);
	EXPECT(dsm_broadcast(&v, 1, -1), -EINVAL);
	MUST(dsm_free(shared));
	free(buf);
}

static double real(double v, enum dsm_op op)
{
	MUST(dsm_reduce(&v, DSM_DOUBLE, op));
	return v;
}

static int64_t whole(int64_t v, enum dsm_op op)
{
	MUST(dsm_reduce(&v, DSM_INT64, op));
	return v;
}

static uint64_t bits(uint64_t v, enum dsm_op op)
{
	MUST(dsm_reduce(&v, DSM_UINT64, op));
	return v;
}

static void part_reduce(void)
{
	uint64_t n = (uint64_t)test_size, v = 17, all = n < 64 ? (1ul << n) - 1 : ~0ul;
	int64_t me = test_rank;

	REQUIRE(whole(-me, DSM_SUM) == -(int64_t)(n * (n - 1) / 2), "int64 sum");
	REQUIRE(whole(-me, DSM_MIN) == -last && whole(-me, DSM_MAX) == 0, "int64 min, max");
	REQUIRE(bits((uint64_t)-me, DSM_MAX) == (last ? ~0ul : 0), "uint64 max is unsigned");
	REQUIRE(bits(~0ul - (uint64_t)me, DSM_MIN) == ~0ul - (uint64_t)last, "uint64 min");
	REQUIRE(bits(me < 64 ? 1ul << me : 0, DSM_OR) == all, "or");
	REQUIRE(bits(me < 64 ? ~(1ul << me) : ~0ul, DSM_AND) == ~all, "and");
	REQUIRE(bits(me < 64 ? 1ul << me : 0, DSM_XOR) == all, "xor");
	REQUIRE(bits(1, DSM_SUM) == n, "uint64 sum");
	REQUIRE(real(0.5, DSM_SUM) == 0.5 * (double)n, "double sum");
	REQUIRE(real(-1.5 * (double)me, DSM_MIN) == -1.5 * last &&
			real(-1.5 * (double)me, DSM_MAX) == 0,
		"double min, max");
	EXPECT(dsm_reduce(&v, DSM_DOUBLE, DSM_AND), -EINVAL);
	EXPECT(dsm_reduce(&v, (enum dsm_type)12, DSM_SUM), -EINVAL);
	EXPECT(dsm_reduce(&v, DSM_UINT64, (enum dsm_op)7), -EINVAL);
	EXPECT(dsm_reduce(&v, DSM_BOOL, DSM_SUM), -EINVAL);
	EXPECT(dsm_reduce_array(&v, SIZE_MAX / 2, DSM_UINT64, DSM_SUM), -EINVAL);
	EXPECT(dsm_reduce_array(&v, 1, DSM_FLOAT, DSM_XOR), -EINVAL);
	REQUIRE(v == 17, "an output was stored");
}

/* Each rank has me + i at index i, so the result is known, in any order. */
#define ARRAY(type, name, count)                                                                   \
	do {                                                                                       \
		type *v = malloc((count) * sizeof(*v));                                            \
		size_t i_;                                                                         \
                                                                                                   \
		REQUIRE(v, "no memory");                                                           \
		for (i_ = 0; i_ < (count); i_++)                                                   \
			v[i_] = (type)(test_rank + (int)(i_ % 7));                                 \
		MUST(dsm_reduce_array(v, count, name, DSM_SUM));                                   \
		for (i_ = 0; i_ < (count); i_++)                                                   \
			REQUIRE(v[i_] ==                                                           \
					(type)(last * (last + 1) / 2 + test_size * (int)(i_ % 7)), \
				#name " sum %zu of %zu", i_, (size_t)(count));                     \
		for (i_ = 0; i_ < (count); i_++)                                                   \
			v[i_] = (type)(test_rank + (int)(i_ % 7));                                 \
		MUST(dsm_reduce_array(v, count, name, DSM_MAX));                                   \
		for (i_ = 0; i_ < (count); i_++)                                                   \
			REQUIRE(v[i_] == (type)(last + (int)(i_ % 7)), #name " max %zu of %zu",    \
				i_, (size_t)(count));                                              \
		for (i_ = 0; i_ < (count); i_++)                                                   \
			v[i_] = (type)(test_rank < 3 ? 2 : 1);                                     \
		MUST(dsm_reduce_array(v, count, name, DSM_PROD));                                  \
		REQUIRE(v[0] == (type)(1 << (test_size < 3 ? test_size : 3)) &&                    \
				v[(count)-1] == v[0],                                              \
			#name " product");                                                         \
		free(v);                                                                           \
	} while (0)

static uint64_t largest = 70001;

static void part_arrays(void)
{
	const size_t counts[] = { 1, 2, 255, 256, 1021, largest };
	unsigned char truth[9] = { 0 };
	size_t k;

	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		ARRAY(int8_t, DSM_INT8, counts[k]);
		ARRAY(uint8_t, DSM_UINT8, counts[k]);
		ARRAY(int16_t, DSM_INT16, counts[k]);
		ARRAY(uint16_t, DSM_UINT16, counts[k]);
		ARRAY(int32_t, DSM_INT32, counts[k]);
		ARRAY(uint32_t, DSM_UINT32, counts[k]);
		ARRAY(int64_t, DSM_INT64, counts[k]);
		ARRAY(uint64_t, DSM_UINT64, counts[k]);
		ARRAY(float, DSM_FLOAT, counts[k]);
		ARRAY(double, DSM_DOUBLE, counts[k]);
		ARRAY(long double, DSM_LONG_DOUBLE, counts[k]);
	}
	truth[test_rank % 8] = 1;
	MUST(dsm_reduce_array(truth, 9, DSM_BOOL, DSM_OR));
	for (k = 0; k < 9; k++)
		REQUIRE(truth[k] == (k < 8 && (int)k < test_size), "or of truths: %zu is %d", k,
			truth[k]);
	MUST(dsm_reduce_array(truth, 0, DSM_BOOL, DSM_OR)); /* acts as a barrier */
}

#define ROUNDS 200

/* All ranks meet here without messages; then nothing is in progress any more. */
static void settle(void)
{
	static uint64_t all;

	all += (uint64_t)test_size;
	add(&out->settled);
	while (see(&out->settled) < all)
		test_nap(100000);
	test_nap(PATIENCE);
}

static uint64_t sent(void)
{
	return test_stats(NULL).messages_out;
}

/*
 * A barrier sends two messages per edge of the tree of nodes, whatever the number of ranks, and
 * nothing else.
 */
static void part_messages(void)
{
	const uint64_t edges = 2 * (uint64_t)(dsm_nodes() - 1);
	uint64_t before, all;
	int i;

	if (!test_rank)
		out->a = 0;
	test_sync();
	settle();
	before = sent();
	settle();
	for (i = 0; i < ROUNDS; i++)
		test_sync();
	settle();
	__atomic_fetch_add(&out->a, sent() - before, __ATOMIC_SEQ_CST);
	settle();
	all = see(&out->a);
	test_say("  %d barriers of %d ranks in %d nodes: %lu messages", ROUNDS, test_size,
		 dsm_nodes(), (unsigned long)all);
	/* Ranks of one kernel module exchange no messages. */
	REQUIRE(test_in_kernel() ? all <= ROUNDS * edges : all == ROUNDS * edges,
		"%lu messages for %d barriers of %d nodes", all, ROUNDS, dsm_nodes());
	test_sync();
}

/* clang-format off */
static const struct test_part parts[] = {
	{ "barrier", part_barrier },
	{ "generations", part_generations },
	{ "messages", part_messages },
	{ "broadcast", part_broadcast },
	{ "reduce", part_reduce },
	{ "arrays", part_arrays },
};
/* clang-format on */

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "again", "N", "times a barrier is destroyed and made again", &again },
		{ "largest", "N", "elements of the largest array that is reduced", &largest }
	};

	test_start(argc, argv, "Barriers, broadcasts and reductions, and every error.", options, 2);
	last = test_size - 1;
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	out = test_outside(sizeof(*out));
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
