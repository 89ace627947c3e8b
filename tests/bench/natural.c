// SPDX-License-Identifier: BSD-2-Clause
/*
 * natural.c - programs as people write them for threads, without one hint: rows of one matrix side
 * by side, arrays that are not padded, one lock for a queue.
 *
 * The same code runs in three ways (--as): `sequential`, one worker; `threads`, P workers of one
 * process with the C library's mutex and barrier, on private memory; `ranks`, one worker on each
 * rank, with libdsm's, on one allocation of rank 0's heap. Each prints its time and a checksum. The
 * checksum of a program is the same in all ways, whatever the schedule. Output: one JSON object per
 * line; of `ranks`, with how much of the memory moved.
 */
#include <dsm.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

enum way { SEQUENTIAL, THREADS, RANKS };

/* In the memory that the workers share. */
struct shared {
	dsm_mutex_t mutex;
	dsm_barrier_t barrier;
	pthread_mutex_t lock;
	pthread_barrier_t meet;
	uint64_t next; /* of the queue, the pool */
	dsm_cond_t more;
	pthread_cond_t is_more;
	dsm_rwlock_t rwlock;
	pthread_rwlock_t readers;
	uint64_t ready, left; /* of the pool */
	dsm_sem_t turns[2];
	sem_t posix_turns[2];
	double seconds;
	char data[];
};

struct program {
	const char *name;
	size_t size, repeat; /* defaults */
	size_t (*bytes)(size_t size);
	void (*fill)(void *data, size_t size); /* worker 0 alone, as most programs do; not timed */
	void (*work)(struct shared *s, size_t size, size_t repeat, unsigned id, unsigned workers);
	uint64_t (*result)(const void *data, size_t size);
};

static enum way way = SEQUENTIAL;
static size_t size, repeat;
static unsigned workers = 1;
static const struct program *program;
static struct shared *shared;
static uint64_t filled; /* misses until the data was filled; of rank 0 */

static void check(int err, const char *what)
{
	if (!err)
		return;
	if (way == RANKS)
		dsm_abort(1, "%s: %s", what, dsm_strerror(err));
	fprintf(stderr, "natural: %s: %s\n", what, strerror(err));
	exit(1);
}

static void barrier(struct shared *s)
{
	if (way == RANKS)
		check(dsm_barrier_wait(&s->barrier), "dsm_barrier_wait");
	else if (way == THREADS)
		pthread_barrier_wait(&s->meet);
}

static void lock(struct shared *s)
{
	if (way == RANKS)
		check(dsm_mutex_lock(&s->mutex), "dsm_mutex_lock");
	else if (way == THREADS)
		check(pthread_mutex_lock(&s->lock), "pthread_mutex_lock");
}

static void unlock(struct shared *s)
{
	if (way == RANKS)
		check(dsm_mutex_unlock(&s->mutex), "dsm_mutex_unlock");
	else if (way == THREADS)
		check(pthread_mutex_unlock(&s->lock), "pthread_mutex_unlock");
}

static void wait_more(struct shared *s)
{
	if (way == RANKS)
		check(dsm_cond_wait(&s->more, &s->mutex), "dsm_cond_wait");
	else if (way == THREADS)
		check(pthread_cond_wait(&s->is_more, &s->lock), "pthread_cond_wait");
}

static void say_more(struct shared *s)
{
	if (way == RANKS)
		check(dsm_cond_signal(&s->more), "dsm_cond_signal");
	else if (way == THREADS)
		check(pthread_cond_signal(&s->is_more), "pthread_cond_signal");
}

static void lock_table(struct shared *s, bool write)
{
	if (way == RANKS)
		check(write ? dsm_rwlock_wrlock(&s->rwlock) : dsm_rwlock_rdlock(&s->rwlock),
		      "dsm_rwlock_*lock");
	else if (way == THREADS)
		check(write ? pthread_rwlock_wrlock(&s->readers)
			    : pthread_rwlock_rdlock(&s->readers),
		      "pthread_rwlock_*lock");
}

static void unlock_table(struct shared *s)
{
	if (way == RANKS)
		check(dsm_rwlock_unlock(&s->rwlock), "dsm_rwlock_unlock");
	else if (way == THREADS)
		check(pthread_rwlock_unlock(&s->readers), "pthread_rwlock_unlock");
}

