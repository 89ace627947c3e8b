// SPDX-License-Identifier: BSD-2-Clause
/*
 * spawn.c - threads on other ranks and nodes: where they run, what they return, shared stacks. Run
 * without address randomisation.
 */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct job {
	uint64_t *slot;
	uint64_t add;
};

/* The argument is a local variable of the creating thread. */
static void *worker(void *arg)
{
	const struct job *j = arg;
	uint64_t local[700]; /* more than a page: a shared stack must work like any memory */
	size_t i;

	for (i = 0; i < 700; i++)
		local[i] = j->add;
	for (i = 0; i < 700; i++)
		__atomic_fetch_add(j->slot, local[i], __ATOMIC_SEQ_CST);
	return (void *)(uintptr_t)(dsm_thread_rank(dsm_self()) + 1);
}

static void *leaves(void *arg)
{
	dsm_thread_exit((char *)arg + 1);
}

static void *nested_args;
static int nested_err;

static void spawn_nested(void *arg)
{
	const struct dsm_thread_options opt = { .shared_stack = 1 };
	dsm_thread_t t;
	void *got;
	int r;

	for (r = 0; r < test_size; r++) {
		nested_err = dsm_spawn(&t, r, &opt, worker, arg);
		if (nested_err)
			return;
		nested_err = dsm_join(t, &got);
		if (nested_err || (uintptr_t)got != (uintptr_t)r + 1)
			return;
	}
}

/* On a shared stack: threads of all ranks read this thread's local variables. */
static void *parent(void *arg)
{
	struct job mine = { .slot = arg, .add = 3 };

	nested_args = &mine;
	dsm_call(spawn_nested, nested_args);
	return &nested_args;
}

static void results(void)
{
	dsm_thread_t t[8];
	uint64_t *slot = NULL;
	struct job *j = NULL;
	void *got;
	int i;

	if (test_rank == 0) {
		slot = dsm_calloc(2, sizeof(*slot));
		j = dsm_malloc(sizeof(*j));
		*j = (struct job){ .slot = slot, .add = 2 };
		for (i = 0; i < 8; i++)
			MUST(dsm_spawn(&t[i], i % test_size, NULL, worker, j));
		for (i = 0; i < 8; i++) {
			MUST(dsm_join(t[i], &got));
			REQUIRE((uintptr_t)got == (uintptr_t)(i % test_size) + 1,
				"thread %d ran on rank %d", i, (int)(uintptr_t)got - 1);
		}
		REQUIRE(see(slot) == 8 * 1400, "the threads have added %lu", see(slot));
		MUST(dsm_spawn(&t[0], test_size - 1, NULL, leaves, slot));
		MUST(dsm_join(t[0], &got));
		REQUIRE(got == (char *)slot + 1, "dsm_thread_exit() returns %p", got);
		MUST(dsm_run(&(struct dsm_thread_options){ .shared_stack = 1 }, parent, slot,
			     &got));
		MUST(nested_err);
		REQUIRE(got == &nested_args && see(slot) == 8 * 1400 + (uint64_t)test_size * 2100,
			"a shared stack: %lu", see(slot));
		MUST(dsm_free(j));
		MUST(dsm_free(slot));
	}
	test_sync();
}

/* Shared memory that a cancelled thread uses. */
struct cancelled {
	dsm_sem_t never;
	uint64_t ready, cleaned;
};

static void cleans(void *arg)
{
	struct cancelled *c = arg;

	__atomic_fetch_add(&c->cleaned, 1, __ATOMIC_SEQ_CST);
}

static void wait_there(void *arg)
{
	dsm_sem_t never = ((struct cancelled *)arg)->never;

	dsm_sem_wait(&never);
}

