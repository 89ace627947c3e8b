// SPDX-License-Identifier: BSD-2-Clause
/* micro_blocks.c - what blocks cost: misses, upgrades, streams, one block that goes to and fro. */
#include "micro.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time one touch of every block by rank 1, after a preparation by all. */
static void touch(const char *name, void (*prepare)(void), bool write)
{
	double v[REPEATS_MAX], start;
	int r, i;

	for (r = 0; r < micro.repeats; r++) {
		micro_fresh();
		prepare();
		start = bench_now_us();
		if (micro.rank == 1)
			for (i = 0; i < micro.blocks; i++) {
				volatile char *p = micro.area + (size_t)i * BLOCK;

				if (write)
					*p = (char)r;
				else
					(void)*p;
			}
		v[r] = (bench_now_us() - start) / micro.blocks;
		dsm_barrier();
	}
	micro_report(name, micro.rank == 1 ? v : NULL, micro.repeats, "us");
}

static void owned(void)
{
	micro_write_all(0, 1);
}

static void seen(void)
{
	owned();
	micro_read_all(1);
	owned();
}

static void shared(int sharers)
{
	int s;

	micro_write_all(0, 1);
	for (s = 2; s < 2 + sharers; s++)
		micro_read_all(s);
}

static void shared1(void)
{
	shared(1);
}

static void shared3(void)
{
	shared(3);
}

static void both_read(void)
{
	micro_write_all(0, 1);
	micro_read_all(1);
}

void micro_misses(void)
{
	touch("read miss, block seen before", seen, false);
	touch("read miss, first ever", owned, false);
	touch("write miss, 0 sharers", owned, true);
	if (micro.size >= 3)
		touch("write miss, 1 sharer", shared1, true);
	if (micro.size >= 5)
		touch("write miss, 3 sharers", shared3, true);
	touch("upgrade", both_read, true);
}

void micro_first(void)
{
	double own[REPEATS_MAX], start;
	int r, i;

	for (r = 0; r < micro.repeats; r++) {
		micro_fresh();
		start = bench_now_us();
		if (micro.rank == 0)
			for (i = 0; i < micro.blocks; i++)
				*(volatile char *)(micro.area + (size_t)i * BLOCK) = 1;
		own[r] = (bench_now_us() - start) / micro.blocks;
	}
	micro_report("first write of a home to its own block", micro.rank == 0 ? own : NULL,
		     micro.repeats, "us");
}

/* Rank 1 touches what rank 0 has written: pages of its own node, where they share one; one in
 * `every`. odd: in an order that no page follows its neighbour; any odd number is prime to a power
 * of two. */
static void second_touch(const char *name, bool write, size_t odd, size_t every)
{
	double v[REPEATS_MAX], start;
	size_t n = 1, i;
	int r;

	while (2 * n * every <= (size_t)micro.blocks)
		n *= 2;
	for (r = 0; r < micro.repeats; r++) {
		micro_fresh();
		micro_write_all(0, 1);
		start = bench_now_us();
		for (i = 0; micro.rank == 1 && i < n; i++) {
			volatile char *at = micro.area + (i * odd % n * every + i % every) * BLOCK;

			if (write)
				*at = 2;
			else
				(void)*at;
		}
		v[r] = (bench_now_us() - start) / (double)n;
		dsm_barrier();
	}
	micro_report(name, micro.rank == 1 ? v : NULL, micro.repeats, "us");
}

/* Processor time of rank 1: of a barrier that maps what rank 0 has written, of its writes after
 * that, and of a barrier with nothing to map. Only rank 1 takes part in these barriers, so that
 * nobody is waited for. It naps before them: the runtime looks for such pages once a millisecond,
 * and counts frames of the region before until they are freed. */