static void give_turn(struct shared *s, unsigned int to)
{
	if (way == RANKS)
		check(dsm_sem_post(&s->turns[to], 1), "dsm_sem_post");
	else if (way == THREADS)
		check(sem_post(&s->posix_turns[to]) ? errno : 0, "sem_post");
}

static void await_turn(struct shared *s, unsigned int of)
{
	if (way == RANKS)
		check(dsm_sem_wait(&s->turns[of]), "dsm_sem_wait");
	else if (way == THREADS)
		check(sem_wait(&s->posix_turns[of]) ? errno : 0, "sem_wait");
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t sum_of(const void *data, size_t words)
{
	const uint64_t *v = data;
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < words; i++)
		sum = sum * 31 + v[i];
	return sum;
}

static void fill_doubles(double *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		v[i] = (double)(mix(i + 1) >> 11) * 0x1p-53;
}

/* ---- Jacobi: two grids, rows dealt out in bands ---------------------------------------------- */

static size_t jacobi_bytes(size_t n)
{
	return 2 * n * n * sizeof(double);
}

static void jacobi_fill(void *data, size_t n)
{
	fill_doubles(data, n * n);
	memcpy((double *)data + n * n, data, n * n * sizeof(double));
}

static void jacobi(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	double *a = (double *)s->data, *b = a + n * n, *other;
	size_t from = 1 + (n - 2) * id / count, to = 1 + (n - 2) * (id + 1) / count, i, j;

	while (rounds--) {
		for (i = from; i < to; i++)
			for (j = 1; j < n - 1; j++)
				b[i * n + j] = 0.25 *
					(a[(i - 1) * n + j] + a[(i + 1) * n + j] +
					 a[i * n + j - 1] + a[i * n + j + 1]);
		barrier(s);
		other = a;
		a = b;
		b = other;
	}
}

static uint64_t jacobi_result(const void *data, size_t n)
{
	return sum_of(data, 2 * n * n);
}

/* ---- LU without blocks: rows dealt out in turn, a barrier for each column -------------------- */

static size_t matrix_bytes(size_t n)
{
	return n * n * sizeof(double);
}

static void lu_fill(void *data, size_t n)
{
	double *a = data;
	size_t i;

	fill_doubles(a, n * n);
	for (i = 0; i < n; i++)
		a[i * n + i] += (double)n;
}

static void lu(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	double *a = (double *)s->data;
	size_t i, j, k;

	(void)rounds;
	for (k = 0; k < n; k++) {
		for (i = k + 1; i < n; i++) {
			double f;

			if (i % count != id)
				continue;
			f = a[i * n + k] /= a[k * n + k];
			for (j = k + 1; j < n; j++)
				a[i * n + j] -= f * a[k * n + j];
		}
		barrier(s);
	}
}

static uint64_t matrix_result(const void *data, size_t n)
{
	return sum_of(data, n * n);
}

/* ---- LU in blocks, each contiguous: columns of blocks dealt out in turn ---------------------- */

#define B ((size_t)32) /* a block has two pages */

static size_t blocks_bytes(size_t n)
{
	return n * n * sizeof(double) + 4096;
}

/* Blocks start at a page. */
static double *blocks_in(const void *data)
{
	return (double *)(((uintptr_t)data + 4095) / 4096 * 4096);
}

static double *block_at(double *a, size_t n, size_t i, size_t j)
{
	return a + (i * (n / B) + j) * B * B;
}

static void blocks_fill(void *data, size_t n)
{
	double *a = blocks_in(data);
	size_t i, k;

	fill_doubles(a, n * n);
	for (i = 0; i < n / B; i++)
		for (k = 0; k < B; k++)
			block_at(a, n, i, i)[k * B + k] += (double)n;
}

static void factor(double *d)
{
	size_t i, j, k;

	for (k = 0; k < B; k++)
		for (i = k + 1; i < B; i++) {
			d[i * B + k] /= d[k * B + k];
			for (j = k + 1; j < B; j++)
				d[i * B + j] -= d[i * B + k] * d[k * B + j];
		}
}

