// SPDX-License-Identifier: BSD-2-Clause
/*
 * heat.c - heat that spreads over a plate: each point becomes the mean of its neighbours.
 *
 * Usage: heat [SIDE [ROUNDS]]
 *
 * An ordinary OpenMP program: cc -O2 -fopenmp builds it for one process, dsm-cc -O2 -fopenmp for
 * the ranks of a job. The time goes to standard error.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	const long n = argc > 1 ? atol(argv[1]) : 2048, rounds = argc > 2 ? atol(argv[2]) : 50;
	double *now, *next, *t, sum = 0, start;
	long x, y, r;

	if (n < 3 || rounds < 1) {
		fprintf(stderr, "usage: heat [SIDE [ROUNDS]]\n");
		return 2;
	}
	now = malloc((size_t)(n * n) * sizeof(*now));
	next = malloc((size_t)(n * n) * sizeof(*next));
	if (!now || !next) {
		fprintf(stderr, "heat: no memory for %ld by %ld points\n", n, n);
		return 1;
	}
	/* Each thread fills the rows that it computes: so they are where it runs. */
#pragma omp parallel for private(x)
	for (y = 0; y < n; y++)
		for (x = 0; x < n; x++)
			now[y * n + x] = next[y * n + x] =
				x && y && x < n - 1 && y < n - 1 ? 0 : 100;
	start = omp_get_wtime();
	for (r = 0; r < rounds; r++) {
#pragma omp parallel for private(x)
		for (y = 1; y < n - 1; y++)
			for (x = 1; x < n - 1; x++)
				next[y * n + x] = (now[y * n + x - 1] + now[y * n + x + 1] +
						   now[(y - 1) * n + x] + now[(y + 1) * n + x]) /
					4;
		t = now;
		now = next;
		next = t;
	}
	fprintf(stderr, "seconds %.3f\n", omp_get_wtime() - start);
	for (y = 0; y < n; y++)
		for (x = 0; x < n; x++)
			sum += now[y * n + x];
	printf("heat of %ld by %ld points after %ld rounds: %.6e\n", n, n, rounds, sum);
	return 0;
}
