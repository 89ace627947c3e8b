/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lu.c - dense LU factorisation without pivoting of a diagonally dominant matrix, in blocks.
 *
 * Blocks are dealt out over a two-dimensional grid of workers. Each block is contiguous, and so are
 * the blocks of one owner, in columns: pages have one writer, and the part of a column panel that a
 * worker reads is one range.
 * In each step, ranks share the diagonal block, and the panels that the interior update reads.
 */
#include "common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 32 x 32 doubles are two pages, and three blocks fit a first-level cache */
static uint64_t block = 32;

struct lu {
	/* order, block order, blocks in a row (the last are padded with the identity) */
	size_t n, b, nb;
	unsigned rows, cols; /* grid of workers */
	size_t *height;      /* block rows of each owner */
	double **base;       /* blocks of each owner */
	uint64_t seed;
};

static unsigned owner(const struct lu *m, size_t bi, size_t bj)
{
	return (unsigned)(bi % m->rows) * m->cols + (unsigned)(bj % m->cols);
}

static double *block_at(const struct lu *m, size_t bi, size_t bj)
{
	unsigned o = owner(m, bi, bj);

	return m->base[o] + ((bj / m->cols) * m->height[o] + bi / m->rows) * m->b * m->b;
}

static size_t dealt(size_t n, unsigned parts, unsigned i)
{
	return n > i ? (n - i - 1) / parts + 1 : 0;
}

static void *lu_create(struct app_job *job)
{
	struct lu *m = calloc(1, sizeof(*m));
	unsigned p = job->workers;
	size_t *start, size = 0;
	char *data;

	if (!m)
		app_fail("out of memory");
	m->n = job->opt->size;
	m->b = block;
	m->nb = (m->n + block - 1) / block;
	m->seed = job->opt->seed;
	for (m->rows = (unsigned)sqrt((double)p); p % m->rows; m->rows--)
		;
	m->cols = p / m->rows;
	m->height = calloc(p, sizeof(*m->height));
	m->base = calloc(p, sizeof(*m->base));
	start = calloc(p, sizeof(*start));
	if (!m->height || !m->base || !start)
		app_fail("out of memory");
	for (unsigned o = 0; o < p; o++) {
		m->height[o] = dealt(m->nb, m->rows, o / m->cols);
		start[o] = size;
		size += m->height[o] * dealt(m->nb, m->cols, o % m->cols) * m->b * m->b *
			sizeof(double);
		size = app_round_up(size, APP_PAGE);
	}
	data = app_region(job, "lu.matrix", size, 0);
	for (unsigned o = 0; o < p; o++)
		m->base[o] = (double *)(data + start[o]);
	free(start);
	return m;
}

static void lu_destroy(void *data)
{
	struct lu *m = data;

	free(m->height);
	free(m->base);
	free(m);
}

static double element(const struct lu *m, size_t i, size_t j)
{
	if (i >= m->n || j >= m->n)
		return i == j;
	return app_uniform(m->seed, i * m->n + j) - 0.5 + (i == j ? (double)m->n : 0);
}

static void lu_init(struct app_worker *w, void *data)
{
	struct lu *m = data;

	for (size_t bj = w->id % m->cols; bj < m->nb; bj += m->cols)
		for (size_t bi = w->id / m->cols; bi < m->nb; bi += m->rows) {
			double *a = block_at(m, bi, bj);

			for (size_t i = 0; i < m->b; i++)
				for (size_t j = 0; j < m->b; j++)
					a[i * m->b + j] = element(m, bi * m->b + i, bj * m->b + j);
		}
}

/* ---- kernels, on parts of blocks stored by rows, b doubles apart ----------------------------- */

enum { STRIP = 4 }; /* columns that are solved one by one; all other work is multiplication */

/* c -= x y, where x is rows by inner and y inner by cols: where the time goes. Two rows of c by
 * four of y at a time, so that what is loaded is used twice and a partial sum stays in a register
 * for four steps. rows is even, inner a multiple of four. */
