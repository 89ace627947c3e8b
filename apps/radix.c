/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * radix.c - radix sort of 32-bit keys, arranged for a machine on which pages move.
 *
 * The top digit comes first. Each worker counts the digits of its own keys, publishes its
 * histogram, and sorts its keys by digit into its own staging area. From the histograms (prefix
 * sums over digits and workers) all derive the same division of the digits among them; then each
 * worker sorts the keys of its digits by the lower digits, reading every worker's runs of a digit
 * straight out of the staging areas, in private memory that fits the cache, and writes them to
 * their place in the result. So each key crosses between ranks at most once, the keys that one
 * worker reads of another are contiguous, and no page is written by two ranks, but for those that
 * hold the seams of the result. Memory is from the shared heap: a piece per rank for keys and
 * staging, and one for the result.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

enum { BITS = 8, DIGITS = 1 << BITS, TOP = 32 - BITS };
enum { LINE = 16 }; /* keys in a cache line */

/* Runs of digits in a staging area start on a cache line, and a page further apart than they are
 * long: equal runs of a power of two would have all their ends in a few sets of the caches of
 * translations. */
enum { GAP = APP_PAGE / sizeof(uint32_t) };

static uint64_t skew; /* keys are divided by up to 2^skew */

struct area {
	/* a worker's, page-aligned: its histogram, then its keys, then its staging */
	uint64_t histogram[DIGITS]; /* half a page */
	uint32_t keys[] __attribute__((aligned(APP_PAGE)));
};

struct radix {
	size_t n, share, room; /* keys; room for those of a worker, and for its staging */
	uint64_t seed;
	unsigned workers;
	struct area **area; /* of each worker */
	uint32_t *result;
};

static void *radix_create(struct app_job *job)
{
	struct radix *r = calloc(1, sizeof(*r));
	void **pieces = calloc(job->ranks, sizeof(*pieces));
	size_t bytes;

	if (!r || !pieces)
		app_fail("out of memory");
	r->n = job->opt->size;
	r->seed = job->opt->seed;
	r->workers = job->workers;
	r->share = app_round_up(r->n / job->workers + 1, APP_PAGE / sizeof(uint32_t));
	r->area = calloc(job->workers, sizeof(*r->area));
	if (!r->area)
		app_fail("out of memory");
	r->room = r->share + DIGITS * (GAP + LINE);
	bytes = app_round_up(sizeof(struct area) + (r->share + r->room) * sizeof(uint32_t),
			     APP_PAGE);
	app_heap_each(job, "radix.area", bytes * job->threads, pieces);
	for (unsigned w = 0; w < job->workers; w++)
		r->area[w] = (struct area *)((char *)pieces[w / job->threads] +
					     w % job->threads * bytes);
	r->result = app_heap(job, "radix.result", r->n * sizeof(uint32_t));
	free(pieces);
	return r;
}

static void radix_destroy(void *data)
{
	struct radix *r = data;

	free(r->area);
	free(r);
}

static uint32_t key(const struct radix *r, size_t i)
{
	uint64_t bits = app_random(r->seed, i);

	return (uint32_t)bits >> (skew ? (bits >> 32) % (skew + 1) : 0);
}

static uint32_t *staging(const struct radix *r, unsigned worker)
{
	return r->area[worker]->keys + r->share;
}

static void radix_init(struct app_worker *w, void *data)
{
	struct radix *r = data;
	struct area *mine = r->area[w->id];
	size_t lo = app_share(r->n, 1, w->count, w->id),
	       hi = app_share(r->n, 1, w->count, w->id + 1);

	for (size_t i = lo; i < hi; i++)
		mine->keys[i - lo] = key(r, i);
	memset(staging(r, w->id), 0, r->room * sizeof(uint32_t));
	memset(r->result + lo, 0, (hi - lo) * sizeof(uint32_t));
	memset(mine->histogram, 0, sizeof(mine->histogram));
}

