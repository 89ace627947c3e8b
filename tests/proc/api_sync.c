// SPDX-License-Identifier: BSD-2-Clause
/*
 * api_sync.c - every synchronisation function of dsm.h (barriers: api_barrier.c; the cost of locks:
 * api_kept.c): what it does, and every error that it documents. Ranks and threads run the parts in
 * step. To check that something does not happen yet, the test waits for some time (--patience).
 */
#include "common.h"

#include <sys/syscall.h>
#include <unistd.h>

static uint64_t patience = 100; /* milliseconds; emulated processors may pause */

static struct board { /* shared through libdsm */
	dsm_mutex_t mutex;
	dsm_rwlock_t rwlock;
	dsm_cond_t cond;
	dsm_sem_t sem;
	dsm_atomic_t atomic;
	uint64_t plain, order[64], n;
} * board;
static struct out { /* shared outside libdsm */
	uint64_t a, b, c, n, order[64], go[3];
	int node[64]; /* per rank */
} * out;
static int last;

static void until(uint64_t *p, uint64_t v)
{
	uint64_t start = test_ns();

	while (see(p) < v) {
		REQUIRE(test_ns() - start < 20000000000u, "waited for %lu, there is %lu", v,
			see(p));
		test_nap(100000);
	}
}

static void clear(void)
{
	test_sync();
	if (!test_rank)
		memset(out, 0, sizeof(*out));
	test_sync();
	out->node[test_rank] = dsm_node();
}

/*
 * Steps of the protocol in this node. Counters of the node's own ranks are read in place: reading
 * them adds no step.
 */
static uint64_t steps_here(void)
{
	struct dsm_stats s;
	uint64_t sum = 0;
	int r;

	for (r = 0; r < test_size; r++)
		if (out->node[r] == dsm_node()) {
			MUST(dsm_stats_get(r, NULL, &s));
			sum += s.steps;
		}
	return sum;
}

/*
 * Wait until a request has reached an object of this node, that is, until a step. Nothing else may
 * use libdsm meanwhile. Pings between hosts are steps, too, so sleep afterwards.
 */
static void until_step(uint64_t before)
{
	const uint64_t start = test_ns();

	while (steps_here() == before) {
		REQUIRE(test_ns() - start < 20000000000u, "no request comes");
		test_nap(100000);
	}
}

/* Wait until that thread of this process sleeps. */
static void until_asleep(const uint64_t *tid)
{
	char path[64], text[512], state;
	const char *end;
	FILE *f;

	do {
		test_nap(1000000);
		if (!see(tid))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%lu/stat", see(tid));
		f = fopen(path, "re");
		REQUIRE(f && fgets(text, sizeof(text), f), "%s cannot be read", path);
		fclose(f);
		end = strrchr(text, ')');
		REQUIRE(end && sscanf(end, ") %c", &state) == 1, "what is %s", text);
	} while (!see(tid) || state != 'S');
}

/* ---- handles ------------------------------------------------------------------------------- */

/* A handle of the same kind at the last node, with an index that does not exist. */
static uint64_t of_no_place(uint64_t id)
{
	return (id & ~0xfffffffffull) | (uint64_t)(dsm_nodes() - 1) << 24;
}

struct handles {
	dsm_mutex_t m;
	dsm_rwlock_t l;
	dsm_cond_t c;
	dsm_sem_t s;
	dsm_atomic_t a;
	dsm_barrier_t b;
};

