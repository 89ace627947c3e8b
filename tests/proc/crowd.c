// SPDX-License-Identifier: BSD-2-Clause
/*
 * crowd.c - more threads wait than any table of the runtime has room for, and every other call goes on.
 *
 * The table of kinds has every call that may wait for somebody's doing, the table of calls every call that always completes.
 * With a crowd in one kind of wait, each call of the second table is made, and each kind of wait is entered by one more
 * thread and released. The watchdog ends the job when a step takes too long, and names the pair.
 */
#include "common.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#define STACK (256u << 10)
#define MANY 2500u
#define HOUR 3600000000000u

static uint64_t waiters = 300, patience = 30, pairs = 1, taken = 50, percent = 30;

static struct board {
	struct objects {
		dsm_mutex_t mutex;
		dsm_rwlock_t rwlock;
		dsm_cond_t cond;
		dsm_sem_t sem;
		dsm_barrier_t barrier;
		dsm_barrier_t meeting; /* of `come` threads; zero at first */
		uint64_t come, go;
	} of[2]; /* of the crowd, of the thread that comes to it */
	dsm_mutex_t counter_lock;
	uint64_t counter;
} * board;
static uint64_t *words;  /* one block that all ranks write */
static uint64_t *pinned; /* one block for each of the two, then MANY for each */
static unsigned turn[2]; /* which of them the next thread reads */

static void meet(void)
{
	MUST(dsm_barrier());
}

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
			fprintf(stderr, "FAILED: crowd, rank %d: %s hangs while %lu threads of each rank wait in %s\n",
				test_rank, step.call, (unsigned long)waiters, step.crowd);
			_exit(1);
		}
		usleep(50000);
	}
	return arg;
}

/* ---- waits for somebody's doing ---------------------------------------------------------------- */

/* Other ranks do the same at this moment. */
static void touch(void)
{
	store(&words[test_rank], load(&words[test_rank]) + 1);
	(void)load(&words[(test_rank + 1) % test_size]);
}

static void make_sem(int i, unsigned n)
{
	(void)n;
	MUST(dsm_sem_init(&board->of[i].sem, 0));
}
static void wait_sem(int i)
{
	MUST(dsm_sem_wait(&board->of[i].sem));
}
static void wait_sem_timed(int i)
{
	MUST(dsm_sem_timedwait(&board->of[i].sem, HOUR));
}
static void free_sem(int i)
{
	MUST(dsm_sem_destroy(&board->of[i].sem));
}
static void post_sem(int i, unsigned n)
{
	touch();
	if (!test_rank)
		MUST(dsm_sem_post(&board->of[i].sem, n * (unsigned)test_size));
}

static void make_mutex(int i, unsigned n)
{
	(void)n;
	MUST(dsm_mutex_init(&board->of[i].mutex));
	MUST(dsm_mutex_lock(&board->of[i].mutex));
}
static void wait_mutex(int i)
{
	MUST(dsm_mutex_lock(&board->of[i].mutex));
	MUST(dsm_mutex_unlock(&board->of[i].mutex));
}
static void leave_mutex(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		MUST(dsm_mutex_unlock(&board->of[i].mutex));
}
static void free_mutex(int i)
{
	MUST(dsm_mutex_destroy(&board->of[i].mutex));
}

