// SPDX-License-Identifier: BSD-2-Clause
/*
 * noise.c - how long single operations take, each one timed: medians and tails, for a quiet network and a loaded one.
 *
 * Runs under mpirun; rank 0 is the home of everything, rank 1 asks, others wait in a barrier. Three operations by turns,
 * so that what loads the machine meets all of them alike:
 *
 *   read miss    a block that rank 0 has written anew (class data)
 *   atomic       a fetch-and-add at rank 0 (class sync)
 *   lock         a free lock that rank 0 held last (class sync)
 *
 * Output: one JSON object a line on rank 0, in microseconds.
 */
#include <dsm.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define BLOCK 4096
#define BATCH 32 /* operations of a kind between two barriers */

enum { READ_MISS, ATOMIC, LOCK, KINDS };

static const char *const names[KINDS] = { "read miss", "atomic", "lock" };

static unsigned int nsamples = 512;
static const char *label = "";
static int rank;
static volatile char *area;
static dsm_mutex_t locks[BATCH];
static dsm_atomic_t counter;

static void check(int err, const char *what)
{
	if (err < 0)
		dsm_abort(1, "%s: %s", what, dsm_strerror(err));
}

static void make(void)
{
	struct dsm_region_options o = { .home = DSM_HOME_FIXED, .home_rank = 0 };
	dsm_region_t *region;
	int i;

	check(dsm_region_open("noise", (size_t)BATCH * BLOCK, &o, &region), "dsm_region_open");
	area = dsm_region_base(region);
	if (rank == 0)
		check(dsm_atomic_init(&counter, 0, 0), "dsm_atomic_init");
	check(dsm_broadcast(&counter, sizeof(counter), 0), "dsm_broadcast");
	for (i = 0; i < BATCH; i++) {
		if (rank == 0)
			check(dsm_mutex_init(&locks[i]), "dsm_mutex_init");
		check(dsm_broadcast(&locks[i], sizeof(locks[i]), 0), "dsm_broadcast");
	}
}

/* The home takes everything back. */
static void prepare(int kind, char value)
{
	int i;

	for (i = 0; i < BATCH; i++)
		if (kind == READ_MISS) {
			area[i * BLOCK] = value;
		} else if (kind == LOCK) {
			check(dsm_mutex_lock(&locks[i]), "dsm_mutex_lock");
			check(dsm_mutex_unlock(&locks[i]), "dsm_mutex_unlock");
		}
}

/* The timed operation; what it takes to give up a lock is not part of it. */
static double once(int kind, int i)
{
	double start = bench_now_us(), end;

	if (kind == READ_MISS)
		(void)area[i * BLOCK];
	else if (kind == ATOMIC)
		check(dsm_atomic_fetch_add(&counter, 1, NULL), "dsm_atomic_fetch_add");
	else
		check(dsm_mutex_lock(&locks[i]), "dsm_mutex_lock");
	end = bench_now_us();
	if (kind == LOCK)
		check(dsm_mutex_unlock(&locks[i]), "dsm_mutex_unlock");
	return end - start;
}

static void report(int kind, double *v)
{
	static const double parts[] = { 0, 0.5, 0.9, 0.99, 1 };
	static const char *const part_names[] = { "min", "median", "p90", "p99", "max" };
	size_t i;

	qsort(v, nsamples, sizeof(*v), bench_by_value);
	if (rank == 0)
		printf("{\"row\": \"%s\", \"label\": \"%s\", \"samples\": %u", names[kind], label, nsamples);
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		double value = rank == 1 ? v[(size_t)(parts[i] * (nsamples - 1))] : 0;
		uint64_t bits;

		memcpy(&bits, &value, sizeof(bits));
		check(dsm_reduce(&bits, DSM_DOUBLE, DSM_MAX), "dsm_reduce");
		memcpy(&value, &bits, sizeof(value));
		if (rank == 0)
			printf(", \"%s_us\": %.3f", part_names[i], value);
	}
	if (rank == 0)
		printf("}\n");
	fflush(stdout);
}

static void measure(void)
{
	double *v[KINDS];
	unsigned int at = 0, i;
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		v[kind] = calloc(nsamples, sizeof(**v));
		if (!v[kind])
			dsm_abort(1, "out of memory");
	}
	/* The first batch only warms up. */
	for (at = 0; at <= nsamples; at += at ? BATCH : 1)
		for (kind = 0; kind < KINDS; kind++) {
			if (rank == 0)
				prepare(kind, (char)at);
			check(dsm_barrier(), "dsm_barrier");
			for (i = 0; i < BATCH && rank == 1; i++) {
				double us = once(kind, (int)i);

				if (at && at - 1 + i < nsamples)
					v[kind][at - 1 + i] = us;
			}
			check(dsm_barrier(), "dsm_barrier");
		}
	for (kind = 0; kind < KINDS; kind++) {
		report(kind, v[kind]);
		free(v[kind]);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "samples", required_argument, NULL, 'n' },
		{ "label", required_argument, NULL, 'l' },
		{ 0 },
	};
	struct dsm_config cfg;
	int c, err;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
		if (c == 'n' && atoi(optarg) > 0) {
			nsamples = (unsigned int)atoi(optarg);
		} else if (c == 'l') {
			label = optarg;
		} else {
			fprintf(c == 'h' ? stdout : stderr, "usage: mpirun -n 2 noise [--samples N] [--label TEXT]\n"
				"Single read misses, atomic operations and locks, each timed: JSON lines.\n");
			return c == 'h' ? 0 : 2;
		}
	err = dsm_config_init(&cfg);
	cfg.readahead = 0;
	if (!err)
		err = dsm_init(&cfg);
	if (err) {
		fprintf(stderr, "noise: %s\n", dsm_strerror(err));
		return 1;
	}
	rank = dsm_rank();
	if (dsm_size() < 2)
		dsm_abort(2, "noise needs at least two ranks");
	make();
	measure();
	check(dsm_finalize(), "dsm_finalize");
	return 0;
}
