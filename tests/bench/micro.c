// SPDX-License-Identifier: BSD-2-Clause
/*
 * micro.c - what one operation costs: misses, upgrades, transfers, locks, barriers, allocation.
 *
 * Runs under mpirun with 2 to 8 ranks; rank 0 is the home of everything, rank 1 does the timed work, further ranks are
 * sharers or wait in a barrier. Each row is the median of several repetitions of the mean over many operations.
 * Output: one JSON object a line on rank 0.
 */
#include <dsm.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"

#define BLOCK 4096
#define REPEATS_MAX 15
#define STORM_THREADS 8

/* --blocks, --repeats, --rounds: fewer of each for machines that are slow. */
static int rank, size, nblocks = 1024, repeats = 7, rounds_wanted;
static const char *label = "default";
static char *area;

/* Operations of a repetition, for rows that do not go through blocks. */
static int rounds_of(int usual)
{
	return rounds_wanted ? rounds_wanted : usual;
}

/* A region that nobody has touched: what earlier rows taught the homes about its blocks is gone. */
static void fresh(void)
{
	static dsm_region_t *region;
	struct dsm_region_options o = { .home = DSM_HOME_FIXED, .home_rank = 0 };

	if (region) {
		dsm_barrier();
		if (rank == 0)
			bench_check(dsm_region_destroy("bench"), "dsm_region_destroy");
		bench_check(dsm_region_detach(region), "dsm_region_detach");
		dsm_barrier();
	}
	bench_check(dsm_region_open("bench", (size_t)nblocks * BLOCK, &o, &region), "dsm_region_open");
	area = dsm_region_base(region);
	dsm_barrier();
}

/* The median of each repetition's value, as rank 1 (or whoever passes a value) measured it. */
static void report(const char *name, double *v, int n, const char *unit)
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
	if (rank == 0) {
		printf("{\"row\": \"%s\", \"mode\": \"%s\", \"ranks\": %d, \"value\": %.3f, \"unit\": \"%s\"}\n", name,
		       label, size, best, unit);
		fflush(stdout);
	}
}

static void write_all(int by, char value)
{
	int i;

	if (rank == by)
		for (i = 0; i < nblocks; i++)
			*(volatile char *)(area + (size_t)i * BLOCK) = value;
	dsm_barrier();
}

static void read_all(int by)
{
	int i;

	if (rank == by)
		for (i = 0; i < nblocks; i++)
			(void)*(volatile char *)(area + (size_t)i * BLOCK);
	dsm_barrier();
}

/* Time one touch of every block by rank 1, after a preparation by all. */
static void touch(const char *name, void (*prepare)(void), bool write)
{
	double v[REPEATS_MAX], start;
	int r, i;

	for (r = 0; r < repeats; r++) {
		fresh();
		prepare();
		start = bench_now_us();
		if (rank == 1)
			for (i = 0; i < nblocks; i++) {
				volatile char *p = area + (size_t)i * BLOCK;

				if (write)
					*p = (char)r;
				else
					(void)*p;
			}
		v[r] = (bench_now_us() - start) / nblocks;
		dsm_barrier();
	}
	report(name, rank == 1 ? v : NULL, repeats, "us");
}

static void owned(void)
{
	write_all(0, 1);
}

static void seen(void)
{
	owned();
	read_all(1);
	owned();
}

static void shared(int sharers)
{
	int s;

	write_all(0, 1);
	for (s = 2; s < 2 + sharers; s++)
		read_all(s);
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
	write_all(0, 1);
	read_all(1);
}

static void bench_misses(void)
{
	touch("read miss, block seen before", seen, false);
	touch("read miss, first ever", owned, false);
	touch("write miss, 0 sharers", owned, true);
	if (size >= 3)
		touch("write miss, 1 sharer", shared1, true);
	if (size >= 5)
		touch("write miss, 3 sharers", shared3, true);
	touch("upgrade", both_read, true);
}

