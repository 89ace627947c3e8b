// SPDX-License-Identifier: BSD-2-Clause
/*
 * api_kept.c - locks stay with the node that used them last, and objects with their home: a thread
 * that uses them there sends no message. Locks also move from node to node, and are destroyed while
 * another node keeps them. Also mutexes and reader-writer locks with contention, trylocks and time
 * limits.
 */
#include "common.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct board { /* shared through libdsm */
	dsm_mutex_t mutex;
	dsm_rwlock_t rwlock;
} * board;
static struct out { /* shared outside libdsm */
	uint64_t a, b, n;
} * out;
static int last;

static void clear(void)
{
	test_sync();
	if (!test_rank)
		memset(out, 0, sizeof(*out));
	test_sync();
}

/* ---- without a message ----------------------------------------------------------------------- */

#define AGAIN 1000

/* The last holder takes its lock again without a message, and without a step of the protocol. */
static void taken_again(dsm_mutex_t *m)
{
	struct dsm_stats before, after;
	int i;

	MUST(dsm_mutex_lock(m));
	MUST(dsm_mutex_unlock(m));
	before = test_stats(NULL);
	for (i = 0; i < AGAIN; i++) {
		MUST(i % 2 ? dsm_mutex_trylock(m) : dsm_mutex_lock(m));
		MUST(dsm_mutex_unlock(m));
	}
	after = test_stats(NULL);
	REQUIRE(after.messages_out - before.messages_out < AGAIN / 10, "%lu messages for %d locks",
		after.messages_out - before.messages_out, AGAIN);
	REQUIRE(after.steps - before.steps < AGAIN / 10, "%lu steps for %d locks",
		after.steps - before.steps, AGAIN);
	REQUIRE(after.locks - before.locks == AGAIN, "%lu locks are counted",
		after.locks - before.locks);
}

static void lock_many(unsigned thread, void *arg)
{
	dsm_mutex_t m = *(const dsm_mutex_t *)arg;
	int i;

	(void)thread;
	for (i = 0; i < AGAIN; i++) {
		MUST(dsm_mutex_lock(&m));
		out->n++;
		MUST(dsm_mutex_unlock(&m));
	}
}

/* Threads of one node pass the lock on among themselves. */
static void taken_by_threads(dsm_mutex_t *m)
{
	struct dsm_stats before, after;

	out->n = 0;
	before = test_stats(NULL);
	test_threads(4, lock_many, m);
	after = test_stats(NULL);
	REQUIRE(out->n == 4 * AGAIN, "%lu were inside of %d", out->n, 4 * AGAIN);
	REQUIRE(after.messages_out - before.messages_out < AGAIN / 10,
		"%lu messages for %d locks by threads", after.messages_out - before.messages_out,
		4 * AGAIN);
}

/* Ranks use objects whose home is their node without messages. */
static void part_local(void)
{
	struct dsm_stats before, after;
	dsm_rwlock_t l;
	dsm_atomic_t a;
	dsm_mutex_t m;
	dsm_cond_t c;
	dsm_sem_t s;
	int i;

	MUST(dsm_rwlock_init(&l));
	MUST(dsm_atomic_init(&a, 0, test_rank));
	MUST(dsm_mutex_init(&m));
	MUST(dsm_cond_init(&c));
	MUST(dsm_sem_init(&s, 0));
	test_sync();
	before = test_stats(NULL);
	for (i = 0; i < AGAIN; i++) {
		MUST(dsm_sem_post(&s, 1));
		MUST(dsm_sem_wait(&s));
		EXPECT(dsm_sem_trywait(&s), -EAGAIN);
		MUST(i % 2 ? dsm_rwlock_rdlock(&l) : dsm_rwlock_wrlock(&l));
		MUST(dsm_rwlock_unlock(&l));
		MUST(dsm_atomic_fetch_add(&a, 1, NULL));
		MUST(dsm_mutex_lock(&m));
		if (i % 100 == 0)
			EXPECT(dsm_cond_timedwait(&c, &m, 1), -ETIMEDOUT);
		MUST(dsm_cond_signal(&c));
		MUST(dsm_mutex_unlock(&m));
	}
	after = test_stats(NULL);
	REQUIRE(after.messages_out - before.messages_out < AGAIN / 10,
		"%lu messages for objects of this node", after.messages_out - before.messages_out);
	test_sync();
	MUST(dsm_rwlock_destroy(&l));
	MUST(dsm_atomic_destroy(&a));
	MUST(dsm_mutex_destroy(&m));
	MUST(dsm_cond_destroy(&c));
	MUST(dsm_sem_destroy(&s));
}

