// SPDX-License-Identifier: BSD-2-Clause
/* times.c - see times.h. Threads: any; counters are thread-local until a thread leaves a part. */
#include "times.h"

#include <dsm.h>
#include <dsm_anl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#pragma weak dsm_stats_get /* absent without libdsm */

#define PAGE 4096ul

/* What threads did in a part. */
struct counts {
	struct dsm_anl_times there; /* processor time without that of waits */
	uint64_t waits[WAITS], waited_ns[WAITS];
};

/*
 * `part` is odd within the parallel part. The struct has a page of its own: all threads read part
 * and timed, and writes to the program's variables would take a shared page from them.
 */
static struct {
	pthread_mutex_t lock; /* guards sum */
	struct counts sum;
	bool timed; /* constant once threads run */
	/* written by the thread that begins or ends a part, read without a lock */
	uint32_t part;
	/* the program marks the part to be timed; this and all that follows: of such threads */
	bool roi;
	uint64_t since, ns; /* since 0: not in the parallel part */
	long threads;
	/* the job's counters in parallel parts, and at the start of this one */
	struct dsm_stats faults, before;
} __attribute__((aligned(PAGE))) all = { .threads = 1 };

/*
 * The calling thread: its counts in this part, and what its clocks said when it came into the part.
 */
static __thread struct {
	uint32_t part;
	struct dsm_anl_times start, waiting; /* waiting: within waits */
	struct counts now;
} self;