static void *waits(void *arg)
{
	struct cancelled *c = arg;

	pthread_cleanup_push(cleans, c);
	__atomic_store_n(&c->ready, 1, __ATOMIC_SEQ_CST);
	dsm_call(wait_there, c);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *sleeps(void *arg)
{
	struct cancelled *c = arg;

	pthread_cleanup_push(cleans, c);
	__atomic_store_n(&c->ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return NULL;
}

static void *exits(void *arg)
{
	pthread_cleanup_push(cleans, arg);
	pthread_exit(arg);
	pthread_cleanup_pop(0);
}

static void *exits_with(void *arg)
{
	pthread_cleanup_push(cleans, arg);
	dsm_thread_exit(arg);
	pthread_cleanup_pop(0);
}

static void cancels(void)
{
	void *(*const fns[])(void *) = { waits, sleeps, exits, exits_with };
	struct cancelled *c = NULL;
	int i, r, shared;

	if (test_rank == 0) {
		c = dsm_calloc(1, sizeof(*c));
		MUST(dsm_sem_init(&c->never, 0));
	}
	for (i = 0; c && i < 4; i++)
		for (r = 0; r < test_size; r++)
			for (shared = 0; shared < 2; shared++) {
				const struct dsm_thread_options opt = { .shared_stack = shared };
				dsm_thread_t t;
				void *got;

				c->ready = c->cleaned = 0;
				MUST(dsm_spawn(&t, r, &opt, fns[i], c));
				while (i < 2 && !see(&c->ready))
					test_nap(100000);
				if (i < 2)
					MUST(dsm_cancel(t));
				MUST(dsm_join(t, &got));
				REQUIRE(got == (i == 3 ? c : PTHREAD_CANCELED) &&
						see(&c->cleaned) == 1,
					"thread %d on rank %d: %p, cleaned %lu", i, r, got,
					see(&c->cleaned));
			}
	if (c)
		MUST(dsm_free(c));
	test_sync();
}

/*
 * Numbers that name no thread: private memory, no memory, the middle of an allocation, one that has
 * been joined.
 */
static void no_threads(void)
{
	char *memory = dsm_calloc(1, 4096);
	dsm_thread_t t[] = {
		{ (uintptr_t)&memory },    { 1 }, { UINT64_MAX }, { (uintptr_t)memory },
		{ (uintptr_t)memory + 8 }, { 0 }
	};
	struct dsm_thread_info info;
	size_t i;

	MUST(dsm_spawn(&t[5], -1, &(struct dsm_thread_options){ .shared_stack = 1 }, leaves, NULL));
	MUST(dsm_join(t[5], NULL));
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		EXPECT(dsm_join(t[i], NULL), -ESRCH);
		EXPECT(dsm_timedjoin(t[i], 0, NULL), -ESRCH);
		EXPECT(dsm_detach(t[i]), -ESRCH);
		EXPECT(dsm_cancel(t[i]), -ESRCH);
		EXPECT(dsm_thread_rank(t[i]), -ESRCH);
		EXPECT(dsm_thread_query(t[i], &info), -ESRCH);
		EXPECT(dsm_thread_rename(t[i], "x"), -ESRCH);
	}
	MUST(dsm_free(memory));
}

static void refuses(void)
{
	dsm_thread_t t = { 0 };

	EXPECT(dsm_spawn(&t, test_size, NULL, leaves, NULL), -EINVAL);
	EXPECT(dsm_spawn(&t, -2, NULL, leaves, NULL), -EINVAL);
	EXPECT(dsm_spawn(&t, 0, NULL, NULL, NULL), -EINVAL);
	EXPECT(dsm_join(t, NULL), -EINVAL);
	EXPECT(dsm_detach(t), -EINVAL);
	EXPECT(dsm_cancel(t), -EINVAL);
	EXPECT(dsm_thread_rank(dsm_self()), -EINVAL);
	no_threads();
	MUST(dsm_spawn(&t, -1, &(struct dsm_thread_options){ .detached = 1 }, leaves, NULL));
	test_nap(200000000); /* it cannot be joined, and the job must not end before it */
	test_sync();
}

#define GIVEN (96ul << 10)

/* Returns the address of a local variable, after using half of the stack. */
static void *deep(void *arg)
{
	volatile char some[GIVEN / 2];
	size_t i;

	for (i = 0; i < sizeof(some); i += 1024)
		some[i] = 1;
	*(uintptr_t *)arg = (uintptr_t)some;
	return arg;
}

/*
 * A thread with these options must have a stack of `size` bytes, at `at` if not NULL, above a guard
 * of `guard` bytes.
 */
static void on_stack(int rank, const struct dsm_thread_options *opt, uintptr_t *at, size_t size,
		     size_t guard)
{
	struct dsm_thread_info info;
	dsm_thread_t t;

	MUST(dsm_spawn(&t, rank, opt, deep, at));
	MUST(dsm_thread_query(t, &info));
	MUST(dsm_join(t, NULL));
	REQUIRE((!opt->stack || info.stack == opt->stack) && info.stack_size == size &&
			info.guard_size == guard,
		"rank %d: a stack of %zu bytes at %p, a guard of %zu", rank, info.stack_size,
		info.stack, info.guard_size);
	REQUIRE(*at - (uintptr_t)info.stack < size,
		"rank %d: a local variable at %lx, the stack at %p", rank, *at, info.stack);
}

/* Stacks in the heap, and in regions of each block size. */
static void stacks(void)
{
	static const size_t blocks[] = { 4 << 10, 64 << 10, 2 << 20 };
	static char private_memory[GIVEN];
	char name[32], *region[3];
	uintptr_t *at = NULL;
	dsm_thread_t t;
	int i, r;

	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "stacks%d", i);
		region[i] = test_region(name, 4 << 20, blocks[i], DSM_HOME_CYCLIC, 0);
	}
	test_sync();
	if (test_rank == 0)
		at = dsm_calloc(1, sizeof(*at));
	for (r = 0; at && r < test_size; r++) {
		struct dsm_thread_options opt = { .shared_stack = 1, .stack_size = GIVEN };

		on_stack(r, &opt, at, GIVEN, 4096);
		opt.guard_size = 40000;
		on_stack(r, &opt, at, GIVEN, 40960);
		opt.guard_size = DSM_NO_GUARD;
		on_stack(r, &opt, at, GIVEN, 0);
		opt.guard_size = 0;
		for (i = 0; i < 3; i++) {
			opt.stack = region[i] + 5000;
			on_stack(r, &opt, at, GIVEN, 0);
		}
		opt.stack = private_memory;
		EXPECT(dsm_spawn(&t, r, &opt, deep, at), -EINVAL);
		opt.stack = region[0];
		opt.stack_size = (64 << 10) - 1;
		EXPECT(dsm_spawn(&t, r, &opt, deep, at), -EINVAL);
		opt.stack_size = SIZE_MAX - 5000;
		EXPECT(dsm_spawn(&t, r, &opt, deep, at), -EINVAL);
		opt.stack = NULL;
		EXPECT(dsm_spawn(&t, r, &opt, deep, at), -EAGAIN);
	}
	if (at)
		MUST(dsm_free(at));
	test_sync();
}