/* destroyed: a thread that does not hold such a lock gets an error before any message is sent. */
static void refuse(struct handles *h, dsm_mutex_t *held, bool destroyed)
{
	uint64_t v = 0;
	uint32_t value;

	EXPECT(dsm_mutex_lock(&h->m), -EINVAL);
	EXPECT(dsm_mutex_trylock(&h->m), -EINVAL);
	EXPECT(dsm_mutex_unlock(&h->m), destroyed ? -EPERM : -EINVAL);
	EXPECT(dsm_mutex_destroy(&h->m), -EINVAL);
	EXPECT(dsm_rwlock_rdlock(&h->l), -EINVAL);
	EXPECT(dsm_rwlock_wrlock(&h->l), -EINVAL);
	EXPECT(dsm_rwlock_unlock(&h->l), destroyed ? -EPERM : -EINVAL);
	EXPECT(dsm_rwlock_destroy(&h->l), -EINVAL);
	EXPECT(dsm_cond_wait(&h->c, held), -EINVAL);
	EXPECT(dsm_cond_timedwait(&h->c, held, 1), -EINVAL);
	EXPECT(dsm_cond_signal(&h->c), -EINVAL);
	EXPECT(dsm_cond_broadcast(&h->c), -EINVAL);
	EXPECT(dsm_cond_destroy(&h->c), -EINVAL);
	EXPECT(dsm_sem_wait(&h->s), -EINVAL);
	EXPECT(dsm_sem_trywait(&h->s), -EINVAL);
	EXPECT(dsm_sem_timedwait(&h->s, 1), -EINVAL);
	EXPECT(dsm_sem_post(&h->s, 1), -EINVAL);
	EXPECT(dsm_sem_getvalue(&h->s, &value), -EINVAL);
	EXPECT(dsm_sem_destroy(&h->s), -EINVAL);
	EXPECT(dsm_atomic_load(&h->a, &v), -EINVAL);
	EXPECT(dsm_atomic_store(&h->a, 1), -EINVAL);
	EXPECT(dsm_atomic_fetch_add(&h->a, 1, &v), -EINVAL);
	EXPECT(dsm_atomic_exchange(&h->a, 1, &v), -EINVAL);
	EXPECT(dsm_atomic_compare_exchange(&h->a, &v, 1), -EINVAL);
	EXPECT(dsm_atomic_destroy(&h->a), -EINVAL);
	EXPECT(dsm_barrier_wait(&h->b), -EINVAL);
	EXPECT(dsm_barrier_destroy(&h->b), -EINVAL);
	REQUIRE(!v, "an output was stored");
}

/* Objects that are destroyed by way of copies of their handles. */
static void make_destroyed(struct handles *h)
{
	MUST(dsm_mutex_init(&h->m));
	MUST(dsm_rwlock_init(&h->l));
	MUST(dsm_cond_init(&h->c));
	MUST(dsm_sem_init(&h->s, 1));
	MUST(dsm_atomic_init(&h->a, 1, last));
	MUST(dsm_barrier_init(&h->b, NULL, 0, 1));
	MUST(dsm_mutex_destroy(&(dsm_mutex_t){ h->m.id }));
	MUST(dsm_rwlock_destroy(&(dsm_rwlock_t){ h->l.id }));
	MUST(dsm_cond_destroy(&(dsm_cond_t){ h->c.id }));
	MUST(dsm_sem_destroy(&(dsm_sem_t){ h->s.id }));
	MUST(dsm_atomic_destroy(&(dsm_atomic_t){ h->a.id }));
	MUST(dsm_barrier_destroy(&(dsm_barrier_t){ h->b.id, h->b.ranks, h->b.threads }));
}

static void part_bad_handles(void)
{
	struct handles h = { .m = { 0 } };
	dsm_mutex_t held;

	MUST(dsm_mutex_init(&held));
	MUST(dsm_mutex_lock(&held));
	refuse(&h, &held, false);
	/* invalid handles */
	h.m.id = h.l.id = h.c.id = h.s.id = h.a.id = h.b.id = 0x123456789abcdefu;
	refuse(&h, &held, false);
	/* handles of another kind */
	MUST(dsm_mutex_init(&h.m));
	MUST(dsm_sem_init(&h.s, 1));
	h.l.id = h.c.id = h.a.id = h.b.id = h.m.id;
	h.m.id = h.s.id;
	h.s.id = h.l.id;
	refuse(&h, &held, false);
	make_destroyed(&h);
	refuse(&h, &held, true);
	h.m.id = of_no_place(h.m.id);
	h.l.id = of_no_place(h.l.id);
	h.c.id = of_no_place(h.c.id);
	h.s.id = of_no_place(h.s.id);
	h.a.id = of_no_place(h.a.id);
	refuse(&h, &held, false);
	MUST(dsm_mutex_unlock(&held));
	MUST(dsm_mutex_destroy(&held));
}

