// SPDX-License-Identifier: BSD-2-Clause
/*
 * api_zero.c - synchronisation objects that are not initialised: zero bytes in shared memory, which
 * all ranks begin to use at once.
 */
#include <sched.h>

#include "common.h"

enum { LOCKS = 3900, CONDITIONS = 5900, ROUNDS = 50, RACES = 200 };

static struct board {
	dsm_mutex_t mutex;
	dsm_rwlock_t rwlock;
	dsm_cond_t cond;
	dsm_sem_t sem;
	dsm_atomic_t atomic;
	dsm_barrier_t barrier;
	uint64_t inside, turn, written, early[2];
} * board;
static struct crowd {
	dsm_mutex_t locks[LOCKS];
	uint64_t counts[LOCKS];
	dsm_cond_t conditions[CONDITIONS];
	dsm_sem_t sems[RACES];
} * crowd;
static uint64_t *come; /* shared outside libdsm */

/*
 * Rank 0 has one thread more than the other ranks, so that the number of threads is no multiple of
 * that of ranks.
 */
static unsigned int mine(void)
{
	return test_rank ? 1 : 2;
}

static unsigned int all(void)
{
	return (unsigned int)test_size + 1;
}

static void fresh(void)
{
	test_sync();
	if (!test_rank)
		memset(board, 0, sizeof(*board));
	test_sync();
}

/* ---- each kind, by all threads at once ------------------------------------------------------ */

static void use_mutex(unsigned int thread, void *arg)
{
	int i;

	(void)thread;
	(void)arg;
	for (i = 0; i < ROUNDS; i++) {
		MUST(dsm_mutex_lock(&board->mutex));
		board->inside++;
		EXPECT(dsm_mutex_trylock(&board->mutex), -EBUSY);
		MUST(dsm_mutex_unlock(&board->mutex));
		if (i % 2) {
			MUST(dsm_rwlock_rdlock(&board->rwlock));
			REQUIRE(board->written % 2 == 0, "read in the midst of a write");
		} else {
			MUST(dsm_rwlock_wrlock(&board->rwlock));
			board->written++;
			board->written++;
		}
		MUST(dsm_rwlock_unlock(&board->rwlock));
		MUST(dsm_atomic_fetch_add(&board->atomic, 1, NULL));
	}
}

static void part_first_use(void)
{
	uint32_t n;
	uint64_t v;
	int i;

	for (i = 0; i < 8; i++) {
		fresh();
		MUST(dsm_sem_getvalue(&board->sem, &n));
		REQUIRE(n == 0, "a semaphore has the value %u", n);
		test_threads(mine(), use_mutex, NULL);
		test_sync();
		REQUIRE(board->inside == all() * ROUNDS, "%lu were inside", board->inside);
		REQUIRE(board->written == all() * ROUNDS, "%lu were written", board->written);
		MUST(dsm_atomic_load(&board->atomic, &v));
		REQUIRE(v == all() * ROUNDS, "%lu were added", v);
	}
	fresh();
}

/* All threads arrive at the same time, so that several make the object. */
static void race(unsigned int thread, void *arg)
{
	uint64_t i;

	(void)thread;
	(void)arg;
	for (i = 0; i < RACES; i++) {
		__atomic_fetch_add(come, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(come, __ATOMIC_SEQ_CST) < (i + 1) * all())
			sched_yield();
		MUST(dsm_sem_post(&crowd->sems[i], 1));
	}
}

static void part_race(void)
{
	unsigned int i, n;

	test_threads(mine(), race, NULL);
	test_sync();
	for (i = (unsigned int)test_rank; i < RACES; i += (unsigned int)test_size) {
		for (n = 0; dsm_sem_trywait(&crowd->sems[i]) == 0; n++)
			;
		REQUIRE(n == all(), "of %u posts to semaphore %u, %u came", all(), i, n);
	}
	test_sync();
}

/* The first use of a condition is a wait; the first use of a semaphore may be a wait or a post. */
static void take_turns(unsigned int thread, void *arg)
{
	const uint64_t me = test_rank ? (uint64_t)test_rank + 1 : thread;
	uint64_t i;

	(void)arg;
	for (i = 0; i < ROUNDS / 5; i++) {
		MUST(dsm_mutex_lock(&board->mutex));
		while (board->turn % all() != me)
			MUST(dsm_cond_wait(&board->cond, &board->mutex));
		board->turn++;
		MUST(dsm_cond_broadcast(&board->cond));
		MUST(dsm_mutex_unlock(&board->mutex));
	}
	MUST(dsm_sem_post(&board->sem, 1));
}