static void second_barrier(void)
{
	const useconds_t nap = 20000;
	double v[4][REPEATS_MAX] = { 0 }, start;
	dsm_barrier_t own;
	dsm_sem_t written;
	struct dsm_stats before, after;
	int r, i, n = micro_rounds(20000), me = micro.rank;

	if (me == 0)
		bench_check(dsm_sem_init(&written, 0), "dsm_sem_init");
	bench_check(dsm_broadcast(&written, sizeof(written), 0), "dsm_broadcast");
	if (me == 1)
		bench_check(dsm_barrier_init(&own, &me, 1, 1), "dsm_barrier_init");
	for (r = 0; r < micro.repeats; r++) {
		micro_fresh();
		usleep(nap);
		dsm_barrier();
		for (i = 0; me == 0 && i < micro.blocks; i++)
			*(volatile char *)(micro.area + (size_t)i * BLOCK) = 1;
		if (me == 0)
			bench_check(dsm_sem_post(&written, 1), "dsm_sem_post");
		if (me == 1) {
			bench_check(dsm_sem_wait(&written), "dsm_sem_wait");
			usleep(nap / 10);
			bench_check(dsm_stats_get(1, NULL, &before), "dsm_stats_get");
			start = bench_thread_us();
			bench_check(dsm_barrier_wait(&own), "dsm_barrier_wait");
			v[0][r] = (bench_thread_us() - start) / micro.blocks;
			bench_check(dsm_stats_get(1, NULL, &after), "dsm_stats_get");
			v[1][r] = (double)(after.populated - before.populated);
			start = bench_thread_us();
			for (i = 0; i < micro.blocks; i++)
				*(volatile char *)(micro.area + (size_t)i * BLOCK) = 2;
			v[2][r] = (bench_thread_us() - start) / micro.blocks;
			start = bench_thread_us();
			for (i = 0; i < n; i++)
				bench_check(dsm_barrier_wait(&own), "dsm_barrier_wait");
			v[3][r] = (bench_thread_us() - start) / n;
		}
		dsm_barrier();
	}
	micro_report("barrier of one rank that maps pages, processor time per page",
		     me == 1 ? v[0] : NULL, r, "us");
	micro_report("barrier of one rank that maps pages, chunks mapped", me == 1 ? v[1] : NULL, r,
		     "chunks");
	micro_report("first write after that barrier, processor time", me == 1 ? v[2] : NULL, r,
		     "us");
	micro_report("barrier of one rank, nothing to map, processor time", me == 1 ? v[3] : NULL,
		     r, "us");
}

void micro_second(void)
{
	second_touch("first read by a second rank of the node, in order", false, 1, 1);
	second_touch("first read by a second rank of the node, in no order", false, 389, 1);
	second_touch("first write by a second rank of the node, in order", true, 1, 1);
	second_touch("first write by a second rank of the node, in no order", true, 389, 1);
	/* before the others, after which the runtime expects few of its pages to be used */
	second_barrier();
	second_touch("first read by a second rank of the node, one page in 16", false, 1, 16);
	second_touch("first write by a second rank of the node, one page in 16", true, 1, 16);
}

static void bench_stream(const char *name, bool prefetch)
{
	double v[REPEATS_MAX], start;
	int r, i;

	for (r = 0; r < micro.repeats; r++) {
		micro_fresh();
		owned();
		start = bench_now_us();
		if (micro.rank == 1)
			for (i = 0; i < micro.blocks; i++) {
				if (prefetch && i % 64 == 0)
					dsm_prefetch(micro.area + (size_t)i * BLOCK, 64 * BLOCK,
						     DSM_READ);
				(void)*(volatile char *)(micro.area + (size_t)i * BLOCK);
			}
		v[r] = (bench_now_us() - start) / micro.blocks;
		dsm_barrier();
	}
	micro_report(name, micro.rank == 1 ? v : NULL, micro.repeats, "us/block");
}

void micro_pingpong(void)
{
	_Atomic uint64_t *word;
	double v[REPEATS_MAX], start;
	int r, rounds = micro_rounds(1000);
	uint64_t i;

	micro_fresh();
	word = (_Atomic uint64_t *)micro.area;
	for (r = 0; r < micro.repeats; r++) {
		if (micro.rank == 0)
			atomic_store(word, 0);
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; micro.rank < 2 && i < (uint64_t)rounds; i++) {
			while (atomic_load_explicit(word, memory_order_acquire) !=
			       2 * i + (uint64_t)micro.rank)
				;
			atomic_store_explicit(word, 2 * i + (uint64_t)micro.rank + 1,
					      memory_order_release);
		}
		v[r] = (bench_now_us() - start) / (2.0 * rounds);
		dsm_barrier();
	}
	micro_report("ping-pong of one block, one way", micro.rank == 1 ? v : NULL, micro.repeats,
		     "us");
}

