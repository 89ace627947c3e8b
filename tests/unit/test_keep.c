// SPDX-License-Identifier: BSD-2-Clause
/* test_keep.c - miss/keep: which locks a node keeps in its quantum, and when they go. */
#include "run_node.h"

#include <sys/eventfd.h>

#include "core/lock.h"
#include "miss/keep.h"
#include "start/host.h"
#include "sync/handle.h"
#include "sync/host.h"
#include "util/clock.h"

#define HOME 2
#define OBJECT 7
#define FIRST 100 /* hold records */
#define CLAIM 3

static struct quantum *quantum(void)
{
	return &job.me->keep.quantum;
}

static struct msg next_of(uint32_t hold)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = MSG_NEXT,
			     .src = HOME,
			     .object = OBJECT,
			     .req_node = 1,
			     .req_slot = SLOT,
			     .aux = hold };
}

#define HOUR_MS 3600000u

/* A quantum begins, unless DSM_QUANTUM_MS is 0; the records have the lock, free. */
static void begin(unsigned int ms)
{
	unsigned int i;

	quantum()->length = ms * QUANTUM_MS_NS;
	for (i = 0; i <= CTL_KEPT; i++)
		job.me->holds[FIRST + i] =
			(struct hold){ .state = HOLD_CACHED, .home = HOME, .object = OBJECT };
	quantum()->ends = clock_ns() + HOUR_MS * QUANTUM_MS_NS;
	quantum()->claim = CLAIM;
}

static void comes(const struct msg *m)
{
	job.mine->stats.locks += 1000000; /* the node uses its locks */
	run_net(NULL, m, NULL, 0);
}

static unsigned int given(void)
{
	return seen->sent[job.pair[1]];
}

UNIT_TEST(a_lock_stays_for_a_while)
{
	const struct msg m = next_of(FIRST);
	const uint64_t in = job.mine->sync_in, start = clock_ns();
	uint64_t *due = &job.me->keep.kept[0].due;

	begin(HOUR_MS);
	comes(&m);
	ck_assert(*due >= start + 2000000 && *due <= clock_ns() + 2000000);
	ck_assert_uint_eq(job.me->keep.due, *due);
	job.me->keep.due = *due = start + HOUR_MS * QUANTUM_MS_NS;
	ck_assert(run_kept(false) > HOUR_MS / 2 * QUANTUM_MS_NS);
	ck_assert_uint_eq(given(), 0);
	ck_assert_uint_eq(job.mine->stats.locks_kept, 1);
	ck_assert_uint_eq(job.mine->sync_in, in); /* it is still on its way */
	ck_assert(job.me->holds[FIRST].wanted);
	ck_assert(keep_any());
	job.me->keep.due = *due = clock_ns();
	ck_assert_uint_eq(run_kept(false), 0);
	ck_assert(!keep_any());
	ck_assert_uint_eq(given(), 1);
	ck_assert_uint_eq(seen->last.type, MSG_LOCKED);
	ck_assert_uint_eq(job.mine->sync_in, in + 1);
	ck_assert_uint_eq(job.me->holds[FIRST].state, HOLD_FREE);
}

UNIT_TEST(without_a_quantum_it_goes)
{
	struct msg m = next_of(FIRST);

	begin(0);
	comes(&m);
	ck_assert_uint_eq(given(), 1);
	ck_assert_uint_eq(keep_claim(), 0);
	begin(HOUR_MS);
	quantum()->ends = clock_ns();
	m = next_of(FIRST + 1);
	comes(&m);
	ck_assert_uint_eq(given(), 2);
}

UNIT_TEST(some_requests_do_not_wait)
{
	struct core_host h = run_host();
	struct msg timed = next_of(FIRST), own = next_of(FIRST + 1), claims = next_of(FIRST + 2);

	begin(HOUR_MS);
	ck_assert_uint_eq(keep_claim(), CLAIM);
	timed.flags = MSGF_TIMED;
	comes(&timed);
	ck_assert_uint_eq(given(), 1);
	/* of this node: by another record */
	own.req_node = job.node;
	own.value = FIRST + 4;
	ck_assert(!keep_next(&h, &own));
	claims.op = CLAIM + 1;
	comes(&claims);
	ck_assert_uint_eq(given(), 2);
	ck_assert_uint_eq(keep_claim(), 0);
}

