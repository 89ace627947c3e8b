// SPDX-License-Identifier: BSD-2-Clause
/*
 * noise.c - how long single operations take, each one timed: medians and tails, for a quiet network
 * and a loaded one.
 *
 * Runs under mpirun; rank 0 is the home of everything, rank 1 asks, others wait in a barrier. The
 * operations come by turns, so that what loads the machine meets all of them alike:
 *
 *   read miss    a block that rank 0 has written anew (class data)
 *   write miss   the same; rank 0 loses it (with --faults)
 *   upgrade      a block that both have read: rank 0 loses it (with --faults)
 *   atomic       a fetch-and-add at rank 0 (class sync)
 *   lock         a free lock that rank 0 held last (class sync)
 *
 * With --echo, by turns with these, the same from kernel to kernel: a small message, a block
 * written in answer, by dsm.ko.
 *
 * With --floor, by turns with these, the least that they could cost: round trips over bare verbs
 * between the same two processes (common_link.h), both sides polling or both sleeping.
 *
 * --gap is for how long rank 1 computes before each operation: what the one before leaves to be
 * done is over by then.
 *
 * Output: one JSON object a line on rank 0, in microseconds.
 */
#include <dsm.h>
#include <dsm_uapi.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common.h"
#include "common_link.h"

#define BLOCK 4096
#define BATCH 32 /* operations of a kind between two barriers */

enum { READ_MISS, WRITE_MISS, UPGRADE, ATOMIC, LOCK, FLOOR_FAULT, FLOOR_MESSAGE, ECHO, KINDS };

static const char *const names[KINDS] = { "read miss",      "write miss",   "upgrade",
					  "atomic",         "lock",         "floor: fault",
					  "floor: message", "floor: kernel" };

static unsigned int nsamples = 512, gap_us;
static const char *label = "";
static int rank;
static volatile char *area, *areas[KINDS]; /* of the kind under way; of all */
static dsm_mutex_t locks[BATCH];
static dsm_atomic_t counter;
static struct link *bare;
static bool floors, floor_sleeps, faults, echo;
static int module = -1; /* the library's descriptor of dsm.ko */
static uintptr_t module_base;
/* upgrades: a block that is upgraded again is taken for one that migrates */
static dsm_region_t *once_only;

static dsm_region_t *make_area(int kind)
{
	struct dsm_region_options o = { .home = DSM_HOME_FIXED, .home_rank = 0 };
	dsm_region_t *region;

	bench_check(dsm_region_open(names[kind], (size_t)BATCH * BLOCK, &o, &region),
		    "dsm_region_open");
	areas[kind] = dsm_region_base(region);
	return region;
}

/* The window of the kernel helper that the library has opened, and its descriptor. */
static void find_module(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char path[64], line[512], name[512];

	for (module = 0; module < 256; module++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", module);
		n = readlink(path, name, sizeof(name) - 1);
		if (n > 0 && !strncmp(name, "/dev/dsm", (size_t)n))
			break;
	}
	while (maps && fgets(line, sizeof(line), maps) && !module_base)
		if (strstr(line, "/dev/dsm"))
			module_base = strtoull(line, NULL, 16);
	if (maps)
		fclose(maps);
	if (module == 256 || !module_base)
		dsm_abort(2, "--echo needs the kernel helper (DSM_BACKEND=kmod)");
}

static void make_echo(void)
{
	struct dsm_region_options o = { .home = DSM_HOME_FIXED, .home_rank = 0 };
	dsm_region_t *region;
	int i;

	find_module();
	bench_check(dsm_region_open("echo", (size_t)BATCH * BLOCK, &o, &region), "dsm_region_open");
	areas[ECHO] = dsm_region_base(region);
	for (i = 0; i < BATCH && rank == 0; i++)
		areas[ECHO][i * BLOCK] = 1;
}

