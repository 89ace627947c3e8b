// SPDX-License-Identifier: BSD-2-Clause
/* api_barrier.c - barriers, broadcasts and reductions of dsm.h: what they are for, and every error they document. */
#include "common.h"

#define PATIENCE 100000000u /* ns, for what must not happen to happen; emulated processors stand still for a while */

static struct board { /* shared by libdsm */
	dsm_barrier_t barrier;
} *board;
static struct out { /* shared without it */
	uint64_t a;
} *out;
static int last;

static void sync(void)
{
	MUST(dsm_barrier());
}

static uint64_t see(uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static uint64_t add(uint64_t *p)
{
	return __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
}

static void three_threads(unsigned thread, void *arg)
{
	uint64_t i;

	(void)arg;
	for (i = 0; i < 30; i++) {
		if (thread == i % 3)
			test_delay(1000);
		add(&out->a);
		MUST(dsm_barrier_wait(&board->barrier));
		REQUIRE(see(&out->a) == 3 * (i + 1) * (uint64_t)test_size, "%lu of round %lu", see(&out->a), i);
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

	EXPECT(dsm_barrier_init(&b, ranks, 2, 1), -EINVAL);     /* twice */
	EXPECT(dsm_barrier_init(&b, ranks + 1, 2, 1), -EINVAL); /* out of range */
	EXPECT(dsm_barrier_init(&b, ranks, 0, 1), -EINVAL);     /* none */
	EXPECT(dsm_barrier_init(&b, NULL, 0, 0), -EINVAL);      /* no threads */
	sync();
	if (!test_rank)
		MUST(dsm_barrier_init(&board->barrier, NULL, 0, 3));
	sync();
	test_threads(3, three_threads, NULL);
	sync();
	if (test_rank == last)
		test_threads(2, wait_while_destroyed, NULL);
	else
		test_threads(3, plain_wait, NULL);
	/* The ranks disagree: then all are told. */
	b = board->barrier;
	b.threads = test_rank == last ? 2 : 1;
	if (test_size > 1)
		test_threads(b.threads, refused_wait, &b);
	sync();
	if (!test_rank) {
		MUST(dsm_barrier_destroy(&board->barrier));
		ranks[0] = last;
		MUST(dsm_barrier_init(&board->barrier, ranks, 1, 1));
		for (i = 0; i < 2; i++)
			ranks[i] = (int)i;
		MUST(dsm_barrier_init(&even, ranks, test_size > 1 ? 2 : 1, 1));
		MUST(dsm_barrier_destroy(&even));
	}
	sync();
	EXPECT(dsm_barrier_wait(&board->barrier), test_rank == last ? 0 : -EINVAL);
	sync();
	if (!test_rank)
		MUST(dsm_barrier_destroy(&board->barrier));
	sync();
}

static void part_collectives(void)
{
	unsigned char buf[DSM_SMALL_MAX + 1];
	size_t size, i;
	int root;

	for (root = 0; root < test_size; root += test_size > 4 ? 13 : 1)
		for (size = 0; size <= DSM_SMALL_MAX; size += size % 8 == 1 ? 31 : 1) {
			for (i = 0; i <= DSM_SMALL_MAX; i++)
				buf[i] = (unsigned char)(test_rank == root ? i + size : 0xee);
			MUST(dsm_broadcast(buf, size, root));
			for (i = 0; i <= DSM_SMALL_MAX; i++)
				REQUIRE(buf[i] == (unsigned char)(i < size || test_rank == root ? i + size : 0xee),
					"broadcast of %zu from %d: byte %zu is %d", size, root, i, buf[i]);
		}
	EXPECT(dsm_broadcast(buf, DSM_SMALL_MAX + 1, 0), -EMSGSIZE);
	EXPECT(dsm_broadcast(buf, 1, test_size), -EINVAL);
	EXPECT(dsm_broadcast(buf, 1, -1), -EINVAL);
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
	REQUIRE(real(-1.5 * (double)me, DSM_MIN) == -1.5 * last && real(-1.5 * (double)me, DSM_MAX) == 0, "double min, max");
	EXPECT(dsm_reduce(&v, DSM_DOUBLE, DSM_AND), -EINVAL);
	EXPECT(dsm_reduce(&v, (enum dsm_type)3, DSM_SUM), -EINVAL);
	EXPECT(dsm_reduce(&v, DSM_UINT64, (enum dsm_op)6), -EINVAL);
	REQUIRE(v == 17, "an output was stored");
}

static const struct test_part parts[] = {
	{ "barrier", part_barrier },
	{ "collectives", part_collectives },
	{ "reduce", part_reduce },
};

int main(int argc, char **argv)
{
	test_start(argc, argv, "Barriers, broadcasts and reductions, and every error.", NULL, 0);
	last = test_size - 1;
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	out = test_outside(sizeof(*out));
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
