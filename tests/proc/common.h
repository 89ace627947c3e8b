/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.h - shared by the process tests: options, the seed, failures, threads, random numbers.
 *
 * A test calls test_start() first and returns test_end(). A failure in any thread of any rank ends
 * the job at once with status 1, and a line that names the rank, the source line and the reason.
 */
#ifndef PROC_COMMON_H
#define PROC_COMMON_H

#include <dsm.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_option {
	const char *name; /* the option without "--" */
	const char *arg;  /* name of its value in the help text; NULL: a switch, which sets 1 */
	const char *help;
	uint64_t *value; /* the default, replaced by the option's value */
};

extern int test_rank, test_size;
extern uint64_t test_seed; /* the same on all ranks */

/*
 * Read the options (each test has --help, --seed, --part and --repeat) and join the job. The first
 * function only reads the options, for tests that measure the time before they join.
 */
void test_options(int argc, char **argv, const char *about, const struct test_option *options,
		  size_t n);
void test_join(void);
void test_start(int argc, char **argv, const char *about, const struct test_option *options,
		size_t n);
int test_end(void); /* leave the job; the exit status */

/*
 * Make functions have the same address on all ranks, as dsm_spawn() requires. Call it first in
 * main(), which may run again.
 */
void test_same_addresses(char **argv);

void test_fail_at(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void test_expect(const char *file, int line, const char *call, long got, long want);
/* printed by rank 0 only */
void test_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct test_part {
	const char *name;
	void (*fn)(void);
};
/*
 * Run the parts one after the other, all ranks in step. --part and --repeat select them, and how
 * often they run. Each is a row of the runner: it begins with a line "part: NAME", and ends with
 * "part: NAME: ok" when all ranks have done it.
 */
void test_parts(const struct test_part *parts, size_t n);

#define FAIL(...) test_fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define REQUIRE(cond, ...)                 \
	do {                               \
		if (!(cond))               \
			FAIL(__VA_ARGS__); \
	} while (0)
#define EXPECT(call, want) test_expect(__FILE__, __LINE__, #call, (long)(call), (long)(want))
#define MUST(call) EXPECT(call, 0)

/* Run fn in n threads of this rank, including the caller; returns when all have returned. */
void test_threads(unsigned n, void (*fn)(unsigned thread, void *arg), void *arg);

/*
 * Zeroed memory that all ranks of this machine share outside libdsm, for measurements and
 * independent synchronisation. Collective; exists until the process ends.
 */
void *test_outside(size_t size);

/* A region that every rank opens. */
void *test_region(const char *name, size_t size, size_t block_size, enum dsm_home home,
		  int home_rank);

int test_width(void); /* ranks per node */

static inline bool test_is_last(void)
{
	return test_rank == test_size - 1;
}

/* This rank's own counters: no message. NULL: of all regions. */
struct dsm_stats test_stats(const dsm_region_t *r);

/* A region with blocks of one page, opened and closed by all ranks together. */
void *test_open(const char *region, size_t size, enum dsm_home home, dsm_region_t **r);
void test_close(const char *region, dsm_region_t *r);

void test_sync(void); /* dsm_barrier(), which must succeed */

uint64_t test_ns(void);
uint64_t test_cpu_ns(void);      /* used by this process */
void test_nap(uint64_t ns);      /* sleeps */
bool test_in_kernel(void);       /* does the job use the kernel helper? */
void test_delay(uint64_t loops); /* computes */

struct rng {
	uint64_t s;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->s += 0x9e3779b97f4a7c15u; /* SplitMix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

static inline struct rng rng_of(uint64_t stream)
{
	struct rng r = { test_seed * 0xd1342543de82ef95u + stream * 0xa0761d6478bd642fu };

	rng_next(&r);
	return r;
}

/* Sequentially consistent. */
static inline uint64_t see(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static inline uint64_t add(uint64_t *p)
{
	return __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
}

/* Plain x86 loads and stores, executed exactly once each. */
static inline uint64_t load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void store(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

#endif
