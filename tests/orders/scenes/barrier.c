// SPDX-License-Identifier: BSD-2-Clause
/*
 * barrier.c - a thread that leaves a barrier reads how its episode ended without the record's lock
 * (bar_ended()), perhaps late: other threads may be in later generations by then. It gets the
 * status and the result of its own episode, or 0 without a result if later episodes have ended, and
 * never those of another.
 */
#include <stddef.h>

#include "../order.h"
#include "core/barrier.c"

#define STRIPE 0
#define UNTOUCHED 0xabcdull

static struct {
	struct bar b;
	struct bar_part part;
	uint32_t data; /* written before the barrier, read after it */
} m;

void scene_memory(void)
{
	share(m);
}

static uint64_t sum(uint8_t op, uint64_t a, uint64_t b)
{
	(void)op;
	return a + b;
}

/* One node, one rank. A thread arrives in a generation, one of `threads`; its episode. */
static uint32_t arrive_here(uint32_t life, uint32_t threads, uint64_t value, int16_t status)
{
	const struct bar_tree alone = { .parent = SET_NOBODY };
	const struct bar_group group = { .locals = 1 };
	struct msg a = {
		.type = MSG_ARRIVE, .object = 1, .aux = threads, .value = value, .count = status
	};
	struct actions acts;
	uint32_t gen;

	bar_set_life(&a, life);
	cell_lock(STRIPE);
	require(!bar_admit(&m.b, &a, &group) && !bar_step(0, &alone, sum, &m.b, &m.part, &a, &acts),
		"an arrival is refused");
	gen = m.part.gen;
	cell_unlock(STRIPE);
	return gen;
}

/* The thread leaves generation 7, whose episode ends with this status and result. */
static void leave_seven(uint32_t gen, int status, uint64_t result, bool is_last)
{
	uint64_t got = UNTOUCHED;
	int err;

	if (__atomic_load_n(&m.b.gen, __ATOMIC_ACQUIRE) == gen)
		return; /* it sleeps on */
	err = bar_ended(&m.b, 7, &got);
	if (!is_last && !err && got == UNTOUCHED)
		return;
	require(err == status, "status %d", err);
	require(got == result || (got == UNTOUCHED && (err || !is_last)), "result %llu",
		(unsigned long long)got);
}

/* The last of two threads of generation 7 ends the episode. */
static void ends(unsigned int me)
{
	if (me) {
		m.data = 1;
		arrive_here(7, 2, 30, 0);
		return;
	}
	leave_seven(0, 0, 42, true);
	if (__atomic_load_n(&m.b.gen, __ATOMIC_ACQUIRE))
		require(m.data, "what was written before the barrier is not seen");
}

static void ends_begin(void)
{
	arrive_here(7, 2, 12, 0);
}

/*
 * Then others use the generations after it; those of 8 end with an error, so that a status of
 * theirs is known.
 */
static void goes_on(unsigned int me)
{
	if (me) {
		arrive_here(7, 2, 30, 0);
		arrive_here(8, 1, 99, -EIO);
		arrive_here(9, 1, 98, -EDOM);
		arrive_here(10, 1, 97, -EBUSY);
	} else {
		leave_seven(0, 0, 42, false);
	}
}

/* A thread of a newer generation ends the episode with an error. */
static void overtaken(unsigned int me)
{
	if (me) {
		arrive_here(8, 1, 99, 0);
		arrive_here(9, 1, 98, 0);
	} else {
		leave_seven(0, -EINVAL, UNTOUCHED, false);
	}
}

/* As overtaken, but nothing comes after generation 8: the waiter must hear of the error. */
static void overtaken_once(unsigned int me)
{
	if (me)
		arrive_here(8, 1, 99, 0);
	else
		leave_seven(0, -EINVAL, UNTOUCHED, true);
}

/*
 * Generations that ended with an error, and then one that did not: as overtaken, with the roles
 * changed.
 */
static void failed(unsigned int me)
{
	if (me) {
		arrive_here(7, 2, 30, -EIO);
		arrive_here(8, 1, 99, 0);
		arrive_here(9, 1, 98, 0);
	} else {
		leave_seven(0, -EIO, 42, false);
	}
}

static void failed_once(unsigned int me)
{
	if (me) {
		arrive_here(7, 2, 30, -EIO);
		arrive_here(8, 1, 99, 0);
	} else {
		leave_seven(0, -EIO, 42, true);
	}
}

/* The barrier is renewed by a thread that waits there: nothing has ended in its generation yet. */
static void renewed(unsigned int me)
{
	if (me) {
		arrive_here(7, 2, 30, 0);
		arrive_here(8, 2, 99, -EIO);
	} else {
		leave_seven(0, 0, 42, false);
	}
}

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "ends", .what = "the last thread arrives, another leaves",
	  .threads = 2, .begin = ends_begin, .thread = ends },
	{ .name = "goes-on", .what = "three later generations end while a thread leaves",
	  .threads = 2, .begin = ends_begin, .thread = goes_on },
	{ .name = "overtaken", .what = "threads of newer generations end the episode",
	  .threads = 2, .begin = ends_begin, .thread = overtaken },
	{ .name = "overtaken-once", .what = "the same, with one newer generation",
	  .threads = 2, .begin = ends_begin, .thread = overtaken_once },
	{ .name = "failed", .what = "an episode that failed, and later ones that did not",
	  .threads = 2, .begin = ends_begin, .thread = failed },
	{ .name = "failed-once", .what = "an episode that failed, and one that did not",
	  .threads = 2, .begin = ends_begin, .thread = failed_once },
	{ .name = "renewed", .what = "the next generation has begun", .threads = 2, .begin = ends_begin, .thread = renewed },
	{ .name = NULL },
};
/* clang-format on */