/* a becomes a times the inverse of the diagonal block's upper triangle. */
static void solve_below(double *a, const double *d)
{
	size_t i, j, k;

	for (k = 0; k < B; k++)
		for (i = 0; i < B; i++) {
			a[i * B + k] /= d[k * B + k];
			for (j = k + 1; j < B; j++)
				a[i * B + j] -= a[i * B + k] * d[k * B + j];
		}
}

/* a becomes the inverse of the diagonal block's lower triangle times a. */
static void solve_right(double *a, const double *d)
{
	size_t i, j, k;

	for (k = 0; k < B; k++)
		for (i = k + 1; i < B; i++)
			for (j = 0; j < B; j++)
				a[i * B + j] -= d[i * B + k] * a[k * B + j];
}

static void subtract(double *c, const double *a, const double *b)
{
	size_t i, j, k;

	for (i = 0; i < B; i++)
		for (k = 0; k < B; k++)
			for (j = 0; j < B; j++)
				c[i * B + j] -= a[i * B + k] * b[k * B + j];
}

static void blocks(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	double *a = blocks_in(s->data);
	size_t i, j, k, nb = n / B;

	(void)rounds;
	for (k = 0; k < nb; k++) {
		if (k % count == id)
			factor(block_at(a, n, k, k));
		barrier(s);
		for (i = k + 1; i < nb; i++) {
			if (k % count == id)
				solve_below(block_at(a, n, i, k), block_at(a, n, k, k));
			if (i % count == id)
				solve_right(block_at(a, n, k, i), block_at(a, n, k, k));
		}
		barrier(s);
		for (i = k + 1; i < nb; i++)
			for (j = k + 1; j < nb; j++)
				if (j % count == id)
					subtract(block_at(a, n, i, j), block_at(a, n, i, k),
						 block_at(a, n, k, j));
	}
	barrier(s);
}

static uint64_t blocks_result(const void *data, size_t n)
{
	return sum_of(blocks_in(data), n * n);
}

/* ---- matrix product: rows of the result in bands --------------------------------------------- */

static size_t product_bytes(size_t n)
{
	return 3 * n * n * sizeof(double);
}

static void product_fill(void *data, size_t n)
{
	fill_doubles(data, 2 * n * n);
}

static void product(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	const double *a = (double *)s->data, *b = a + n * n;
	double *c = (double *)s->data + 2 * n * n;
	size_t i, j, k;

	(void)rounds;
	for (i = n * id / count; i < n * (id + 1) / count; i++)
		for (k = 0; k < n; k++)
			for (j = 0; j < n; j++)
				c[i * n + j] += a[i * n + k] * b[k * n + j];
	barrier(s);
}

static uint64_t product_result(const void *data, size_t n)
{
	return sum_of((const double *)data + 2 * n * n, n * n);
}

/* ---- scatter: keys of all workers in neighbouring lines of 64 bytes -------------------------- */

#define LINE 8 /* words */

static size_t scatter_bytes(size_t n)
{
	return n * LINE * sizeof(uint64_t);
}

static void scatter_fill(void *data, size_t n)
{
	memset(data, 0, scatter_bytes(n));
}

static void scatter(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *v = (uint64_t *)s->data;
	size_t i, round;

	for (round = 0; round < rounds; round++) {
		for (i = id; i < n; i += count)
			v[(i * 0x9e3779b1u) % n * LINE + round % LINE] +=
				mix(i + round); /* n a power of two: each line once */
		barrier(s);
	}
}

static uint64_t scatter_result(const void *data, size_t n)
{
	return sum_of(data, n * LINE);
}

/* ---- a queue of tasks under one lock --------------------------------------------------------- */

#define STEPS 500 /* of a task, some nanoseconds each */
#define POOL_STEPS 10000

static size_t queue_bytes(size_t n)
{
	return n * sizeof(uint64_t);
}

static void queue_fill(void *data, size_t n)
{
	memset(data, 0, queue_bytes(n));
}

static void queue(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *results = (uint64_t *)s->data, task, x;
	unsigned i;

	(void)rounds, (void)id, (void)count;
	for (;;) {
		lock(s);
		task = s->next++;
		unlock(s);
		if (task >= n)
			break;
		for (x = task, i = 0; i < STEPS; i++)
			x = mix(x);
		results[task] = x;
	}
	barrier(s);
}

static uint64_t queue_result(const void *data, size_t n)
{
	return sum_of(data, n);
}