/* Rank 0 makes a mutex for all ranks; collective. */
static dsm_mutex_t new_mutex(void)
{
	if (!test_rank)
		MUST(dsm_mutex_init(&board->mutex));
	test_sync();
	return board->mutex;
}

static dsm_rwlock_t new_rwlock(void)
{
	if (!test_rank)
		MUST(dsm_rwlock_init(&board->rwlock));
	test_sync();
	return board->rwlock;
}

static void part_kept(void)
{
	dsm_mutex_t m;

	m = new_mutex();
	if (test_rank == last) {
		taken_again(&m);
		taken_by_threads(&m);
	}
	test_sync();
	if (!test_rank) { /* kept here, and idle */
		MUST(dsm_mutex_trylock(&m));
		MUST(dsm_mutex_unlock(&m));
	}
	test_sync();
	if (test_rank == last)
		MUST(dsm_mutex_lock(&m));
	test_sync();
	if (!test_rank && last) { /* held here */
		EXPECT(dsm_mutex_trylock(&m), -EBUSY);
		EXPECT(dsm_mutex_destroy(&(dsm_mutex_t){ m.id }), -EBUSY);
	}
	test_sync();
	if (test_rank == last)
		MUST(dsm_mutex_unlock(&m));
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&(dsm_mutex_t){ m.id }));
	test_sync();
	EXPECT(dsm_mutex_lock(&m), -EINVAL);
	test_sync();
}

/*
 * A reader-writer lock never stays. If its home is another node, a thread waits for lock and
 * unlock.
 */
static void asked_for(dsm_rwlock_t *l)
{
	struct dsm_stats before, after;
	uint64_t waits, times;
	int i;

	before = test_stats(NULL);
	for (i = 0; i < AGAIN; i++) {
		MUST(i % 2 ? dsm_rwlock_rdlock(l) : dsm_rwlock_wrlock(l));
		MUST(dsm_rwlock_unlock(l));
	}
	after = test_stats(NULL);
	waits = after.lock_waits - before.lock_waits;
	times = after.latency_count[DSM_LAT_LOCK] - before.latency_count[DSM_LAT_LOCK];
	REQUIRE(after.locks - before.locks == AGAIN, "%lu locks are counted",
		after.locks - before.locks);
	if (dsm_nodes() == 1) {
		REQUIRE(!waits && !times, "%lu waits, %lu times in one node", waits, times);
		return;
	}
	REQUIRE(waits == AGAIN, "%lu waits for %d locks", waits, AGAIN);
	REQUIRE(times == 2 * AGAIN, "%lu waits are timed, of %d locks and releases", times, AGAIN);
	REQUIRE(after.latency_sum_ns[DSM_LAT_LOCK] > before.latency_sum_ns[DSM_LAT_LOCK],
		"they took no time");
}

#define SWAPS 100

/*
 * Each time, the mutex comes from the other node by way of its home. With the module it may arrive
 * before the thread begins to wait.
 */
static void swapped(dsm_mutex_t *m)
{
	const uint64_t missed = test_in_kernel() ? SWAPS / 10 : 0;
	const bool alone = dsm_nodes() == 1 || (test_rank && test_rank != last);
	struct dsm_stats before, after;
	uint64_t waits, times;
	int i;

	before = test_stats(NULL);
	for (i = 0; i < SWAPS; i++) {
		test_sync();
		if (test_rank == (i % 2 ? 0 : last)) {
			MUST(dsm_mutex_lock(m));
			MUST(dsm_mutex_unlock(m));
		}
	}
	after = test_stats(NULL);
	waits = after.lock_waits - before.lock_waits;
	times = after.latency_count[DSM_LAT_LOCK] - before.latency_count[DSM_LAT_LOCK];
	REQUIRE(alone ? !waits : waits <= SWAPS / 2 && waits + missed >= SWAPS / 2,
		"%lu of %d locks waited", waits, SWAPS / 2);
	REQUIRE(times == waits, "%lu waits are timed, of %lu", times, waits);
}

static void part_asked(void)
{
	dsm_rwlock_t l = new_rwlock();
	dsm_mutex_t m = new_mutex();

	if (!test_rank) {
		MUST(dsm_mutex_lock(&m));
		MUST(dsm_mutex_unlock(&m));
	}
	swapped(&m);
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&m));
	if (test_rank == last)
		asked_for(&l);
	test_sync();
	if (!test_rank)
		MUST(dsm_rwlock_destroy(&l));
	test_sync();
}

