// SPDX-License-Identifier: BSD-2-Clause
/*
 * litmus.c - the shapes that the memory models are known by, to check the checker: what each model
 * allows must be found, and what it forbids must not.
 */
#include "../order.h"

static struct {
	uint32_t x, y, flag, count, plain;
} m;

static struct {
	uint32_t r[ORDER_THREADS][2];
} seen; /* each thread writes its own; read at the end */

#define LOAD(v, order) __atomic_load_n(&m.v, __ATOMIC_##order)
#define STORE(v, value, order) __atomic_store_n(&m.v, value, __ATOMIC_##order)

void scene_memory(void)
{
	share(m);
}

/* ---- store buffering: both threads read the old value ---------------------------------------- */

static void buffering(unsigned int me)
{
	if (me) {
		STORE(y, 1, RELEASE);
		seen.r[1][0] = LOAD(x, ACQUIRE);
	} else {
		STORE(x, 1, RELEASE);
		seen.r[0][0] = LOAD(y, ACQUIRE);
	}
}

static void buffering_sequential(unsigned int me)
{
	if (me) {
		STORE(y, 1, SEQ_CST);
		seen.r[1][0] = LOAD(x, SEQ_CST);
	} else {
		STORE(x, 1, SEQ_CST);
		seen.r[0][0] = LOAD(y, SEQ_CST);
	}
}

static void buffering_fences(unsigned int me)
{
	if (me)
		STORE(y, 1, RELAXED);
	else
		STORE(x, 1, RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	seen.r[me][0] = me ? LOAD(x, RELAXED) : LOAD(y, RELAXED);
}

static void one_is_seen(void)
{
	require(seen.r[0][0] || seen.r[1][0], "both loads came before both stores");
}

/* ---- message passing: the flag is seen, the message is not ----------------------------------- */

static void passing_relaxed(unsigned int me)
{
	if (me) {
		STORE(x, 1, RELAXED);
		STORE(flag, 1, RELAXED);
	} else if (LOAD(flag, RELAXED)) {
		require(LOAD(x, RELAXED), "the flag came before the message");
	}
}

static void passing(unsigned int me)
{
	if (me) {
		m.plain = 1;
		STORE(flag, 1, RELEASE);
	} else if (LOAD(flag, ACQUIRE)) {
		require(m.plain, "the flag came before the message");
	}
}

static void passing_unacquired(unsigned int me)
{
	if (me) {
		m.plain = 1;
		STORE(flag, 1, RELEASE);
	} else if (LOAD(flag, RELAXED)) {
		require(m.plain, "the flag came before the message");
	}
}

/* Stores in the wrong order, which no processor has to reorder. */
static void passing_early(unsigned int me)
{
	if (me) {
		STORE(flag, 1, RELEASE);
		STORE(x, 1, RELEASE);
	} else if (LOAD(flag, ACQUIRE)) {
		require(LOAD(x, ACQUIRE), "the flag came before the message");
	}
}

/* ---- coherence, causality, independent reads ------------------------------------------------- */

static void coherence(unsigned int me)
{
	if (me) {
		STORE(x, 1, RELAXED);
		STORE(x, 2, RELAXED);
	} else {
		uint32_t first = LOAD(x, RELAXED);

		require(LOAD(x, RELAXED) >= first, "a value went back");
	}
}

static void causality(unsigned int me)
{
	if (me == 0)
		STORE(x, 1, RELAXED);
	else if (me == 1 && LOAD(x, ACQUIRE))
		STORE(flag, 1, RELEASE);
	else if (me == 2 && LOAD(flag, ACQUIRE))
		require(LOAD(x, RELAXED), "what another thread has seen is not seen");
}

/* Two threads read two stores in different orders: x86 has one memory, C11 does not promise it. */
static void independent(unsigned int me)
{
	if (me == 0) {
		STORE(x, 1, RELEASE);
	} else if (me == 1) {
		STORE(y, 1, RELEASE);
	} else if (me == 2) {
		seen.r[2][0] = LOAD(x, ACQUIRE);
		seen.r[2][1] = LOAD(y, ACQUIRE);
	} else {
		seen.r[3][0] = LOAD(y, ACQUIRE);
		seen.r[3][1] = LOAD(x, ACQUIRE);
	}
}

static void one_order(void)
{
	require(!(seen.r[2][0] && !seen.r[2][1] && seen.r[3][0] && !seen.r[3][1]),
		"two orders of two stores");
}

/* ---- atomicity, races, sleepers -------------------------------------------------------------- */

static void counting(unsigned int me)
{
	(void)me;
	__atomic_fetch_add(&m.count, 1, __ATOMIC_RELAXED);
}

static void counting_apart(unsigned int me)
{
	(void)me;
	STORE(count, LOAD(count, RELAXED) + 1, RELAXED);
}

static void two(void)
{
	require(m.count == 2, "one is missing");
}

static void racing(unsigned int me)
{
	m.plain = me;
}

static void locked(unsigned int me)
{
	cell_lock(0);
	m.plain += me;
	cell_unlock(0);
}

/* A waiter that checks, then counts itself; the waker that sees no waiter wakes nobody. */
static void sleeping(unsigned int me)
{
	if (me) {
		STORE(flag, 1, SEQ_CST);
		if (LOAD(count, SEQ_CST))
			cell_post(0);
	} else if (!LOAD(flag, SEQ_CST)) {
		STORE(count, 1, SEQ_CST);
		cell_wait(0);
	}
}

static void clear_seen(void)
{
	seen = (typeof(seen)){ 0 };
}

#define BOTH (FAILS_TSO | FAILS_C11)

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "buffering", .what = "store buffering", .threads = 2, .begin = clear_seen, .thread = buffering, .end = one_is_seen, .fails = BOTH },
	{ .name = "buffering-sequential", .what = "the same with seq_cst", .threads = 2, .begin = clear_seen, .thread = buffering_sequential, .end = one_is_seen },
	{ .name = "buffering-fences", .what = "the same with fences", .threads = 2, .begin = clear_seen, .thread = buffering_fences, .end = one_is_seen },
	{ .name = "passing-relaxed", .what = "message passing, relaxed", .threads = 2, .thread = passing_relaxed, .fails = FAILS_C11 },
	{ .name = "passing", .what = "message passing", .threads = 2, .thread = passing },
	{ .name = "passing-unacquired", .what = "message passing without acquire", .threads = 2, .thread = passing_unacquired, .fails = FAILS_C11 },
	{ .name = "passing-early", .what = "the flag first", .threads = 2, .thread = passing_early, .fails = BOTH },
	{ .name = "coherence", .what = "two loads of one object", .threads = 2, .thread = coherence },
	{ .name = "causality", .what = "a message passed on", .threads = 3, .thread = causality },
	{ .name = "independent", .what = "independent reads of independent writes", .threads = 4, .begin = clear_seen, .thread = independent, .end = one_order, .fails = FAILS_C11 },
	{ .name = "counting", .what = "an atomic addition", .threads = 2, .thread = counting, .end = two },
	{ .name = "counting-apart", .what = "load, add, store", .threads = 2, .thread = counting_apart, .end = two, .fails = BOTH },
	{ .name = "racing", .what = "plain stores", .threads = 2, .thread = racing, .fails = FAILS_C11 },
	{ .name = "locked", .what = "the same with a lock", .threads = 2, .thread = locked },
	{ .name = "sleeping", .what = "the check before the count", .threads = 2, .thread = sleeping, .fails = BOTH },
	{ 0 },
};
/* clang-format on */
