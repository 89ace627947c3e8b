/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fft.c - one-dimensional complex fast Fourier transform by the six-step method.
 *
 * The n points form a matrix of n1 rows by n2 columns: transform columns, multiply by twiddle
 * factors, transform rows, and read the result by columns. Input and result are in natural order in
 * shared memory. A worker owns columns of both matrices, the same share of each, so that it reads
 * and writes them where they are; strips of columns and of rows are transposed on their way into a
 * private buffer that fits the cache, where they are transformed, and out of it. What is left of
 * the transposes is one exchange. Between the two passes the points lie in patches, one for each
 * pair of a worker that writes it and a worker that reads it, in tiles in the order of their use:
 * what a worker takes from another is one range, of which it fetches a strip at a time. Each matrix
 * is written in one step only and then read: no block is taken back from its readers within a run.
 */
#include "common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Products are written out: C's complex multiplication checks for infinities. */
struct point {
	double re, im;
};

struct fft {
	unsigned log, workers;
	size_t n, n1, n2;
	uint64_t seed;
	struct point *in;  /* n1 x n2 */
	struct point *out; /* n2 x n1 */
	/* [writer * workers + reader]: tiles, those of a strip of rows together */
	struct point **patch;
	/* private to the rank, never written after create(): */
	struct point *roots;         /* w^k of the longer row */
	struct point *coarse, *fine; /* w^(256 k) and w^k of all n points: two make any power */
};

enum { FINE = 256, TILE = 16, PAGE_POINTS = APP_PAGE / sizeof(struct point) };
enum { PATCH_BLOCK = 128 << 10 }; /* bytes fetched at once */

/* A tile is a page; rows of the private buffers are a tile longer than their contents, as strides
 * of a power of two would share few sets of a cache. */
_Static_assert(PAGE_POINTS == TILE * TILE, "tiles are pages");

