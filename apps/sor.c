/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sor.c - Laplace's equation on a square grid by red-black successive over-relaxation, as in ocean
 * codes.
 *
 * Each worker owns a band of rows. The red and the black points of a row are stored apart, so that
 * a sweep reads and writes contiguous memory and a neighbour fetches only the colour that it needs.
 * A band starts on a page, and its red points precede its black ones: ranks share the first and the
 * last row of each band, in one colour at a time.
 */
#include "common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXTBOOK 1e9 /* point updates: a second or two for the second check */

static uint64_t iterations = 100, every = 10;
static double omega = 1.9, tolerance;

struct sor {
	/* points in a row, with the border; doubles kept for one colour of a row */
	size_t n, half;
	double **row[2]; /* by colour; red is where row + column is even */
	uint64_t seed;
	size_t done;     /* iterations made, and the residual of the last one that was looked at: */
	double residual; /* the largest change of a point (the same on all workers) */
};

static void *sor_create(struct app_job *job)
{
	struct sor *g = calloc(1, sizeof(*g));
	size_t size = 0, *base = calloc(job->workers, sizeof(*base));
	char *data;

	if (!g || !base)
		app_fail("out of memory");
	g->n = job->opt->size;
	g->half = app_round_up((g->n + 1) / 2, 8); /* whole cache lines */
	g->seed = job->opt->seed;
	g->row[0] = calloc(g->n, sizeof(double *));
	g->row[1] = calloc(g->n, sizeof(double *));
	if (!g->row[0] || !g->row[1])
		app_fail("out of memory");
	for (unsigned w = 0; w < job->workers; w++) {
		size_t rows = app_share(g->n, 1, job->workers, w + 1) -
			app_share(g->n, 1, job->workers, w);

		base[w] = size;
		size += 2 * app_round_up(rows * g->half * sizeof(double), APP_PAGE);
	}
	data = app_region(job, "sor.grid", size, 0);
	for (unsigned w = 0; w < job->workers; w++) {
		size_t lo = app_share(g->n, 1, job->workers, w),
		       hi = app_share(g->n, 1, job->workers, w + 1);
		double *red = (double *)(data + base[w]);
		double *black = red +
			app_round_up((hi - lo) * g->half * sizeof(double), APP_PAGE) /
				sizeof(double);

		for (size_t i = lo; i < hi; i++) {
			g->row[0][i] = red + (i - lo) * g->half;
			g->row[1][i] = black + (i - lo) * g->half;
		}
	}
	free(base);
	return g;
}

static void sor_destroy(void *data)
{
	struct sor *g = data;

	free(g->row[0]);
	free(g->row[1]);
	free(g);
}

static double *point(const struct sor *g, size_t i, size_t j)
{
	return &g->row[(i + j) & 1][i][j / 2];
}

/* A random interior in a border that is warm above and cools down to the bottom. */
static double start(const struct sor *g, size_t i, size_t j)
{
	bool border = !i || !j || i == g->n - 1 || j == g->n - 1;

	return border ? 1 - (double)i / (double)(g->n - 1) : app_uniform(g->seed, i * g->n + j);
}

static void sor_init(struct app_worker *w, void *data)
{
	struct sor *g = data;
	size_t lo = app_share(g->n, 1, w->count, w->id),
	       hi = app_share(g->n, 1, w->count, w->id + 1);

	for (size_t i = lo; i < hi; i++)
		for (size_t j = 0; j < g->n; j++)
			*point(g, i, j) = start(g, i, j);
}

/* One colour of a row. The points are in columns 2 p + t; left and right of point p are side[p - 1
 * + t] and side[p + t], above and below it up[p] and down[p]. */
static void relax(double *restrict own, const double *restrict side, const double *restrict up,
		  const double *restrict down, size_t t, size_t n)
{
	const double quarter = 0.25 * omega, keep = 1 - omega;
	const double *restrict left = side + t - 1; /* first used at p = 1 where t is 0 */
	size_t end = (n - 1 - t + 1) / 2;           /* 2 p + t < n - 1 */

	for (size_t p = 1 - t; p < end; p++)
		own[p] = keep * own[p] + quarter * ((up[p] + down[p]) + (left[p] + left[p + 1]));
}

/* The same, and the largest change. */
static double relax_watched(double *restrict own, const double *restrict side,
			    const double *restrict up, const double *restrict down, size_t t,
			    size_t n)
{
	const double quarter = 0.25 * omega, keep = 1 - omega;
	const double *restrict left = side + t - 1;
	size_t end = (n - 1 - t + 1) / 2;
	double worst = 0;

	for (size_t p = 1 - t; p < end; p++) {
		double old = own[p], change;

		own[p] = keep * own[p] + quarter * ((up[p] + down[p]) + (left[p] + left[p + 1]));
		change = fabs(own[p] - old);
		worst = change > worst ? change : worst;
	}
	return worst;
}

static void sweep(struct sor *g, size_t i, unsigned colour, double *worst)
{
	double **own = g->row[colour], **other = g->row[1 - colour];
	size_t t = (i + colour) & 1;

	if (!i || i >= g->n - 1)
		return;
	if (worst)
		*worst = fmax(*worst,
			      relax_watched(own[i], other[i], other[i - 1], other[i + 1], t, g->n));
	else
		relax(own[i], other[i], other[i - 1], other[i + 1], t, g->n);
}

/* The rows next to the band's, of one colour, are about to be read; and its own outer rows of the
 * other one, which the neighbours have read, written. */