#define OBJECTS 100000 /* objects of one rank */

static void part_many_objects(void)
{
	static dsm_mutex_t m[OBJECTS];
	int i;

	for (i = 0; i < OBJECTS; i++)
		MUST(dsm_mutex_init(&m[i]));
	for (i = 0; i < OBJECTS; i += 7) {
		MUST(dsm_mutex_lock(&m[i]));
		MUST(dsm_mutex_trylock(&m[(i + 1) % OBJECTS]));
		MUST(dsm_mutex_unlock(&m[(i + 1) % OBJECTS]));
		MUST(dsm_mutex_unlock(&m[i]));
	}
	for (i = 0; i < OBJECTS; i++)
		MUST(dsm_mutex_destroy(&m[i]));
	MUST(dsm_mutex_init(&m[0]));
	MUST(dsm_mutex_lock(&m[0]));
	MUST(dsm_mutex_unlock(&m[0]));
	MUST(dsm_mutex_destroy(&m[0]));
}

/* More often than 16 bits can count: the index is always the same, the name never. */
static void part_old_handles(void)
{
	dsm_atomic_t first, a;
	uint64_t v = 0;
	int i;

	MUST(dsm_atomic_init(&first, 1, test_rank));
	a = first;
	for (i = 0; i < 70000; i++) {
		MUST(dsm_atomic_destroy(&a));
		MUST(dsm_atomic_init(&a, 2, test_rank));
		REQUIRE(a.id != first.id, "the first handle is back after %d others", i);
	}
	EXPECT(dsm_atomic_load(&first, &v), -EINVAL);
	EXPECT(dsm_atomic_destroy(&(dsm_atomic_t){ first.id }), -EINVAL);
	MUST(dsm_atomic_load(&a, &v));
	REQUIRE(v == 2, "the last object holds %lu", v);
	MUST(dsm_atomic_destroy(&a));
}

/* ---- locks ----------------------------------------------------------------------------------- */

static void other_thread_unlocks(unsigned thread, void *arg)
{
	(void)arg;
	if (thread) {
		EXPECT(dsm_mutex_unlock(&board->mutex), -EPERM);
		EXPECT(dsm_mutex_trylock(&board->mutex), -EBUSY);
	}
}

static void part_mutex(void)
{
	uint64_t i;

	if (!test_rank)
		MUST(dsm_mutex_init(&board->mutex));
	test_sync();
	EXPECT(dsm_mutex_unlock(&board->mutex), -EPERM);
	if (test_rank == last) {
		MUST(dsm_mutex_lock(&board->mutex));
		EXPECT(dsm_mutex_lock(&board->mutex), -EDEADLK);
		EXPECT(dsm_mutex_trylock(&board->mutex), -EBUSY);
		EXPECT(dsm_mutex_destroy(&(dsm_mutex_t){ board->mutex.id }), -EBUSY);
		test_threads(2, other_thread_unlocks, NULL);
	}
	test_sync();
	if (test_rank != last) {
		EXPECT(dsm_mutex_trylock(&board->mutex), -EBUSY);
		EXPECT(dsm_mutex_unlock(&board->mutex), -EPERM);
	}
	test_sync();
	if (test_rank == last)
		MUST(dsm_mutex_unlock(&board->mutex));
	for (i = 0; i < 300; i++) {
		MUST(dsm_mutex_lock(&board->mutex));
		board->plain++;
		MUST(dsm_mutex_unlock(&board->mutex));
	}
	test_sync();
	REQUIRE(board->plain == 300 * (uint64_t)test_size, "%lu under a mutex", board->plain);
	MUST(dsm_mutex_trylock(&board->mutex) == -EBUSY ? 0 : dsm_mutex_unlock(&board->mutex));
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&board->mutex));
	test_sync();
}

/*
 * Ranks that queue one after the other get the lock in that order, except that ranks of the
 * holder's node get it first.
 */
