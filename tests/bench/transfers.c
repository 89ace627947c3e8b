// SPDX-License-Identifier: BSD-2-Clause
/*
 * transfers.c - read misses of one rank, with and without a neighbour rank of the same node that
 * moves 4 MiB at a time.
 *
 * Runs under mpirun, four ranks on two nodes: ranks 0 and 2 on one, ranks 1 and 3 on the other.
 * Rank 1 reads blocks of 4 KiB that rank 0 has written anew, each read timed. Rank 3 fetches 4 MiB
 * that rank 2 has written anew, in blocks of --block bytes, again and again: in one half of the
 * rounds, by turns with the other half.
 *
 * Output: JSON lines. Rank 1 prints the times of both halves, rank 3 what it fetched meanwhile.
 */
#include <dsm.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

#define PAGE 4096
#define BATCH 32 /* misses between two barriers */
#define LARGE ((size_t)4 << 20)

enum { QUIET, BESIDE, HALVES };

/* In a region, each member in a block of its own. */
struct board {
	struct {
		/* rank 1: it is over; rank 3: no transfer of it follows */
		volatile unsigned int round;
		char pad[PAGE - sizeof(unsigned int)];
	} measured, fetched;
};

static unsigned int samples = 256, rounds = 4, gap_us = 1000, block = 2 << 20;
static int rank;
static struct board *board;
static volatile char *pages, *large;
static dsm_region_t *large_region;
static dsm_barrier_t pair;              /* of ranks 0 and 1 */
static dsm_sem_t wanted, filled, begun; /* of ranks 2 and 3; rank 3 posts begun to rank 1 */
static double *times[HALVES];
static unsigned int taken[HALVES];

static void *open_region(const char *name, size_t size, size_t block_size, int home,
			 dsm_region_t **region)
{
	struct dsm_region_options o = { .block_size = block_size,
					.home = DSM_HOME_FIXED,
					.home_rank = home };

	bench_check(dsm_region_open(name, size, &o, region), "dsm_region_open");
	return dsm_region_base(*region);
}

static void make(void)
{
	static const int both[] = { 0, 1 };
	dsm_region_t *region;
	int half;

	board = open_region("board", sizeof(*board), PAGE, 0, &region);
	pages = open_region("pages", (size_t)BATCH * PAGE, PAGE, 0, &region);
	large = open_region("large", LARGE, block, 2, &large_region);
	if (rank == 0) {
		bench_check(dsm_barrier_init(&pair, both, 2, 1), "dsm_barrier_init");
		bench_check(dsm_sem_init(&wanted, 0), "dsm_sem_init");
		bench_check(dsm_sem_init(&filled, 0), "dsm_sem_init");
		bench_check(dsm_sem_init(&begun, 0), "dsm_sem_init");
	}
	bench_check(dsm_broadcast(&pair, sizeof(pair), 0), "dsm_broadcast");
	bench_check(dsm_broadcast(&wanted, sizeof(wanted), 0), "dsm_broadcast");
	bench_check(dsm_broadcast(&filled, sizeof(filled), 0), "dsm_broadcast");
	bench_check(dsm_broadcast(&begun, sizeof(begun), 0), "dsm_broadcast");
	for (half = 0; half < HALVES; half++) {
		times[half] = calloc((size_t)rounds * samples, sizeof(double));
		if (!times[half])
			dsm_abort(1, "out of memory");
	}
}

/* ---- ranks 0 and 1 --------------------------------------------------------------------------- */

static double read_miss(int i)
{
	double start = bench_now_us();

	while (bench_now_us() - start < gap_us)
		;
	start = bench_now_us();
	(void)pages[i * PAGE];
	return bench_now_us() - start;
}

static void measure(int half)
{
	unsigned int end = taken[half] + samples;
	int i;

	if (rank == 1 && half == BESIDE)
		bench_check(dsm_sem_wait(&begun), "dsm_sem_wait");
	while (taken[half] < end) {
		for (i = 0; i < BATCH && rank == 0; i++)
			pages[i * PAGE]++;
		bench_check(dsm_barrier_wait(&pair), "dsm_barrier_wait");
		for (i = 0; i < BATCH && taken[half] < end; i++, taken[half]++)
			if (rank == 1)
				times[half][taken[half]] = read_miss(i);
		bench_check(dsm_barrier_wait(&pair), "dsm_barrier_wait");
	}
}

/* ---- ranks 2 and 3 --------------------------------------------------------------------------- */

