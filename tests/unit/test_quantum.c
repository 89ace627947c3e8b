// SPDX-License-Identifier: BSD-2-Clause
/* test_quantum.c - core/quantum: when a quantum begins and ends, and that nodes take turns. */
#include "suite.h"

#include "core/quantum.h"

#define MS QUANTUM_MS_NS
#define LENGTH (100 * MS)
#define START (1000 * MS)
#define ME 3
#define LOWER 1
#define HIGHER 5

static struct quantum fresh(void)
{
	return (struct quantum){ .length = LENGTH };
}

/* Numbers of the documentation. */
UNIT_TEST(times_and_counts_are_these)
{
	ck_assert_uint_eq(QUANTUM_MS_NS, 1000000);
	ck_assert_uint_eq(QUANTUM_WINDOW_NS, 1000000);
	ck_assert_uint_eq(QUANTUM_LOCKS, 4);
	ck_assert_uint_eq(QUANTUM_REST_NS, 10000000);
	ck_assert_uint_eq(QUANTUM_USED, 16);
	ck_assert_uint_eq(QUANTUM_USED_NS, 2000000);
	ck_assert_uint_eq(QUANTUM_RELEASES, 128);
	ck_assert_uint_eq(QUANTUM_FULL, 32);
	ck_assert_uint_eq(QUANTUM_CLAIM_MOST, UINT8_MAX);
}

/* Locks bounce at this time. */
static void bounce(struct quantum *q, uint64_t now)
{
	int i;

	for (i = 0; i < QUANTUM_LOCKS; i++) {
		quantum_waited(q, now, 0);
		quantum_asked(q, now, 0, ME, LOWER, 0);
	}
}

static struct quantum begun(void)
{
	struct quantum q = fresh();

	bounce(&q, START);
	ck_assert(quantum_runs(&q, START));
	return q;
}

UNIT_TEST(it_begins_when_locks_go_both_ways_within_a_window)
{
	struct quantum q = fresh();
	int i;

	for (i = 0; i < 100; i++)
		ck_assert(!quantum_asked(&q, START, 0, ME, LOWER, 0));
	for (i = 0; i < QUANTUM_LOCKS - 1; i++)
		quantum_waited(&q, START, 0);
	ck_assert(!quantum_runs(&q, START));
	ck_assert_uint_eq(quantum_claim(&q, START, 0), 0);
	/* the next one is of another window */
	quantum_waited(&q, START + QUANTUM_WINDOW_NS + 1, 0);
	ck_assert(!quantum_runs(&q, START + QUANTUM_WINDOW_NS + 1));
	q = fresh();
	for (i = 0; i < 100; i++)
		quantum_waited(&q, START, 0);
	for (i = 0; i < QUANTUM_LOCKS - 1; i++)
		ck_assert(!quantum_asked(&q, START, 0, ME, LOWER, 0));
	ck_assert(quantum_asked(&q, START, 0, ME, LOWER, 0));
	ck_assert_uint_eq(quantum_claim(&q, START, 0), 1);
	ck_assert(quantum_runs(&q, START + LENGTH - 1));
	ck_assert(!quantum_runs(&q, START + LENGTH));
	ck_assert_uint_eq(quantum_claim(&q, START + LENGTH, 0), 0);
}

UNIT_TEST(after_one_there_is_a_rest)
{
	struct quantum q = begun();

	bounce(&q, START + LENGTH + QUANTUM_REST_NS - 1);
	ck_assert(!quantum_runs(&q, START + LENGTH + QUANTUM_REST_NS - 1));
	bounce(&q, START + LENGTH + QUANTUM_REST_NS);
	ck_assert(quantum_runs(&q, START + LENGTH + QUANTUM_REST_NS));
}

UNIT_TEST(a_claim_keeps_others_from_beginning)
{
	struct quantum q = fresh();
	int i;

	/* claims are no locks that bounce */
	for (i = 0; i < 100; i++) {
		quantum_waited(&q, START, 0);
		ck_assert(!quantum_asked(&q, START, 0, ME, HIGHER, 1));
	}
	bounce(&q, START + QUANTUM_REST_NS - 1);
	ck_assert(!quantum_runs(&q, START + QUANTUM_REST_NS - 1));
	bounce(&q, START + QUANTUM_REST_NS);
	ck_assert(quantum_runs(&q, START + QUANTUM_REST_NS));
}