static void make(void)
{
	int i;

	make_area(READ_MISS);
	make_area(WRITE_MISS);
	if (echo)
		make_echo();
	if (rank == 0)
		bench_check(dsm_atomic_init(&counter, 0, 0), "dsm_atomic_init");
	bench_check(dsm_broadcast(&counter, sizeof(counter), 0), "dsm_broadcast");
	for (i = 0; i < BATCH; i++) {
		if (rank == 0)
			bench_check(dsm_mutex_init(&locks[i]), "dsm_mutex_init");
		bench_check(dsm_broadcast(&locks[i], sizeof(locks[i]), 0), "dsm_broadcast");
	}
}

static void make_link(void)
{
	struct link_address here, there[2], *shared;
	dsm_region_t *region;

	bench_check(dsm_region_open("addresses", 2 * BLOCK, NULL, &region), "dsm_region_open");
	shared = dsm_region_base(region);
	if (rank < 2) {
		bare = link_open(NULL, -1, &here);
		shared[rank] = here;
	}
	bench_check(dsm_barrier(), "dsm_barrier");
	memcpy(there, shared, sizeof(there));
	if (rank < 2)
		link_connect(bare, &there[!rank]);
	bench_check(dsm_barrier(), "dsm_barrier");
}

/* The home takes everything back. */
static void prepare(int kind, char value)
{
	int i;

	for (i = 0; i < BATCH; i++)
		if (kind < ATOMIC) {
			area[i * BLOCK] = value;
		} else if (kind == LOCK) {
			bench_check(dsm_mutex_lock(&locks[i]), "dsm_mutex_lock");
			bench_check(dsm_mutex_unlock(&locks[i]), "dsm_mutex_unlock");
		}
}

/* The timed operation; what it takes to give up a lock is not part of it. */
static double once(int kind, int i)
{
	double start = bench_now_us(), end;

	while (bench_now_us() - start < gap_us)
		;
	start = bench_now_us();
	if (kind == ECHO) {
		struct dsm_ioc_range r = {
			.op = DSM_RANGE_ECHO,
			.pages = 1,
			.page = (uint32_t)(((uintptr_t)areas[ECHO] - module_base) / BLOCK +
					   (uintptr_t)i)
		};

		if (ioctl(module, DSM_IOC_RANGE, &r))
			dsm_abort(2, "echo: %s", strerror(errno));
	} else if (kind >= FLOOR_FAULT) {
		enum link_ask ask = kind == FLOOR_FAULT ? LINK_FAULT : LINK_MESSAGE;

		link_ask(bare, ask, floor_sleeps, (uint32_t)i);
		link_answered(bare, ask, floor_sleeps, (uint32_t)i);
	} else if (kind == READ_MISS)
		(void)area[i * BLOCK];
	else if (kind < ATOMIC)
		area[i * BLOCK] = 1;
	else if (kind == ATOMIC)
		bench_check(dsm_atomic_fetch_add(&counter, 1, NULL), "dsm_atomic_fetch_add");
	else
		bench_check(dsm_mutex_lock(&locks[i]), "dsm_mutex_lock");
	end = bench_now_us();
	if (kind == LOCK)
		bench_check(dsm_mutex_unlock(&locks[i]), "dsm_mutex_unlock");
	return end - start;
}

static void report(int kind, double *v)
{
	static const double parts[] = { 0, 0.1, 0.5, 0.9, 0.99, 1 };
	static const char *const part_names[] = { "min", "p10", "median", "p90", "p99", "max" };
	size_t i;

	qsort(v, nsamples, sizeof(*v), bench_by_value);
	if (rank == 0)
		printf("{\"row\": \"%s\", \"label\": \"%s\", \"samples\": %u", names[kind], label,
		       nsamples);
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		double value = rank == 1 ? v[(size_t)(parts[i] * (nsamples - 1))] : 0;
		uint64_t bits;

		memcpy(&bits, &value, sizeof(bits));
		bench_check(dsm_reduce(&bits, DSM_DOUBLE, DSM_MAX), "dsm_reduce");
		memcpy(&value, &bits, sizeof(value));
		if (rank == 0)
			printf(", \"%s_us\": %.3f", part_names[i], value);
	}
	if (rank == 0)
		printf("}\n");
	fflush(stdout);
}