/*
 * ---- threads of a node that run take it before threads that are being woken, but not for ever
 * ------
 */

#define SLEEPERS 2
#define TURNS 20

/*
 * The last threads lock rarely, after a pause, and so sleep; the others lock as often as they can.
 */
static void hog_or_sleep(unsigned thread, void *arg)
{
	dsm_mutex_t m = *(const dsm_mutex_t *)arg;
	unsigned i;

	if (thread < SLEEPERS) {
		for (i = 0; i < TURNS; i++) {
			MUST(dsm_mutex_lock(&m));
			out->n++; /* not atomic: the lock protects it */
			test_delay(2000);
			MUST(dsm_mutex_unlock(&m));
			test_nap(1000);
		}
		add(&out->b);
		return;
	}
	while (see(&out->b) < SLEEPERS * (uint64_t)test_size) {
		MUST(dsm_mutex_lock(&m));
		out->n++;
		add(&out->a);
		test_delay(200);
		MUST(dsm_mutex_unlock(&m));
	}
}

static void part_overtaken(void)
{
	dsm_mutex_t m;

	clear();
	m = new_mutex();
	test_threads(SLEEPERS + 2, hog_or_sleep, &m);
	test_sync();
	REQUIRE(out->n == see(&out->a) + SLEEPERS * TURNS * (uint64_t)test_size,
		"%lu were inside, %lu of them often", out->n, see(&out->a));
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&board->mutex));
	test_sync();
}

/* A thread that has locked nothing has no last mutex either. */
static void take_nothing(unsigned int thread, void *arg)
{
	dsm_mutex_t none = { 0 };

	(void)thread;
	(void)arg;
	EXPECT(dsm_mutex_lock(&none), -EINVAL);
	EXPECT(dsm_mutex_trylock(&none), -EINVAL);
	EXPECT(dsm_mutex_unlock(&none), -EINVAL);
}

/* A forked child must not use the mutex, though its parent has a fast path to it. */
static void part_child(void)
{
	dsm_mutex_t m, none = { 0 };
	int status = -1;
	pid_t child;

	test_threads(3, take_nothing, NULL);
	MUST(dsm_mutex_init(&m));
	MUST(dsm_mutex_lock(&m));
	MUST(dsm_mutex_unlock(&m));
	MUST(dsm_mutex_lock(&m));
	child = fork();
	if (!child)
		_exit(dsm_mutex_unlock(&m) != -ECHILD || dsm_mutex_lock(&m) != -ECHILD ||
		      dsm_mutex_trylock(&m) != -ECHILD || dsm_mutex_lock(&none) != -ECHILD);
	REQUIRE(child > 0 && waitpid(child, &status, 0) == child && !status,
		"a forked child was served: %d", status);
	EXPECT(dsm_mutex_lock(&m), -EDEADLK);
	MUST(dsm_mutex_unlock(&m));
	MUST(dsm_mutex_destroy(&m));
}

#define GRABS 600

/* All threads use it for reading and writing; then all destroy it, and one of them succeeds. */
static void part_kept_by_turns(void)
{
	struct rng rng = rng_of((uint64_t)test_rank);
	dsm_mutex_t m;
	int i, err;

	clear();
	m = new_mutex();
	for (i = 0; i < GRABS; i++) {
		bool try = rng_below(&rng, 3) == 0;

		err = try ? dsm_mutex_trylock(&m) : dsm_mutex_lock(&m);
		REQUIRE(!err || (try && err == -EBUSY), "%s: %d", try ? "trylock" : "lock", err);
		if (err)
			continue;
		out->n++; /* not atomic: the lock protects it */
		add(&out->a);
		MUST(dsm_mutex_unlock(&m));
		if (rng_below(&rng, 50) == 0)
			test_nap(100000);
	}
	test_sync();
	REQUIRE(out->n == see(&out->a), "%lu were inside, of whom %lu counted themselves",
		see(&out->a), out->n);
	test_sync();
	err = dsm_mutex_destroy(&(dsm_mutex_t){ m.id });
	REQUIRE(!err || err == -EINVAL, "destroy: %d", err);
	if (!err)
		add(&out->b);
	test_sync();
	REQUIRE(see(&out->b) == 1, "%lu have destroyed it", see(&out->b));
	test_sync();
}

/* ---- mutexes with a limit -------------------------------------------------------------------- */

#define LIMIT 5000000ull /* ns */
#define MANY 100

