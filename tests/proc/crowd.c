// SPDX-License-Identifier: BSD-2-Clause
/*
 * crowd.c - more threads wait than any table of the runtime can hold, and every other call must
 * continue to work.
 *
 * The table of kinds (crowd_kinds.c) contains every call that may wait for another thread, the
 * table of calls (crowd_calls.c) every call that always completes. While a crowd waits in one kind
 * of wait, the test makes each call of the second table, and one more thread enters each kind of
 * wait and is released. The watchdog ends the job if a step takes too long, and prints the pair.
 *
 * Each thread of a crowd also gets signals: the handler must run soon and read shared memory, and
 * the wait must continue.
 */
#include "crowd.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define SAID 500 /* index of the word that counts the crowd's signals */

static uint64_t waiters = 300, patience = 30, pairs = 1, taken = 50, percent = 30;

struct board *board;
uint64_t *words, *pinned;
unsigned turn[2];

/* ---- the watchdog ---------------------------------------------------------------------------- */

static struct {
	uint64_t until;
	const char *crowd, *call;
} step;

static void begin_step(const char *crowd, const char *call)
{
	step.crowd = crowd;
	step.call = call;
	__atomic_store_n(&step.until, test_ns() + patience * 1000000000u, __ATOMIC_RELEASE);
}

static void *watch(void *arg)
{
	for (;;) {
		uint64_t until = __atomic_load_n(&step.until, __ATOMIC_ACQUIRE);

		if (until && test_ns() > until) {
			fprintf(stderr,
				"FAILED: crowd, rank %d: %s hangs while %lu threads of each rank wait in %s\n",
				test_rank, step.call, (unsigned long)waiters, step.crowd);
			_exit(1);
		}
		usleep(50000);
	}
	return arg;
}

/* ---- crowds ---------------------------------------------------------------------------------- */

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	REQUIRE(d, "/proc: %m");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* One of its threads. heard and over are atomic. */
struct member {
	pthread_t id;
	struct crowd *crowd;
	uint64_t heard; /* the last round of signals whose handler has run */
	bool over;      /* it waits no more, and takes no signal */
};

struct crowd {
	struct member *members;
	unsigned n, in; /* in is atomic */
	int i;
	const struct kind *kind;
};

static __thread struct member *mine;

static void *wait_in_crowd(void *arg)
{
	struct member *m = arg;
	struct crowd *c = m->crowd;
	sigset_t told;

	mine = m;
	__atomic_fetch_add(&c->in, 1, __ATOMIC_RELEASE);
	c->kind->wait(c->i);
	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &told, NULL);
	__atomic_store_n(&m->over, true, __ATOMIC_RELEASE);
	return NULL;
}

static void gather(struct crowd *c, const struct kind *kind, int i, unsigned n)
{
	pthread_attr_t small;
	unsigned k;

	*c = (struct crowd){
		.members = calloc(n, sizeof(*c->members)), .n = n, .i = i, .kind = kind
	};
	REQUIRE(c->members, "no memory");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	for (k = 0; k < n; k++) {
		c->members[k].crowd = c;
		REQUIRE(!pthread_create(&c->members[k].id, &small, wait_in_crowd, &c->members[k]),
			"no thread %u", k);
	}
	pthread_attr_destroy(&small);
}

static void disperse(struct crowd *c)
{
	unsigned k;

	for (k = 0; k < c->n; k++)
		pthread_join(c->members[k].id, NULL);
	free(c->members);
}

/* How many threads of this process run, or would if there were a processor for them. */
static unsigned running(void)
{
	DIR *d = opendir("/proc/self/task");
	char path[300], state;
	unsigned n = 0;
	struct dirent *e;
	FILE *f;

	REQUIRE(d, "/proc: %m");
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (!f)
			continue;
		n += fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'R';
		fclose(f);
	}
	closedir(d);
	return n;
}