/* ---- a pool of tasks, each of which adds two and signals each of them ------------------------ */

static void pool_fill(void *data, size_t n)
{
	queue_fill(data, n);
	shared->ready = 1;
	shared->left = n;
}

/* One more is ready, unless they are that many. */
static void pool_add(struct shared *s, size_t n)
{
	if (s->next + s->ready < n)
		s->ready++;
	say_more(s);
}

static void pool(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *results = (uint64_t *)s->data, task, x;
	unsigned i;

	(void)rounds, (void)id, (void)count;
	lock(s);
	for (;;) {
		while (!s->ready && s->left)
			wait_more(s);
		if (!s->left)
			break;
		s->ready--;
		task = s->next++;
		unlock(s);
		for (x = task, i = 0; i < POOL_STEPS; i++)
			x = mix(x);
		results[task] = x;
		lock(s);
		s->left--;
		pool_add(s, n);
		pool_add(s, n);
	}
	unlock(s);
	barrier(s);
}

/* ---- sections of one lock that write a word in each page, and work between them -------------- */

#define PAGE 512        /* words */
#define THOUGHTS 10000u /* about a hundred microseconds: workers take the lock by turns */

static size_t sections_bytes(size_t n)
{
	return (n + PAGE) * sizeof(uint64_t);
}

static void sections_fill(void *data, size_t n)
{
	memset(data, 0, sections_bytes(n));
}

static void sections(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *words = (uint64_t *)s->data, x = id;
	size_t round, i;

	for (round = 0; round < rounds / count; round++) {
		lock(s);
		for (i = PAGE; i < n + PAGE; i += PAGE)
			words[i]++;
		unlock(s);
		for (i = 0; i < THOUGHTS; i++)
			x = mix(x);
		__asm__ volatile("" : : "r"(x));
	}
	barrier(s);
}

static uint64_t sections_result(const void *data, size_t n)
{
	return sum_of(data, n + PAGE);
}

/* ---- lookups under a reader-writer lock; one of LOOKUPS_EACH changes an entry ---------------- */

#define LOOKUPS_EACH 1000u

static size_t lookups_bytes(size_t n)
{
	return n * sizeof(uint64_t);
}

static void lookups_fill(void *data, size_t n)
{
	memset(data, 0, lookups_bytes(n));
}

static void lookups(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *table = (uint64_t *)s->data, sum = 0;
	size_t round;

	for (round = id; round < rounds; round += count) {
		const uint64_t key = mix(round + 1);
		const bool write = key % LOOKUPS_EACH == 0;

		lock_table(s, write);
		if (write)
			table[key / LOOKUPS_EACH % n]++;
		else
			sum += table[key % n];
		unlock_table(s);
	}
	__asm__ volatile("" : : "r"(sum));
	barrier(s);
}

/* ---- turns: one worker writes a buffer, another one reads it, by turns, with semaphores ------ */

static size_t turns_bytes(size_t n)
{
	return (n + 1) * sizeof(uint64_t);
}

static void turns_fill(void *data, size_t n)
{
	memset(data, 0, turns_bytes(n));
}

static void turns(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	const bool writes = id == 0, reads = id == (count > 1);
	uint64_t *v = (uint64_t *)s->data, sum = 0;
	size_t i, round;

	for (round = 0; round < rounds && (writes || reads); round++) {
		if (writes) {
			for (i = 0; i < n; i++)
				v[i] = i + round;
			give_turn(s, 1);
		}
		if (reads) {
			await_turn(s, 1);
			for (i = 0; i < n; i++)
				sum += v[i] * (i + 1);
			give_turn(s, 0);
		}
		if (writes)
			await_turn(s, 0);
	}
	if (reads)
		v[n] = sum;
	barrier(s);
}

/* ---- exchange: each worker rewrites its part, then reads the next one ------------------------ */

static size_t exchange_bytes(size_t n)
{
	return (n + 1) * sizeof(uint64_t);
}

static void exchange_fill(void *data, size_t n)
{
	memset(data, 0, exchange_bytes(n));
}