static void bench_first(void)
{
	double own[REPEATS_MAX], start;
	int r, i;

	for (r = 0; r < repeats; r++) {
		fresh();
		start = bench_now_us();
		if (rank == 0)
			for (i = 0; i < nblocks; i++)
				*(volatile char *)(area + (size_t)i * BLOCK) = 1;
		own[r] = (bench_now_us() - start) / nblocks;
	}
	report("first write of a home to its own block", rank == 0 ? own : NULL, repeats, "us");
}

static void bench_stream(const char *name, bool prefetch)
{
	double v[REPEATS_MAX], start;
	int r, i;

	for (r = 0; r < repeats; r++) {
		fresh();
		owned();
		start = bench_now_us();
		if (rank == 1)
			for (i = 0; i < nblocks; i++) {
				if (prefetch && i % 64 == 0)
					dsm_prefetch(area + (size_t)i * BLOCK, 64 * BLOCK, DSM_READ);
				(void)*(volatile char *)(area + (size_t)i * BLOCK);
			}
		v[r] = (bench_now_us() - start) / nblocks;
		dsm_barrier();
	}
	report(name, rank == 1 ? v : NULL, repeats, "us/block");
}

static void bench_pingpong(void)
{
	_Atomic uint64_t *word;
	double v[REPEATS_MAX], start;
	int r, rounds = rounds_of(1000);
	uint64_t i;

	fresh();
	word = (_Atomic uint64_t *)area;
	for (r = 0; r < repeats; r++) {
		if (rank == 0)
			atomic_store(word, 0);
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; rank < 2 && i < (uint64_t)rounds; i++) {
			while (atomic_load_explicit(word, memory_order_acquire) != 2 * i + (uint64_t)rank)
				;
			atomic_store_explicit(word, 2 * i + (uint64_t)rank + 1, memory_order_release);
		}
		v[r] = (bench_now_us() - start) / (2.0 * rounds);
		dsm_barrier();
	}
	report("ping-pong of one block, one way", rank == 1 ? v : NULL, repeats, "us");
}