/*
 * Wait until all threads are inside and asleep, or have had time for it: some kinds never sleep
 * long. On a busy host, threads that have used no time may not have run yet.
 */
static void settle(const struct crowd *c)
{
	uint64_t start = test_ns(), was = test_cpu_ns(), now;

	do {
		test_nap(50000000);
		now = test_cpu_ns() - was;
		was += now;
	} while (__atomic_load_n(&c->in, __ATOMIC_ACQUIRE) < c->n ||
		 (test_ns() - start < 5000000000u && !c->kind->most &&
		  (now > 5000000 || running() > 1)));
}

static void one_more(const struct kind *crowd, const struct kind *kind)
{
	struct crowd one;

	begin_step(crowd->name, kind->name);
	if (!test_rank)
		kind->make(1, 1);
	test_sync();
	gather(&one, kind, 1, 1);
	test_nap(1000000);
	kind->release(1, 1);
	disperse(&one);
	test_sync();
	if (!test_rank)
		kind->unmake(1);
}

/*
 * Sleeping threads must use no processor time: at most 3/10 of a processor over all ranks, with
 * 10,000 threads. The last one may fall asleep late.
 */
static void check_asleep(const struct kind *kind)
{
	const uint64_t window = waiters < 1000 ? 100000000 : 1000000000;
	uint64_t used = window;
	int try;

	begin_step(kind->name, "sleeping");
	for (try = 0; used >= window * percent / 100; try++) {
		REQUIRE(try < 15,
			"%lu threads that wait in %s used %lu ms of processor time in %lu ms",
			waiters, kind->name, used / 1000000, window / 1000000);
		test_sync();
		used = test_cpu_ns();
		test_nap(window);
		used = test_cpu_ns() - used;
		MUST(dsm_reduce(&used, DSM_UINT64, DSM_SUM));
		test_say("        %lu ms of processor time in %lu ms", used / 1000000,
			 window / 1000000);
	}
}

/* ---- signals --------------------------------------------------------------------------------- */

static struct {
	bool miss;     /* handlers read data of rank 0 */
	unsigned lies; /* atomic */
	uint64_t round;
} told;

static void hear(int sig, siginfo_t *info, void *context)
{
	if (dsm_signal_defer(sig, info, context))
		return;
	if (told.miss && load(&words[SAID]) != told.round)
		__atomic_fetch_add(&told.lies, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&mine->heard, told.round, __ATOMIC_RELEASE);
}

/*
 * The number of threads still waiting. Those of a rank that has pinned the block itself need not
 * wait.
 */
static unsigned waiting(const struct crowd *c)
{
	unsigned n = 0, k;

	for (k = 0; k < c->n; k++)
		n += !__atomic_load_n(&c->members[k].over, __ATOMIC_ACQUIRE);
	return n;
}

/* Its handler has run in this round, or never will. */
static bool has_heard(const struct member *m)
{
	return __atomic_load_n(&m->heard, __ATOMIC_ACQUIRE) == told.round ||
		__atomic_load_n(&m->over, __ATOMIC_ACQUIRE);
}

/* Signal each thread: waiting threads run their handler. */
static void tell_all(const struct crowd *c)
{
	uint64_t start, took;
	unsigned k;

	begin_step(c->kind->name, "signals");
	told.miss = !c->kind->prefetches;
	told.round++;
	if (!test_rank)
		store(&words[SAID], told.round);
	test_sync();
	start = test_ns();
	for (k = 0; k < c->n; k++)
		REQUIRE(!pthread_kill(c->members[k].id, SIGUSR1), "no signal for thread %u", k);
	for (k = 0; k < c->n; k++)
		while (!has_heard(&c->members[k]))
			test_nap(1000000);
	took = test_ns() - start;
	MUST(dsm_reduce(&took, DSM_UINT64, DSM_MAX));
	test_say("        %lu ms for a signal to each", took / 1000000);
	REQUIRE(!told.lies, "%u handlers have read an old value", told.lies);
}