static void many(void)
{
	int i;

	for (i = 0; i < 200; i++) {
		dsm_thread_t t;
		void *got;

		MUST(dsm_spawn(&t, -1, &(struct dsm_thread_options){ .shared_stack = i & 1 },
			       leaves, (void *)(uintptr_t)i));
		MUST(dsm_join(t, &got));
		REQUIRE((uintptr_t)got == (uintptr_t)i + 1, "thread %d returns %p", i, got);
	}
	test_sync();
}

static dsm_thread_t made[300];

static void spawn_one(unsigned thread, void *arg)
{
	const struct dsm_thread_options small = { .stack_size = 64 << 10 };

	(void)arg;
	MUST(dsm_spawn(&made[thread], 0, &small, leaves, (void *)(uintptr_t)thread));
}

/* More calls than any queue of calls has places, all for one rank. */
static void at_once(void)
{
	const unsigned n = test_size > 1 ? 300 / (unsigned)(test_size - 1) : 300;
	unsigned i;
	void *got;

	if (test_rank || test_size == 1) {
		test_threads(n, spawn_one, NULL);
		for (i = 0; i < n; i++) {
			MUST(dsm_join(made[i], &got));
			REQUIRE((uintptr_t)got == i + 1, "thread %u returns %p", i, got);
		}
	}
	test_sync();
}

#define TO_MATE 100u
#define TO_OTHERS 50u

static dsm_thread_t *ended; /* by rank: a thread that has ended */

static void cancel_some(unsigned thread, void *arg)
{
	const int mate = (test_rank ^ 1) < test_size ? test_rank ^ 1 : 0;
	const int to = thread < TO_MATE ? mate : (int)thread % test_size;
	int i;

	(void)arg;
	for (i = 0; i < 100; i++)
		MUST(dsm_cancel(ended[to]));
}

/*
 * Two ranks of a node make many calls to each other's service threads, while all ranks call all
 * others.
 */
static void crossing(void)
{
	int r;

	ended = calloc((size_t)test_size, sizeof(*ended));
	REQUIRE(ended, "no memory");
	for (r = 0; r < test_size; r++)
		MUST(dsm_spawn(&ended[r], r, NULL, leaves, made));
	test_sync();
	test_threads(TO_MATE + TO_OTHERS, cancel_some, NULL);
	for (r = 0; r < test_size; r++)
		MUST(dsm_join(ended[r], NULL));
	free(ended);
	test_sync();
}

#define EACH 3

static dsm_sem_t *end; /* by rank: posted once per thread that should end */

static void *ends_when_told(void *arg)
{
	MUST(dsm_sem_wait(&end[dsm_thread_rank(dsm_self())]));
	return arg;
}