static void until(const uint64_t *p, uint64_t v)
{
	const uint64_t start = test_ns();

	while (see(p) < v) {
		REQUIRE(test_ns() - start < 20000000000u, "waited for %lu, there is %lu", v,
			see(p));
		test_nap(100000);
	}
}

/*
 * Give up a mutex that another thread holds until this returns. Only the first time takes messages,
 * except with the kernel helper.
 */
static void give_up(dsm_mutex_t *m)
{
	struct dsm_stats before, after;
	uint64_t start = test_ns();
	int i;

	EXPECT(dsm_mutex_timedlock(m, LIMIT), -ETIMEDOUT);
	REQUIRE(test_ns() - start >= LIMIT, "timed out early");
	EXPECT(dsm_mutex_timedlock(m, 0), -ETIMEDOUT);
	EXPECT(dsm_mutex_unlock(m), -EPERM);
	before = test_stats(NULL);
	for (i = 0; i < MANY; i++)
		EXPECT(dsm_mutex_timedlock(m, 1 + (uint64_t)i * 100), -ETIMEDOUT);
	after = test_stats(NULL);
	/* Heartbeats and queries of others also count. */
	REQUIRE(test_in_kernel() || after.messages_out - before.messages_out < MANY / 2,
		"%lu messages for %d limits that pass", after.messages_out - before.messages_out,
		MANY);
}

/* The first thread holds the mutex twice; then the last thread gets it within its limit. */
static void limits(unsigned thread, void *arg)
{
	dsm_mutex_t m = *(const dsm_mutex_t *)arg;
	const bool holds = !thread && !test_rank, waits = thread && test_rank == last;

	if (holds) {
		MUST(dsm_mutex_timedlock(&m, 0));
		EXPECT(dsm_mutex_timedlock(&m, 0), -EDEADLK);
		EXPECT(dsm_mutex_timedlock(&m, LIMIT), -EDEADLK);
		add(&out->a);
		until(&out->b, (uint64_t)test_size);
		MUST(dsm_mutex_unlock(&m));
		MUST(dsm_mutex_timedlock(&m, 4000 * LIMIT)); /* behind those that have given up */
		add(&out->a);
		test_nap(LIMIT);
		MUST(dsm_mutex_unlock(&m));
		return;
	}
	if (!thread)
		return;
	until(&out->a, 1);
	give_up(&m);
	add(&out->b);
	if (!waits)
		return;
	until(&out->a, 2);
	MUST(dsm_mutex_timedlock(&m, 4000 * LIMIT));
	MUST(dsm_mutex_unlock(&m));
}

static void part_mutex_limits(void)
{
	dsm_mutex_t none = { 0 }, m;

	clear();
	EXPECT(dsm_mutex_timedlock(&none, 1), -EINVAL);
	m = new_mutex();
	test_threads(2, limits, &m);
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&(dsm_mutex_t){ m.id }));
	test_sync();
	EXPECT(dsm_mutex_timedlock(&m, 4000 * LIMIT), -EINVAL);
	test_sync();
}

static int take_mutex(struct rng *rng, dsm_mutex_t *m)
{
	switch (rng_below(rng, 4)) {
	case 0: return dsm_mutex_trylock(m);
	case 1: return dsm_mutex_lock(m);
	default: return dsm_mutex_timedlock(m, rng_below(rng, 100000));
	}
}

/*
 * Limits expire while the lock is on its way. A thread that gives up must not have it, and the next
 * one must get it.
 */
static void cross_mutex(unsigned thread, void *arg)
{
	struct rng rng = rng_of((uint64_t)test_rank * 64 + thread);
	dsm_mutex_t m = *(const dsm_mutex_t *)arg;
	int i;

	for (i = 0; i < GRABS / 3; i++) {
		int err = take_mutex(&rng, &m);

		REQUIRE(!err || err == -EBUSY || err == -ETIMEDOUT, "a mutex with a limit: %d",
			err);
		if (err)
			continue;
		out->n++; /* not atomic: the lock protects it */
		add(&out->a);
		test_delay(rng_below(&rng, 2) ? rng_below(&rng, 20000) : 0);
		MUST(dsm_mutex_unlock(&m));
	}
}

static void part_mutex_limits_crossed(void)
{
	dsm_mutex_t m;

	clear();
	m = new_mutex();
	test_sync();
	test_threads(3, cross_mutex, &m);
	test_sync();
	REQUIRE(out->n == see(&out->a), "%lu were inside, of whom %lu counted themselves",
		see(&out->a), out->n);
	if (!test_rank) {
		MUST(dsm_mutex_lock(&m)); /* behind all that have given up */
		MUST(dsm_mutex_unlock(&m));
		MUST(dsm_mutex_destroy(&m));
	}
	test_sync();
}