/* What is kept goes with the end of the quantum. */
UNIT_TEST(a_stronger_claim_ends_it)
{
	struct msg m = next_of(FIRST), claims = next_of(FIRST + 1);

	begin(HOUR_MS);
	comes(&m);
	claims.op = CLAIM + 1;
	comes(&claims);
	ck_assert_uint_eq(given(), 1);
	ck_assert_uint_eq(run_kept(false), 0);
	ck_assert_uint_eq(given(), 2);
}

UNIT_TEST(a_lock_that_is_not_here_cannot_be_kept)
{
	const struct msg m = next_of(FIRST);

	begin(HOUR_MS);
	job.me->holds[FIRST].state = HOLD_WAITING;
	comes(&m);
	ck_assert_uint_eq(job.me->holds[FIRST].state, HOLD_WAIT_NEXT);
	ck_assert_uint_eq(job.mine->stats.locks_kept, 0);
}

UNIT_TEST(threads_that_wait_for_others_let_it_go)
{
	struct msg m = next_of(FIRST);

	begin(HOUR_MS);
	comes(&m);
	keep_pause();
	run_kept(false);
	ck_assert_uint_eq(given(), 1);
	m = next_of(FIRST + 1);
	comes(&m);
	ck_assert_uint_eq(given(), 2);
	keep_resume();
	m = next_of(FIRST + 2);
	comes(&m);
	ck_assert_uint_eq(given(), 2);
	ck_assert(job.me->holds[FIRST + 2].wanted);
}

/* A lock of this node: nothing has come from another one that the deadlock detector counts. */
UNIT_TEST(a_message_of_the_node_itself_is_not_counted)
{
	struct core_host h = run_host();
	const uint64_t in = job.mine->sync_in;
	struct msg m = next_of(FIRST);

	begin(HOUR_MS);
	job.me->holds[FIRST].home = 0;
	m.src = 0;
	ck_assert(keep_next(&h, &m));
	keep_pause();
	run_kept(false);
	ck_assert_uint_eq(given(), 1);
	ck_assert_uint_eq(job.mine->sync_in, in);
}

static void want_soon(const void *mutex)
{
	dsm_mutex_t copy = *(const dsm_mutex_t *)mutex;

	if (dsm_mutex_timedlock(&copy, 1000) != -ETIMEDOUT)
		_exit(1);
}

static int no_message(struct net *n, unsigned int budget)
{
	(void)n, (void)budget;
	return 0;
}

static int armed(struct net *n)
{
	(void)n;
	return 0;
}

static void want_long(const void *mutex)
{
	dsm_mutex_t copy = *(const dsm_mutex_t *)mutex;
	struct net_ops quiet = net;

	quiet.poll = no_message;
	quiet.arm = armed;
	job.netops = &quiet;
	if (dsm_mutex_timedlock(&copy, 200000000) != -ETIMEDOUT)
		_exit(1);
}

/* Another node's thread may wait for a lock that is kept here, and hold the one that is wanted. */
UNIT_TEST(a_long_wait_for_a_lock_gives_all_away)
{
	const dsm_mutex_t mutex = { .id = handle_make(SYNC_MUTEX, HOME, 9) };
	const struct msg m = next_of(FIRST);

	begin(HOUR_MS);
	job.host = &host_process;
	comes(&m);
	job.me->keep.due = job.me->keep.kept[0].due = UINT64_MAX;
	ck_assert_int_eq(apart(want_long, &mutex), 0);
	ck_assert_uint_eq(given(), 1);
}

/* Requests of threads, and of a record for those in line, have the claim. */
UNIT_TEST(requests_say_that_the_node_has_its_quantum)
{
	dsm_mutex_t mutex = { .id = handle_make(SYNC_MUTEX, HOME, 9) };
	const struct msg about = { .dst = HOME, .object = OBJECT, .req_slot = CTL_BRIEF_END };

	begin(HOUR_MS);
	job.host = &host_process;
	ck_assert_int_eq(apart(want_soon, &mutex), 0);
	ck_assert_uint_eq(seen->last.type, MSG_LOCK);
	ck_assert_uint_eq(seen->last.flags, MSGF_TIMED);
	ck_assert_uint_eq(seen->last.op, CLAIM);
	job.me->holds[FIRST].state = HOLD_HELD_NEXT;
	job.me->holds[FIRST].passed = LOCK_PASSES;
	job.me->holds[FIRST].next_node = 1;
	ck_assert_int_eq(run_held(FIRST, HE_JOIN, &about), 0);
	ck_assert_int_eq(run_held(FIRST, HE_UNLOCK, NULL), 0);
	ck_assert_uint_eq(seen->last.type, MSG_LOCK);
	ck_assert_uint_eq(seen->last.op, CLAIM);
}