/* on: number of the threads on each rank. */
static void spawn_by_load(dsm_thread_t *t, int n, int *on)
{
	int i;

	for (i = 0; i < n; i++) {
		MUST(dsm_spawn(&t[i], -1, NULL, ends_when_told, NULL));
		on[dsm_thread_rank(t[i])]++;
	}
}

/*
 * DSM_PLACE=load: each rank gets equally many threads. A rank whose threads have ended gets the
 * next ones.
 */
static void by_load(void)
{
	const int all = EACH * test_size, last = test_size - 1;
	dsm_thread_t *t = calloc((size_t)all, sizeof(*t));
	int *on = calloc((size_t)test_size, sizeof(*on));
	int i, n;

	REQUIRE(t && on, "no memory");
	end = test_region("end", (size_t)test_size * sizeof(*end), 4096, DSM_HOME_FIRST_TOUCH, 0);
	test_sync(); /* all ranks have the pointer */
	if (!test_rank) {
		spawn_by_load(t, all, on);
		for (i = 0; i < test_size; i++)
			REQUIRE(on[i] == EACH, "%d of %d threads are on rank %d", on[i], all, i);
		MUST(dsm_sem_post(&end[last], EACH));
		for (i = n = 0; i < all; i++) {
			if (dsm_thread_rank(t[i]) != last) {
				t[n++] = t[i];
				continue;
			}
			MUST(dsm_join(t[i], NULL));
		}
		on[last] = 0;
		spawn_by_load(&t[n], EACH, on);
		REQUIRE(on[last] == EACH, "%d of %d threads are on the rank that had none",
			on[last], EACH);
		for (i = 0; i < test_size; i++)
			MUST(dsm_sem_post(&end[i], EACH));
		for (i = 0; i < all; i++)
			MUST(dsm_join(t[i], NULL));
	}
	test_sync();
	free(on);
	free(t);
}

/* ---- on a node ------------------------------------------------------------------------------ */

/* A thread that waits until told. Rank and node must agree. */
static dsm_thread_t wait_on(int where, const int *node, int *on)
{
	dsm_thread_t t;
	int rank;

	MUST(dsm_spawn(&t, where, NULL, ends_when_told, NULL));
	rank = dsm_thread_rank(t);
	REQUIRE(where < 0 || rank == where, "a thread for rank %d is on rank %d", where, rank);
	if (where <= DSM_ON_NODE(test_size))
		REQUIRE(DSM_ON_NODE(node[rank]) == where,
			"rank %d of node %d has a thread for node %d", rank, node[rank],
			where - DSM_ON_NODE(0));
	on[rank]++;
	return t;
}

/* Let all of these threads end; nothing may be left of them. */
static void end_all(dsm_thread_t *t, int n, int *on)
{
	int i;

	for (i = 0; i < test_size; i++) {
		MUST(dsm_sem_post(&end[i], (uint32_t)on[i]));
		on[i] = 0;
	}
	for (i = 0; i < n; i++)
		MUST(dsm_join(t[i], NULL));
}

static int ranks_of(const int *node, int which)
{
	int r, n = 0;

	for (r = 0; r < test_size; r++)
		n += node[r] == which;
	return n;
}

/* Chosen by node alone: the ranks of each node get equally many threads. */
static void only_nodes(dsm_thread_t *t, const int *node, int *on)
{
	int i, n = 0, r;

	for (i = 0; i < dsm_nodes(); i++)
		for (r = 0; r < EACH * ranks_of(node, i); r++)
			t[n++] = wait_on(DSM_ON_NODE(i), node, on);
	for (r = 0; r < test_size; r++)
		REQUIRE(on[r] == EACH, "%d of %d threads are on rank %d", on[r], n, r);
	end_all(t, n, on);
}

/*
 * The last rank has threads of its own, so other ranks of its node get the threads for the node.
 * Then DSM_PLACE=load fills the other nodes.
 */
static void ranks_and_nodes(dsm_thread_t *t, const int *node, int *on)
{
	const int last = test_size - 1, mates = ranks_of(node, node[last]) - 1;
	int i, n = 0, r;

	for (i = 0; i < EACH; i++)
		t[n++] = wait_on(last, node, on);
	for (i = 0; i < EACH * mates; i++)
		t[n++] = wait_on(DSM_ON_NODE(node[last]), node, on);
	for (r = 0; r < test_size; r++)
		REQUIRE(on[r] == (node[r] == node[last] ? EACH : 0), "%d threads are on rank %d",
			on[r], r);
	while (n < EACH * test_size)
		t[n++] = wait_on(-1, node, on);
	for (r = 0; r < test_size; r++)
		REQUIRE(on[r] == EACH, "%d of %d threads are on rank %d, by load", on[r], n, r);
	t[n++] = wait_on(DSM_ON_NODE(node[0]), node, on);
	t[n++] = wait_on(0, node, on);
	end_all(t, n, on);
}