#define STOPPED 200000000ull /* ns */
#define ASKED 200            /* messages of a rank, at most */

/* Stop the parent process. */
static void stop_parent(void)
{
	add(&out->a);
	kill(getppid(), SIGSTOP);
	test_nap(STOPPED);
	kill(getppid(), SIGCONT);
	_exit(0);
}

/* The home asks for one trylock at a time whether the mutex is idle; others must ask again. */
static void try_it(unsigned thread, void *arg)
{
	dsm_mutex_t m = *(const dsm_mutex_t *)arg;
	int err = dsm_mutex_trylock(&m);

	(void)thread;
	REQUIRE(!err || err == -EBUSY, "trylock: %d", err);
	if (!err)
		MUST(dsm_mutex_unlock(&m));
}

/*
 * The rank that keeps the mutex does not answer for a while, and all others try. Their retries
 * become ever rarer.
 */
static void part_tried(void)
{
	struct dsm_stats before, after;
	dsm_mutex_t m;
	pid_t child;
	int status;

	clear();
	m = new_mutex();
	test_sync();
	if (test_rank == last) {
		MUST(dsm_mutex_lock(&m));
		MUST(dsm_mutex_unlock(&m));
	}
	test_sync();
	before = test_stats(NULL);
	if (test_rank == last) {
		child = fork();
		if (!child)
			stop_parent();
		REQUIRE(child > 0 && waitpid(child, &status, 0) == child && !status,
			"the child that stops: %d", status);
	} else {
		until(&out->a, 1);
		test_nap(STOPPED / 20);
		test_threads(3, try_it, &m);
	}
	after = test_stats(NULL);
	REQUIRE(after.messages_out - before.messages_out <
			(test_rank ? 1 : (uint64_t)test_size) * ASKED,
		/* from rank 0 */
		"%lu messages for three that try", after.messages_out - before.messages_out);
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&m));
	test_sync();
}

/* ---- reader-writer locks with a limit -------------------------------------------------------- */

/* One thread has the lock while the other wants it; out->a is their step. */
static void has_it(dsm_rwlock_t *l)
{
	MUST(dsm_rwlock_tryrdlock(l));
	EXPECT(dsm_rwlock_tryrdlock(l), -EBUSY);
	EXPECT(dsm_rwlock_trywrlock(l), -EBUSY);
	EXPECT(dsm_rwlock_timedrdlock(l, 1), -EDEADLK);
	EXPECT(dsm_rwlock_timedwrlock(l, 1), -EDEADLK);
	add(&out->a);
	until(&out->a, 2);
	MUST(dsm_rwlock_unlock(l));
	MUST(dsm_rwlock_trywrlock(l));
	add(&out->a);
	until(&out->a, 4);
	MUST(dsm_rwlock_unlock(l));
	add(&out->a);
	until(&out->a, 6);
	MUST(dsm_rwlock_timedrdlock(l, 0));
	add(&out->a);
	until(&out->b, 1);
	until(&out->a, 8);
	MUST(dsm_rwlock_unlock(l));
}

static void wants_it(dsm_rwlock_t *l)
{
	uint64_t start;

	until(&out->a, 1); /* held by a reader */
	MUST(dsm_rwlock_tryrdlock(l));
	MUST(dsm_rwlock_unlock(l));
	MUST(dsm_rwlock_timedrdlock(l, 0));
	MUST(dsm_rwlock_unlock(l));
	EXPECT(dsm_rwlock_trywrlock(l), -EBUSY);
	start = test_ns();
	EXPECT(dsm_rwlock_timedwrlock(l, LIMIT), -ETIMEDOUT);
	REQUIRE(test_ns() - start >= LIMIT, "timed out early");
	EXPECT(dsm_rwlock_unlock(l), -EPERM);
	MUST(dsm_rwlock_tryrdlock(l)); /* no writer is in line any more */
	MUST(dsm_rwlock_unlock(l));
	add(&out->a);
	until(&out->a, 3); /* held by a writer */
	EXPECT(dsm_rwlock_tryrdlock(l), -EBUSY);
	EXPECT(dsm_rwlock_trywrlock(l), -EBUSY);
	EXPECT(dsm_rwlock_timedrdlock(l, LIMIT), -ETIMEDOUT);
	EXPECT(dsm_rwlock_timedwrlock(l, 0), -ETIMEDOUT);
	add(&out->a);
	until(&out->a, 5); /* free */
	MUST(dsm_rwlock_timedwrlock(l, 0));
	MUST(dsm_rwlock_unlock(l));
	add(&out->a);
	until(&out->a, 7); /* held by a reader; another waits until the writer in line gives up */
	EXPECT(dsm_rwlock_timedwrlock(l, 40 * LIMIT), -ETIMEDOUT);
	add(&out->a);
}