UNIT_TEST(after_some_releases_it_goes)
{
	const struct msg first = next_of(FIRST), m = next_of(FIRST + 1);
	struct msg gone;
	int i;

	begin(HOUR_MS);
	comes(&first);
	comes(&m);
	job.me->keep.due = job.me->keep.kept[0].due = job.me->keep.kept[1].due = UINT64_MAX;
	for (i = 0; i < QUANTUM_RELEASES - 1; i++) {
		ck_assert(!keep_released(FIRST + 1, &gone));
		ck_assert(!keep_released(FIRST + 2, &gone));
	}
	ck_assert(keep_released(FIRST + 1, &gone));
	ck_assert_mem_eq(&gone, &m, sizeof(m));
	ck_assert_uint_eq(quantum()->full, 1);
	ck_assert_uint_eq(job.me->keep.n, 1);
}

UNIT_TEST(unlocking_counts_as_a_release)
{
	const struct msg m = next_of(FIRST), about = { .dst = HOME, .object = OBJECT };
	int i;

	begin(HOUR_MS);
	comes(&m);
	job.me->keep.due = job.me->keep.kept[0].due = UINT64_MAX;
	for (i = 0; i < QUANTUM_RELEASES; i++) {
		ck_assert_uint_eq(given(), 0);
		ck_assert_int_eq(run_held(FIRST, HE_TAKE, &about), 0);
		ck_assert_int_eq(lock_release(FIRST), 0);
	}
	ck_assert_uint_eq(given(), 1);
}

/* The service thread, which is to deliver the first one, does so with those that follow. */
UNIT_TEST(the_service_thread_is_woken_once)
{
	const struct msg first = next_of(FIRST), m = next_of(FIRST + 1);
	uint64_t rings = 0;

	begin(HOUR_MS);
	job.ranks[0].doorbell = eventfd(0, EFD_NONBLOCK);
	comes(&first);
	ck_assert_int_eq(read(job.ranks[0].doorbell, &rings, sizeof(rings)), sizeof(rings));
	ck_assert_uint_eq(rings, 1);
	comes(&m);
	ck_assert_int_eq(read(job.ranks[0].doorbell, &rings, sizeof(rings)), -1);
}

/* A thread has waited for long. */
UNIT_TEST(all_can_be_given_away)
{
	const struct msg first = next_of(FIRST), m = next_of(FIRST + 1);

	begin(HOUR_MS);
	comes(&first);
	comes(&m);
	run_kept(true);
	ck_assert_uint_eq(given(), 2);
	ck_assert(!keep_any());
	ck_assert(quantum_runs(quantum(), clock_ns()));
}

UNIT_TEST(there_is_a_most)
{
	unsigned int i;

	begin(HOUR_MS);
	for (i = 0; i <= CTL_KEPT; i++) {
		const struct msg m = next_of(FIRST + i);

		comes(&m);
		ck_assert_uint_eq(given(), i == CTL_KEPT);
	}
}

/* Also those locks that its threads count on their own. */
UNIT_TEST(a_node_that_takes_no_lock_keeps_none)
{
	struct core_host h = run_host();
	struct msg m = next_of(FIRST);

	begin(HOUR_MS);
	quantum()->used_at = clock_ns() - 10 * QUANTUM_MS_NS;
	quantum()->used = 0;
	job.mine->lanes[70].locks = 1000000;
	job.mine->lane_used[1] = 1ull << 6;
	ck_assert(keep_next(&h, &m));
	ck_assert_uint_eq(given(), 0);
	quantum()->used_at = clock_ns() - 10 * QUANTUM_MS_NS;
	m = next_of(FIRST + 1);
	run_net(NULL, &m, NULL, 0);
	ck_assert_uint_eq(given(), 1);
	ck_assert(!quantum_runs(quantum(), clock_ns()));
}

UNIT_SUITE("keep", .seconds = 60, .setup = set_up)
