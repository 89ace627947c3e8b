/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.h - what the applications share: options, workers, shared memory, timing, verification,
 * the result line.
 *
 * An application is a struct app and calls app_main(). The same code runs in two ways. In a job its
 * workers (all threads of all ranks) share memory through libdsm. The sequential run is one worker
 * on private memory that never calls the runtime: it is the reference for the results and for the
 * speed.
 */
#ifndef APPS_COMMON_H
#define APPS_COMMON_H

#include <dsm.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* the default block size: what different ranks write is kept this far apart */
#define APP_PAGE 4096u
#define APP_MAX_RANKS 1024u
#define APP_MAX_THREADS 256u

/* ---- options ------------------------------------------------------------------------------- */

enum app_kind { APP_FLAG, APP_COUNT, APP_REAL };

struct app_option {
	const char *name; /* without "--" */
	const char *arg;  /* name of the value in the help; NULL for a flag */
	const char *help;
	enum app_kind kind;
	void *value;     /* bool, uint64_t or double by kind; holds the default */
	double min, max; /* of a number */
};

struct app_settings {
	uint64_t size, seed, threads, repeat;
	bool verify, no_verify, sequential, table, quiet, prefetch, no_prefetch;
};

/* ---- jobs and workers ---------------------------------------------------------------------- */

struct app_memory;

struct app_job {
	const struct app *app;
	const struct app_settings *opt;
	bool shared; /* false: the sequential run, private memory, no runtime */
	unsigned ranks, rank, threads, workers;
	void *data;                      /* the application's, from create() */
	struct app_memory *memory;       /* newest allocation first */
	dsm_barrier_t barrier;           /* all workers of the job */
	pthread_barrier_t local;         /* the workers of this rank */
	uint64_t slots[APP_MAX_THREADS]; /* of app_reduce() */
	double *times;                   /* one per repetition, of the first worker */
	struct dsm_stats *stats;         /* of the last repetition; NULL: not wanted */
};

struct app_worker {
	struct app_job *job;
	unsigned thread, id, count; /* thread in the rank; worker in the job; workers in the job */
};

struct app {
	const char *name, *about;
	const struct app_option *options; /* the application's own rows */
	size_t noptions;
	uint64_t size, size_min, size_max; /* --size: its default and range */
	const char *size_help;
	/* Check the settings against each other before anything starts; print why not. May be
	 * NULL. */
	bool (*check)(const struct app_settings *opt);
	/* Allocate; called by one thread of each rank, all alike. What app_*() allocated is freed
	 * by the caller. */
	void *(*create)(struct app_job *job);
	void (*destroy)(void *data);
	/* each worker writes the input that it owns; not timed */
	void (*init)(struct app_worker *w, void *data);
	void (*run)(struct app_worker *w, void *data); /* the timed part */
	/* The last three run on rank 0 alone, while the others wait. */
	uint64_t (*checksum)(void *data);
	/* reference NULL: check alone */
	bool (*verify)(const struct app_settings *opt, void *data, void *reference);
	void (*describe)(FILE *out, void *data); /* " key=value" for the result line */
};

int app_main(const struct app *app, int argc, char **argv);

/* End this process (or the whole job) with a message and status 1. */
void app_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Fail with the text of the error where rc is one. */
void app_must(int rc, const char *what);

/* ---- memory -------------------------------------------------------------------------------- */

/* All are page-aligned and zero, and last until the job ends. In a sequential run they are private
 * memory. */
/* A shared region; block_size 0: the default. Collective. */
void *app_region(struct app_job *job, const char *name, size_t size, size_t block_size);
/* from rank 0's heap; collective */
void *app_heap(struct app_job *job, const char *name, size_t size);
/* One piece from the heap of each rank, of size bytes each: pieces[rank]. Collective. */
void app_heap_each(struct app_job *job, const char *name, size_t size, void **pieces);
/* Private memory, page-aligned; the caller frees it. */
void *app_private(size_t size);

/* ---- for workers --------------------------------------------------------------------------- */

void app_barrier(struct app_worker *w);

/* Combine one 8-byte value of all workers (DSM_INT64 or DSM_DOUBLE; DSM_SUM or DSM_MAX). A barrier
 * too. */
void app_reduce(struct app_worker *w, void *value, enum dsm_type type, enum dsm_op op);

/* Unless --no-prefetch: start fetching a range that will be read next. */
void app_prefetch(struct app_worker *w, const void *addr, size_t size);

/* Unless --no-prefetch: take all of a range that is about to be overwritten back from its readers
 * at once. */
void app_own(struct app_worker *w, void *addr, size_t size);

/* Show how far the run is, on a terminal and not often. */
void app_progress(struct app_worker *w, uint64_t done, uint64_t total);

/* ---- small helpers ------------------------------------------------------------------------- */

/* Start of share i when n items, taken unit at a time, are dealt out to parts in contiguous
 * shares. */
static inline size_t app_share(size_t n, size_t unit, unsigned parts, unsigned i)
{
	size_t units = (n + unit - 1) / unit;
	size_t start = units * i / parts * unit;

	return start < n ? start : n;
}

static inline size_t app_round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Random bits that depend on nothing but seed and index, so that any worker can make any part of
 * the input (the finaliser of SplitMix64). */
static inline uint64_t app_random(uint64_t seed, uint64_t index)
{
	uint64_t z = seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double app_uniform(uint64_t seed, uint64_t index)
{
	return (double)(app_random(seed, index) >> 11) * 0x1p-53;
}

/* start with 0; whole 4-byte words */
uint64_t app_hash(uint64_t hash, const void *data, size_t size);
bool app_same(const struct app *app, const char *what, const void *a, const void *b, size_t size,
	      size_t at);
double app_seconds(void); /* of a monotonic clock */

#endif