/* A flag in one block announces 8 bytes or a whole block of another. */
static void bench_producer(const char *name, size_t bytes)
{
	_Atomic uint64_t *flag, *back;
	char *data;
	double v[REPEATS_MAX], start;
	int r, rounds = micro_rounds(500);
	uint64_t i;
	char sum = 0;
	size_t b;

	micro_fresh();
	flag = (_Atomic uint64_t *)micro.area;
	back = (_Atomic uint64_t *)(micro.area + 2 * BLOCK);
	data = micro.area + BLOCK;
	for (r = 0; r < micro.repeats; r++) {
		if (micro.rank == 0)
			*flag = *back = 0;
		dsm_barrier();
		start = bench_now_us();
		for (i = 1; micro.rank < 2 && i <= (uint64_t)rounds; i++) {
			if (micro.rank == 0) {
				memset(data, (int)i, bytes);
				atomic_store_explicit(flag, i, memory_order_release);
				while (atomic_load_explicit(back, memory_order_acquire) != i)
					;
			} else {
				while (atomic_load_explicit(flag, memory_order_acquire) != i)
					;
				for (b = 0; b < bytes; b += 64)
					sum = (char)(sum + data[b]);
				atomic_store_explicit(back, i, memory_order_release);
			}
		}
		/* There and back: the way back carries a flag alone. */
		v[r] = (bench_now_us() - start) / (2.0 * rounds);
		dsm_barrier();
	}
	if (sum == 77)
		fprintf(stderr, " ");
	micro_report(name, micro.rank == 1 ? v : NULL, micro.repeats, "us");
}

/* Two ranks write a word each of one page, and all meet. Nobody reads it before the end. */
static void bench_two_writers(void)
{
	double v[REPEATS_MAX], start;
	int r, rounds = micro_rounds(200);
	volatile uint64_t *word;
	uint64_t i, last = 0;

	micro_fresh();
	word = (volatile uint64_t *)micro.area;
	for (r = 0; r < micro.repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (i = 1; i <= (uint64_t)rounds; i++) {
			if (micro.rank < 2)
				word[8 * micro.rank] = last + i;
			dsm_barrier();
		}
		v[r] = (bench_now_us() - start) / rounds;
		last += (uint64_t)rounds;
		bench_check(word[0] == last && word[8] == last ? 0 : -EIO,
			    "what two writers of a page have written");
	}
	micro_report("false sharing by two writers of a page, per iteration with barrier",
		     micro.rank == 1 ? v : NULL, micro.repeats, "us");
}

void micro_false_sharing(void)
{
	double v[REPEATS_MAX], start;
	int r, i, blocks = micro.blocks < 256 ? micro.blocks : 256;

	micro_fresh();
	for (r = 0; r < micro.repeats; r++) {
		micro_write_all(0, 0);
		start = bench_now_us();
		for (i = 0; micro.rank < 2 && i < blocks; i++)
			*(volatile uint64_t *)(micro.area + (size_t)i * BLOCK +
					       64 * (size_t)micro.rank) = (uint64_t)i;
		dsm_barrier();
		v[r] = (bench_now_us() - start) / blocks;
		dsm_barrier();
	}
	micro_report("false sharing by two writers, per block, barrier included",
		     micro.rank == 1 ? v : NULL, micro.repeats, "us");
	bench_two_writers();
}

/* The longest miss of rank 1 while rank 0 computes and makes no call. */
void micro_busy_home(void)
{
	double worst = 0, end, start;
	volatile double x = 1;
	int i = 0;

	micro_fresh();
	owned();
	end = bench_now_us() + 1.5e6;
	while (bench_now_us() < end && micro.rank == 0)
		x = x * 1.0000001;
	while (bench_now_us() < end && micro.rank == 1 && i < micro.blocks) {
		start = bench_now_us();
		(void)*(volatile char *)(micro.area + (size_t)i++ * BLOCK);
		if (bench_now_us() - start > worst)
			worst = bench_now_us() - start;
		usleep(1000);
	}
	dsm_barrier();
	micro_report("worst miss while the home computes for 1.5 s",
		     micro.rank == 1 ? &worst : NULL, 1, "us");
}