/* A flag in one block announces 8 bytes or a whole block of another. */
static void bench_producer(const char *name, size_t bytes)
{
	_Atomic uint64_t *flag, *back;
	char *data;
	double v[REPEATS_MAX], start;
	int r, rounds = rounds_of(500);
	uint64_t i;
	char sum = 0;
	size_t b;

	fresh();
	flag = (_Atomic uint64_t *)area;
	back = (_Atomic uint64_t *)(area + 2 * BLOCK);
	data = area + BLOCK;
	for (r = 0; r < repeats; r++) {
		if (rank == 0)
			*flag = *back = 0;
		dsm_barrier();
		start = bench_now_us();
		for (i = 1; rank < 2 && i <= (uint64_t)rounds; i++) {
			if (rank == 0) {
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
	report(name, rank == 1 ? v : NULL, repeats, "us");
}

/* The same with semaphores, which block: each waits for the other all the time. */
static void bench_semaphores(void)
{
	static dsm_sem_t sems[2];
	double v[REPEATS_MAX], start;
	int r, i, rounds = rounds_of(500);
	char *data, sum = 0;
	size_t b;

	fresh();
	data = area + BLOCK;
	if (rank < 2)
		bench_check(dsm_sem_init(&sems[rank], 0), "dsm_sem_init");
	for (r = 0; r < 2; r++)
		bench_check(dsm_broadcast(&sems[r], sizeof(sems[r]), r), "dsm_broadcast");
	for (r = 0; r < repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; rank < 2 && i < rounds; i++) {
			if (rank == 0)
				memset(data, i, BLOCK);
			else
				bench_check(dsm_sem_wait(&sems[1]), "dsm_sem_wait");
			for (b = 0; rank && b < BLOCK; b += 64)
				sum = (char)(sum + data[b]);
			bench_check(dsm_sem_post(&sems[!rank], 1), "dsm_sem_post");
			if (rank == 0)
				bench_check(dsm_sem_wait(&sems[0]), "dsm_sem_wait");
		}
		v[r] = (bench_now_us() - start) / (2.0 * rounds);
		dsm_barrier();
	}
	if (sum == 77)
		fprintf(stderr, " ");
	report("producer/consumer by semaphores, 4 KiB, one way", rank == 1 ? v : NULL, repeats, "us");
}

static void bench_false_sharing(void)
{
	double v[REPEATS_MAX], start;
	int r, i, blocks = nblocks < 256 ? nblocks : 256;

	fresh();
	for (r = 0; r < repeats; r++) {
		write_all(0, 0);
		start = bench_now_us();
		for (i = 0; rank < 2 && i < blocks; i++)
			*(volatile uint64_t *)(area + (size_t)i * BLOCK + 64 * (size_t)rank) = (uint64_t)i;
		dsm_barrier();
		v[r] = (bench_now_us() - start) / blocks;
		dsm_barrier();
	}
	report("false sharing by two writers, per block, barrier included", rank == 1 ? v : NULL, repeats, "us");
}

/* What it is compared with on one node: a mutex of the C library in shared memory. */
static void bench_pthread_mutex(void)
{
	pthread_mutex_t *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;
	double v[REPEATS_MAX], start;
	int r, i, n = rounds_of(2000);

	if (m == MAP_FAILED)
		return;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(m, &a);
	for (r = 0; r < repeats; r++) {
		start = bench_now_us();
		for (i = 0; i < n; i++) {
			pthread_mutex_lock(m);
			pthread_mutex_unlock(m);
		}
		v[r] = (bench_now_us() - start) / n;
	}
	report("lock + unlock, uncontended, pthread_mutex", rank == 0 ? v : NULL, repeats, "us");
	munmap(m, sizeof(*m));
}

static void bench_locks(void)
{
	static dsm_mutex_t m;
	double v[REPEATS_MAX], start;
	int who, r, i, n = rounds_of(2000), turns = rounds_of(200) & ~1;

	bench_pthread_mutex();
	fresh();
	if (rank == 0)
		bench_check(dsm_mutex_init(&m), "dsm_mutex_init");
	bench_check(dsm_broadcast(&m, sizeof(m), 0), "dsm_broadcast");
	for (who = 0; who < 2; who++) {
		for (r = 0; r < repeats; r++) {
			start = bench_now_us();
			for (i = 0; rank == who && i < n; i++) {
				dsm_mutex_lock(&m);
				dsm_mutex_unlock(&m);
			}
			v[r] = (bench_now_us() - start) / n;
			dsm_barrier();
		}
		report(who ? "lock + unlock, uncontended, remote" : "lock + unlock, uncontended, home",
		       rank == who ? v : NULL, repeats, "us");
	}
	for (r = 0; r < repeats; r++) {
		double sum = 0;

		for (i = 0; i < turns; i++) {
			if (rank == i % 2) {
				start = bench_now_us();
				dsm_mutex_lock(&m);
				dsm_mutex_unlock(&m);
				sum += bench_now_us() - start;
			}
			dsm_barrier();
		}
		v[r] = sum / (turns / 2);
	}
	report("free lock taken over by the other rank", rank == 1 ? v : NULL, repeats, "us");
	for (r = 0; r < repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; rank < 2 && i < n; i++) {
			dsm_mutex_lock(&m);
			++*(volatile uint64_t *)area;
			dsm_mutex_unlock(&m);
		}
		v[r] = (bench_now_us() - start) / (2 * n);
		dsm_barrier();
	}
	report("contended hand-off with one dirty block", rank == 1 ? v : NULL, repeats, "us");
}

static void bench_barrier(void)
{
	double v[REPEATS_MAX], start;
	int r, i, n = rounds_of(1000);
	char name[64];

	fresh();
	for (r = 0; r < repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; i < n; i++)
			dsm_barrier();
		v[r] = (bench_now_us() - start) / n;
	}
	report("barrier", rank == 0 ? v : NULL, repeats, "us");
	for (r = 0; r < repeats; r++) {
		both_read();
		start = bench_now_us();
		dsm_barrier();
		v[r] = bench_now_us() - start;
	}
	snprintf(name, sizeof(name), "barrier with %s shared blocks cached", nblocks == 1024 ? "1,024" : "some");
	report(name, rank == 0 ? v : NULL, repeats, "us");
}