static void exchange(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *v = (uint64_t *)s->data, sum = 0;
	const unsigned next = (id + 1) % count;
	size_t i, round;

	for (round = 0; round < rounds; round++) {
		for (i = n * id / count; i < n * (id + 1) / count; i++)
			v[i] = mix(i + round);
		barrier(s);
		for (i = n * next / count; i < n * (next + 1) / count; i++)
			sum += v[i];
		barrier(s);
	}
	lock(s);
	v[n] += sum;
	unlock(s);
	barrier(s);
}

static uint64_t exchange_result(const void *data, size_t n)
{
	return sum_of(data, n + 1);
}

/* ---- columns: worker 0 rewrites a matrix, worker 1 reads the right half of its columns ------- */

#define STRIP 8u /* columns that are read together; a row is so many times as long as a column */

static size_t columns_bytes(size_t n)
{
	return (n * (n / STRIP) + 1) * sizeof(uint64_t);
}

static void columns_fill(void *data, size_t n)
{
	memset(data, 0, columns_bytes(n));
}

static void columns(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	const size_t rows = n / STRIP;
	uint64_t *v = (uint64_t *)s->data, sum = 0;
	size_t i, j, k, round;

	for (round = 0; round < rounds; round++) {
		for (i = 0; id == 0 && i < n * rows; i++)
			v[i] = (i ^ round) * 0x9e3779b97f4a7c15u;
		barrier(s);
		for (j = n / 2; id == (count > 1) && j < n; j += STRIP)
			for (i = 0; i < rows; i++)
				for (k = j; k < j + STRIP && k < n; k++)
					sum += v[i * n + k] * (k + 1);
		barrier(s);
	}
	lock(s);
	v[n * rows] += sum;
	unlock(s);
	barrier(s);
}

static uint64_t columns_result(const void *data, size_t n)
{
	return sum_of(data, n * (n / STRIP) + 1);
}

/* ---- tiles: each worker makes its rows of a matrix from the columns of another one, by tiles - */

#define TILE 16u

static size_t tiles_bytes(size_t n)
{
	return 2 * n * n * sizeof(uint64_t);
}
static void tiles_fill(void *data, size_t n)
{
	memset(data, 0, tiles_bytes(n));
}
static void tiles(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *from = (uint64_t *)s->data, *to = from + n * n, *was;
	const size_t first = n / TILE * id / count * TILE, end = n / TILE * (id + 1) / count * TILE;
	size_t i, j, y, x, round;

	for (round = 0; round < rounds; round++, was = from, from = to, to = was) {
		for (i = first; i < end; i += TILE)
			for (j = 0; j < n / TILE * TILE; j += TILE)
				for (x = j; x < j + TILE; x++)
					for (y = i; y < i + TILE; y++)
						to[y * n + x] = from[x * n + y] + mix(y ^ x);
		barrier(s);
	}
}
static uint64_t tiles_result(const void *data, size_t n)
{
	return sum_of(data, 2 * n * n);
}

/* ---- trees: each worker builds search trees of small objects, and frees them ----------------- */

#define TREE_NODES 1000u

struct node {
	struct node *side[2];
	uint64_t key;
};

static struct node *node_new(uint64_t key)
{
	struct node *n = way == RANKS ? dsm_malloc(sizeof(*n)) : malloc(sizeof(*n));

	check(n ? 0 : ENOMEM, "a node");
	*n = (struct node){ .key = key };
	return n;
}

/* Free it in the order of its keys, of which the sum is returned, each times its place. */
static uint64_t tree_end(struct node *n, uint64_t *place)
{
	uint64_t sum;

	if (!n)
		return 0;
	sum = tree_end(n->side[0], place);
	sum += n->key * ++*place;
	sum += tree_end(n->side[1], place);
	if (way == RANKS)
		check(dsm_free(n), "dsm_free");
	else
		free(n);
	return sum;
}

static void trees(struct shared *s, size_t n, size_t rounds, unsigned id, unsigned count)
{
	uint64_t *results = (uint64_t *)s->data, key, place;
	struct node *root, **at;
	unsigned i;
	size_t t;

	(void)rounds;
	for (t = n * id / count; t < n * (id + 1) / count; t++) {
		for (root = NULL, i = 0; i < TREE_NODES; i++) {
			key = mix(t * TREE_NODES + i);
			for (at = &root; *at; at = &(*at)->side[key > (*at)->key])
				;
			*at = node_new(key);
		}
		place = 0;
		results[t] = tree_end(root, &place);
	}
	barrier(s);
}