/* Threads that end at once: each rank of the node must get some. */
static void ended_ones(const int *node, int *on)
{
	const int last = test_size - 1;
	int i, r;

	for (i = 0; i < 4 * test_size; i++) {
		dsm_thread_t t;

		MUST(dsm_spawn(&t, DSM_ON_NODE(node[last]), NULL, leaves, NULL));
		on[dsm_thread_rank(t)]++;
		MUST(dsm_join(t, NULL));
	}
	for (r = 0; r < test_size; r++) {
		REQUIRE(!on[r] == (node[r] != node[last]),
			"%d of %d threads in a row are on rank %d", on[r], i, r);
		on[r] = 0;
	}
}

static void no_such_node(void)
{
	static const int wrong[] = { -1, -2, -ENOTCONN, 65536, 0x20000000 };
	dsm_thread_t t;
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EXPECT(dsm_spawn(&t, DSM_ON_NODE(wrong[i]), NULL, leaves, NULL), -EINVAL);
	EXPECT(dsm_spawn(&t, DSM_ON_NODE(dsm_nodes()), NULL, leaves, NULL), -EINVAL);
}

/* Done by the first rank, then by the last one. */
static void by_node(void)
{
	dsm_thread_t *t = calloc((size_t)EACH * (size_t)test_size + 2, sizeof(*t));
	int *on = calloc((size_t)test_size, sizeof(*on)), *node, turn;

	REQUIRE(t && on, "no memory");
	node = test_region("nodes", (size_t)test_size * sizeof(*node), 4096, DSM_HOME_FIRST_TOUCH,
			   0);
	end = test_region("end by node", (size_t)test_size * sizeof(*end), 4096,
			  DSM_HOME_FIRST_TOUCH, 0);
	node[test_rank] = dsm_node();
	test_sync();
	no_such_node();
	for (turn = 0; turn < 2; turn++) {
		if (test_rank == (turn ? test_size - 1 : 0)) {
			only_nodes(t, node, on);
			ranks_and_nodes(t, node, on);
			ended_ones(node, on);
		}
		test_sync();
	}
	free(on);
	free(t);
}

/* ---- threads that a rank creates for another are scheduled as its first thread is ------------ */

static int own_nice, own_cpus;
static long own_slack;

static int nice_of(id_t thread)
{
	int nice;

	errno = 0;
	nice = getpriority(PRIO_PROCESS, thread);
	REQUIRE(!errno, "getpriority() failed");
	return nice;
}

static int cpus(void)
{
	cpu_set_t set;

	REQUIRE(!sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity() failed");
	return CPU_COUNT(&set);
}

static void *is_scheduled(void *arg)
{
	const int nice = nice_of((id_t)gettid()), n = cpus();
	const long slack = prctl(PR_GET_TIMERSLACK);

	REQUIRE(nice == own_nice, "the thread has the nice value %d, the first one %d", nice,
		own_nice);
	REQUIRE(slack == own_slack, "the thread has a timer slack of %ld ns, the first one %ld",
		slack, own_slack);
	REQUIRE(n == own_cpus, "the thread may use %d processors, the first one %d", n, own_cpus);
	return arg;
}

static void scheduled(void)
{
	dsm_thread_t t;
	void *got;
	int r;

	own_nice = nice_of((id_t)getpid()) + 1;
	REQUIRE(!setpriority(PRIO_PROCESS, (id_t)getpid(), own_nice), "setpriority() failed");
	own_slack = prctl(PR_GET_TIMERSLACK);
	own_cpus = cpus();
	test_sync();
	for (r = 0; r < test_size; r++) {
		MUST(dsm_spawn(&t, r, NULL, is_scheduled, NULL));
		MUST(dsm_join(t, &got));
	}
	test_sync();
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = {
		{ "results", results },    { "cancels", cancels }, { "refuses", refuses },
		{ "stacks", stacks },      { "many", many },       { "at once", at_once },
		{ "crossing", crossing },  { "by load", by_load }, { "by node", by_node },
		{ "scheduled", scheduled }
	};

	test_same_addresses(argv);
	setenv("DSM_PLACE", "load", 1);
	test_start(argc, argv, "Threads on other ranks.", NULL, 0);
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