static void bench_atomics(void)
{
	static dsm_atomic_t a;
	double v[REPEATS_MAX], start;
	int r, i, n = rounds_of(2000);

	if (rank == 0)
		bench_check(dsm_atomic_init(&a, 0, 0), "dsm_atomic_init");
	bench_check(dsm_broadcast(&a, sizeof(a), 0), "dsm_broadcast");
	for (r = 0; r < repeats; r++) {
		start = bench_now_us();
		for (i = 0; rank == 1 && i < n; i++)
			dsm_atomic_fetch_add(&a, 1, NULL);
		v[r] = (bench_now_us() - start) / n;
		dsm_barrier();
	}
	report("atomic fetch-add, remote home", rank == 1 ? v : NULL, repeats, "us");
}

static void bench_alloc(void)
{
	double v[REPEATS_MAX], start;
	int r, i, n = rounds_of(20000);

	for (r = 0; r < repeats; r++) {
		start = bench_now_us();
		for (i = 0; i < n; i++)
			dsm_free(dsm_malloc(64));
		v[r] = (bench_now_us() - start) / n * 1e3;
	}
	report("malloc + free of 64 bytes", rank == 1 ? v : NULL, repeats, "ns");
}

/* The longest miss of rank 1 while rank 0 computes and makes no call. */
static void bench_busy_home(void)
{
	double worst = 0, end, start;
	volatile double x = 1;
	int i = 0;

	fresh();
	owned();
	end = bench_now_us() + 1.5e6;
	while (bench_now_us() < end && rank == 0)
		x = x * 1.0000001;
	while (bench_now_us() < end && rank == 1 && i < nblocks) {
		start = bench_now_us();
		(void)*(volatile char *)(area + (size_t)i++ * BLOCK);
		if (bench_now_us() - start > worst)
			worst = bench_now_us() - start;
		usleep(1000);
	}
	dsm_barrier();
	report("worst miss while the home computes for 1.5 s", rank == 1 ? &worst : NULL, 1, "us");
}

/* Blocks that are larger than what comes straight to its request. */
static void bench_large(void)
{
	struct dsm_region_options o = { .home = DSM_HOME_FIXED, .home_rank = 0, .block_size = 64 << 10 };
	double v[REPEATS_MAX], start;
	dsm_region_t *region;
	int r, i, n = nblocks / 16 + 1;
	volatile char *base;

	for (r = 0; r < repeats; r++) {
		bench_check(dsm_region_open("large", (size_t)n * o.block_size, &o, &region), "dsm_region_open");
		base = dsm_region_base(region);
		for (i = 0; rank == 0 && i < n; i++)
			base[(size_t)i * o.block_size] = 1;
		dsm_barrier();
		start = bench_now_us();
		for (i = 0; rank == 1 && i < n; i++)
			(void)base[(size_t)i * o.block_size];
		v[r] = (bench_now_us() - start) / n;
		dsm_barrier();
		if (rank == 0)
			bench_check(dsm_region_destroy("large"), "dsm_region_destroy");
		bench_check(dsm_region_detach(region), "dsm_region_detach");
		dsm_barrier();
	}
	report("read miss, block of 64 KiB", rank == 1 ? v : NULL, repeats, "us");
}

static dsm_atomic_t storm_target;

static void *storm_thread(void *arg)
{
	int i, n = *(int *)arg;

	for (i = 0; i < n; i++)
		bench_check(dsm_atomic_fetch_add(&storm_target, 1, NULL), "dsm_atomic_fetch_add");
	return NULL;
}

/* Threads of all ranks, each with one small request under way at the next rank. */
static void bench_storm(void)
{
	double v[REPEATS_MAX], start;
	int r, t, n = rounds_of(2000) / STORM_THREADS + 1;
	dsm_atomic_t all[64];
	pthread_t ids[STORM_THREADS];

	for (r = 0; r < size && r < 64; r++) {
		if (rank == 0)
			bench_check(dsm_atomic_init(&all[r], 0, (r + 1) % size), "dsm_atomic_init");
		bench_check(dsm_broadcast(&all[r], sizeof(all[r]), 0), "dsm_broadcast");
	}
	storm_target = all[rank % 64];
	for (r = 0; r < repeats; r++) {
		dsm_barrier();
		start = bench_now_us();
		for (t = 0; t < STORM_THREADS; t++)
			if (pthread_create(&ids[t], NULL, storm_thread, &n))
				dsm_abort(1, "a thread cannot be made");
		for (t = 0; t < STORM_THREADS; t++)
			pthread_join(ids[t], NULL);
		dsm_barrier();
		v[r] = (double)size * STORM_THREADS * n / (bench_now_us() - start) * 1e6;
	}
	report("atomics by 8 threads of every rank", rank == 0 ? v : NULL, repeats, "ops/s");
}