static uint64_t anl_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t ns_of(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* Read the thread's clocks. The split into user and kernel is the system's, the sum is exact. */
static void read_clocks(struct dsm_anl_times *t)
{
	struct timespec cpu;
	struct rusage use;
	uint64_t sum, kernel, user;

	t->wall = anl_now();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	sum = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
	getrusage(RUSAGE_THREAD, &use);
	kernel = ns_of(use.ru_stime);
	user = ns_of(use.ru_utime);
	t->kernel = kernel + user
		? (uint64_t)((double)sum * (double)kernel / (double)(kernel + user))
		: 0;
	t->user = sum - t->kernel;
}

static uint64_t positive(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Add the calling thread's counts in the part that it leaves to the program's. */
static void add_times(void)
{
	struct dsm_anl_times end;
	int i;

	read_clocks(&end);
	pthread_mutex_lock(&all.lock);
	all.sum.there.wall += end.wall - self.start.wall;
	all.sum.there.user += positive(end.user - self.start.user, self.waiting.user);
	all.sum.there.kernel += positive(end.kernel, self.start.kernel + self.waiting.kernel);
	for (i = 0; i < WAITS; i++) {
		all.sum.waits[i] += self.now.waits[i];
		all.sum.waited_ns[i] += self.now.waited_ns[i];
	}
	pthread_mutex_unlock(&all.lock);
}

/* Follow the program into its current part. */
static void enter_part(void)
{
	const uint32_t part = __atomic_load_n(&all.part, __ATOMIC_ACQUIRE);

	if (self.part == part)
		return;
	if (self.part & 1)
		add_times();
	self.part = part;
	memset(&self.now, 0, sizeof(self.now));
	memset(&self.waiting, 0, sizeof(self.waiting));
	read_clocks(&self.start);
}

void dsm_anl_wait_begin(struct dsm_anl_times *start)
{
	if (__builtin_expect(!all.timed, 1))
		return;
	enter_part();
	read_clocks(start);
}

void dsm_anl_wait_end(enum dsm_anl_wait kind, const struct dsm_anl_times *start)
{
	struct dsm_anl_times end;

	if (__builtin_expect(!all.timed, 1))
		return;
	read_clocks(&end);
	self.now.waits[kind]++;
	self.now.waited_ns[kind] += end.wall - start->wall;
	self.waiting.user += positive(end.user, start->user);
	self.waiting.kernel += positive(end.kernel, start->kernel);
}

void dsm_anl_thread_begin(void)
{
	if (all.timed)
		enter_part();
}

void dsm_anl_thread_end(void)
{
	if (all.timed && self.part & 1)
		add_times();
}

/* ---- the report ------------------------------------------------------------------------------ */

static void print_faults(FILE *f)
{
	const uint64_t *ns = all.faults.latency_sum_ns;

	fprintf(f, "read_us %lu\nwrite_us %lu\n", (unsigned long)(ns[DSM_LAT_READ_MISS] / 1000),
		(unsigned long)((ns[DSM_LAT_WRITE_MISS] + ns[DSM_LAT_UPGRADE]) / 1000));
}

/* Print the sums so far, after each parallel part. */
static void anl_report(void)
{
	static const char *const names[WAITS] = { "lock", "barrier", "pause", "join" };
	const char *file = getenv("ANL_REPORT");
	FILE *f = file ? fopen(file, "w") : NULL;
	int i;

	if (!f)
		return;
	fprintf(f, "us %lu\nthreads %ld\n", (unsigned long)(all.ns / 1000), all.threads);
	pthread_mutex_lock(&all.lock);
	for (i = 0; i < WAITS && all.timed; i++)
		fprintf(f, "%ss %lu\n%s_us %lu\n", names[i], (unsigned long)all.sum.waits[i],
			names[i], (unsigned long)(all.sum.waited_ns[i] / 1000));
	if (all.timed)
		fprintf(f, "thread_us %lu\nuser_us %lu\nkernel_us %lu\n",
			(unsigned long)(all.sum.there.wall / 1000),
			(unsigned long)(all.sum.there.user / 1000),
			(unsigned long)(all.sum.there.kernel / 1000));
	pthread_mutex_unlock(&all.lock);
	if (all.timed)
		print_faults(f);
	fclose(f);
}

/*
 * The job's counters. This takes a round trip to each rank, so it stays outside of what is timed.
 */
static bool get_faults(struct dsm_stats *s)
{
	return all.timed && dsm_stats_get && !dsm_stats_get(-1, NULL, s);
}

static void start_clock(void)
{
	if (all.since)
		return;
	if (!get_faults(&all.before))
		memset(&all.before, 0, sizeof(all.before));
	all.since = anl_now();
	__atomic_store_n(&all.part, all.part + 1, __ATOMIC_RELEASE);
	if (all.timed)
		enter_part();
}

static void stop_clock(void)
{
	struct dsm_stats end;
	int i;

	if (!all.since)
		return;
	all.ns += anl_now() - all.since;
	all.since = 0;
	__atomic_store_n(&all.part, all.part + 1, __ATOMIC_RELEASE);
	if (all.timed)
		enter_part();
	if (!get_faults(&end))
		return;
	for (i = 0; i < DSM_LAT_MAX; i++)
		all.faults.latency_sum_ns[i] +=
			end.latency_sum_ns[i] - all.before.latency_sum_ns[i];
}

/* What was timed so far lies outside of what the program marks. */
static void forget_part(void)
{
	if (all.since)
		stop_clock();
	pthread_mutex_lock(&all.lock);
	all.ns = 0;
	memset(&all.sum, 0, sizeof(all.sum));
	memset(&all.faults, 0, sizeof(all.faults));
	pthread_mutex_unlock(&all.lock);
}

void dsm_anl_roi(int begin)
{
	if (begin) {
		if (!all.roi)
			forget_part();
		all.roi = true;
		start_clock();
	} else {
		stop_clock();
		anl_report();
	}
}

void dsm_anl_times_init(void)
{
	all.timed = getenv("ANL_WAITS");
}

void dsm_anl_part_begin(void)
{
	if (!all.roi)
		start_clock();
}

void dsm_anl_part_end(long threads)
{
	all.threads = threads;
	if (!all.roi)
		stop_clock();
	/* A part that the program marks was reported before all threads had left it. */
	if (all.ns)
		anl_report();
}
