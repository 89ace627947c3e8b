// SPDX-License-Identifier: BSD-2-Clause
/*
 * matmul.c - product of two dense square matrices.
 *
 * Each worker owns a band of rows of all three matrices, page-aligned; it writes its band of C and
 * reads all of B, which is all that travels. Rows are padded to whole pages, so that no page has
 * two writers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

#define DEPTH 32      /* rows of B of which a strip stays in the first-level cache */
#define STRIP 128     /* columns of that strip */
#define SAMPLES 1000u /* elements checked against a plain dot product */

struct matmul {
	size_t n, ld; /* order, and doubles from row to row */
	uint64_t seed;
	double *a, *b, *c;
};

static void *matmul_create(struct app_job *job)
{
	struct matmul *m = app_private(sizeof(*m));
	size_t bytes;

	m->n = job->opt->size;
	m->ld = app_round_up(m->n, APP_PAGE / sizeof(double));
	m->seed = job->opt->seed;
	bytes = m->n * m->ld * sizeof(double);
	m->a = app_region(job, "matmul-a", bytes, 0);
	m->b = app_region(job, "matmul-b", bytes, 0);
	m->c = app_region(job, "matmul-c", bytes, 0);
	return m;
}

static void matmul_destroy(void *data)
{
	free(data);
}

static void band(const struct app_worker *w, const struct matmul *m, size_t *from, size_t *to)
{
	*from = app_share(m->n, 1, w->count, w->id);
	*to = app_share(m->n, 1, w->count, w->id + 1);
}

static double element(const struct matmul *m, unsigned which, size_t i, size_t j)
{
	return app_uniform(m->seed + which, i * m->n + j) - 0.5;
}

static void matmul_init(struct app_worker *w, void *data)
{
	struct matmul *m = data;
	size_t from, to;

	band(w, m, &from, &to);
	for (size_t i = from; i < to; i++)
		for (size_t j = 0; j < m->n; j++) {
			m->a[i * m->ld + j] = element(m, 0, i, j);
			m->b[i * m->ld + j] = element(m, 1, i, j);
			m->c[i * m->ld + j] = 0;
		}
}

/* One row of C: depth rows of B are added, each times its element of A. */
static void row(double *restrict c, const double *restrict a, const double *restrict b, size_t ld,
		size_t depth, size_t cols)
{
	size_t k = 0;

	for (; k + 4 <= depth; k += 4) {
		const double *restrict y0 = b + k * ld, *restrict y1 = y0 + ld,
				       *restrict y2 = y1 + ld, *restrict y3 = y2 + ld;
		double p0 = a[k], p1 = a[k + 1], p2 = a[k + 2], p3 = a[k + 3];

		for (size_t j = 0; j < cols; j++)
			c[j] += (p0 * y0[j] + p1 * y1[j]) + (p2 * y2[j] + p3 * y3[j]);
	}
	for (; k < depth; k++)
		for (size_t j = 0; j < cols; j++)
			c[j] += a[k] * b[k * ld + j];
}

/* Two rows at once, so that each loaded element of B is used twice; the same operations in the same
 * order. */
static void pair(double *restrict c0, double *restrict c1, const double *restrict a0,
		 const double *restrict a1, const double *restrict b, size_t ld, size_t depth,
		 size_t cols)
{
	size_t k = 0;

	for (; k + 4 <= depth; k += 4) {
		const double *restrict y0 = b + k * ld, *restrict y1 = y0 + ld,
				       *restrict y2 = y1 + ld, *restrict y3 = y2 + ld;
		double p0 = a0[k], p1 = a0[k + 1], p2 = a0[k + 2], p3 = a0[k + 3];
		double q0 = a1[k], q1 = a1[k + 1], q2 = a1[k + 2], q3 = a1[k + 3];

		for (size_t j = 0; j < cols; j++) {
			c0[j] += (p0 * y0[j] + p1 * y1[j]) + (p2 * y2[j] + p3 * y3[j]);
			c1[j] += (q0 * y0[j] + q1 * y1[j]) + (q2 * y2[j] + q3 * y3[j]);
		}
	}
	for (; k < depth; k++)
		for (size_t j = 0; j < cols; j++) {
			c0[j] += a0[k] * b[k * ld + j];
			c1[j] += a1[k] * b[k * ld + j];
		}
}

