// SPDX-License-Identifier: BSD-2-Clause
/*
 * idle.c - a waiting thread uses no processor time, whatever it waits for. A rank that computes,
 * sleeps in a system call or keeps all processors busy still serves the others.
 */
#include "common.h"

#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#define BLOCKS 400
#define GAP_NS 50000 /* of computing between two misses: the runtime goes to sleep */
/*
 * patience of BLOCKS: soft RDMA of Linux 6.12 uses threads, which are late on busy emulated
 * processors
 */
#define SERVE_SECONDS 60

static uint64_t milliseconds = 800, percent = 3, spinners = 2, row;
static struct board {
	dsm_mutex_t mutex;
	dsm_rwlock_t rwlock;
	dsm_cond_t cond;
	dsm_sem_t sem;
	dsm_barrier_t barrier;
	dsm_atomic_t atomic;
} * board;
static uint64_t *pinned;
static char *blocks;
static uint64_t *out;

/* ---- waiting -------------------------------------------------------------------------------- */

static void hold_pin(void)
{
	MUST(dsm_pin(pinned, 8, DSM_WRITE));
}
static void drop_pin(void)
{
	MUST(dsm_unpin(pinned, 8));
}
static void want_pin(void)
{
	(void)load(pinned);
}

static void hold_mutex(void)
{
	MUST(dsm_mutex_lock(&board->mutex));
}
static void drop_mutex(void)
{
	MUST(dsm_mutex_unlock(&board->mutex));
}
static void want_mutex(void)
{
	MUST(dsm_mutex_lock(&board->mutex));
	MUST(dsm_mutex_unlock(&board->mutex));
}

static void hold_rwlock(void)
{
	MUST(dsm_rwlock_wrlock(&board->rwlock));
}
static void drop_rwlock(void)
{
	MUST(dsm_rwlock_unlock(&board->rwlock));
}
static void want_rwlock(void)
{
	MUST(dsm_rwlock_rdlock(&board->rwlock));
	MUST(dsm_rwlock_unlock(&board->rwlock));
}

static void hold_nothing(void)
{
}
static void drop_sem(void)
{
	MUST(dsm_sem_post(&board->sem, (uint32_t)test_size - 1));
}
static void want_sem(void)
{
	MUST(dsm_sem_wait(&board->sem));
}

static void drop_cond(void)
{
	MUST(dsm_mutex_lock(&board->mutex));
	MUST(dsm_cond_broadcast(&board->cond));
	MUST(dsm_mutex_unlock(&board->mutex));
}

static void want_cond(void)
{
	MUST(dsm_mutex_lock(&board->mutex));
	MUST(dsm_cond_timedwait(&board->cond, &board->mutex, 60000000000u));
	MUST(dsm_mutex_unlock(&board->mutex));
}

static void come(void)
{
	MUST(dsm_barrier());
}
static void come_too(void)
{
	MUST(dsm_barrier_wait(&board->barrier));
}
static double share;
static void agree(void)
{
	uint64_t one = 1;

	MUST(dsm_reduce(&one, DSM_UINT64, DSM_SUM));
}

static const struct wait {
	const char *what;
	void (*hold)(void), (*drop)(void), (*want)(void);
	/* clang-format off */
} waits[] = {
	{ "a fault on a pinned block", hold_pin, drop_pin, want_pin },
	{ "a mutex", hold_mutex, drop_mutex, want_mutex },
	{ "a reader-writer lock", hold_rwlock, drop_rwlock, want_rwlock },
	{ "a semaphore", hold_nothing, drop_sem, want_sem },
	{ "a condition", hold_nothing, drop_cond, want_cond },
	{ "everybody's barrier", hold_nothing, come, come },
	{ "a barrier", hold_nothing, come_too, come_too },
	{ "a reduction", hold_nothing, agree, agree },
};
/* clang-format on */

/* Ranks of the node that has pinned a block do not wait for it. */
static bool waits_for(const struct wait *w)
{
	return test_rank && (w->want != want_pin || dsm_node() != dsm_node_of(0));
}

/* Processor time that this rank used during the wait, in percent of a processor. */
static double wait_once(const struct wait *w)
{
	uint64_t wall, cpu;

	if (!test_rank)
		w->hold();
	MUST(dsm_barrier());
	wall = test_ns();
	cpu = test_cpu_ns();
	if (test_rank) {
		w->want();
	} else {
		test_nap(milliseconds * 1000000);
		w->drop();
	}
	wall = test_ns() - wall;
	cpu = test_cpu_ns() - cpu;
	if (test_rank && !waits_for(w))
		return 0;
	REQUIRE(!test_rank || wall >= milliseconds * 900000, "waiting for %s took %lu ms only",
		w->what, wall / 1000000);
	return 100.0 * (double)cpu / (double)wall;
}