static void measure_batch(int kind, char value, double *v, unsigned int room)
{
	unsigned int i;

	if (kind == UPGRADE)
		once_only = make_area(kind);
	if (kind < ATOMIC)
		area = areas[kind];
	if (rank == 0)
		prepare(kind, value);
	bench_check(dsm_barrier(), "dsm_barrier");
	for (i = 0; i < BATCH && rank == 1 && kind == UPGRADE; i++)
		(void)area[i * BLOCK];
	if (rank == 0 && (kind == FLOOR_FAULT || kind == FLOOR_MESSAGE))
		link_respond(bare);
	for (i = 0; i < BATCH && rank == 1; i++) {
		double us = once(kind, (int)i);

		if (i < room)
			v[i] = us;
	}
	if (rank == 1 && (kind == FLOOR_FAULT || kind == FLOOR_MESSAGE))
		link_ask(bare, LINK_END, floor_sleeps, 0);
	bench_check(dsm_barrier(), "dsm_barrier");
	if (kind == UPGRADE) {
		bench_check(dsm_region_detach(once_only), "dsm_region_detach");
		bench_check(dsm_barrier(), "dsm_barrier");
		if (rank == 0)
			bench_check(dsm_region_destroy(names[kind]), "dsm_region_destroy");
		bench_check(dsm_barrier(), "dsm_barrier");
	}
}

static bool wanted(int kind)
{
	switch (kind) {
	case WRITE_MISS:
	case UPGRADE: return faults;
	case FLOOR_FAULT:
	case FLOOR_MESSAGE: return floors;
	case ECHO: return echo;
	default: return true;
	}
}

static void measure(void)
{
	double *v[KINDS];
	unsigned int at;
	int kind;

	for (kind = 0; kind < KINDS; kind++) {
		v[kind] = calloc(nsamples, sizeof(**v));
		if (!v[kind])
			dsm_abort(1, "out of memory");
	}
	for (at = 0; at <= nsamples; at += at ? BATCH : 1)
		for (kind = 0; kind < KINDS; kind++)
			/* The first batch only warms up. */
			if (wanted(kind))
				measure_batch(kind, (char)at, at ? v[kind] + at - 1 : NULL,
					      at ? nsamples - (at - 1) : 0);
	for (kind = 0; kind < KINDS; kind++) {
		if (wanted(kind))
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
		{ "floor", required_argument, NULL, 'f' },
		{ "faults", no_argument, NULL, 'w' },
		{ "echo", no_argument, NULL, 'e' },
		{ "gap", required_argument, NULL, 'g' },
		{ 0 },
	};
	struct dsm_config cfg;
	int c, err;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
		if (c == 'n' && atoi(optarg) > 0) {
			nsamples = (unsigned int)atoi(optarg);
		} else if (c == 'l') {
			label = optarg;
		} else if (c == 'e') {
			echo = true;
		} else if (c == 'w') {
			faults = true;
		} else if (c == 'g') {
			gap_us = (unsigned int)atoi(optarg);
		} else if (c == 'f' && (!strcmp(optarg, "poll") || !strcmp(optarg, "event"))) {
			floor_sleeps = optarg[0] == 'e';
			floors = true;
		} else {
			fprintf(c == 'h' ? stdout : stderr,
				"usage: mpirun -n 2 noise [--samples N] [--gap US] [--faults] [--echo] [--floor poll|event] [--label TEXT]\n"
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
	if (floors)
		make_link();
	measure();
	bench_check(dsm_finalize(), "dsm_finalize");
	return 0;
}