#define HOME_GAP_US 20.0 /* between two misses */
#define HOME_US 150000.0 /* of computing */

/* Compute without a call; returns the time. */
static double compute_until(double end)
{
	volatile double x = 1;

	while (bench_now_us() < end)
		x = x * 1.0000001;
	return bench_now_us();
}

/* The median of rank 1's misses while rank 0, their home, computes. */
static double misses_of_a_busy_home(const volatile char *base)
{
	static double us[1 << 20];
	double end, now;
	int i, n = 0;

	dsm_barrier();
	now = bench_now_us();
	end = now + HOME_US;
	if (micro.rank == 0)
		compute_until(end);
	for (i = 0; micro.rank == 1 && i < micro.blocks; i++) {
		double start = compute_until(now + HOME_GAP_US);

		if (start > end - HOME_US / 10)
			break; /* the home may be about to wait */
		(void)base[(size_t)i * BLOCK];
		now = bench_now_us();
		us[n++] = now - start;
	}
	dsm_barrier();
	if (!n)
		return 0;
	qsort(us, (size_t)n, sizeof(us[0]), bench_by_value);
	return us[n / 2];
}

/* A home that computes: with a writable page to close for each miss, then with none. */
void micro_computing_home(void)
{
	struct dsm_region_options o = { .home = DSM_HOME_FIXED, .home_rank = 0 };
	double close[REPEATS_MAX], open[REPEATS_MAX];
	dsm_region_t *region;
	char *base;
	int r, i;

	for (r = 0; r < micro.repeats; r++) {
		bench_check(dsm_region_open("home", (size_t)micro.blocks * BLOCK, &o, &region),
			    "dsm_region_open");
		base = dsm_region_base(region);
		for (i = 0; micro.rank == 0 && i < micro.blocks; i++)
			base[(size_t)i * BLOCK] = 1;
		close[r] = misses_of_a_busy_home(base);
		if (micro.rank == 1) { /* its copies go, and the home's stay as they are */
			bench_check(dsm_region_detach(region), "dsm_region_detach");
			bench_check(
				dsm_region_open("home", (size_t)micro.blocks * BLOCK, &o, &region),
				"dsm_region_open");
			base = dsm_region_base(region);
		}
		open[r] = misses_of_a_busy_home(base);
		if (micro.rank == 0)
			bench_check(dsm_region_destroy("home"), "dsm_region_destroy");
		bench_check(dsm_region_detach(region), "dsm_region_detach");
		dsm_barrier();
	}
	micro_report("read miss while the home computes, a page to close",
		     micro.rank == 1 ? close : NULL, micro.repeats, "us");
	micro_report("read miss while the home computes, none to close",
		     micro.rank == 1 ? open : NULL, micro.repeats, "us");
}

/* Blocks that are larger than what comes straight to its request. */
void micro_large(void)
{
	struct dsm_region_options o = { .home = DSM_HOME_FIXED,
					.home_rank = 0,
					.block_size = 64 << 10 };
	double v[REPEATS_MAX], start;
	dsm_region_t *region;
	int r, i, n = micro.blocks / 16 + 1;
	volatile char *base;

	for (r = 0; r < micro.repeats; r++) {
		bench_check(dsm_region_open("large", (size_t)n * o.block_size, &o, &region),
			    "dsm_region_open");
		base = dsm_region_base(region);
		for (i = 0; micro.rank == 0 && i < n; i++)
			base[(size_t)i * o.block_size] = 1;
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; micro.rank == 1 && i < n; i++)
			(void)base[(size_t)i * o.block_size];
		v[r] = (bench_now_us() - start) / n;
		dsm_barrier();
		if (micro.rank == 0)
			bench_check(dsm_region_destroy("large"), "dsm_region_destroy");
		bench_check(dsm_region_detach(region), "dsm_region_detach");
		dsm_barrier();
	}
	micro_report("read miss, block of 64 KiB", micro.rank == 1 ? v : NULL, micro.repeats, "us");
}

void micro_streams(void)
{
	bench_stream("streaming read, read-ahead as set", false);
	bench_stream("streaming read, dsm_prefetch of 64", true);
}

void micro_producers(void)
{
	bench_producer("producer/consumer one way, 8 bytes", 8);
	bench_producer("producer/consumer one way, 4 KiB", BLOCK);
}