static struct point product(struct point a, struct point b)
{
	return (struct point){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

static struct point root(double k, double n)
{
	double angle = -2 * M_PI * k / n;

	return (struct point){ cos(angle), sin(angle) };
}

/* First column of worker i in a matrix with rows of cols points: at a page, where rows have enough
 * of them. */
static size_t first_column(size_t cols, unsigned workers, unsigned i)
{
	return app_share(cols, cols / PAGE_POINTS >= workers ? PAGE_POINTS : 1, workers, i);
}

/* Room for columns by rows in whole tiles. */
static size_t patch_points(const struct fft *f, unsigned writer, unsigned reader)
{
	size_t columns = first_column(f->n2, f->workers, writer + 1) -
		first_column(f->n2, f->workers, writer);
	size_t rows = first_column(f->n1, f->workers, reader + 1) -
		first_column(f->n1, f->workers, reader);

	return app_round_up(columns, TILE) * app_round_up(rows, TILE);
}

static void place_patches(struct app_job *job, struct fft *f)
{
	size_t size = 0, pairs = (size_t)f->workers * f->workers,
	       *start = calloc(pairs, sizeof(*start));
	char *data;

	if (!start)
		app_fail("out of memory");
	for (size_t p = 0; p < pairs; p++) {
		start[p] = size;
		size += patch_points(f, p / f->workers, p % f->workers) * sizeof(struct point);
		size = app_round_up(size, PATCH_BLOCK);
	}
	data = app_region(job, "fft.patches", size, PATCH_BLOCK);
	for (size_t p = 0; p < pairs; p++)
		f->patch[p] = (struct point *)(data + start[p]);
	free(start);
}

static void *fft_create(struct app_job *job)
{
	struct fft *f = calloc(1, sizeof(*f));
	size_t longer;

	if (!f)
		app_fail("out of memory");
	f->log = (unsigned)job->opt->size;
	f->n = (size_t)1 << f->log;
	f->n1 = (size_t)1 << f->log / 2;
	f->n2 = f->n / f->n1;
	f->seed = job->opt->seed;
	f->workers = job->workers;
	f->patch = calloc((size_t)f->workers * f->workers, sizeof(*f->patch));
	if (!f->patch)
		app_fail("out of memory");
	f->in = app_region(job, "fft.in", f->n * sizeof(struct point), 0);
	f->out = app_region(job, "fft.out", f->n * sizeof(struct point), 0);
	place_patches(job, f);
	longer = f->n2;
	f->roots = app_private(longer * sizeof(struct point));
	f->fine = app_private(FINE * sizeof(struct point));
	f->coarse = app_private((f->n / FINE + 1) * sizeof(struct point));
	for (size_t k = 0; k < longer; k++)
		f->roots[k] = root((double)k, (double)longer);
	for (size_t k = 0; k < FINE; k++)
		f->fine[k] = root((double)k, (double)f->n);
	for (size_t k = 0; k <= f->n / FINE; k++)
		f->coarse[k] = root((double)(k * FINE), (double)f->n);
	return f;
}

static void fft_destroy(void *data)
{
	struct fft *f = data;

	free(f->patch);
	free(f->roots);
	free(f->fine);
	free(f->coarse);
	free(f);
}

static struct point input(const struct fft *f, size_t i)
{
	return (struct point){ app_uniform(f->seed, 2 * i) - 0.5,
			       app_uniform(f->seed, 2 * i + 1) - 0.5 };
}

static void fft_init(struct app_worker *w, void *data)
{
	struct fft *f = data;
	size_t lo = first_column(f->n2, w->count, w->id),
	       hi = first_column(f->n2, w->count, w->id + 1);
	size_t tlo = first_column(f->n1, w->count, w->id),
	       thi = first_column(f->n1, w->count, w->id + 1);

	for (size_t i = 0; i < f->n1; i++)
		for (size_t j = lo; j < hi; j++)
			f->in[i * f->n2 + j] = input(f, i * f->n2 + j);
	for (size_t i = 0; i < f->n2; i++)
		memset(f->out + i * f->n1 + tlo, 0, (thi - tlo) * sizeof(struct point));
	for (unsigned v = 0; v < w->count; v++)
		memset(f->patch[w->id * w->count + v], 0,
		       patch_points(f, w->id, v) * sizeof(struct point));
}

/* ---- the transform of a row ------------------------------------------------------------------ */

/* Stockham's algorithm, radix 4 with a last radix 2 where needed: from x by way of y, each pass
 * writing in order. The result is in the array returned. roots are those of n * stride. */
static struct point *transform(struct point *x, struct point *y, size_t n,
			       const struct point *roots, size_t stride)
{
	size_t m = 1; /* transforms of n / m points are still to be made */

	for (; n / m >= 4; m *= 4) {
		size_t l = n / m / 4;
		struct point *swap;

		for (size_t j = 0; j < l; j++) {
			const struct point w1 = roots[j * m * stride],
					   w2 = roots[2 * j * m * stride];
			const struct point w3 = product(w1, w2);
			const struct point *restrict c = x + j * m;
			struct point *restrict d = y + 4 * j * m;

			for (size_t k = 0; k < m; k++) {
				struct point c0 = c[k], c1 = c[k + l * m], c2 = c[k + 2 * l * m],
					     c3 = c[k + 3 * l * m];
				struct point s02 = { c0.re + c2.re, c0.im + c2.im };
				struct point d02 = { c0.re - c2.re, c0.im - c2.im };
				struct point s13 = { c1.re + c3.re, c1.im + c3.im };
				struct point d13 = { c1.im - c3.im, c3.re - c1.re }; /* times -i */

				d[k] = (struct point){ s02.re + s13.re, s02.im + s13.im };
				d[k + m] = product(
					w1, (struct point){ d02.re + d13.re, d02.im + d13.im });
				d[k + 2 * m] = product(
					w2, (struct point){ s02.re - s13.re, s02.im - s13.im });
				d[k + 3 * m] = product(
					w3, (struct point){ d02.re - d13.re, d02.im - d13.im });
			}
		}
		swap = x;
		x = y;
		y = swap;
	}
	if (n / m == 2) {
		for (size_t k = 0; k < m; k++) {
			struct point a = x[k], b = x[k + m];

			y[k] = (struct point){ a.re + b.re, a.im + b.im };
			y[k + m] = (struct point){ a.re - b.re, a.im - b.im };
		}
		return y;
	}
	return x;
}

/* ---- the two passes -------------------------------------------------------------------------- */

/* to[j][i] = from[i][j], j below columns. */
static void transpose(struct point *restrict to, size_t to_row, const struct point *restrict from,
		      size_t from_row, size_t rows, size_t columns)
{
	for (size_t it = 0; it < rows; it += TILE) {
		size_t end = it + TILE < rows ? it + TILE : rows;

		for (size_t j = 0; j < columns; j++)
			for (size_t i = it; i < end; i++)
				to[j * to_row + i] = from[i * from_row + j];
	}
}

/* Columns lo to hi of the input: transform them, multiply element k of column j by w^(j k) of all n
 * points, and deal them out to the readers' patches. Of a tile, each row holds what is of one
 * column. */
static void transform_columns(struct app_worker *w, struct fft *f, size_t lo, size_t hi)
{
	size_t row = f->n1 + TILE, tiles = (hi - lo + TILE - 1) / TILE;
	struct point *strip = app_private((TILE + 1) * row * sizeof(*strip)),
		     *scratch = strip + TILE * row;

	for (size_t j = lo; j < hi; j += TILE) {
		size_t columns = j + TILE < hi ? TILE : hi - j, tile = (j - lo) / TILE;

		transpose(strip, row, f->in + j, f->n2, f->n1, columns);
		for (size_t c = 0; c < columns; c++) {
			struct point *to = strip + c * row,
				     *from = transform(to, scratch, f->n1, f->roots, f->n2 / f->n1);

			for (size_t k = 0, power = 0; k < f->n1; k++, power += j + c)
				to[k] = product(
					from[k],
					product(f->coarse[power / FINE], f->fine[power % FINE]));
		}
		for (unsigned v = 0; v < w->count; v++) {
			size_t from = first_column(f->n1, w->count, v),
			       end = first_column(f->n1, w->count, v + 1);
			struct point *to = f->patch[w->id * w->count + v] + tile * TILE * TILE;

			for (size_t k = from; k < end; k += TILE, to += tiles * TILE * TILE)
				for (size_t c = 0; c < columns; c++)
					memcpy(to + c * TILE, strip + c * row + k,
					       (k + TILE < end ? TILE : end - k) * sizeof(*to));
		}
		app_progress(w, j - lo, 2 * (hi - lo));
	}
	free(strip);
}

/* Rows lo to hi of the transformed columns: collect them from all writers, transform them, and
 * write them as columns of the result. */
static void transform_rows(struct app_worker *w, struct fft *f, size_t lo, size_t hi)
{
	size_t row = f->n2 + TILE;
	struct point *strip = app_private((TILE + 1) * row * sizeof(*strip)),
		     *scratch = strip + TILE * row;

	for (size_t k = lo; k < hi; k += TILE) {
		size_t rows = k + TILE < hi ? TILE : hi - k;

		for (unsigned i = 0; i < w->count; i++) {
			unsigned v = (w->id + i) % w->count;
			size_t jlo = first_column(f->n2, w->count, v),
			       jhi = first_column(f->n2, w->count, v + 1);
			size_t points = app_round_up(jhi - jlo, TILE) * TILE;
			const struct point *from =
				f->patch[v * w->count + w->id] + (k - lo) / TILE * points;

			if (i)
				app_prefetch(w, from, points * sizeof(*from));
			for (size_t j = jlo; j < jhi; j += TILE, from += TILE * TILE)
				transpose(strip + j, row, from, TILE,
					  j + TILE < jhi ? TILE : jhi - j, rows);
		}
		for (size_t r = 0; r < rows; r++) {
			struct point *from = strip + r * row,
				     *to = transform(from, scratch, f->n2, f->roots, 1);

			if (to != from)
				memcpy(from, to, f->n2 * sizeof(*to));
		}
		for (size_t j = 0; j < f->n2; j += TILE)
			transpose(f->out + j * f->n1 + k, f->n1, strip + j, row, rows,
				  j + TILE < f->n2 ? TILE : f->n2 - j);
		app_progress(w, k - lo + hi - lo, 2 * (hi - lo));
	}
	free(strip);
}

static void fft_run(struct app_worker *w, void *data)
{
	struct fft *f = data;

	transform_columns(w, f, first_column(f->n2, w->count, w->id),
			  first_column(f->n2, w->count, w->id + 1));
	app_barrier(w);
	transform_rows(w, f, first_column(f->n1, w->count, w->id),
		       first_column(f->n1, w->count, w->id + 1));
	app_progress(w, 1, 1);
}

/* ---- verification ---------------------------------------------------------------------------- */

static uint64_t fft_checksum(void *data)
{
	struct fft *f = data;

	return app_hash(0, f->out, f->n * sizeof(struct point));
}

/* The inverse of the result (by the forward transform of its conjugate) has to be the input again.
 * An error of a transform grows as eps log2 n, relative to the root mean square, which is below 1
 * here; 8 is for the spread over n points, for the tables and for the two transforms. */
static bool inverse_right(struct fft *f)
{
	static const struct app_settings quiet = { .quiet = true };
	struct app_job job = { .workers = 1, .opt = &quiet };
	struct app_worker w = { .job = &job, .count = 1 };
	struct fft copy = *f;
	double worst = 0, limit = 8 * 0x1p-52 * (f->log + 1), scale = 1 / (double)f->n;
	struct point *patch;

	copy.workers = 1;
	patch = app_private(patch_points(&copy, 0, 0) * sizeof(*patch));
	copy.patch = &patch;
	copy.in = app_private(f->n * sizeof(*copy.in));
	copy.out = app_private(f->n * sizeof(*copy.out));
	for (size_t i = 0; i < f->n; i++)
		copy.in[i] = (struct point){ f->out[i].re, -f->out[i].im };
	fft_run(&w, &copy);
	for (size_t i = 0; i < f->n; i++) {
		struct point want = input(f, i);
		double error =
			hypot(copy.out[i].re * scale - want.re, -copy.out[i].im * scale - want.im);

		worst = !(error <= worst) ? error : worst; /* keeps a NaN */
	}
	free(patch);
	free(copy.in);
	free(copy.out);
	if (!(worst <= limit))
		fprintf(stderr, "fft: the inverse differs from the input by %g, more than %g\n",
			worst, limit);
	return worst <= limit;
}

/* A few points of the result by the definition. Both ways of summing n terms below 1 err by about n
 * eps. */
static bool samples_right(const struct fft *f)
{
	for (size_t s = 0; s < 4; s++) {
		size_t k = app_random(f->seed + 1, s) % f->n;
		struct point sum = { 0, 0 };
		double error, limit = 8 * 0x1p-52 * (double)f->n;

		for (size_t j = 0; j < f->n; j++) {
			size_t power = j * k % f->n;
			struct point turn = product(f->coarse[power / FINE], f->fine[power % FINE]);
			struct point term = product(input(f, j), turn);

			sum.re += term.re;
			sum.im += term.im;
		}
		error = hypot(sum.re - f->out[k].re, sum.im - f->out[k].im);
		if (!(error <= limit)) {
			fprintf(stderr,
				"fft: point %zu of the result is wrong by %g, more than %g\n", k,
				error, limit);
			return false;
		}
	}
	return true;
}

static const struct app app;

/* A row goes through the same operations, whichever rank transforms it: no difference from the
 * sequential run is allowed. */
static bool fft_verify(const struct app_settings *opt, void *data, void *reference)
{
	struct fft *f = data, *r = reference;

	(void)opt;
	if (r && !app_same(&app, "the result", f->out, r->out, f->n * sizeof(struct point), 0))
		return false;
	return inverse_right(f) && samples_right(f);
}

static const struct app app = {
	.name = "fft",
	.about = "Complex 1-D fast Fourier transform, six-step.",
	.size = 24,
	.size_min = 2,
	.size_max = 28,
	.size_help = "log2 of the number of points",
	.create = fft_create,
	.destroy = fft_destroy,
	.init = fft_init,
	.run = fft_run,
	.checksum = fft_checksum,
	.verify = fft_verify,
};

int main(int argc, char **argv)
{
	return app_main(&app, argc, argv);
}
