// SPDX-License-Identifier: BSD-2-Clause
/*
 * micro.c - what one operation costs: misses, upgrades, transfers (micro_blocks.c), memory
 * (micro_memory.c), locks, barriers (micro_sync.c), allocation.
 *
 * Runs under mpirun with 2 to 8 ranks; rank 0 is the home of everything, rank 1 does the timed
 * work, further ranks are sharers or wait in a barrier. Each row is the median of several
 * repetitions of the mean over many operations. Output: one JSON object a line on rank 0.
 */
#include "micro.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct micro micro = { .blocks = 1024, .repeats = 7, .label = "default" };

/* Operations of a repetition, for rows that do not go through blocks. */
int micro_rounds(int usual)
{
	return micro.rounds ? micro.rounds : usual;
}

/* A region that nobody has touched: what earlier rows taught the homes about its blocks is gone. */
void micro_fresh(void)
{
	static dsm_region_t *region;
	struct dsm_region_options o = { .home = DSM_HOME_FIXED, .home_rank = 0 };

	if (region) {
		dsm_barrier();
		if (micro.rank == 0)
			bench_check(dsm_region_destroy("bench"), "dsm_region_destroy");
		bench_check(dsm_region_detach(region), "dsm_region_detach");
		dsm_barrier();
	}
	bench_check(dsm_region_open("bench", (size_t)micro.blocks * BLOCK, &o, &region),
		    "dsm_region_open");
	micro.area = dsm_region_base(region);
	dsm_barrier();
}

/* The median of each repetition's value, as rank 1 (or whoever passes a value) measured it. */
void micro_report(const char *name, double *v, int n, const char *unit)
{
	double best = 0;
	uint64_t bits;

	if (v) {
		qsort(v, (size_t)n, sizeof(*v), bench_by_value);
		best = v[n / 2];
	}
	memcpy(&bits, &best, sizeof(bits));
	bench_check(dsm_reduce(&bits, DSM_DOUBLE, DSM_MAX), "dsm_reduce");
	memcpy(&best, &bits, sizeof(best));
	if (micro.rank == 0) {
		printf("{\"row\": \"%s\", \"mode\": \"%s\", \"ranks\": %d, \"value\": %.3f, \"unit\": \"%s\"}\n",
		       name, micro.label, micro.size, best, unit);
		fflush(stdout);
	}
}

void micro_write_all(int by, char value)
{
	int i;

	if (micro.rank == by)
		for (i = 0; i < micro.blocks; i++)
			*(volatile char *)(micro.area + (size_t)i * BLOCK) = value;
	dsm_barrier();
}

void micro_read_all(int by)
{
	int i;

	if (micro.rank == by)
		for (i = 0; i < micro.blocks; i++)
			(void)*(volatile char *)(micro.area + (size_t)i * BLOCK);
	dsm_barrier();
}

static void bench_alloc(void)
{
	double v[REPEATS_MAX], start;
	int r, i, n = micro_rounds(20000);

	for (r = 0; r < micro.repeats; r++) {
		start = bench_now_us();
		for (i = 0; i < n; i++)
			dsm_free(dsm_malloc(64));
		v[r] = (bench_now_us() - start) / n * 1e3;
	}
	micro_report("malloc + free of 64 bytes", micro.rank == 1 ? v : NULL, micro.repeats, "ns");
}

static void report_cost(const char *what, const struct bench_cost *a, const struct bench_cost *b,
			int ops)
{
	static const char *const sides[] = { "home", "asker" };
	char name[96];
	int who;

	for (who = 0; who < 2; who++) {
		double calls = (double)(b->calls - a->calls) / ops,
		       cpu = (b->cpu_us - a->cpu_us) / ops,
		       switches = (double)(b->switches - a->switches) / ops;

		snprintf(name, sizeof(name), "%s: system calls, %s", what, sides[who]);
		micro_report(name, micro.rank == who ? &calls : NULL, 1, "calls");
		snprintf(name, sizeof(name), "%s: context switches, %s", what, sides[who]);
		micro_report(name, micro.rank == who ? &switches : NULL, 1, "switches");
		snprintf(name, sizeof(name), "%s: processor time, %s", what, sides[who]);
		micro_report(name, micro.rank == who ? &cpu : NULL, 1, "us");
	}
}

