// SPDX-License-Identifier: BSD-2-Clause
/*
 * main.c - around main() of a program (-Wl,--wrap=main,--wrap=exit): how long it took, and what
 * each rank did meanwhile. The program itself is unchanged. Linked without libdsm, it only takes
 * the time.
 *
 * The last line of standard output is a JSON object.
 */
#include <dsm.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define RANKS_MAX 8

#pragma weak dsm_call
#pragma weak dsm_join
#pragma weak dsm_nodes
#pragma weak dsm_size
#pragma weak dsm_spawn
#pragma weak dsm_stats_get

int __real_main(int argc, char **argv, char **envp);
int __wrap_main(int argc, char **argv, char **envp);
void __real_exit(int status) __attribute__((noreturn));
void __wrap_exit(int status) __attribute__((noreturn));

struct sample {
	int ranks, nodes;
	uint64_t cpu_us[RANKS_MAX]; /* of each rank's process */
	/* what its threads waited for mutexes and reader-writer locks */
	uint64_t lock_us[RANKS_MAX];
	struct dsm_stats stats; /* of all ranks */
};

static uint64_t now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void *cpu_time(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)now_us(CLOCK_PROCESS_CPUTIME_ID);
}

/*
 * By dsm_call(): the library writes to the sample, and the caller's lies on the shared stack of
 * main().
 */
static void take_of_job(void *arg)
{
	struct sample s = { .ranks = dsm_size(), .nodes = dsm_nodes() };
	struct dsm_stats of_rank;
	dsm_thread_t t;
	void *us;
	int r;

	for (r = 0; r < s.ranks && r < RANKS_MAX; r++) {
		if (!dsm_spawn(&t, r, NULL, cpu_time, NULL) && !dsm_join(t, &us))
			s.cpu_us[r] = (uint64_t)(uintptr_t)us;
		if (!dsm_stats_get(r, NULL, &of_rank))
			s.lock_us[r] = of_rank.latency_sum_ns[DSM_LAT_LOCK] / 1000;
	}
	if (dsm_stats_get(-1, NULL, &s.stats))
		s.ranks = 0;
	*(struct sample *)arg = s;
}

static void take(struct sample *s)
{
	if (dsm_call)
		dsm_call(take_of_job, s);
	else
		*s = (struct sample){ .ranks = 1, .cpu_us = { now_us(CLOCK_PROCESS_CPUTIME_ID) } };
}

static uint64_t misses(const struct sample *s)
{
	return s->stats.read_faults + s->stats.write_faults + s->stats.upgrades;
}

static void print_ranks(const char *name, int ranks, const uint64_t *after, const uint64_t *before)
{
	int r;

	printf(", \"%s\": [", name);
	for (r = 0; r < ranks && r < RANKS_MAX; r++)
		printf("%s%lu", r ? ", " : "", (unsigned long)(after[r] - before[r]));
	putchar(']');
}

/* At the beginning of main(). In a page of its own, as if it were not there. */
static struct {
	struct sample sample;
	uint64_t us;
} begun __attribute__((aligned(4096)));

static void report(void)
{
	const uint64_t us = now_us(CLOCK_MONOTONIC) - begun.us;
	const struct sample *before = &begun.sample;
	struct sample after = { 0 };

	take(&after);
	printf("{\"us\": %lu, \"ranks\": %d, \"nodes\": %d, \"misses\": %lu, \"repeated\": %lu, \"locks\": %lu, \"lock_waits\": %lu",
	       (unsigned long)us, after.ranks, after.nodes,
	       (unsigned long)(misses(&after) - misses(before)),
	       (unsigned long)(after.stats.repeated_faults - before->stats.repeated_faults),
	       (unsigned long)(after.stats.locks - before->stats.locks),
	       (unsigned long)(after.stats.lock_waits - before->stats.lock_waits));
	print_ranks("cpu_us", after.ranks, after.cpu_us, before->cpu_us);
	print_ranks("lock_us", after.ranks, after.lock_us, before->lock_us);
	puts("}");
}

int __wrap_main(int argc, char **argv, char **envp)
{
	int status;

	take(&begun.sample);
	begun.us = now_us(CLOCK_MONOTONIC);
	status = __real_main(argc, argv, envp);
	report();
	return status;
}

void __wrap_exit(int status)
{
	report();
	__real_exit(status);
}