static const struct program programs[] = {
	{ "jacobi", 2048, 50, jacobi_bytes, jacobi_fill, jacobi, jacobi_result },
	{ "lu", 1024, 1, matrix_bytes, lu_fill, lu, matrix_result },
	{ "blocks", 1024, 1, blocks_bytes, blocks_fill, blocks, blocks_result },
	{ "product", 1024, 1, product_bytes, product_fill, product, product_result },
	{ "scatter", 1 << 20, 4, scatter_bytes, scatter_fill, scatter, scatter_result },
	{ "queue", 200000, 1, queue_bytes, queue_fill, queue, queue_result },
	{ "pool", 20000, 1, queue_bytes, pool_fill, pool, queue_result },
	{ "trees", 3000, 1, queue_bytes, queue_fill, trees, queue_result },
	{ "sections", 512, 8000, sections_bytes, sections_fill, sections, sections_result },
	{ "lookups", 512, 200000, lookups_bytes, lookups_fill, lookups, sum_of },
	{ "turns", 512, 10000, turns_bytes, turns_fill, turns, exchange_result },
	{ "columns", 4096, 30, columns_bytes, columns_fill, columns, columns_result },
	{ "tiles", 2048, 3, tiles_bytes, tiles_fill, tiles, tiles_result },
	{ "exchange", 1 << 20, 40, exchange_bytes, exchange_fill, exchange, exchange_result },
};

/* ---- the three ways -------------------------------------------------------------------------- */

/* A processor for each, as ranks get one from mpirun. */
static void pin(unsigned id)
{
	cpu_set_t allowed, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < (int)workers)
		return;
	for (cpu = 0; id || !CPU_ISSET(cpu, &allowed); cpu++)
		id -= CPU_ISSET(cpu, &allowed) ? 1 : 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static uint64_t misses(const struct dsm_stats *s)
{
	return s->read_faults + s->write_faults + s->upgrades;
}

static void count_filled(void)
{
	struct dsm_stats all = { 0 };

	if (way == RANKS)
		check(dsm_stats_get(-1, NULL, &all), "dsm_stats_get");
	filled = misses(&all);
}

static void *worker(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	double began;

	if (way == THREADS)
		pin(id);
	if (id == 0) {
		program->fill(shared->data, size);
		count_filled();
	}
	barrier(shared);
	began = bench_now_us();
	program->work(shared, size, repeat, id, workers);
	if (id == 0)
		shared->seconds = (bench_now_us() - began) / 1e6;
	return NULL;
}

