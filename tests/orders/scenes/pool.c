// SPDX-License-Identifier: BSD-2-Clause
/*
 * pool.c - numbers taken and given back by any thread (job/pool.h), locks on words (util/futex.h),
 * and the ring of freed addresses (heap/ring.c): no number, lock or place has two owners, what the
 * last owner wrote is seen, nobody sleeps for ever.
 */
#define WORD_SPINS 1

#include "../order.h"
#include "heap/ring.c"
#include "job/pool.h"
#include "util/futex.c"

#define NUMBERS 3

static struct {
	struct pool pool;
	uint32_t next[NUMBERS];
	uint32_t owner[NUMBERS]; /* plain */
	uint32_t lock;
	uint32_t count; /* plain, with the lock */
	uint32_t fault;
} m;

static struct {
	struct heap_shared s;
	uint64_t live;
	uint32_t memory[4]; /* of the allocations: plain */
} heap;

static unsigned int freed[ORDER_THREADS], drained;

void scene_memory(void)
{
	share(m);
	share(heap);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int64_t number_take(unsigned int me)
{
	int64_t n = pool_take(&m.pool, m.next, NUMBERS);

	if (n >= 0) {
		require(n < NUMBERS && !m.owner[n], "number %d has two owners", (int)n);
		m.owner[n] = me + 1;
	}
	return n;
}

static void number_give(int64_t n)
{
	if (n >= 0) {
		m.owner[n] = 0;
		pool_give(&m.pool, m.next, (uint32_t)n);
	}
}

static void numbers_begin(void)
{
	int64_t a = number_take(0), b = number_take(0);

	number_give(b);
	number_give(a);
}

static void numbers(unsigned int me)
{
	int64_t a, b;

	if (me) {
		number_give(number_take(me));
		return;
	}
	a = number_take(me);
	b = number_take(me);
	number_give(a);
	number_give(b);
}

static void numbers_fresh(unsigned int me)
{
	number_take(me);
}

static void numbers_end(void)
{
	unsigned int n = 0;

	while (n <= NUMBERS && pool_take(&m.pool, m.next, NUMBERS) >= 0)
		n++;
	require(n == NUMBERS, "%u numbers are left", n);
}

static void numbers_fresh_end(void)
{
	require(m.pool.fresh == 2, "%u numbers were taken", m.pool.fresh);
}

/* ---- locks ----------------------------------------------------------------------------------- */

static void locks(unsigned int me)
{
	(void)me;
	word_lock(&m.lock);
	require(!__atomic_exchange_n(&m.fault, 1, __ATOMIC_RELAXED), "two threads have the lock");
	m.count++;
	__atomic_exchange_n(&m.fault, 0, __ATOMIC_RELAXED);
	word_unlock(&m.lock);
}

static void locks_end(void)
{
	require(!m.lock && m.count >= 2, "the lock is %u", m.lock);
}

/* ---- the ring of freed addresses ------------------------------------------------------------- */

static void ring_begin(void)
{
	unsigned int i;

	drained = 0;
	for (i = 0; i < ORDER_THREADS; i++)
		freed[i] = 0;
	heap.s.base = 0x10000;
	heap.s.size = 4096;
	heap.s.live = (char *)&heap.live - (char *)&heap.s;
	for (i = 0; i < 4; i++)
		live_set(&heap.s, i * HEAP_GRAIN);
}

/* Free a place after its last use. */
static void ring_give(unsigned int me, unsigned int place)
{
	heap.memory[place] = me;
	freed[me] += !ring_free(&heap.s, place * HEAP_GRAIN);
}

/* The owner returns what is in the ring, and uses the memory again. */
static void ring_drain(void)
{
	uint32_t head, left = ring_filled(&heap.s, &head);

	require(left <= HEAP_RING, "the ring has %u entries", left);
	for (; left; left--) {
		uint64_t offset = ring_take(&heap.s, &head) - heap.s.base;

		require(offset < sizeof(heap.memory) / sizeof(heap.memory[0]) * HEAP_GRAIN,
			"address %llx", (unsigned long long)offset);
		require(!live_test(&heap.s, offset), "it is in use");
		heap.memory[offset / HEAP_GRAIN] = 100;
		drained++;
	}
}

static void ring(unsigned int me)
{
	if (me == 2) {
		ring_drain();
		ring_drain();
	} else {
		ring_give(me, me);
	}
}

static void ring_twice(unsigned int me)
{
	freed[me] += !ring_free(&heap.s, 0);
}

/* The owner allocates beside memory that another process frees: their bits are in one word. */
static void ring_beside(unsigned int me)
{
	if (me)
		live_set(&heap.s, 4 * HEAP_GRAIN);
	else
		ring_give(me, 0);
}

static void ring_beside_end(void)
{
	require(heap.live == 0x1e, "the map of allocations is %llx", (unsigned long long)heap.live);
}

static void ring_full_begin(void)
{
	unsigned int i;

	ring_begin();
	heap.s.tail = HEAP_RING;
	for (i = 0; i < HEAP_RING; i++)
		heap.s.ring[i] = heap.s.base + 3 * HEAP_GRAIN;
	live_clear(&heap.s, 3 * HEAP_GRAIN);
}

/* One place of a full ring gets free, and is used again. */
static void ring_full(unsigned int me)
{
	uint32_t head;

	if (me == 1) {
		require(ring_filled(&heap.s, &head) == HEAP_RING, "the ring was full");
		require(ring_take(&heap.s, &head) == heap.s.base + 3 * HEAP_GRAIN,
			"another address");
	} else {
		ring_give(me, me);
	}
}

static void ring_end(void)
{
	ring_drain();
	require(drained == freed[0] + freed[1], "%u freed, %u drained", freed[0] + freed[1],
		drained);
}

static void ring_twice_end(void)
{
	require(freed[0] + freed[1] == 1, "freed %u times", freed[0] + freed[1]);
}

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "numbers", .what = "a number is given back under a slow thread",
	  .threads = 2, .begin = numbers_begin, .thread = numbers, .end = numbers_end },
	{ .name = "numbers-three", .what = "the same with three threads", .full = true,
	  .threads = 3, .begin = numbers_begin, .thread = numbers, .end = numbers_end },
	{ .name = "numbers-fresh", .what = "two threads take numbers for the first time",
	  .threads = 2, .thread = numbers_fresh, .end = numbers_fresh_end },
	{ .name = "lock", .what = "two threads lock a word", .threads = 2, .thread = locks, .end = locks_end },
	{ .name = "lock-three", .what = "three threads", .threads = 3, .thread = locks, .end = locks_end, .switches = 2 },
	{ .name = "ring", .what = "two processes free, the owner drains",
	  .threads = 3, .begin = ring_begin, .thread = ring, .end = ring_end, .switches = 3 },
	{ .name = "ring-twice", .what = "two processes free the same memory",
	  .threads = 2, .begin = ring_begin, .thread = ring_twice, .end = ring_twice_end },
	{ .name = "ring-beside", .what = "memory is freed and allocated side by side",
	  .threads = 2, .begin = ring_begin, .thread = ring_beside, .end = ring_beside_end },
	{ .name = "ring-full", .what = "a place of a full ring gets free",
	  .threads = 2, .begin = ring_full_begin, .thread = ring_full },
	{ .name = NULL },
};
/* clang-format on */