static void part_turns(void)
{
	unsigned int i;

	fresh();
	test_threads(mine(), take_turns, NULL);
	if (!test_rank)
		for (i = 0; i < all(); i++)
			MUST(dsm_sem_wait(&board->sem));
	test_sync();
	EXPECT(dsm_sem_trywait(&board->sem), -EAGAIN);
	REQUIRE(board->turn == all() * (ROUNDS / 5), "%lu turns", board->turn);
}

/* ---- barriers of any threads ---------------------------------------------------------------- */

static void meet(unsigned int thread, void *arg)
{
	uint64_t i, ones = 0;
	int got;

	(void)thread;
	(void)arg;
	for (i = 0; i < ROUNDS; i++) {
		__atomic_fetch_add(&board->early[i % 2], 1, __ATOMIC_SEQ_CST);
		got = dsm_barrier_meet(&board->barrier, all());
		REQUIRE(got == 0 || got == 1, "dsm_barrier_meet: %d", got);
		ones += (uint64_t)got;
		got = (int)__atomic_load_n(&board->early[i % 2], __ATOMIC_SEQ_CST);
		REQUIRE((uint64_t)got == all() * (i / 2 + 1), "in round %lu there were %d", i, got);
	}
	__atomic_fetch_add(&board->inside, ones, __ATOMIC_SEQ_CST);
}

static void part_meet(void)
{
	dsm_barrier_t b = { 0 };

	fresh();
	test_threads(mine(), meet, NULL);
	test_sync();
	REQUIRE(board->inside == ROUNDS, "%lu threads were the one of their round", board->inside);
	EXPECT(dsm_barrier_meet(&board->barrier, 0), -EINVAL);
	EXPECT(dsm_barrier_wait(&board->barrier), -EINVAL);
	EXPECT(dsm_barrier_meet(&b, 2), -EINVAL);
	MUST(dsm_barrier_init(&b, NULL, 0, 1));
	EXPECT(dsm_barrier_meet(&b, 2), -EINVAL);
	MUST(dsm_barrier_destroy(&b));
	EXPECT(dsm_barrier_meet(&b, 2), -EINVAL);
	test_sync();
}

/* ---- as many as programs have --------------------------------------------------------------- */

static void part_many(void)
{
	int i, k;

	for (i = 0; i < LOCKS; i++)
		for (k = 0; k < 2; k++) {
			const int at = (i + test_rank * (LOCKS / 7)) % LOCKS;

			MUST(dsm_mutex_lock(&crowd->locks[at]));
			crowd->counts[at]++;
			MUST(dsm_mutex_unlock(&crowd->locks[at]));
		}
	for (i = test_rank; i < CONDITIONS; i += test_size)
		MUST(dsm_cond_signal(&crowd->conditions[i]));
	test_sync();
	for (i = 0; i < LOCKS; i++)
		REQUIRE(crowd->counts[i] == 2 * (uint64_t)test_size, "lock %d let %lu in", i,
			crowd->counts[i]);
	test_sync();
}

/* ---- what zero is not ------------------------------------------------------------------------ */

static void part_destroyed(void)
{
	dsm_mutex_t private = { 0 }, copy;
	dsm_sem_t sem = { 0 };

	fresh();
	EXPECT(dsm_mutex_lock(&private), -EINVAL);
	EXPECT(dsm_sem_post(&sem, 1), -EINVAL);
	EXPECT(dsm_mutex_unlock(&board->mutex), -EINVAL);
	test_sync();
	if (!test_rank) {
		MUST(dsm_mutex_lock(&board->mutex));
		MUST(dsm_mutex_unlock(&board->mutex));
		copy = board->mutex;
		MUST(dsm_mutex_lock(&copy)); /* the handle exists by now */
		EXPECT(dsm_mutex_lock(&board->mutex), -EDEADLK);
		MUST(dsm_mutex_unlock(&copy));
		MUST(dsm_mutex_destroy(&board->mutex));
	}
	test_sync();
	EXPECT(dsm_mutex_lock(&board->mutex), -EINVAL);
	EXPECT(dsm_mutex_destroy(&board->mutex), -EINVAL);
	fresh();
	MUST(dsm_mutex_lock(&board->mutex)); /* a different mutex at the same address */
	MUST(dsm_mutex_unlock(&board->mutex));
	test_sync();
}

int main(int argc, char **argv)
{
	const struct test_part parts[] = {
		{ "first use", part_first_use }, { "race", part_race },
		{ "turns", part_turns },         { "meet", part_meet },
		{ "many", part_many },           { "destroyed", part_destroyed },
	};

	test_start(argc, argv, "Synchronisation objects that are zero bytes in shared memory.",
		   NULL, 0);
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	crowd = test_region("crowd", sizeof(*crowd), 4096, DSM_HOME_FIRST_TOUCH, 0);
	come = test_outside(sizeof(*come));
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