/* Where the next digit's run starts in a staging area. */
static size_t next_run(size_t start, size_t count)
{
	return app_round_up(start + count, LINE) + GAP;
}

/* Count the keys by their top digit, publish the counts, and sort the keys by it into the staging
 * area. A cache line of keys per digit is gathered before it is written, so that few pages and
 * lines are in use at a time. */
static void stage(struct radix *r, unsigned worker, size_t count)
{
	struct area *mine = r->area[worker];
	uint32_t *to = staging(r, worker), line[DIGITS][LINE];
	uint64_t counts[DIGITS] = { 0 };
	/* where the next key of a digit goes, those in line[] included */
	size_t end[DIGITS], start = 0;

	for (size_t i = 0; i < count; i++)
		counts[mine->keys[i] >> TOP]++;
	memcpy(mine->histogram, counts, sizeof(counts));
	for (unsigned d = 0; d < DIGITS; d++) {
		end[d] = start;
		start = next_run(start, counts[d]);
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t k = mine->keys[i], d = k >> TOP;
		size_t at = end[d]++;

		line[d][at % LINE] = k;
		if (at % LINE == LINE - 1)
			memcpy(to + at + 1 - LINE, line[d], sizeof(line[d]));
	}
	for (unsigned d = 0; d < DIGITS; d++)
		memcpy(to + end[d] - end[d] % LINE, line[d], end[d] % LINE * sizeof(uint32_t));
}

/* Private tables of a worker: where each worker's run of each digit starts in its staging area, and
 * sums. */
struct tables {
	uint64_t (*start)[DIGITS + 1], (*count)[DIGITS]; /* of each worker */
	uint64_t before[DIGITS + 1];                     /* keys with a lower digit */
	unsigned lo, hi;                                 /* the digits of this worker */
	size_t widest;                                   /* most keys of one of them */
};

static void tables_fill(struct app_worker *w, const struct radix *r, struct tables *t)
{
	uint64_t goal_lo = app_share(r->n, 1, w->count, w->id),
		 goal_hi = app_share(r->n, 1, w->count, w->id + 1);

	t->start = app_private(w->count * sizeof(*t->start));
	t->count = app_private(w->count * sizeof(*t->count));
	memset(t->before, 0, sizeof(t->before));
	for (unsigned k = 0; k < w->count; k++) {
		unsigned v = (w->id + k) % w->count;

		for (unsigned d = 0; d < DIGITS; d++) {
			uint64_t c = r->area[v]->histogram[d];

			t->count[v][d] = c;
			t->start[v][d + 1] = next_run(t->start[v][d], c);
			t->before[d + 1] += c;
		}
	}
	for (unsigned d = 0; d < DIGITS; d++)
		t->before[d + 1] += t->before[d];
	/* a digit belongs to the worker in whose equal share of the result its middle lies */
	t->lo = t->hi = DIGITS;
	t->widest = 0;
	for (unsigned d = DIGITS; d-- > 0;) {
		uint64_t middle = (t->before[d] + t->before[d + 1]) / 2,
			 size = t->before[d + 1] - t->before[d];

		if (middle >= goal_hi)
			t->hi = d;
		if (middle >= goal_lo)
			t->lo = d;
		if (middle >= goal_lo && middle < goal_hi && size > t->widest)
			t->widest = size;
	}
}

/* Sort the keys of one top digit by the three lower ones: from the staging areas to one, two, and
 * the result. */