static void multiply(double *restrict c, const double *restrict x, const double *restrict y,
		     size_t b, size_t rows, size_t inner, size_t cols)
{
	for (size_t i = 0; i < rows; i += 2) {
		double *restrict c0 = c + i * b, *restrict c1 = c0 + b;
		const double *restrict x0 = x + i * b, *restrict x1 = x0 + b;

		for (size_t k = 0; k < inner; k += 4) {
			const double *restrict y0 = y + k * b, *restrict y1 = y0 + b;
			const double *restrict y2 = y1 + b, *restrict y3 = y2 + b;
			double p0 = x0[k], p1 = x0[k + 1], p2 = x0[k + 2], p3 = x0[k + 3];
			double q0 = x1[k], q1 = x1[k + 1], q2 = x1[k + 2], q3 = x1[k + 3];

			for (size_t j = 0; j < cols; j++) {
				c0[j] -= (p0 * y0[j] + p1 * y1[j]) + (p2 * y2[j] + p3 * y3[j]);
				c1[j] -= (q0 * y0[j] + q1 * y1[j]) + (q2 * y2[j] + q3 * y3[j]);
			}
		}
	}
}

/* The first STRIP columns of a, rows of them: x u = a, u the upper triangle at d. */
static void solve_columns(double *a, const double *d, size_t b, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t k = 0; k < STRIP; k++) {
			double sum = a[i * b + k];

			for (size_t j = 0; j < k; j++)
				sum -= a[i * b + j] * d[j * b + k];
			a[i * b + k] = sum / d[k * b + k];
		}
}

/* The first STRIP rows of a, cols of them: l x = a, l the lower triangle at d with ones on its
 * diagonal. */
static void solve_rows(double *restrict a, const double *restrict d, size_t b, size_t cols)
{
	for (size_t k = 0; k < STRIP; k++)
		for (size_t i = k + 1; i < STRIP; i++)
			for (size_t j = 0; j < cols; j++)
				a[i * b + j] -= d[i * b + k] * a[k * b + j];
}

/* a = L U in place, L with ones on its diagonal. */
static void factor(double *a, size_t b)
{
	for (size_t s = 0; s < b; s += STRIP) {
		double *d = a + s * b + s, *right = d + STRIP, *below = d + STRIP * b;
		size_t rest = b - s - STRIP;

		for (size_t k = 0; k < STRIP; k++)
			for (size_t i = k + 1; i < STRIP; i++) {
				d[i * b + k] /= d[k * b + k];
				for (size_t j = k + 1; j < STRIP; j++)
					d[i * b + j] -= d[i * b + k] * d[k * b + j];
			}
		solve_columns(below, d, b, rest);
		solve_rows(right, d, b, rest);
		multiply(below + STRIP, below, right, b, rest, STRIP, rest);
	}
}

/* a = a U^-1, U the upper part of d: a block of the column panel. */
static void solve_right(double *a, const double *d, size_t b)
{
	for (size_t s = 0; s < b; s += STRIP) {
		solve_columns(a + s, d + s * b + s, b, b);
		multiply(a + s + STRIP, a + s, d + s * b + s + STRIP, b, b, STRIP, b - s - STRIP);
	}
}

/* a = L^-1 a, L the lower part of d: a block of the row panel. */
static void solve_left(double *a, const double *d, size_t b)
{
	for (size_t s = 0; s < b; s += STRIP) {
		solve_rows(a + s * b, d + s * b + s, b, b);
		multiply(a + (s + STRIP) * b, d + (s + STRIP) * b + s, a + s * b, b, b - s - STRIP,
			 STRIP, b);
	}
}

/* ---- the factorisation ----------------------------------------------------------------------- */

/* First block row or column after k that is start modulo step. */
static size_t after(size_t k, size_t start, size_t step)
{
	return k + 1 + (start + step - (k + 1) % step) % step;
}

/* Ask for what the interior update of step k reads of others. */
static void fetch_panels(struct app_worker *w, struct lu *m, size_t k, size_t bi0, size_t bj0)
{
	size_t bytes = m->b * m->b * sizeof(double);

	if (bi0 >= m->nb || bj0 >= m->nb)
		return;
	if (owner(m, bi0, k) != w->id)
		app_prefetch(w, block_at(m, bi0, k), ((m->nb - 1 - bi0) / m->rows + 1) * bytes);
	if (owner(m, k, bj0) != w->id)
		for (size_t bj = bj0; bj < m->nb; bj += m->cols)
			app_prefetch(w, block_at(m, k, bj), bytes);
}

/* Two barriers a step. None is needed after the interior: a worker goes on to blocks that it alone
 * has updated, and the panels that others may still be reading are written no more. */