UNIT_TEST(of_two_the_stronger_claim_or_the_lower_node_stays)
{
	struct quantum q = begun();

	ck_assert(quantum_asked(&q, START, 0, ME, HIGHER, 1));
	ck_assert(quantum_runs(&q, START));
	ck_assert(!quantum_asked(&q, START, 0, ME, HIGHER, 2));
	ck_assert(!quantum_runs(&q, START));
	q = begun();
	ck_assert(!quantum_asked(&q, START, 0, ME, LOWER, 1));
	ck_assert(!quantum_runs(&q, START));
	/* the next time, its claim is the stronger one */
	bounce(&q, START + QUANTUM_REST_NS);
	ck_assert_uint_eq(quantum_claim(&q, START + QUANTUM_REST_NS, 0), 2);
	ck_assert(quantum_asked(&q, START + QUANTUM_REST_NS, 0, ME, LOWER, 1));
	/* and after it, it is a first one again */
	bounce(&q, START + LENGTH + 2 * QUANTUM_REST_NS);
	ck_assert_uint_eq(quantum_claim(&q, START + LENGTH + 2 * QUANTUM_REST_NS, 0), 1);
}

UNIT_TEST(claims_do_not_wrap)
{
	struct quantum q = fresh();
	uint64_t now = START;
	int i;

	for (i = 0; i < 300; i++, now += QUANTUM_REST_NS) {
		bounce(&q, now);
		ck_assert_uint_eq(quantum_claim(&q, now, 0),
				  i < QUANTUM_CLAIM_MOST ? i + 1 : QUANTUM_CLAIM_MOST);
		ck_assert(!quantum_asked(&q, now, 0, ME, LOWER, QUANTUM_CLAIM_MOST));
		ck_assert(!quantum_runs(&q, now));
	}
}

UNIT_TEST(it_pauses_while_a_thread_waits_that_did_not_before)
{
	struct quantum q = fresh();
	int i;

	for (i = 0; i < QUANTUM_LOCKS; i++) {
		quantum_waited(&q, START, 2);
		quantum_asked(&q, START, 2, ME, LOWER, 0);
	}
	ck_assert(quantum_asked(&q, START, 2, ME, LOWER, 0));
	ck_assert_uint_eq(quantum_claim(&q, START, 2), 1);
	ck_assert(!quantum_asked(&q, START, 3, ME, LOWER, 0));
	ck_assert_uint_eq(quantum_claim(&q, START, 3), 0);
	ck_assert(quantum_asked(&q, START, 0, ME, LOWER, 0));
	ck_assert(!quantum_asked(&q, START, 1, ME, LOWER, 0));
	ck_assert(quantum_runs(&q, START)); /* all the same */
	/* threads that wait while it is not one's turn are those that have waited throughout */
	ck_assert(!quantum_asked(&q, START + LENGTH, 0, ME, LOWER, 0));
	for (i = 0; i < QUANTUM_LOCKS; i++)
		quantum_waited(&q, START + LENGTH + QUANTUM_REST_NS, 7);
	for (i = 0; i < QUANTUM_LOCKS; i++)
		quantum_asked(&q, START + LENGTH + QUANTUM_REST_NS, 7, ME, LOWER, 0);
	ck_assert(quantum_asked(&q, START + LENGTH + QUANTUM_REST_NS, 7, ME, LOWER, 0));
}

UNIT_TEST(it_ends_if_the_node_takes_few_locks)
{
	struct quantum q = begun();
	uint64_t now = START;

	ck_assert(quantum_looks(&q, now));
	ck_assert(quantum_used(&q, now, 0)); /* nothing to compare it with */
	ck_assert(!quantum_looks(&q, now + QUANTUM_USED_NS - 1));
	now += 5 * MS;
	ck_assert(quantum_looks(&q, now));
	ck_assert(quantum_used(&q, now, 5ull * QUANTUM_USED));
	now += 5 * MS;
	ck_assert(!quantum_used(&q, now, 10ull * QUANTUM_USED - 1));
	ck_assert(!quantum_runs(&q, now));
	/* the next one begins to count anew, and later */
	bounce(&q, now + 2 * QUANTUM_REST_NS - 1);
	ck_assert(!quantum_runs(&q, now + 2 * QUANTUM_REST_NS - 1));
	now += 2 * QUANTUM_REST_NS;
	bounce(&q, now);
	ck_assert(quantum_used(&q, now, 10ull * QUANTUM_USED));
	ck_assert(quantum_runs(&q, now));
}