/* A thread that need not wait may be late. If signals ended waits, most threads would end. */
static void signal_crowd(const struct crowd *c)
{
	unsigned before, after;

	tell_all(c);
	test_sync();
	before = waiting(c);
	tell_all(c);
	after = waiting(c);
	REQUIRE(c->kind->most || after >= before / 2,
		"a signal has ended the wait of %u threads in %s", before - after, c->kind->name);
	test_sync();
}

/* ---- a crowd in each kind of wait ------------------------------------------------------------ */

static void crowd_in(const struct kind *kind)
{
	const unsigned n = kind->most && kind->most < waiters ? kind->most : (unsigned)waiters;
	unsigned before = descriptors(), now;
	struct crowd c;
	size_t k;

	test_say("    %s", kind->name);
	begin_step(kind->name, "coming");
	if (!test_rank)
		kind->make(0, n);
	test_sync();
	gather(&c, kind, 0, n);
	settle(&c);
	now = descriptors();
	REQUIRE(now <= before + 64, "%u threads that wait have opened %u descriptors", n,
		now - before);
	signal_crowd(&c);
	if (!kind->most)
		check_asleep(kind);
	for (k = 0; k < calls_n; k++) {
		begin_step(kind->name, calls[k].name);
		if (!kind->prefetches || !calls[k].gives_up)
			calls[k].fn();
	}
	for (k = 0; pairs && k < kinds_n; k++)
		if (!kind->prefetches || !kinds[k].gives_up)
			one_more(kind, &kinds[k]);
	begin_step(kind->name, "the release of all");
	kind->release(0, n);
	disperse(&c);
	test_sync();
	if (!test_rank)
		kind->unmake(0);
}

static void part_crowds(void)
{
	size_t k;

	for (k = 0; k < kinds_n; k++)
		crowd_in(&kinds[k]);
}

/* ---- more pinned blocks than slots ----------------------------------------------------------- */

static uint64_t *block_of(unsigned i)
{
	return &pinned[(size_t)i * 512];
}

static void write_taken(int i)
{
	const unsigned k = __atomic_fetch_add(&turn[i], 1, __ATOMIC_RELAXED);

	/* not read before: contents and permission arrive together */
	store(&block_of(k)[1], k + 8);
}

/*
 * Rank 0 has written blocks, the last rank has pinned them for reading, and each thread of another
 * rank writes to one. The contents come from rank 0, and wait for the last rank's acknowledgement.
 * Meanwhile, calls of that rank miss on other blocks.
 */