static void exchange(struct app_worker *w, struct sor *g, size_t lo, size_t hi, unsigned colour)
{
	size_t bytes = g->half * sizeof(double);

	if (lo == hi)
		return;
	if (lo > 0) {
		app_own(w, g->row[1 - colour][lo], bytes);
		app_prefetch(w, g->row[colour][lo - 1], bytes);
	}
	if (hi < g->n) {
		app_own(w, g->row[1 - colour][hi - 1], bytes);
		app_prefetch(w, g->row[colour][hi], bytes);
	}
}

/* An iteration, in two phases. First the red points of the band, and close behind, while they are
 * in the cache, the black points that only depend on them; after a barrier the black points of the
 * outer rows, which depend on the neighbours' red points. The barrier (or reduction) at the end
 * lets the neighbours' next red points use those. */
static void sor_run(struct app_worker *w, void *data)
{
	struct sor *g = data;
	size_t lo = app_share(g->n, 1, w->count, w->id),
	       hi = app_share(g->n, 1, w->count, w->id + 1);
	double residual = INFINITY;
	uint64_t k;

	for (k = 0; k < iterations && !(residual < tolerance); k++) {
		bool look = (k + 1) % every == 0 || k + 1 == iterations;
		double worst = 0, *watch = look ? &worst : NULL;

		exchange(w, g, lo, hi, 1);
		for (size_t i = lo; i < hi; i++) {
			sweep(g, i, 0, watch);
			if (i >= lo + 2)
				sweep(g, i - 1, 1, watch);
		}
		app_barrier(w);
		exchange(w, g, lo, hi, 0);
		if (lo < hi)
			sweep(g, lo, 1, watch);
		if (lo + 1 < hi)
			sweep(g, hi - 1, 1, watch);
		if (look) {
			app_reduce(w, &worst, DSM_DOUBLE, DSM_MAX);
			residual = worst;
		} else {
			app_barrier(w);
		}
		app_progress(w, k + 1, iterations);
	}
	if (!w->thread) {
		g->residual = residual;
		g->done = k;
	}
}

static uint64_t sor_checksum(void *data)
{
	struct sor *g = data;
	uint64_t h = 0;

	for (size_t i = 0; i < g->n; i++)
		for (size_t j = 0; j < g->n; j++)
			h = app_hash(h, point(g, i, j), sizeof(double));
	return h;
}

/* The textbook's loops over a plain array. Rounding may differ, where a compiler fuses
 * multiplications and additions in one and not in the other, by a few eps of values up to 1 an
 * iteration, and over-relaxation lets errors grow to at most some 1 / (2 - omega) of that: 1e-10
 * covers both for the sizes that this is used for. */
static bool textbook_right(const struct sor *g)
{
	size_t n = g->n;
	double *a = app_private(n * n * sizeof(*a)), worst = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			a[i * n + j] = start(g, i, j);
	for (size_t k = 0; k < 2 * g->done; k++)
		for (size_t i = 1; i < n - 1; i++)
			for (size_t j = 1 + (i + 1 + k) % 2; j < n - 1; j += 2) {
				double *p = &a[i * n + j];

				*p = (1 - omega) * *p +
					0.25 * omega * ((p[-n] + p[n]) + (p[-1] + p[1]));
			}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			double error = fabs(a[i * n + j] - *point(g, i, j));

			worst = !(error <= worst) ? error : worst; /* keeps a NaN */
		}
	free(a);
	if (!(worst <= 1e-10))
		fprintf(stderr, "sor: differs from the textbook's loops by %g\n", worst);
	return worst <= 1e-10;
}

static const struct app app;

/* A point's new value depends on values that the barriers fix, through the same operations in any
 * band, and a maximum does not depend on its order: no difference from the sequential run is
 * allowed. */
static bool sor_verify(const struct app_settings *opt, void *data, void *reference)
{
	struct sor *g = data, *r = reference;

	(void)opt;
	for (size_t i = 0; r && i < g->n; i++)
		for (unsigned colour = 0; colour < 2; colour++)
			if (!app_same(&app, "the grid", g->row[colour][i], r->row[colour][i],
				      (g->n + !((i + colour) & 1)) / 2 * sizeof(double),
				      i * g->n * sizeof(double)))
				return false;
	if (r && (g->done != r->done || g->residual != r->residual)) {
		fprintf(stderr,
			"sor: residual %g after %zu iterations, sequentially %g after %zu\n",
			g->residual, g->done, r->residual, r->done);
		return false;
	}
	return (double)g->n * (double)g->n * (double)g->done > TEXTBOOK || textbook_right(g);
}

static void sor_describe(FILE *out, void *data)
{
	struct sor *g = data;

	fprintf(out, " iterations=%zu residual=%.6g", g->done, g->residual);
}

/* clang-format off */
static const struct app_option options[] = {
	{ "iterations", "K", "most iterations", APP_COUNT, &iterations, 1, 1e9 },
	{ "every", "K", "iterations between looks at the residual", APP_COUNT, &every, 1, 1e9 },
	{ "omega", "W", "over-relaxation factor", APP_REAL, &omega, 0.01, 1.99 },
	{ "tolerance", "E", "stop when no point changes by so much", APP_REAL, &tolerance, 0, 1 },
};
/* clang-format on */

static const struct app app = {
	.name = "sor",
	.about = "Red-black successive over-relaxation on a square grid.",
	.options = options,
	.noptions = 4,
	.size = 3072,
	.size_min = 3,
	.size_max = 65536,
	.size_help = "points in a row, with the border",
	.create = sor_create,
	.destroy = sor_destroy,
	.init = sor_init,
	.run = sor_run,
	.checksum = sor_checksum,
	.verify = sor_verify,
	.describe = sor_describe,
};

int main(int argc, char **argv)
{
	return app_main(&app, argc, argv);
}