/* Rows [from, to) of C, columns [j, j + cols), depth rows of B from k on. */
static void tile(const struct matmul *m, size_t from, size_t to, size_t j, size_t cols, size_t k,
		 size_t depth)
{
	const double *b = m->b + k * m->ld + j;
	size_t ld = m->ld, i = from;

	for (; i + 2 <= to; i += 2)
		pair(m->c + i * ld + j, m->c + (i + 1) * ld + j, m->a + i * ld + k,
		     m->a + (i + 1) * ld + k, b, ld, depth, cols);
	if (i < to)
		row(m->c + i * ld + j, m->a + i * ld + k, b, ld, depth, cols);
}

static void matmul_run(struct app_worker *w, void *data)
{
	struct matmul *m = data;
	size_t from, to, n = m->n, ld = m->ld;

	band(w, m, &from, &to);
	for (size_t i = from; i < to; i++)
		for (size_t j = 0; j < n; j++)
			m->c[i * ld + j] = 0; /* a repetition starts anew */
	app_prefetch(w, m->b, n * ld * sizeof(double));
	for (size_t j = 0; j < n; j += STRIP) {
		for (size_t k = 0; k < n; k += DEPTH)
			tile(m, from, to, j, n - j < STRIP ? n - j : STRIP, k,
			     n - k < DEPTH ? n - k : DEPTH);
		app_progress(w, j + STRIP, n);
	}
	app_barrier(w);
}

static const struct app app;

static uint64_t matmul_checksum(void *data)
{
	struct matmul *m = data;
	uint64_t h = 0;

	for (size_t i = 0; i < m->n; i++)
		h = app_hash(h, m->c + i * m->ld, m->n * sizeof(double));
	return h;
}

/* Each element of C is a sum of n products below 1/4, added in another order than here: 2 n
 * roundings of n / 4 cover it. Against the sequential run no difference is allowed: the order of
 * operations is the same. */
static bool matmul_verify(const struct app_settings *opt, void *data, void *reference)
{
	struct matmul *m = data, *r = reference;
	double limit = 0x1p-52 * (double)m->n * (double)m->n / 2;

	for (size_t i = 0; r && i < m->n; i++)
		if (!app_same(&app, "the product", m->c + i * m->ld, r->c + i * m->ld,
			      m->n * sizeof(double), i * m->n * sizeof(double)))
			return false;
	for (unsigned s = 0; s < SAMPLES; s++) {
		size_t i = app_random(opt->seed + 2, s) % m->n,
		       j = app_random(opt->seed + 3, s) % m->n;
		double sum = -m->c[i * m->ld + j];

		for (size_t k = 0; k < m->n; k++)
			sum += element(m, 0, i, k) * element(m, 1, k, j);
		if (!(fabs(sum) <= limit)) {
			fprintf(stderr,
				"matmul: element %zu,%zu differs from its dot product by %g, more than %g\n",
				i, j, sum, limit);
			return false;
		}
	}
	return true;
}

static const struct app app = {
	.name = "matmul",
	.about = "Product of two dense square matrices.",
	.size = 1024,
	.size_min = 1,
	.size_max = 32768,
	.size_help = "order of the matrices",
	.create = matmul_create,
	.destroy = matmul_destroy,
	.init = matmul_init,
	.run = matmul_run,
	.checksum = matmul_checksum,
	.verify = matmul_verify,
};

int main(int argc, char **argv)
{
	return app_main(&app, argc, argv);
}