static void part_taken(void)
{
	static const struct kind writing = { .name = "writes of blocks pinned to read",
					     .wait = write_taken };
	const int last = test_size - 1, writer = test_size > 1 ? test_size - 2 : 0;
	const bool writes = test_rank == writer && writer != last;
	struct crowd c;
	unsigned k;

	begin_step("nothing", "taking blocks");
	turn[0] = 0;
	for (k = 0; !test_rank && k < taken; k++)
		store(block_of(k), k + 7);
	test_sync();
	if (test_rank == last)
		MUST(dsm_pin(pinned, taken * 4096, DSM_READ));
	test_sync();
	if (writes) {
		gather(&c, &writing, 0, (unsigned)taken);
		settle(&c);
	}
	test_sync();
	for (k = 0; k < calls_n; k++) {
		begin_step(writing.name, calls[k].name);
		calls[k].fn();
	}
	begin_step(writing.name, "the release of all");
	test_sync();
	if (test_rank == last)
		MUST(dsm_unpin(pinned, taken * 4096));
	if (writes)
		disperse(&c);
	test_sync();
	for (k = 0; writer != last && k < taken; k++)
		REQUIRE(load(&block_of(k)[0]) == k + 7 && load(&block_of(k)[1]) == k + 8,
			"block %u has %lu, %lu", k, load(&block_of(k)[0]), load(&block_of(k)[1]));
	test_sync();
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void enter_barrier(int i)
{
	(void)i;
	test_sync();
}
static void enter_reduce(int i)
{
	uint64_t v = 1;

	(void)i;
	MUST(dsm_reduce(&v, DSM_UINT64, DSM_SUM));
	REQUIRE(v == (uint64_t)test_size, "the sum is %lu", v);
}
static void enter_reduce_array(int i)
{
	uint64_t v[1000];
	unsigned k;

	(void)i;
	for (k = 0; k < 1000; k++)
		v[k] = k;
	MUST(dsm_reduce_array(v, 1000, DSM_UINT64, DSM_MAX));
	REQUIRE(v[999] == 999, "the maximum is %lu", v[999]);
}
static void enter_broadcast(int i)
{
	uint64_t v = (uint64_t)test_rank;

	(void)i;
	MUST(dsm_broadcast(&v, sizeof(v), test_size - 1));
	REQUIRE(v == (uint64_t)test_size - 1, "rank %lu has sent", v);
}

/*
 * All ranks but the last have a thread in this wait. Calls that need no other rank must complete.
 */
static void wait_for_last(const struct kind *kind)
{
	const bool last = test_rank == test_size - 1;
	struct crowd c;
	size_t k;

	begin_step(kind->name, "coming");
	if (!last) {
		gather(&c, kind, 0, 1);
		test_nap(20000000);
	}
	for (k = 0; k < calls_n; k++) {
		begin_step(kind->name, calls[k].name);
		if (!calls[k].together)
			calls[k].fn();
	}
	begin_step(kind->name, "the last rank");
	if (last) {
		for (k = 1; k < (size_t)test_size; k++)
			MUST(dsm_sem_wait(&board->of[0].sem));
		kind->wait(0);
	} else {
		MUST(dsm_sem_post(&board->of[0].sem, 1));
		disperse(&c);
	}
}

static void part_collectives(void)
{
	static const struct kind entered[] = {
		{ .name = "dsm_barrier", .wait = enter_barrier },
		{ .name = "dsm_reduce", .wait = enter_reduce },
		{ .name = "dsm_reduce_array", .wait = enter_reduce_array },
		{ .name = "dsm_broadcast", .wait = enter_broadcast },
	};
	size_t k;

	begin_step("nothing", "the start");
	if (!test_rank)
		MUST(dsm_sem_init(&board->of[0].sem, 0));
	test_sync();
	for (k = 0; k < sizeof(entered) / sizeof(entered[0]); k++)
		wait_for_last(&entered[k]);
	test_sync();
	if (!test_rank)
		MUST(dsm_sem_destroy(&board->of[0].sem));
}

/* ---- the first contents of a region ---------------------------------------------------------- */

#define CONTENTS "crowd-contents"

static uint64_t seen[2]; /* contents seen by this rank */

static void look_at(dsm_region_t *r)
{
	const uint64_t *p = dsm_region_base(r);

	seen[0] = load(&p[0]);
	seen[1] = load(&p[512]);
	MUST(dsm_region_detach(r));
}
static void fill_region(int i)
{
	const struct dsm_region_options opt = { .contents = pinned, .contents_size = 8192 };
	dsm_region_t *r;

	(void)i;
	MUST(dsm_region_open(CONTENTS, 8192, &opt, &r));
	look_at(r);
}
static void await_contents(int i)
{
	dsm_region_t *r;
	int err;

	(void)i;
	while ((err = dsm_region_attach(CONTENTS, &r)) == -ENOENT)
		test_nap(1000000);
	MUST(err);
	look_at(r);
}

/*
 * The last rank makes a region with two blocks as first contents. Rank 0 has pinned the second
 * while their sum is computed, and the first while they are copied. The others attach meanwhile.
 */
static void part_contents(void)
{
	static const struct kind filling = { .name = "dsm_region_open, which fills the region",
					     .wait = fill_region };
	static const struct kind waiting = { .name = "dsm_region_attach of an unfilled region",
					     .wait = await_contents };
	struct crowd c;
	size_t k;

	begin_step("nothing", "pinning contents");
	if (!test_rank) {
		store(block_of(0), 5);
		store(block_of(1), 6);
		MUST(dsm_pin(block_of(1), 8, DSM_WRITE));
	}
	test_sync();
	gather(&c, test_rank == test_size - 1 ? &filling : &waiting, 0, 1);
	test_nap(50000000);
	test_sync();
	if (!test_rank) {
		MUST(dsm_pin(block_of(0), 8, DSM_WRITE));
		MUST(dsm_unpin(block_of(1), 8));
	}
	test_nap(50000000);
	for (k = 0; k < calls_n; k++) {
		begin_step(filling.name, calls[k].name);
		calls[k].fn();
	}
	begin_step(filling.name, "its end");
	test_sync();
	if (!test_rank)
		MUST(dsm_unpin(block_of(0), 8));
	disperse(&c);
	REQUIRE(seen[0] == 5 && seen[1] == 6, "the contents are %lu, %lu", seen[0], seen[1]);
	test_sync();
	if (!test_rank)
		MUST(dsm_region_destroy(CONTENTS));
	test_sync();
}

/* ---- a counter ------------------------------------------------------------------------------- */

static void add_one(int i)
{
	int round;

	(void)i;
	for (round = 0; round < 3; round++) {
		MUST(dsm_mutex_lock(&board->counter_lock));
		store(&board->counter, load(&board->counter) + 1);
		MUST(dsm_mutex_unlock(&board->counter_lock));
	}
}

static void part_counter(void)
{
	const struct kind adding = { .name = "lock, increment, unlock", .wait = add_one };
	struct crowd c;

	begin_step("nothing", adding.name);
	if (!test_rank)
		MUST(dsm_mutex_init(&board->counter_lock));
	test_sync();
	gather(&c, &adding, 0, (unsigned)waiters);
	disperse(&c);
	test_sync();
	REQUIRE(load(&board->counter) == 3 * waiters * (uint64_t)test_size, "the counter is %lu",
		load(&board->counter));
	test_sync();
	if (!test_rank)
		MUST(dsm_mutex_destroy(&board->counter_lock));
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "waiters", "N", "threads of each rank that wait", &waiters },
		{ "patience", "S", "seconds that one step may take", &patience },
		{ "pairs", "0|1", "try each wait under each other", &pairs },
		{ "percent", "P", "of a processor, that sleepers may use", &percent },
		{ "taken", "N",
		  "blocks that a rank writes while another has them pinned; at most 5000", &taken },
	};
	static const struct test_part parts[] = { { "a counter", part_counter },
						  { "crowds", part_crowds },
						  { "taken blocks", part_taken },
						  { "contents of a region", part_contents },
						  { "collectives", part_collectives } };
	static const struct sigaction hears = { .sa_sigaction = hear, .sa_flags = SA_SIGINFO };
	pthread_t dog;

	setenv("DSM_HEAP", "256M", 0); /* the heap is soon full */
	test_same_addresses(argv);
	test_start(argc, argv,
		   "Every call goes on while more threads wait than any table has room for.",
		   options, sizeof(options) / sizeof(options[0]));
	REQUIRE(!sigaction(SIGUSR1, &hears, NULL), "no handler");
	begin_step("nothing", "the start");
	REQUIRE(!pthread_create(&dog, NULL, watch, NULL), "no thread");
	board = test_region("crowd", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	words = test_region("crowd-words", (1 + (size_t)test_size) * 4096, 4096, DSM_HOME_FIXED,
			    test_size - 1);
	pinned = test_region("crowd-pinned", (2 + 2 * MANY) * 4096, 4096, DSM_HOME_FIXED, 0);
	/* reserve: small allocations of this rank must succeed */
	REQUIRE(dsm_malloc(4096), "no memory");
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	begin_step("nothing", "the end");
	return test_end();
}