static void make_rwlock(int i, unsigned n)
{
	(void)n;
	MUST(dsm_rwlock_init(&board->of[i].rwlock));
	MUST(dsm_rwlock_wrlock(&board->of[i].rwlock));
}
static void wait_read(int i)
{
	MUST(dsm_rwlock_rdlock(&board->of[i].rwlock));
	MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void wait_write(int i)
{
	MUST(dsm_rwlock_wrlock(&board->of[i].rwlock));
	MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void leave_rwlock(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void free_rwlock(int i)
{
	MUST(dsm_rwlock_destroy(&board->of[i].rwlock));
}

static void make_cond(int i, unsigned n)
{
	(void)n;
	MUST(dsm_mutex_init(&board->of[i].mutex));
	MUST(dsm_cond_init(&board->of[i].cond));
	store(&board->of[i].go, 0);
}
static void in_cond(int i, uint64_t ns)
{
	dsm_cond_t c = board->of[i].cond;
	dsm_mutex_t m = board->of[i].mutex;

	MUST(dsm_mutex_lock(&m));
	while (!load(&board->of[i].go))
		MUST(ns ? dsm_cond_timedwait(&c, &m, ns) : dsm_cond_wait(&c, &m));
	MUST(dsm_mutex_unlock(&m));
}
static void wait_cond(int i)
{
	in_cond(i, 0);
}
static void wait_cond_timed(int i)
{
	in_cond(i, HOUR);
}
static void signal_cond(int i, unsigned n)
{
	(void)n;
	touch();
	if (test_rank != test_size - 1)
		return;
	MUST(dsm_mutex_lock(&board->of[i].mutex));
	store(&board->of[i].go, 1);
	MUST(dsm_cond_broadcast(&board->of[i].cond));
	MUST(dsm_mutex_unlock(&board->of[i].mutex));
}
static void free_cond(int i)
{
	MUST(dsm_cond_destroy(&board->of[i].cond));
	MUST(dsm_mutex_destroy(&board->of[i].mutex));
}

static void make_barrier(int i, unsigned n)
{
	MUST(dsm_barrier_init(&board->of[i].barrier, NULL, 0, n + 1));
}
static void wait_barrier(int i)
{
	dsm_barrier_t b = board->of[i].barrier;

	MUST(dsm_barrier_wait(&b));
}
static void come(int i, unsigned n)
{
	(void)n;
	touch();
	wait_barrier(i);
}
static void free_barrier(int i)
{
	MUST(dsm_barrier_destroy(&board->of[i].barrier));
}

static void make_meeting(int i, unsigned n)
{
	store(&board->of[i].come, n * (uint64_t)test_size + 1);
}
static void wait_meeting(int i)
{
	int first = dsm_barrier_meet(&board->of[i].meeting, (unsigned)load(&board->of[i].come));

	REQUIRE(first == 0 || first == 1, "dsm_barrier_meet: %d", first);
}
static void come_to_meeting(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		wait_meeting(i);
}
static void leave_meeting(int i)
{
	(void)i; /* the next of so many meet there again */
}

static void *wait_to_be_joined(void *arg)
{
	wait_sem((int)(intptr_t)arg);
	return NULL;
}
static void wait_join(int i)
{
	const struct dsm_thread_options small = { .stack_size = STACK };
	dsm_thread_t t;

	MUST(dsm_spawn(&t, test_rank, &small, wait_to_be_joined, (void *)(intptr_t)i));
	MUST(dsm_join(t, NULL));
}

static void make_pin(int i, unsigned n)
{
	(void)n;
	MUST(dsm_pin(&pinned[i * 512], 8, DSM_WRITE));
}
static void wait_pin(int i)
{
	(void)load(&pinned[i * 512]);
}
static void drop_pin(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		MUST(dsm_unpin(&pinned[i * 512], 8));
}
static void wait_acquire(int i)
{
	MUST(dsm_acquire(&pinned[i * 512], 8, DSM_READ));
}
static void wait_to_pin(int i)
{
	int err;

	while ((err = dsm_pin(&pinned[i * 512], 8, DSM_READ)) == -EAGAIN)
		test_nap(1000000); /* 255 pins at a time */
	MUST(err);
	MUST(dsm_unpin(&pinned[i * 512], 8));
}
static uint64_t *many(int i)
{
	return &pinned[(2 + (unsigned)i * MANY) * 512];
}
static void make_pins(int i, unsigned n)
{
	MUST(dsm_pin(many(i), (n < MANY ? n : MANY) * 4096u, DSM_WRITE));
}
static void wait_pins(int i)
{
	uint64_t *mine = many(i) + __atomic_fetch_add(&turn[i], 1, __ATOMIC_RELAXED) % MANY * 512;

	MUST(dsm_prefetch(mine, 8, DSM_READ));
	(void)load(mine);
}
static void drop_pins(int i, unsigned n)
{
	touch();
	turn[i] = 0;
	if (!test_rank)
		MUST(dsm_unpin(many(i), (n < MANY ? n : MANY) * 4096u));
}
static void free_pin(int i)
{
	(void)i;
}

static const struct kind {
	const char *name;
	void (*make)(int i, unsigned n); /* by rank 0, for n threads of each rank */
	void (*wait)(int i);
	void (*release)(int i, unsigned n); /* by one thread of each rank; rank 0: the one that called make() */
	void (*unmake)(int i);              /* by rank 0 */
					    /* clang-format off */
} kinds[] = {
	{ "dsm_sem_wait", make_sem, wait_sem, post_sem, free_sem },
	{ "dsm_sem_timedwait", make_sem, wait_sem_timed, post_sem, free_sem },
	{ "dsm_mutex_lock", make_mutex, wait_mutex, leave_mutex, free_mutex },
	{ "dsm_rwlock_rdlock", make_rwlock, wait_read, leave_rwlock, free_rwlock },
	{ "dsm_rwlock_wrlock", make_rwlock, wait_write, leave_rwlock, free_rwlock },
	{ "dsm_cond_wait", make_cond, wait_cond, signal_cond, free_cond },
	{ "dsm_cond_timedwait", make_cond, wait_cond_timed, signal_cond, free_cond },
	{ "dsm_barrier_wait", make_barrier, wait_barrier, come, free_barrier },
	{ "dsm_barrier_meet", make_meeting, wait_meeting, come_to_meeting, leave_meeting },
	{ "dsm_join", make_sem, wait_join, post_sem, free_sem },
	{ "a read of a pinned block", make_pin, wait_pin, drop_pin, free_pin },
	{ "dsm_acquire of a pinned block", make_pin, wait_acquire, drop_pin, free_pin },
	{ "dsm_pin of a pinned block", make_pin, wait_to_pin, drop_pin, free_pin },
	{ "reads of many pinned blocks", make_pins, wait_pins, drop_pins, free_pin },
};
/* clang-format on */
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- calls that always complete ------------------------------------------------------------------ */

static void call_atomic(void)
{
	dsm_atomic_t a;
	uint64_t v = 0;

	MUST(dsm_atomic_init(&a, 1, (test_rank + 1) % test_size));
	MUST(dsm_atomic_fetch_add(&a, 1, NULL));
	MUST(dsm_atomic_load(&a, &v));
	MUST(dsm_atomic_compare_exchange(&a, &v, 3));
	MUST(dsm_atomic_destroy(&a));
}

static void call_sem(void)
{
	dsm_sem_t s;

	MUST(dsm_sem_init(&s, 0));
	EXPECT(dsm_sem_trywait(&s), -EAGAIN);
	EXPECT(dsm_sem_timedwait(&s, 1000), -ETIMEDOUT);
	MUST(dsm_sem_post(&s, 1));
	MUST(dsm_sem_wait(&s));
	MUST(dsm_sem_destroy(&s));
}

static void call_mutex(void)
{
	dsm_mutex_t m;
	dsm_cond_t c;

	MUST(dsm_mutex_init(&m));
	MUST(dsm_cond_init(&c));
	MUST(dsm_mutex_trylock(&m));
	MUST(dsm_cond_signal(&c));
	MUST(dsm_cond_broadcast(&c));
	EXPECT(dsm_cond_timedwait(&c, &m, 1000), -ETIMEDOUT);
	MUST(dsm_mutex_unlock(&m));
	MUST(dsm_mutex_lock(&m));
	MUST(dsm_mutex_unlock(&m));
	MUST(dsm_cond_destroy(&c));
	MUST(dsm_mutex_destroy(&m));
}

static void call_rwlock(void)
{
	dsm_rwlock_t l;

	MUST(dsm_rwlock_init(&l));
	MUST(dsm_rwlock_rdlock(&l));
	MUST(dsm_rwlock_unlock(&l));
	MUST(dsm_rwlock_wrlock(&l));
	MUST(dsm_rwlock_unlock(&l));
	MUST(dsm_rwlock_destroy(&l));
}

static void call_collective(void)
{
	uint64_t v = 1;

	meet();
	MUST(dsm_reduce(&v, DSM_UINT64, DSM_SUM));
	REQUIRE(v == (uint64_t)test_size, "the sum is %lu", v);
	MUST(dsm_broadcast(&v, sizeof(v), test_size - 1));
}

static void call_range(void)
{
	MUST(dsm_prefetch(words, 4096, DSM_WRITE));
	MUST(dsm_acquire(words, 4096, DSM_READ));
	MUST(dsm_release(words, 4096));
	MUST(dsm_pin(words, 4096, DSM_WRITE));
	touch();
	MUST(dsm_unpin(words, 4096));
}

static void call_region(void)
{
	struct dsm_region_info info;
	/* What the others have written moves to the last rank when they leave. */
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED, .home_rank = test_size - 1 };
	dsm_region_t *r;
	uint64_t *p;

	MUST(dsm_region_open("crowd-more", 64 << 10, &opt, &r));
	p = dsm_region_base(r);
	store(&p[test_rank * 512 % 8192], 1);
	MUST(dsm_region_query(p, &info));
	MUST(dsm_region_detach(r));
	meet();
	if (!test_rank)
		MUST(dsm_region_destroy("crowd-more"));
	meet();
}

static void call_heap(void)
{
	uint64_t *p = dsm_malloc(64);

	REQUIRE(p, "no memory");
	store(p, 1);
	MUST(dsm_broadcast(&p, sizeof(p), 0));
	meet();
	if (test_rank == test_size - 1)
		MUST(dsm_free(p));
}

static void call_stats(void)
{
	struct dsm_hot_block hot[4];
	struct dsm_stats s;

	MUST(dsm_stats_get(-1, NULL, &s));
	REQUIRE(dsm_stats_hot(hot, 4) >= 0, "no hot blocks");
}

static const struct call {
	const char *name;
	void (*fn)(void);
	bool together; /* all ranks make it */
		       /* clang-format off */
} calls[] = {
	{ "touching a block", touch, false },
	{ "an atomic", call_atomic, false },
	{ "dsm_sem_post, dsm_sem_trywait", call_sem, false },
	{ "a free mutex, a signal", call_mutex, false },
	{ "a free rwlock", call_rwlock, false },
	{ "a collective", call_collective, true },
	{ "dsm_prefetch, dsm_acquire, dsm_pin", call_range, false },
	{ "a region", call_region, true },
	{ "the heap", call_heap, true },
	{ "statistics", call_stats, false },
};
/* clang-format on */
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* ---- crowds ----------------------------------------------------------------------------------------- */

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

struct crowd {
	pthread_t *id;
	unsigned n, in;
	int i;
	const struct kind *kind;
};

static void *wait_in_crowd(void *arg)
{
	struct crowd *c = arg;

	__atomic_fetch_add(&c->in, 1, __ATOMIC_RELEASE);
	c->kind->wait(c->i);
	return NULL;
}

static void gather(struct crowd *c, const struct kind *kind, int i, unsigned n)
{
	pthread_attr_t small;
	unsigned k;

	*c = (struct crowd){ .id = calloc(n, sizeof(*c->id)), .n = n, .i = i, .kind = kind };
	REQUIRE(c->id, "no memory");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	for (k = 0; k < n; k++)
		REQUIRE(!pthread_create(&c->id[k], &small, wait_in_crowd, c), "no thread %u", k);
	pthread_attr_destroy(&small);
}

static void disperse(struct crowd *c)
{
	unsigned k;

	for (k = 0; k < c->n; k++)
		pthread_join(c->id[k], NULL);
	free(c->id);
}

/* Until all are inside and asleep, or at least had the time for it. */
static void settle(const struct crowd *c)
{
	uint64_t start = test_ns(), was = test_cpu_ns(), now;

	do {
		test_nap(50000000);
		now = test_cpu_ns() - was;
		was += now;
	} while (test_ns() - start < 5000000000u &&
		 (__atomic_load_n(&c->in, __ATOMIC_ACQUIRE) < c->n || now > 5000000));
}

static void one_more(const struct kind *crowd, const struct kind *kind)
{
	struct crowd one;

	begin_step(crowd->name, kind->name);
	if (!test_rank)
		kind->make(1, 1);
	meet();
	gather(&one, kind, 1, 1);
	test_nap(1000000);
	kind->release(1, 1);
	disperse(&one);
	meet();
	if (!test_rank)
		kind->unmake(1);
}

/*
 * Sleepers cost nothing: 3 tenths of a processor over all ranks at most, where 10,000 threads sleep. It may take a while until
 * the last of them does.
 */
static void check_asleep(const struct kind *kind)
{
	const uint64_t window = waiters < 1000 ? 200000000 : 1000000000;
	uint64_t used = window;
	int try;

	begin_step(kind->name, "sleeping");
	for (try = 0; used >= window * percent / 100; try++) {
		REQUIRE(try < 15, "%lu threads that wait in %s used %lu ms of processor time in %lu ms", waiters,
			kind->name, used / 1000000, window / 1000000);
		meet();
		used = test_cpu_ns();
		test_nap(window);
		used = test_cpu_ns() - used;
		MUST(dsm_reduce(&used, DSM_UINT64, DSM_SUM));
		test_say("        %lu ms of processor time in %lu ms", used / 1000000, window / 1000000);
	}
}

static void crowd_in(const struct kind *kind)
{
	unsigned before = descriptors(), now;
	struct crowd c;
	size_t k;

	test_say("    %s", kind->name);
	begin_step(kind->name, "coming");
	if (!test_rank)
		kind->make(0, (unsigned)waiters);
	meet();
	gather(&c, kind, 0, (unsigned)waiters);
	settle(&c);
	now = descriptors();
	REQUIRE(now <= before + 64, "%lu threads that wait have opened %u descriptors", waiters, now - before);
	check_asleep(kind);
	for (k = 0; k < CALLS; k++) {
		begin_step(kind->name, calls[k].name);
		calls[k].fn();
	}
	for (k = 0; pairs && k < KINDS; k++)
		one_more(kind, &kinds[k]);
	begin_step(kind->name, "the release of all");
	kind->release(0, (unsigned)waiters);
	disperse(&c);
	meet();
	if (!test_rank)
		kind->unmake(0);
}

static void part_crowds(void)
{
	size_t k;

	for (k = 0; k < KINDS; k++)
		crowd_in(&kinds[k]);
}

/* ---- more pinned blocks than slots --------------------------------------------------------------------- */

static uint64_t *block_of(unsigned i)
{
	return &pinned[(size_t)i * 512];
}

static void write_taken(int i)
{
	const unsigned k = __atomic_fetch_add(&turn[i], 1, __ATOMIC_RELAXED);

	store(&block_of(k)[1], k + 8); /* not read before: the contents come with the permission */
}

/*
 * Rank 0 has written blocks, the last rank has pinned them to read, and each thread of another rank writes one: its contents come
 * from rank 0 and wait for the last rank's acknowledgement. The calls of that rank miss other blocks meanwhile.
 */
static void part_taken(void)
{
	static const struct kind writing = { .name = "writes of blocks pinned to read", .wait = write_taken };
	const int last = test_size - 1, writer = test_size > 1 ? test_size - 2 : 0;
	const bool writes = test_rank == writer && writer != last;
	struct crowd c;
	unsigned k;

	begin_step("nothing", "taking blocks");
	turn[0] = 0;
	for (k = 0; !test_rank && k < taken; k++)
		store(block_of(k), k + 7);
	meet();
	if (test_rank == last)
		MUST(dsm_pin(pinned, taken * 4096, DSM_READ));
	meet();
	if (writes) {
		gather(&c, &writing, 0, (unsigned)taken);
		settle(&c);
	}
	meet();
	for (k = 0; k < CALLS; k++) {
		begin_step(writing.name, calls[k].name);
		calls[k].fn();
	}
	begin_step(writing.name, "the release of all");
	meet();
	if (test_rank == last)
		MUST(dsm_unpin(pinned, taken * 4096));
	if (writes)
		disperse(&c);
	meet();
	for (k = 0; writer != last && k < taken; k++)
		REQUIRE(load(&block_of(k)[0]) == k + 7 && load(&block_of(k)[1]) == k + 8, "block %u has %lu, %lu", k,
			load(&block_of(k)[0]), load(&block_of(k)[1]));
	meet();
}

/* ---- collectives ------------------------------------------------------------------------------------------ */

static void enter_barrier(int i)
{
	(void)i;
	meet();
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

/* All ranks but the last have a thread in it; every call that needs no other rank's goes on. */
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
	for (k = 0; k < CALLS; k++) {
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
		make_sem(0, 0);
	meet();
	for (k = 0; k < sizeof(entered) / sizeof(entered[0]); k++)
		wait_for_last(&entered[k]);
	meet();
	if (!test_rank)
		free_sem(0);
}

/* ---- a counter ---------------------------------------------------------------------------------------- */

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
	meet();
	gather(&c, &adding, 0, (unsigned)waiters);
	disperse(&c);
	meet();
	REQUIRE(load(&board->counter) == 3 * waiters * (uint64_t)test_size, "the counter is %lu",
		load(&board->counter));
	meet();
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
		{ "taken", "N", "blocks that a rank writes while another has them pinned; at most 5000", &taken },
	};
	static const struct test_part parts[] = { { "a counter", part_counter },
						  { "crowds", part_crowds },
						  { "taken blocks", part_taken },
						  { "collectives", part_collectives } };
	pthread_t dog;

	test_start(argc, argv, "Every call goes on while more threads wait than any table has room for.", options,
		   sizeof(options) / sizeof(options[0]));
	begin_step("nothing", "the start");
	REQUIRE(!pthread_create(&dog, NULL, watch, NULL), "no thread");
	board = test_region("crowd", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	words = test_region("crowd-words", 4096, 4096, DSM_HOME_FIXED, test_size - 1);
	pinned = test_region("crowd-pinned", (2 + 2 * MANY) * 4096, 4096, DSM_HOME_FIXED, 0);
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	begin_step("nothing", "the end");
	return test_end();
}
