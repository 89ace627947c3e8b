// SPDX-License-Identifier: BSD-2-Clause
/*
 * mandelbrot.c - rows of very different cost, by schedule(dynamic).
 *
 * Usage: mandelbrot [SIDE [STEPS]]
 *
 * Built as heat.c.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int steps_at(double x, double y, int most)
{
	double a = 0, b = 0, c;
	int k;

	for (k = 0; k < most && a * a + b * b < 4; k++) {
		c = a * a - b * b + x;
		b = 2 * a * b + y;
		a = c;
	}
	return k;
}

int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : 800, most = argc > 2 ? atoi(argv[2]) : 500;
	unsigned short *image;
	double start;
	long sum = 0;
	int x, y;

	if (n < 1 || most < 1 || most > 65535) {
		fprintf(stderr, "usage: mandelbrot [SIDE [STEPS]]\n");
		return 2;
	}
	image = malloc((size_t)n * (size_t)n * sizeof(*image));
	if (!image) {
		fprintf(stderr, "mandelbrot: no memory for %d by %d points\n", n, n);
		return 1;
	}
	start = omp_get_wtime();
#pragma omp parallel for schedule(dynamic) private(x)
	for (y = 0; y < n; y++)
		for (x = 0; x < n; x++)
			image[(long)y * n + x] =
				(unsigned short)steps_at(3.0 * x / n - 2, 3.0 * y / n - 1.5, most);
	fprintf(stderr, "seconds %.3f\n", omp_get_wtime() - start);
	for (y = 0; y < n; y++)
		for (x = 0; x < n; x++)
			sum += image[(long)y * n + x];
	printf("mandelbrot of %d by %d points: %ld\n", n, n, sum);
	return 0;
}