static void write_anew(unsigned int round)
{
	size_t at;

	for (;;) {
		bench_check(dsm_sem_wait(&wanted), "dsm_sem_wait");
		if (board->fetched.round == round)
			return;
		for (at = 0; at < LARGE; at += block)
			large[at]++;
		bench_check(dsm_sem_post(&filled, 1), "dsm_sem_post");
	}
}

static unsigned int fetch(unsigned int round)
{
	unsigned int n = 0;

	do {
		bench_check(dsm_sem_post(&wanted, 1), "dsm_sem_post");
		bench_check(dsm_sem_wait(&filled), "dsm_sem_wait");
		if (n == 0)
			bench_check(dsm_sem_post(&begun, 1), "dsm_sem_post");
		bench_check(dsm_acquire((const char *)large, LARGE, DSM_READ), "dsm_acquire");
		n++;
	} while (board->measured.round != round);
	board->fetched.round = round;
	bench_check(dsm_sem_post(&wanted, 1), "dsm_sem_post");
	return n;
}

/* ---- both ------------------------------------------------------------------------------------ */

static void report(int half)
{
	static const char *const names[] = { "quiet", "beside transfers" };
	double *v = times[half];
	unsigned int n = taken[half];

	qsort(v, n, sizeof(*v), bench_by_value);
	printf("{\"row\": \"%s\", \"samples\": %u, \"p10_us\": %.3f, \"median_us\": %.3f, \"p99_us\": %.3f}\n",
	       names[half], n, v[n / 10], v[n / 2], v[(size_t)(0.99 * (n - 1))]);
}

static void report_transfers(unsigned int n, double us)
{
	struct dsm_stats s;

	bench_check(dsm_stats_get(rank, large_region, &s), "dsm_stats_get");
	printf("{\"row\": \"transfers\", \"count\": %u, \"bytes\": %llu, \"blocks\": %llu, \"us\": %.0f}\n",
	       n, (unsigned long long)s.bytes_in, (unsigned long long)s.blocks_in, us);
}

static void run(void)
{
	unsigned int round, n = 0;
	double us = 0, start;

	/* The first round is to warm up. */
	for (round = 1; round <= rounds + 1; round++) {
		if (round == 2)
			taken[QUIET] = taken[BESIDE] = 0;
		bench_check(dsm_barrier(), "dsm_barrier");
		if (rank < 2)
			measure(QUIET);
		bench_check(dsm_barrier(), "dsm_barrier");
		start = bench_now_us();
		if (rank < 2)
			measure(BESIDE);
		if (rank == 1)
			board->measured.round = round;
		if (rank == 2)
			write_anew(round);
		if (rank == 3)
			n += fetch(round);
		us += bench_now_us() - start;
	}
	bench_check(dsm_barrier(), "dsm_barrier");
	if (rank == 1) {
		report(QUIET);
		report(BESIDE);
	}
	if (rank == 3)
		report_transfers(n, us);
	fflush(stdout);
}

static int usage(FILE *f)
{
	fprintf(f,
		"usage: mpirun -n 4 transfers [--samples N] [--rounds N] [--gap US] [--block BYTES]\n"
		"Single read misses beside transfers of 4 MiB, on two nodes of two ranks: JSON lines.\n");
	return f == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "samples", required_argument, NULL, 'n' },
		{ "gap", required_argument, NULL, 'g' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "block", required_argument, NULL, 'b' },
		{ 0 },
	};
	struct dsm_config cfg;
	int c, err;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
		if (c == 'n')
			samples = bench_number(optarg, 1, 1 << 20);
		else if (c == 'r')
			rounds = bench_number(optarg, 1, 1000);
		else if (c == 'g')
			gap_us = bench_number(optarg, 0, 1000000);
		else if (c == 'b')
			block = bench_number(optarg, PAGE, 2 << 20);
		else
			return usage(c == 'h' ? stdout : stderr);
	err = dsm_config_init(&cfg);
	cfg.readahead = 0;
	if (!err)
		err = dsm_init(&cfg);
	if (err) {
		fprintf(stderr, "transfers: %s\n", dsm_strerror(err));
		return 1;
	}
	rank = dsm_rank();
	if (dsm_size() != 4 || dsm_nodes() != 2)
		dsm_abort(2, "transfers needs four ranks on two nodes (mpirun --map-by node)");
	make();
	run();
	bench_check(dsm_finalize(), "dsm_finalize");
	return 0;
}