static void report_cost(const char *what, const struct bench_cost *a, const struct bench_cost *b, int ops)
{
	static const char *const sides[] = { "home", "asker" };
	char name[96];
	int who;

	for (who = 0; who < 2; who++) {
		double calls = (double)(b->calls - a->calls) / ops, cpu = (b->cpu_us - a->cpu_us) / ops,
		       switches = (double)(b->switches - a->switches) / ops;

		snprintf(name, sizeof(name), "%s: system calls, %s", what, sides[who]);
		report(name, rank == who ? &calls : NULL, 1, "calls");
		snprintf(name, sizeof(name), "%s: context switches, %s", what, sides[who]);
		report(name, rank == who ? &switches : NULL, 1, "switches");
		snprintf(name, sizeof(name), "%s: processor time, %s", what, sides[who]);
		report(name, rank == who ? &cpu : NULL, 1, "us");
	}
}

/* What one operation takes of both sides beside time; all while the home waits in a barrier. */
static void bench_costs(void)
{
	struct bench_cost before, after;
	static dsm_atomic_t a;
	int i, n = rounds_of(2000);

	fresh();
	write_all(0, 1);
	bench_cost_read(&before);
	read_all(1);
	bench_cost_read(&after);
	report_cost("read miss", &before, &after, nblocks);
	if (rank == 0)
		bench_check(dsm_atomic_init(&a, 0, 0), "dsm_atomic_init");
	bench_check(dsm_broadcast(&a, sizeof(a), 0), "dsm_broadcast");
	dsm_barrier();
	bench_cost_read(&before);
	for (i = 0; rank == 1 && i < n; i++)
		dsm_atomic_fetch_add(&a, 1, NULL);
	dsm_barrier();
	bench_cost_read(&after);
	report_cost("atomic", &before, &after, n);
}

static void bench_streams(void)
{
	bench_stream("streaming read, read-ahead as set", false);
	bench_stream("streaming read, dsm_prefetch of 64", true);
}

static void bench_producers(void)
{
	bench_producer("producer/consumer one way, 8 bytes", 8);
	bench_producer("producer/consumer one way, 4 KiB", BLOCK);
}

static const struct bench {
	const char *name;
	void (*run)(void);
	/* clang-format off */
} benches[] = {
	{ "misses", bench_misses },	{ "first", bench_first },	{ "stream", bench_streams },
	{ "pingpong", bench_pingpong }, { "producer", bench_producers }, { "false", bench_false_sharing },
	{ "semaphores", bench_semaphores },
	{ "locks", bench_locks },	{ "barrier", bench_barrier },	{ "atomics", bench_atomics },
	{ "alloc", bench_alloc },	{ "busy", bench_busy_home },
	{ "storm", bench_storm },	{ "costs", bench_costs },	{ "large", bench_large },
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
			label = optarg;
		} else if (c == 'b') {
			nblocks = (int)bench_number(optarg, 1, 1 << 20);
		} else if (c == 'n') {
			repeats = (int)bench_number(optarg, 1, REPEATS_MAX);
		} else if (c == 'o') {
			rounds_wanted = (int)bench_number(optarg, 1, 1 << 20);
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
	rank = dsm_rank();
	size = dsm_size();
	if (size < 2)
		dsm_abort(2, "micro needs at least two ranks");
	for (b = 0; b < BENCHES; b++)
		if (wanted(benches[b].name, argc, argv))
			benches[b].run();
	bench_check(dsm_finalize(), "dsm_finalize");
	return 0;
}