/*
 * Emulated processors of a busy machine sometimes stop, and the guest charges that time to the
 * running thread. A thread that waits in a loop uses a whole processor in each try.
 */
#define TRIES 3

static void wait_for(const struct wait *w)
{
	double used;
	int tries = 0;

	do {
		used = share = wait_once(w);
		MUST(dsm_reduce(&share, DSM_DOUBLE, DSM_MAX));
		test_say("  waiting for %-28s %6.2f %% of a processor at most", w->what, share);
	} while (share > (double)percent && ++tries < TRIES);
	REQUIRE(used <= (double)percent, "waiting for %s used %.1f %% of a processor, %d times",
		w->what, used, TRIES);
}

/* ---- serving -------------------------------------------------------------------------------- */

static bool done(void)
{
	return __atomic_load_n(out, __ATOMIC_ACQUIRE) == (uint64_t)test_size - 1;
}

static void compute(unsigned thread, void *arg)
{
	volatile double x = 1 + thread;

	(void)arg;
	while (!done())
		x = x * 1.0000001 + 1e-9;
}

static void busy(void)
{
	compute(0, NULL);
}

static void all_processors(void)
{
	test_threads((unsigned)(spinners * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN)), compute, NULL);
}

static void in_system_call(void)
{
	while (!done())
		test_nap(300000000);
}

/*
 * The other ranks read and write blocks whose home and owner is rank 0, while rank 0 does something
 * else.
 */
static void serve_while(const char *what, void (*fn)(void), int round)
{
	uint64_t start, i, longest = 0, took;
	uint64_t *p;

	if (!test_rank) {
		*out = 0;
		for (i = 0; i < BLOCKS; i++)
			store((uint64_t *)(blocks + i * 4096), i + (uint64_t)round);
	}
	MUST(dsm_barrier());
	start = test_ns();
	if (!test_rank) {
		fn();
		for (i = 0; i < BLOCKS; i++)
			REQUIRE(load((uint64_t *)(blocks + i * 4096) + 1) == i,
				"block %lu came back changed", i);
	} else {
		struct rng rng = rng_of((uint64_t)test_rank);

		for (i = 0; i < BLOCKS; i++) {
			uint64_t b = (i * 37 + rng_below(&rng, 2)) % BLOCKS, t = test_ns();

			p = (uint64_t *)(blocks + b * 4096);
			REQUIRE(load(p) == b + (uint64_t)round, "block %lu holds %lu", b, load(p));
			took = test_ns() - t;
			longest = took > longest ? took : longest;
		}
		for (i = 0; i < BLOCKS; i++)
			store((uint64_t *)(blocks + i * 4096) + 1, i);
		took = test_ns() - start;
		REQUIRE(took < SERVE_SECONDS * 1000000000ull,
			"%d blocks took %lu ms from a rank that %s", BLOCKS, took / 1000000, what);
		__atomic_fetch_add(out, 1, __ATOMIC_ACQ_REL);
	}
	MUST(dsm_reduce(&longest, DSM_UINT64, DSM_MAX));
	test_say("  a rank that %-28s gave %d blocks to each in %6.1f ms; the slowest took %.2f ms",
		 what, BLOCKS, (double)(test_ns() - start) * 1e-6, (double)longest * 1e-6);
}

struct rest {
	uint64_t naps;    /* how often the runtime's own thread went to sleep */
	uint64_t waiting; /* ns for which threads of this rank were runnable and did not run */
};

static void task_rest(const char *task, struct rest *r)
{
	uint64_t waiting, naps;
	char path[300], line[100];
	bool service;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", task);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*u %lu", &waiting) == 1)
		r->waiting += waiting;
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	f = fopen(path, "r");
	service = f && fgets(line, sizeof(line), f) && !strcmp(line, "Name:\tdsm-service\n");
	while (service && fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &naps) == 1)
			r->naps = naps;
	if (f)
		fclose(f);
}

static struct rest rest_now(void)
{
	DIR *d = opendir("/proc/self/task");
	const struct dirent *e;
	struct rest r = { 0 };

	REQUIRE(d, "/proc/self/task: %m");
	while ((e = readdir(d)))
		task_rest(e->d_name, &r);
	closedir(d);
	REQUIRE(r.naps, "there is no dsm-service");
	return r;
}

/*
 * Rank 1 makes requests one after the other while the thread of rank 0 sleeps. Returns the larger
 * values of both ranks.
 */
static struct rest serve_row_once(uint64_t *ns)
{
	struct rest before, after;
	uint64_t i, start;