static void lu_run(struct app_worker *w, void *data)
{
	struct lu *m = data;
	size_t row = w->id / m->cols, col = w->id % m->cols, b = m->b;

	for (size_t k = 0; k < m->nb; k++) {
		size_t bi0 = after(k, row, m->rows), bj0 = after(k, col, m->cols);
		double *d = block_at(m, k, k);

		if (owner(m, k, k) == w->id)
			factor(d, b);
		app_barrier(w);
		if (owner(m, k, k) != w->id && (col == k % m->cols || row == k % m->rows))
			app_prefetch(w, d, b * b * sizeof(*d));
		if (col == k % m->cols)
			for (size_t bi = bi0; bi < m->nb; bi += m->rows)
				solve_right(block_at(m, bi, k), d, b);
		if (row == k % m->rows)
			for (size_t bj = bj0; bj < m->nb; bj += m->cols)
				solve_left(block_at(m, k, bj), d, b);
		app_barrier(w);
		fetch_panels(w, m, k, bi0, bj0);
		for (size_t bj = bj0; bj < m->nb; bj += m->cols)
			for (size_t bi = bi0; bi < m->nb; bi += m->rows)
				multiply(block_at(m, bi, bj), block_at(m, bi, k),
					 block_at(m, k, bj), b, b, b, b);
		app_progress(w, k + 1, m->nb);
	}
}

/* ---- verification ---------------------------------------------------------------------------- */

static const struct app app;

static uint64_t lu_checksum(void *data)
{
	struct lu *m = data;
	uint64_t h = 0;

	for (size_t bi = 0; bi < m->nb; bi++)
		for (size_t bj = 0; bj < m->nb; bj++)
			h = app_hash(h, block_at(m, bi, bj), m->b * m->b * sizeof(double));
	return h;
}

static double at(const struct lu *m, size_t i, size_t j)
{
	return block_at(m, i / m->b, j / m->b)[i % m->b * m->b + j % m->b];
}

/* L (U x) has to be A x for a random x. Elements of x are below 1 and rows of A sum to less than 2
 * n; each of the two products and the factorisation itself add n roundings of that at most: 4 n eps
 * 2 n covers them. */
static bool product_right(const struct lu *m)
{
	double *x = app_private(m->n * sizeof(*x)), *y = app_private(m->n * sizeof(*y)), worst = 0;
	double limit = 8 * 0x1p-52 * (double)m->n * (double)m->n;

	for (size_t i = 0; i < m->n; i++)
		x[i] = app_uniform(m->seed + 1, i);
	for (size_t i = 0; i < m->n; i++)
		for (size_t j = i; j < m->n; j++)
			y[i] += at(m, i, j) * x[j];
	for (size_t i = 0; i < m->n; i++) {
		double sum = y[i];

		for (size_t j = 0; j < m->n; j++)
			sum += (j < i ? at(m, i, j) * y[j] : 0) - element(m, i, j) * x[j];
		worst = !(fabs(sum) <= worst) ? fabs(sum) : worst; /* keeps a NaN */
	}
	free(x);
	free(y);
	if (!(worst <= limit))
		fprintf(stderr, "lu: L U x differs from A x by %g, more than %g\n", worst, limit);
	return worst <= limit;
}

/* Every element goes through the same operations in the same order, whichever rank computes it: no
 * difference is allowed. */
static bool lu_verify(const struct app_settings *opt, void *data, void *reference)
{
	struct lu *m = data, *r = reference;

	(void)opt;
	for (size_t bi = 0; r && bi < m->nb; bi++)
		for (size_t bj = 0; bj < m->nb; bj++)
			if (!app_same(&app, "the matrix", block_at(m, bi, bj), block_at(r, bi, bj),
				      m->b * m->b * sizeof(double),
				      (bi * m->nb + bj) * m->b * m->b * sizeof(double)))
				return false;
	return product_right(m);
}

static void lu_describe(FILE *out, void *data)
{
	struct lu *m = data;

	fprintf(out, " block=%zu", m->b);
}

static bool lu_check(const struct app_settings *opt)
{
	(void)opt;
	if (block % 4)
		fprintf(stderr, "lu: --block %llu: expected a multiple of 4\n",
			(unsigned long long)block);
	return block % 4 == 0;
}

static const struct app_option options[] = {
	{ "block", "B", "order of a block, a multiple of 4", APP_COUNT, &block, 4, 512 },
};

static const struct app app = {
	.name = "lu",
	.about = "Dense LU factorisation in blocks, without pivoting.",
	.options = options,
	.noptions = 1,
	.size = 3072,
	.size_min = 1,
	.size_max = 32768,
	.size_help = "order of the matrix",
	.check = lu_check,
	.create = lu_create,
	.destroy = lu_destroy,
	.init = lu_init,
	.run = lu_run,
	.checksum = lu_checksum,
	.verify = lu_verify,
	.describe = lu_describe,
};

int main(int argc, char **argv)
{
	return app_main(&app, argc, argv);
}