static void comes_later(dsm_rwlock_t *l)
{
	until(&out->a, 7);
	test_nap(20 * LIMIT);
	MUST(dsm_rwlock_rdlock(l));
	MUST(dsm_rwlock_unlock(l));
	add(&out->b);
}

/* Three roles, for any number of ranks. */
static void play(unsigned thread, void *arg)
{
	static void (*const roles[])(dsm_rwlock_t *) = { has_it, wants_it, comes_later };
	unsigned role = (unsigned)test_rank + thread * (unsigned)test_size;

	roles[role](arg);
}

static void part_limits(void)
{
	const int roles = test_rank < 3 ? (2 - test_rank) / test_size + 1 : 0;
	dsm_rwlock_t none = { 0 }, l;

	clear();
	EXPECT(dsm_rwlock_tryrdlock(&none), -EINVAL);
	EXPECT(dsm_rwlock_trywrlock(&none), -EINVAL);
	EXPECT(dsm_rwlock_timedrdlock(&none, 1), -EINVAL);
	EXPECT(dsm_rwlock_timedwrlock(&none, 1), -EINVAL);
	l = new_rwlock();
	test_sync();
	if (roles)
		test_threads((unsigned)roles, play, &l);
	test_sync();
	if (!test_rank)
		MUST(dsm_rwlock_destroy(&l));
	test_sync();
}

static int take_somehow(struct rng *rng, dsm_rwlock_t *l, bool write)
{
	const uint64_t ns = rng_below(rng, 60000);

	switch (rng_below(rng, 3)) {
	case 0: return write ? dsm_rwlock_trywrlock(l) : dsm_rwlock_tryrdlock(l);
	case 1: return write ? dsm_rwlock_wrlock(l) : dsm_rwlock_rdlock(l);
	default: return write ? dsm_rwlock_timedwrlock(l, ns) : dsm_rwlock_timedrdlock(l, ns);
	}
}

/* Limits expire while the lock is on its way: each thread either gets it or leaves the line. */
static void cross(unsigned thread, void *arg)
{
	struct rng rng = rng_of((uint64_t)test_rank * 64 + thread);
	dsm_rwlock_t l = *(const dsm_rwlock_t *)arg;
	int i;

	for (i = 0; i < 60; i++) {
		bool write = rng_below(&rng, 2);
		int err = take_somehow(&rng, &l, write);
		uint64_t seen;

		REQUIRE(!err || err == -EBUSY || err == -ETIMEDOUT, "a lock with a limit: %d", err);
		if (err)
			continue;
		seen = load(&out->n);
		if (write)
			store(&out->n, seen + 1);
		test_delay(rng_below(&rng, 2000));
		REQUIRE(load(&out->n) == seen + write, "a writer came in");
		MUST(dsm_rwlock_unlock(&l));
	}
}

static void part_limits_crossed(void)
{
	dsm_rwlock_t l;

	clear();
	l = new_rwlock();
	test_sync();
	test_threads(2, cross, &l);
	test_sync();
	if (!test_rank) {
		MUST(dsm_rwlock_trywrlock(&l)); /* no thread has it or is in line */
		MUST(dsm_rwlock_unlock(&l));
		MUST(dsm_rwlock_destroy(&l));
	}
	test_sync();
}

static const struct test_part parts[] = {
	{ "kept", part_kept },
	{ "kept by turns", part_kept_by_turns },
	{ "asked", part_asked },
	{ "local", part_local },
	{ "overtaken", part_overtaken },
	{ "child", part_child },
	{ "mutex limits", part_mutex_limits },
	{ "mutex limits crossed", part_mutex_limits_crossed },
	{ "tried", part_tried },
	{ "limits", part_limits },
	{ "limits crossed", part_limits_crossed },
};

int main(int argc, char **argv)
{
	test_start(
		argc, argv,
		"Locks that stay where they were used, and objects that are used where they live.",
		NULL, 0);
	last = test_size - 1;
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	out = test_outside(sizeof(*out));
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