	MUST(dsm_barrier());
	if (test_rank)
		test_nap(20000000);
	before = rest_now();
	start = test_ns();
	if (!test_rank) {
		MUST(dsm_sem_wait(&board->sem));
	} else {
		for (i = 0; i < row; i++)
			MUST(dsm_atomic_fetch_add(&board->atomic, 1, NULL));
		MUST(dsm_sem_post(&board->sem, 1));
	}
	*ns = test_ns() - start;
	after = rest_now();
	after.naps -= before.naps;
	after.waiting -= before.waiting;
	MUST(dsm_reduce(&after.naps, DSM_UINT64, DSM_MAX));
	MUST(dsm_reduce(&after.waiting, DSM_UINT64, DSM_MAX));
	MUST(dsm_reduce(ns, DSM_UINT64, DSM_MIN));
	return after;
}

/*
 * Requests in a row must not wake the runtime of either rank: that of rank 0 polls for the next
 * request, and on rank 1 the waiting thread takes the answer itself. Others that use the processors
 * can only add to the times that it is woken: a row with few of them counts on any host, one with
 * many only if threads had processors.
 */
static void serve_row(void)
{
	struct rest r;
	uint64_t ns;
	bool few;
	int tries = 0;

	do {
		r = serve_row_once(&ns);
		few = r.naps * 2 <= row;
		test_say(
			"  %lu requests in a row, %.1f us each: a runtime slept %lu times, threads waited for a processor %.1f ms",
			row, (double)ns * 1e-3 / (double)row, r.naps, (double)r.waiting * 1e-6);
		REQUIRE(few || r.waiting * 10 >= ns, "a runtime has slept for most of %lu requests",
			row);
	} while (!few && ++tries < 50);
	if (!few)
		test_say(
			"  others used the processors all the time: whether a runtime sleeps for each request is open");
}

static uint64_t own_naps(void)
{
	struct rusage use;

	REQUIRE(!getrusage(RUSAGE_THREAD, &use), "getrusage: %m");
	return (uint64_t)use.ru_nvcsw;
}

/*
 * Answers to misses must not wake the runtime of the rank that waits for them: its thread polls. If
 * others use the processors, it may have slept instead; then the runtime is woken for it.
 */
static void miss_row(void)
{
	uint64_t i, own, naps, since;

	for (i = 0; !test_rank && i < BLOCKS; i++)
		store((uint64_t *)(blocks + i * 4096), i);
	if (!test_rank)
		*out = 0;
	MUST(dsm_barrier());
	if (!test_rank) {
		busy();
	} else {
		test_nap(20000000);
		naps = rest_now().naps;
		own = own_naps();
		for (i = 0; i < BLOCKS; i++) {
			/* in an order that nothing is read ahead */
			const uint64_t b = i * 37 % BLOCKS;

			REQUIRE(load((uint64_t *)(blocks + b * 4096)) == b, "block %lu", b);
			for (since = test_ns(); test_ns() - since < GAP_NS;)
				;
		}
		own = own_naps() - own;
		naps = rest_now().naps - naps;
		__atomic_fetch_add(out, 1, __ATOMIC_ACQ_REL);
		printf("  %d misses in a row: the runtime slept %lu times, the thread that waited %lu times\n",
		       BLOCKS, naps, own);
		REQUIRE(naps <= BLOCKS / 2 + 2 * own,
			"the runtime was woken for most of %d answers", BLOCKS);
	}
	MUST(dsm_barrier());
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "ms", "N", "milliseconds of waiting for each thing", &milliseconds },
		{ "percent", "N", "of a processor that a waiting rank may use", &percent },
		{ "spinners", "N", "threads for each processor that keep it busy", &spinners },
		{ "row", "N", "requests in a row to a rank that sleeps (0: none); of two ranks",
		  &row },
	};
	size_t i;

	test_start(argc, argv, "Waiting costs nothing; serving needs no help.", options,
		   sizeof(options) / sizeof(options[0]));
	REQUIRE(test_size > 1, "one rank has nobody to wait for");
	board = test_region("board", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	pinned = test_region("pinned", 4096, 4096, DSM_HOME_FIRST_TOUCH, 0);
	blocks = test_region("blocks", BLOCKS * 4096, 4096, DSM_HOME_FIXED, 0);
	out = test_outside(4096);
	if (!test_rank) {
		MUST(dsm_mutex_init(&board->mutex));
		MUST(dsm_rwlock_init(&board->rwlock));
		MUST(dsm_cond_init(&board->cond));
		MUST(dsm_sem_init(&board->sem, 0));
		MUST(dsm_barrier_init(&board->barrier, NULL, 0, 1));
		MUST(dsm_atomic_init(&board->atomic, 0, 0));
	}
	MUST(dsm_barrier());
	(void)load((uint64_t *)board); /* otherwise the first access would be slow */
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		wait_for(&waits[i]);
	if (row) {
		serve_row();
		miss_row();
	}
	serve_while("computes", busy, 1);
	serve_while("sleeps in a system call", in_system_call, 2);
	serve_while("keeps all processors busy", all_processors, 3);
	return test_end();
}