/* A node that never has use for its quanta soon begins few. */
UNIT_TEST(the_rest_grows_until_one_was_of_use)
{
	struct quantum q = fresh();
	uint64_t now = START, rest = 2 * QUANTUM_REST_NS;
	int i;

	for (i = 0; i < 20; i++) {
		bounce(&q, now);
		ck_assert(quantum_runs(&q, now));
		ck_assert(quantum_used(&q, now, 0));
		now += QUANTUM_USED_NS;
		ck_assert(!quantum_used(&q, now, 0));
		ck_assert_uint_eq(q.rest, rest);
		now += rest;
		rest = 2 * rest < 1280 * MS ? 2 * rest : 1280 * MS;
	}
	bounce(&q, now);
	ck_assert(quantum_used(&q, now, 0));
	ck_assert(quantum_used(&q, now + QUANTUM_USED_NS, 1000));
	now += LENGTH + QUANTUM_REST_NS;
	bounce(&q, now);
	ck_assert(quantum_runs(&q, now));
}

UNIT_TEST(it_ends_if_few_locks_are_all_there_is)
{
	struct quantum q = begun();
	int i;

	for (i = 1; i < QUANTUM_FULL; i++)
		quantum_full(&q, START);
	ck_assert(quantum_runs(&q, START));
	quantum_full(&q, START);
	ck_assert(!quantum_runs(&q, START));
	/* late ones of an ended quantum do not count as its end */
	quantum_full(&q, START + QUANTUM_REST_NS);
	bounce(&q, START + QUANTUM_REST_NS);
	ck_assert(quantum_runs(&q, START + QUANTUM_REST_NS));
	quantum_full(&q, START + QUANTUM_REST_NS);
	ck_assert(quantum_runs(&q, START + QUANTUM_REST_NS));
}

/*
 * n nodes that all use the same locks, one thread each: in each 100 us a thread asks for a lock,
 * rarely in its quantum. A node whose request is kept is blocked for 2 ms.
 */
#define NODES_MOST 8
#define STEP_NS 100000u
#define STEPS 200000u /* 20 s */

static uint32_t dice(uint32_t below)
{
	static uint64_t state = 1;

	return (uint32_t)(unit_random(&state) >> 33) % below;
}

static void one_step(struct quantum *q, uint64_t *blocked, unsigned int n, uint64_t now)
{
	unsigned int i, other;

	for (i = 0; i < n; i++) {
		if (now < blocked[i] || (quantum_runs(&q[i], now) && dice(10)))
			continue;
		other = (i + 1 + dice(n - 1)) % n;
		quantum_waited(&q[i], now, 0);
		if (quantum_asked(&q[other], now, 0, (uint16_t)other, (uint16_t)i,
				  quantum_claim(&q[i], now, 0)))
			blocked[i] = now + 2 * MS;
	}
}

UNIT_TEST(nodes_take_turns)
{
	unsigned int n, i, step;

	for (n = 2; n <= NODES_MOST; n++) {
		struct quantum q[NODES_MOST];
		uint64_t blocked[NODES_MOST] = { 0 }, had[NODES_MOST] = { 0 }, several = 0, all = 0;

		for (i = 0; i < n; i++)
			q[i] = fresh();
		for (step = 0; step < STEPS; step++) {
			const uint64_t now = START + (uint64_t)step * STEP_NS;
			unsigned int running = 0;

			one_step(q, blocked, n, now);
			for (i = 0; i < n; i++)
				if (quantum_runs(&q[i], now)) {
					had[i]++;
					running++;
				}
			several += running > 1;
			all += running > 0;
		}
		ck_assert_uint_ge(all, STEPS / 4 * 3);
		/* of more, two that begin together hear of each other later */
		ck_assert(several <= STEPS / 50 || n > 4);
		for (i = 0; i < n; i++) {
			ck_assert_uint_ge(had[i], all / n / 2);
			ck_assert_uint_le(had[i], 2 * all / n);
		}
	}
}

UNIT_SUITE("quantum")