static void sort_digit(const struct radix *r, const struct tables *t, unsigned digit, uint32_t *one,
		       uint32_t *two)
{
	size_t place[3][DIGITS] = { { 0 } }, n = t->before[digit + 1] - t->before[digit];
	uint32_t *out = r->result + t->before[digit];

	for (unsigned v = 0; v < r->workers; v++)
		for (size_t i = 0; i < t->count[v][digit]; i++) {
			uint32_t k = staging(r, v)[t->start[v][digit] + i];

			place[0][k % DIGITS]++;
			place[1][k >> BITS & (DIGITS - 1)]++;
			place[2][k >> 2 * BITS & (DIGITS - 1)]++;
		}
	for (unsigned p = 0; p < 3; p++)
		for (size_t d = 0, sum = 0; d < DIGITS; d++) {
			size_t c = place[p][d];

			place[p][d] = sum;
			sum += c;
		}
	for (unsigned v = 0; v < r->workers; v++)
		for (size_t i = 0; i < t->count[v][digit]; i++) {
			uint32_t k = staging(r, v)[t->start[v][digit] + i];

			one[place[0][k % DIGITS]++] = k;
		}
	for (size_t i = 0; i < n; i++)
		two[place[1][one[i] >> BITS & (DIGITS - 1)]++] = one[i];
	for (size_t i = 0; i < n; i++)
		one[place[2][two[i] >> 2 * BITS & (DIGITS - 1)]++] = two[i];
	/* in order, so that each page of the result is met once */
	memcpy(out, one, n * sizeof(*out));
}

static void radix_run(struct app_worker *w, void *data)
{
	struct radix *r = data;
	struct tables t;
	uint32_t *one, *two;

	stage(r, w->id,
	      app_share(r->n, 1, w->count, w->id + 1) - app_share(r->n, 1, w->count, w->id));
	app_barrier(w);
	tables_fill(w, r, &t);
	for (unsigned k = 1; k < w->count; k++) {
		unsigned v = (w->id + k) % w->count;

		app_prefetch(w, staging(r, v) + t.start[v][t.lo],
			     (t.start[v][t.hi] - t.start[v][t.lo]) * sizeof(uint32_t));
	}
	one = app_private(t.widest * sizeof(*one));
	two = app_private(t.widest * sizeof(*two));
	for (unsigned d = t.lo; d < t.hi; d++) {
		sort_digit(r, &t, d, one, two);
		app_progress(w, d + 1 - t.lo, t.hi - t.lo);
	}
	free(one);
	free(two);
	free(t.start);
	free(t.count);
}

static uint64_t radix_checksum(void *data)
{
	struct radix *r = data;

	return app_hash(0, r->result, r->n * sizeof(uint32_t));
}

static const struct app app;

/* Whole numbers: the result has to equal the sequential one; alone, to be in order and to hold the
 * same keys as the input, which a sum of hashes of the keys tells. */
static bool radix_verify(const struct app_settings *opt, void *data, void *reference)
{
	struct radix *r = data, *other = reference;
	uint64_t keys = 0, sorted = 0;

	(void)opt;
	if (other &&
	    !app_same(&app, "the result", r->result, other->result, r->n * sizeof(uint32_t), 0))
		return false;
	for (size_t i = 0; i < r->n; i++) {
		keys += app_random(1, key(r, i));
		sorted += app_random(1, r->result[i]);
		if (i && r->result[i - 1] > r->result[i]) {
			fprintf(stderr, "radix: keys %zu and %zu are not in order\n", i - 1, i);
			return false;
		}
	}
	if (keys != sorted)
		fprintf(stderr, "radix: the result does not hold the keys of the input\n");
	return keys == sorted;
}

static const struct app_option options[] = {
	{ "skew", "B", "shift keys right by up to B random bits, for an uneven load", APP_COUNT,
	  &skew, 0, 31 },
};

static const struct app app = {
	.name = "radix",
	.about = "Radix sort of random 32-bit keys.",
	.options = options,
	.noptions = 1,
	.size = 64u << 20,
	.size_min = 1,
	.size_max = (uint64_t)1 << 32,
	.size_help = "keys",
	.create = radix_create,
	.destroy = radix_destroy,
	.init = radix_init,
	.run = radix_run,
	.checksum = radix_checksum,
	.verify = radix_verify,
};

int main(int argc, char **argv)
{
	return app_main(&app, argc, argv);
}