static void run_threads(void)
{
	pthread_t *threads = calloc(workers, sizeof(*threads));
	unsigned i;

	shared = aligned_alloc(4096, (sizeof(*shared) + program->bytes(size) + 4095) / 4096 * 4096);
	if (!threads || !shared) {
		fprintf(stderr, "natural: out of memory\n");
		exit(1);
	}
	memset(shared, 0, sizeof(*shared));
	check(pthread_mutex_init(&shared->lock, NULL), "pthread_mutex_init");
	check(pthread_cond_init(&shared->is_more, NULL), "pthread_cond_init");
	check(pthread_rwlock_init(&shared->readers, NULL), "pthread_rwlock_init");
	check(pthread_barrier_init(&shared->meet, NULL, workers), "pthread_barrier_init");
	for (i = 0; i < 2; i++)
		check(sem_init(&shared->posix_turns[i], 0, 0) ? errno : 0, "sem_init");
	for (i = 1; i < workers; i++)
		check(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i),
		      "pthread_create");
	worker(NULL);
	for (i = 1; i < workers; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

static void run_ranks(void)
{
	uint64_t address = 0;

	check(dsm_init(NULL), "dsm_init");
	workers = (unsigned)dsm_size();
	if (dsm_rank() == 0) {
		shared = dsm_calloc(1, sizeof(*shared) + program->bytes(size));
		if (!shared)
			dsm_abort(1, "out of memory: DSM_HEAP is too small");
		check(dsm_mutex_init(&shared->mutex), "dsm_mutex_init");
		check(dsm_cond_init(&shared->more), "dsm_cond_init");
		check(dsm_rwlock_init(&shared->rwlock), "dsm_rwlock_init");
		check(dsm_barrier_init(&shared->barrier, NULL, 0, 1), "dsm_barrier_init");
		check(dsm_sem_init(&shared->turns[0], 0), "dsm_sem_init");
		check(dsm_sem_init(&shared->turns[1], 0), "dsm_sem_init");
		address = (uint64_t)(uintptr_t)shared;
	}
	check(dsm_broadcast(&address, sizeof(address), 0), "dsm_broadcast");
	shared = (struct shared *)(uintptr_t)address;
	worker((void *)(uintptr_t)dsm_rank());
}

static void report(void)
{
	static const char *const names[] = { "sequential", "threads", "ranks" };
	struct dsm_stats all = { 0 };
	unsigned nodes = 1;

	if (way == RANKS) {
		dsm_barrier();
		check(dsm_stats_get(-1, NULL, &all), "dsm_stats_get");
		nodes = (unsigned)dsm_nodes();
	}
	if (way != RANKS || dsm_rank() == 0)
		printf("{\"program\": \"%s\", \"size\": %zu, \"repeat\": %zu, \"as\": \"%s\", \"workers\": %u, \"nodes\": %u, "
		       "\"seconds\": %.6f, \"checksum\": \"%016lx\", \"misses\": %lu, \"misses_of_fill\": %lu, \"bytes_moved\": %lu, "
		       "\"populated\": %lu, \"homes_in\": %lu, \"messages\": %lu}\n",
		       program->name, size, repeat, names[way], workers, nodes, shared->seconds,
		       (unsigned long)program->result(shared->data, size),
		       (unsigned long)misses(&all), (unsigned long)filled,
		       (unsigned long)all.bytes_in, (unsigned long)all.populated,
		       (unsigned long)all.homes_in, (unsigned long)all.messages_out);
	if (way == RANKS)
		check(dsm_finalize(), "dsm_finalize");
}

static void usage(FILE *to)
{
	size_t i;

	fprintf(to,
		"Usage: natural [--as sequential|threads|ranks] [--workers P] [--size N] [--repeat R] PROGRAM\n\n"
		"Run a program that was written for threads, and print its time and checksum as JSON.\n"
		"`ranks` wants mpirun, which says how many workers there are. Programs, their sizes and repetitions:\n");
	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		fprintf(to, "  %-10s %zu, %zu\n", programs[i].name, programs[i].size,
			programs[i].repeat);
}

static void choose(int argc, char **argv)
{
	size_t i;

	for (i = 0; optind == argc - 1 && i < sizeof(programs) / sizeof(programs[0]); i++)
		if (!strcmp(argv[optind], programs[i].name))
			program = &programs[i];
	if (!program) {
		usage(stderr);
		exit(1);
	}
	size = size ? size : program->size;
	repeat = repeat ? repeat : program->repeat;
	if (program->work == blocks && size % B) {
		fprintf(stderr, "natural: blocks: the size must be a multiple of %zu\n", B);
		exit(1);
	}
	if (program->work == scatter && size & (size - 1)) {
		fprintf(stderr, "natural: scatter: the size must be a power of two\n");
		exit(1);
	}
}

static void options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "as", required_argument, NULL, 'a' },
		{ "workers", required_argument, NULL, 'w' },
		{ "size", required_argument, NULL, 's' },
		{ "repeat", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'a' && !strcmp(optarg, "threads"))
			way = THREADS;
		else if (c == 'a' && !strcmp(optarg, "ranks"))
			way = RANKS;
		else if (c == 'a' && !strcmp(optarg, "sequential"))
			way = SEQUENTIAL;
		else if (c == 'w' && atoi(optarg) > 0)
			workers = (unsigned)atoi(optarg);
		else if (c == 's' && atol(optarg) > 2)
			size = (size_t)atol(optarg);
		else if (c == 'r' && atol(optarg) > 0)
			repeat = (size_t)atol(optarg);
		else {
			usage(c == 'h' ? stdout : stderr);
			exit(c != 'h');
		}
	}
}

int main(int argc, char **argv)
{
	options(argc, argv);
	choose(argc, argv);
	if (way == SEQUENTIAL)
		workers = 1;
	if (way == RANKS)
		run_ranks();
	else
		run_threads();
	report();
	return 0;
}