static void lock_order(uint64_t *order)
{
	bool seen[64] = { false };
	int first, r, n = 0;

	for (first = 0; first < test_size; first++)
		for (r = first; r < test_size; r++)
			if (!seen[r] && out->node[r] == out->node[first]) {
				seen[r] = true;
				if (r) /* rank 0 had it when the others queued */
					order[n++] = (uint64_t)r;
			}
}

/* Is this the lowest rank of its node, which is the first one to queue? */
static bool first_of_its_node(int rank)
{
	int r = 0;

	while (out->node[r] != out->node[rank])
		r++;
	return r == rank;
}

struct waiter {
	dsm_mutex_t m;
	uint64_t tid;
};

/* Thread 1 reports when thread 0 waits. */
static void wait_in_line(unsigned thread, void *arg)
{
	struct waiter *w = arg;

	if (thread) {
		until_asleep(&w->tid);
		add(&out->c);
		return;
	}
	until(&out->b, (uint64_t)test_rank);
	__atomic_store_n(&w->tid, (uint64_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	MUST(dsm_mutex_lock(&w->m));
	out->order[add(&out->n)] = (uint64_t)test_rank;
	MUST(dsm_mutex_unlock(&w->m));
}

static void part_mutex_order(void)
{
	uint64_t order[64], before;
	struct waiter w = { 0 };
	int r;

	clear();
	if (!test_rank) {
		MUST(dsm_mutex_init(&board->mutex));
		MUST(dsm_mutex_lock(&board->mutex));
	}
	test_sync();
	w.m = board->mutex;
	test_sync();
	if (test_rank) {
		test_threads(2, wait_in_line, &w);
	} else {
		for (r = 1; r < test_size; r++) {
			before = steps_here();
			add(&out->b);
			until(&out->c, (uint64_t)r);
			/* Later ranks of a node wait in it, and send nothing. */
			if (first_of_its_node(r))
				until_step(before);
			test_nap(patience * 1000000);
		}
		REQUIRE(!see(&out->n), "a held mutex was given");
		MUST(dsm_mutex_unlock(&w.m));
	}
	test_sync();
	lock_order(order);
	for (r = 1; r < test_size; r++)
		REQUIRE(out->order[r - 1] == order[r - 1],
			"rank %lu came as number %d, before rank %lu", out->order[r - 1], r,
			order[r - 1]);
}

/* Thread 3 runs only on rank 0. */
static void reader_then_writer_then_reader(unsigned thread, void *arg)
{
	dsm_rwlock_t *l = arg;
	uint64_t before;
	int i;

	switch (thread) {
	case 0:
		MUST(dsm_rwlock_rdlock(l));
		EXPECT(dsm_rwlock_wrlock(l), -EDEADLK);
		add(&out->a);
		until(&out->go[2], 1);
		REQUIRE(!see(&out->n),
			"a lock held by a reader was given to a writer, or to a reader behind a writer");
		MUST(dsm_rwlock_unlock(l));
		break;
	case 1:
		until(&out->go[0], 1);
		MUST(dsm_rwlock_wrlock(l));
		test_nap(patience * 1000000);
		REQUIRE(add(&out->n) == 0, "the writer was not the next");
		MUST(dsm_rwlock_unlock(l));
		break;
	case 2:
		until(&out->go[1], 1);
		MUST(dsm_rwlock_rdlock(l));
		REQUIRE(add(&out->n) == 1, "the later reader came before the writer");
		MUST(dsm_rwlock_unlock(l));
		break;
	default:
		until(&out->a, 1);
		for (i = 0; i < 2; i++) {
			before = steps_here();
			add(&out->go[i]);
			until_step(before);
			test_nap(patience * 1000000);
		}
		add(&out->go[2]);
	}
}

static void part_rwlock(void)
{
	dsm_rwlock_t l;

	clear();
	if (!test_rank)
		MUST(dsm_rwlock_init(&board->rwlock));
	test_sync();
	EXPECT(dsm_rwlock_unlock(&board->rwlock), -EPERM);
	test_sync();
	/* All threads read at once. */
	MUST(dsm_rwlock_rdlock(&board->rwlock));
	add(&out->c);
	until(&out->c, (uint64_t)test_size);
	EXPECT(dsm_rwlock_destroy(&(dsm_rwlock_t){ board->rwlock.id }), -EBUSY);
	test_sync();
	MUST(dsm_rwlock_unlock(&board->rwlock));
	EXPECT(dsm_rwlock_unlock(&board->rwlock), -EPERM);
	MUST(dsm_rwlock_wrlock(&board->rwlock));
	board->plain++;
	MUST(dsm_rwlock_unlock(&board->rwlock));
	l = board->rwlock;
	test_sync();
	if (test_rank == last)
		test_threads(last ? 3 : 4, reader_then_writer_then_reader, &l);
	else if (!test_rank)
		reader_then_writer_then_reader(3, &l);
	until(&out->go[2], 1);
	test_sync();
	if (!test_rank)
		MUST(dsm_rwlock_destroy(&board->rwlock));
	test_sync();
}

#define READS 1000
#define TURNS 300

/* Once each node has a lease, reading costs no message. */
static void read_alone(dsm_rwlock_t *l)
{
	uint64_t before = 0;
	int i;

	for (i = 0; i < READS; i++) {
		if (i == READS / 10) {
			/* a node has its lease when the rank that has asked has its answer */
			test_sync();
			before = test_stats(NULL).messages_out;
		}
		MUST(dsm_rwlock_rdlock(l));
		MUST(dsm_rwlock_unlock(l));
	}
	if (dsm_nodes() > 1)
		EXPECT(dsm_rwlock_leased(l) > 0, !test_in_kernel());
	before = test_stats(NULL).messages_out - before;
	/* other ranks of the node may have this one send something for them */
	REQUIRE(test_in_kernel() || before < READS / 10, "%lu messages for %d reads", before,
		READS - READS / 10);
}

/* Threads of all ranks read and write; a reader finds what the last writer has left. */
static void read_and_write(unsigned thread, void *arg)
{
	struct rng rng = rng_of((uint64_t)test_rank * 8 + thread);
	uint64_t seen = 0, found;
	dsm_rwlock_t *l = arg;
	int i, how, err, lease;

	for (i = 0; i < TURNS; i++) {
		/* without locking it */
		lease = dsm_rwlock_leased(l);
		if (lease > 0) {
			found = __atomic_load_n(&board->order[0], __ATOMIC_ACQUIRE);
			if (dsm_rwlock_leased(l) == lease) {
				REQUIRE(found >= seen && found < UINT64_MAX / 2, "%lu after %lu",
					found, seen);
				seen = found;
			}
		}
		how = (int)rng_below(&rng, 16);
		err = how == 0     ? dsm_rwlock_wrlock(l)
			: how == 1 ? dsm_rwlock_trywrlock(l)
			: how == 2 ? dsm_rwlock_tryrdlock(l)
			: how == 3 ? dsm_rwlock_timedrdlock(l, 1000000000u)
			: how == 4 ? dsm_rwlock_timedwrlock(l, 1000000000u)
				   : dsm_rwlock_rdlock(l);
		if ((how == 1 || how == 2) && err == -EBUSY)
			continue;
		MUST(err);
		REQUIRE(board->order[0] == board->order[63], "a reader finds half a write");
		if (how < 2 || how == 4) {
			found = board->order[63]++;
			__atomic_store_n(&board->order[0], UINT64_MAX, __ATOMIC_RELAXED);
			__atomic_store_n(&board->order[0], found + 1, __ATOMIC_RELAXED);
			add(&out->n);
		}
		MUST(dsm_rwlock_unlock(l));
	}
}

/*
 * With leases out and nobody inside, a lock is free: whoever tries gets it, and so does who has no
 * time. Beside ranks that read all the time, both end soon.
 */
static void try_beside_leases(dsm_rwlock_t *l)
{
	int i, err, lease = 0;
	uint64_t start;

	for (i = 0; i < 2; i++) {
		test_sync();
		read_alone(l);
		/* the last one was revoked */
		REQUIRE(!lease || dsm_rwlock_leased(l) != lease, "both leases are %d", lease);
		lease = dsm_rwlock_leased(l);
		test_sync();
		if (test_rank) /* at the home, the limit has passed before any lease is returned */
			continue;
		MUST(i ? dsm_rwlock_trywrlock(l) : dsm_rwlock_timedwrlock(l, 0));
		MUST(dsm_rwlock_unlock(l));
	}
	test_sync();
	if (!test_rank) {
		for (i = 0; i < 20; i++) {
			start = test_ns();
			err = i % 2 ? dsm_rwlock_trywrlock(l) : dsm_rwlock_timedwrlock(l, 1000000);
			if (err)
				EXPECT(err, i % 2 ? -EBUSY : -ETIMEDOUT);
			else
				MUST(dsm_rwlock_unlock(l));
			REQUIRE(test_ns() - start < 5000000000u, "turn %d takes %lu ns", i,
				test_ns() - start);
			test_nap(2000000);
		}
		add(&out->go[0]);
	}
	while (!see(&out->go[0])) {
		MUST(dsm_rwlock_rdlock(l));
		MUST(dsm_rwlock_unlock(l));
	}
}

static void part_leases(void)
{
	dsm_rwlock_t l;

	clear();
	if (!test_rank) {
		MUST(dsm_rwlock_init(&board->rwlock));
		board->order[0] = board->order[63] = 0;
	}
	test_sync();
	l = board->rwlock;
	test_sync();
	read_alone(&l);
	test_sync();
	test_threads(3, read_and_write, &l);
	test_sync();
	MUST(dsm_rwlock_wrlock(&l));
	REQUIRE(board->order[0] == out->n, "%lu writes of %lu", board->order[0], out->n);
	MUST(dsm_rwlock_unlock(&l));
	try_beside_leases(&l);
	test_sync();
	read_alone(&l);
	test_sync();
	if (test_rank == last) /* nodes have leases, and nobody holds it */
		MUST(dsm_rwlock_destroy(&board->rwlock));
	test_sync();
	EXPECT(dsm_rwlock_rdlock(&l), -EINVAL);
	EXPECT(dsm_rwlock_leased(&l), 0);
	EXPECT(dsm_rwlock_leased(&(dsm_rwlock_t){ 0 }), -EINVAL);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static void part_cond(void)
{
	uint64_t start, round;
	int err, found;

	clear();
	if (!test_rank) {
		MUST(dsm_mutex_init(&board->mutex));
		MUST(dsm_cond_init(&board->cond));
		MUST(dsm_cond_signal(&board->cond)); /* no thread waits: no effect */
		MUST(dsm_cond_broadcast(&board->cond));
		MUST(dsm_cond_wake(&board->cond, 0, &found));
		REQUIRE(!found, "a thread was waiting");
		MUST(dsm_cond_wake(&board->cond, 1, &found));
		REQUIRE(!found, "a thread was waiting");
	}
	test_sync();
	EXPECT(dsm_cond_wait(&board->cond, &board->mutex), -EPERM);
	EXPECT(dsm_cond_timedwait(&board->cond, &board->mutex, 1), -EPERM);
	MUST(dsm_mutex_lock(&board->mutex));
	start = test_ns();
	EXPECT(dsm_cond_timedwait(&board->cond, &board->mutex, 5000000), -ETIMEDOUT);
	REQUIRE(test_ns() - start >= 5000000, "timed out early");
	MUST(dsm_mutex_unlock(&board->mutex)); /* dsm_cond_wait() has locked it again */
	test_sync();
	for (round = 0; round < 3 && test_size > 1; round++) {
		clear();
		if (test_rank) {
			MUST(dsm_mutex_lock(&board->mutex));
			/* holds the mutex, so that the signal finds this thread waiting */
			add(&out->a);
			err = round == 1
				? dsm_cond_timedwait(&board->cond, &board->mutex, 20000000000u)
				: dsm_cond_wait(&board->cond, &board->mutex);
			MUST(err);
			add(&out->b);
			EXPECT(dsm_mutex_lock(&board->mutex), -EDEADLK);
			MUST(dsm_mutex_unlock(&board->mutex));
		} else {
			uint64_t n = (uint64_t)last, i;

			until(&out->a, n);
			MUST(dsm_mutex_lock(&board->mutex));
			EXPECT(dsm_cond_destroy(&(dsm_cond_t){ board->cond.id }), -EBUSY);
			for (i = 0; i < n && round < 2; i++) {
				MUST(dsm_cond_wake(&board->cond, 0, &found));
				REQUIRE(found, "no thread was waiting");
				MUST(dsm_mutex_unlock(&board->mutex));
				until(&out->b, i + 1);
				test_nap(patience * 1000000 / 3);
				REQUIRE(see(&out->b) == i + 1, "one signal woke more than one");
				MUST(dsm_mutex_lock(&board->mutex));
			}
			if (round == 2)
				MUST(dsm_cond_broadcast(&board->cond));
			MUST(dsm_mutex_unlock(&board->mutex));
			until(&out->b, n);
		}
	}
	test_sync();
	if (!test_rank) {
		MUST(dsm_cond_destroy(&board->cond));
		MUST(dsm_mutex_destroy(&board->mutex));
	}
	test_sync();
}

/*
 * Signals and time limits race: no thread is woken twice, and no signal is lost to a waiter that
 * had left.
 */
static void part_races(void)
{
	struct rng rng = rng_of((uint64_t)test_rank + 7);
	uint64_t i, got = 0, posts = 400;

	clear();
	if (!test_rank) {
		MUST(dsm_mutex_init(&board->mutex));
		MUST(dsm_cond_init(&board->cond));
		MUST(dsm_sem_init(&board->sem, 0));
		board->plain = 0;
	}
	test_sync();
	if (!test_rank)
		for (i = 0; i < posts; i++) {
			test_delay(rng_below(&rng, 3000));
			MUST(dsm_sem_post(&board->sem, 1));
			MUST(dsm_mutex_lock(&board->mutex));
			board->plain++;
			MUST(dsm_cond_signal(&board->cond));
			MUST(dsm_mutex_unlock(&board->mutex));
		}
	else
		while (see(&out->a) < posts) {
			int err = dsm_sem_timedwait(&board->sem, rng_below(&rng, 60000));

			REQUIRE(!err || err == -ETIMEDOUT, "dsm_sem_timedwait: %d", err);
			if (!err) {
				add(&out->a);
				got++;
			}
			MUST(dsm_mutex_lock(&board->mutex));
			err = dsm_cond_timedwait(&board->cond, &board->mutex,
						 rng_below(&rng, 60000));
			REQUIRE(!err || err == -ETIMEDOUT, "dsm_cond_timedwait: %d", err);
			MUST(dsm_mutex_unlock(&board->mutex));
		}
	MUST(dsm_reduce(&got, DSM_UINT64, DSM_SUM));
	REQUIRE(test_size == 1 || got == posts, "%lu posts, %lu waits", posts, got);
	if (test_rank == last)
		EXPECT(dsm_sem_trywait(&board->sem), test_size == 1 ? 0 : -EAGAIN);
	test_sync();
	if (!test_rank) {
		MUST(dsm_cond_destroy(&board->cond));
		MUST(dsm_sem_destroy(&board->sem));
		MUST(dsm_mutex_destroy(&board->mutex));
	}
}

/* ---- semaphores and atomics ------------------------------------------------------------------ */

static void part_sem(void)
{
	uint64_t start;
	uint32_t value;
	dsm_sem_t s;

	clear();
	EXPECT(dsm_sem_init(&s, 0x80000000u), -EINVAL);
	MUST(dsm_sem_init(&s, 0x7fffffff));
	EXPECT(dsm_sem_post(&s, 1), -EOVERFLOW);
	MUST(dsm_sem_wait(&s));
	EXPECT(dsm_sem_post(&s, 2), -EOVERFLOW);
	MUST(dsm_sem_getvalue(&s, &value));
	REQUIRE(value == 0x7ffffffe, "the value is %u", value);
	MUST(dsm_sem_post(&s, 1));
	MUST(dsm_sem_destroy(&s));
	if (!test_rank)
		MUST(dsm_sem_init(&board->sem, 2));
	test_sync();
	if (test_rank == last) {
		MUST(dsm_sem_wait(&board->sem));
		MUST(dsm_sem_trywait(&board->sem));
		EXPECT(dsm_sem_trywait(&board->sem), -EAGAIN);
		start = test_ns();
		EXPECT(dsm_sem_timedwait(&board->sem, 5000000), -ETIMEDOUT);
		REQUIRE(test_ns() - start >= 5000000, "timed out early");
		MUST(dsm_sem_post(&board->sem, 1));
		MUST(dsm_sem_timedwait(&board->sem, 5000000));
	}
	test_sync();
	if (test_rank) {
		MUST(dsm_sem_wait(&board->sem));
		add(&out->a);
	} else {
		test_nap(patience * 1000000);
		REQUIRE(!see(&out->a), "a semaphore of value 0 let somebody pass");
		if (last)
			EXPECT(dsm_sem_destroy(&(dsm_sem_t){ board->sem.id }), -EBUSY);
		MUST(dsm_sem_post(&board->sem, (uint32_t)last));
		until(&out->a, (uint64_t)last);
	}
	test_sync();
	EXPECT(dsm_sem_trywait(&board->sem), -EAGAIN);
	test_sync();
	if (!test_rank)
		MUST(dsm_sem_destroy(&board->sem));
}

static void part_atomic(void)
{
	uint64_t v = 5, i;
	dsm_atomic_t a;

	EXPECT(dsm_atomic_init(&a, 0, test_size), -EINVAL);
	EXPECT(dsm_atomic_init(&a, 0, -2), -EINVAL);
	MUST(dsm_atomic_init(&a, 40, -1));
	MUST(dsm_atomic_load(&a, &v));
	REQUIRE(v == 40, "load: %lu", v);
	MUST(dsm_atomic_fetch_add(&a, 2, &v));
	REQUIRE(v == 40, "fetch_add: %lu", v);
	MUST(dsm_atomic_fetch_add(&a, ~0ul, NULL));
	MUST(dsm_atomic_exchange(&a, 7, &v));
	REQUIRE(v == 41, "exchange: %lu", v);
	MUST(dsm_atomic_exchange(&a, ~0ul, NULL));
	v = 3;
	EXPECT(dsm_atomic_compare_exchange(&a, &v, 9), -EAGAIN);
	REQUIRE(v == ~0ul, "expected holds %lu", v);
	MUST(dsm_atomic_compare_exchange(&a, &v, 1ul << 63 | 9));
	REQUIRE(v == ~0ul, "expected changed");
	MUST(dsm_atomic_load(&a, &v));
	REQUIRE(v == (1ul << 63 | 9), "all bits: %#lx", v);
	MUST(dsm_atomic_store(&a, 1));
	MUST(dsm_atomic_load(&a, NULL));
	MUST(dsm_atomic_destroy(&a));
	EXPECT(dsm_atomic_destroy(&a), -EINVAL);
	if (!test_rank)
		MUST(dsm_atomic_init(&board->atomic, 0, last));
	test_sync();
	for (i = 0; i < 500; i++)
		MUST(dsm_atomic_fetch_add(&board->atomic, 3, &v));
	test_sync();
	MUST(dsm_atomic_load(&board->atomic, &v));
	REQUIRE(v == 1500 * (uint64_t)test_size, "sum: %lu", v);
	test_sync();
	if (!test_rank)
		MUST(dsm_atomic_destroy(&board->atomic));
}

static const struct test_part parts[] = {
	{ "bad handles", part_bad_handles },
	{ "many objects", part_many_objects },
	{ "old handles", part_old_handles },
	{ "mutex", part_mutex },
	{ "mutex order", part_mutex_order },
	{ "rwlock", part_rwlock },
	{ "leases", part_leases },
	{ "cond", part_cond },
	{ "races", part_races },
	{ "sem", part_sem },
	{ "atomic", part_atomic },
};

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "patience", "MS", "what must not happen yet has so long to happen", &patience }
	};

	test_start(argc, argv, "Locks, conditions, semaphores, atomics, and every error.", options,
		   1);
	last = test_size - 1;
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	out = test_outside(sizeof(*out));
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