/* What one operation takes of both sides beside time; all while the home waits in a barrier. */
static void bench_costs(void)
{
	struct bench_cost before, after;
	static dsm_atomic_t a;
	int i, n = micro_rounds(2000);

	micro_fresh();
	micro_write_all(0, 1);
	bench_cost_read(&before);
	micro_read_all(1);
	bench_cost_read(&after);
	report_cost("read miss", &before, &after, micro.blocks);
	if (micro.rank == 0)
		bench_check(dsm_atomic_init(&a, 0, 0), "dsm_atomic_init");
	bench_check(dsm_broadcast(&a, sizeof(a), 0), "dsm_broadcast");
	dsm_barrier();
	bench_cost_read(&before);
	for (i = 0; micro.rank == 1 && i < n; i++)
		dsm_atomic_fetch_add(&a, 1, NULL);
	dsm_barrier();
	bench_cost_read(&after);
	report_cost("atomic", &before, &after, n);
}

static const struct bench {
	const char *name;
	void (*run)(void);
	/* clang-format off */
} benches[] = {
	{ "misses", micro_misses },	{ "first", micro_first },	{ "second", micro_second }, { "stream", micro_streams },
	{ "pingpong", micro_pingpong }, { "producer", micro_producers }, { "false", micro_false_sharing },
	{ "semaphores", micro_semaphores },
	{ "locks", micro_locks },	{ "handoff", micro_handoff },	{ "barrier", micro_barrier },	{ "atomics", micro_atomics },
	{ "alloc", bench_alloc },	{ "busy", micro_busy_home },	{ "computing", micro_computing_home },
	{ "storm", micro_storm },	{ "costs", bench_costs },	{ "large", micro_large },
	{ "back", micro_back },		{ "memory", micro_memory },
};
/* clang-format on */
#define BENCHES (sizeof(benches) / sizeof(benches[0]))

static void usage(FILE *to)
{
	size_t i;

	fprintf(to,
		"usage: mpirun -n N micro [--readahead K] [--blocks N] [--repeats N] [--rounds N] [--label TEXT] [GROUP...]\n"
		"Costs of single operations as JSON lines; groups:");
	for (i = 0; i < BENCHES; i++)
		fprintf(to, " %s", benches[i].name);
	fprintf(to, "\n");
}

static bool wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = optind; i < argc && strcmp(argv[i], name); i++)
		;
	return i < argc || optind == argc;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "readahead", required_argument, NULL, 'r' },
		{ "label", required_argument, NULL, 'l' },
		{ "blocks", required_argument, NULL, 'b' },
		{ "repeats", required_argument, NULL, 'n' },
		{ "rounds", required_argument, NULL, 'o' },
		{ 0 },
	};
	struct dsm_config cfg;
	int c, err = dsm_config_init(&cfg);
	size_t b;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h') {
			usage(stdout);
			return 0;
		} else if (c == 'r') {
			cfg.readahead = (unsigned int)atoi(optarg);
		} else if (c == 'l') {
			micro.label = optarg;
		} else if (c == 'b') {
			micro.blocks = (int)bench_number(optarg, 1, 1 << 20);
		} else if (c == 'n') {
			micro.repeats = (int)bench_number(optarg, 1, REPEATS_MAX);
		} else if (c == 'o') {
			micro.rounds = (int)bench_number(optarg, 1, 1 << 20);
		} else {
			usage(stderr);
			return 2;
		}
	}
	if (wanted("costs", argc, argv))
		bench_cost_open();
	if (!err)
		err = dsm_init(&cfg);
	if (err) {
		fprintf(stderr, "micro: %s\n", dsm_strerror(err));
		return 1;
	}
	micro.rank = dsm_rank();
	micro.size = dsm_size();
	if (micro.size < 2)
		dsm_abort(2, "micro needs at least two ranks");
	for (b = 0; b < BENCHES; b++)
		if (wanted(benches[b].name, argc, argv))
			benches[b].run();
	bench_check(dsm_finalize(), "dsm_finalize");
	return 0;
}
