// SPDX-License-Identifier: BSD-2-Clause
/*
 * queens.c - on a board of N by N, how many ways have N queens that none takes another? By tasks.
 *
 * Usage: queens [N [DEPTH]]     rows whose queens are placed by tasks of their own
 *
 * Built as heat.c.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int n, depth;

/* Sets of columns, and of diagonals, that are taken. */
static long place(int row, unsigned int columns, unsigned int up, unsigned int down)
{
	unsigned int free = ~(columns | up | down) & ((1u << n) - 1), bit;
	long ways = 0;

	if (row == n)
		return 1;
	for (; free; free &= free - 1) {
		bit = free & -free;
		if (row >= depth) {
			ways += place(row + 1, columns | bit, (up | bit) << 1, (down | bit) >> 1);
			continue;
		}
#pragma omp task shared(ways) firstprivate(bit)
		{
			const long found =
				place(row + 1, columns | bit, (up | bit) << 1, (down | bit) >> 1);

#pragma omp atomic
			ways += found;
		}
	}
	if (row < depth) {
#pragma omp taskwait
	}
	return ways;
}

int main(int argc, char **argv)
{
	long ways = 0;
	double start;

	n = argc > 1 ? atoi(argv[1]) : 12;
	depth = argc > 2 ? atoi(argv[2]) : 2;
	if (n < 1 || n > 20 || depth < 0) {
		fprintf(stderr, "usage: queens [N [DEPTH]]\n");
		return 2;
	}
	start = omp_get_wtime();
#pragma omp parallel
#pragma omp single
	ways = place(0, 0, 0, 0);
	fprintf(stderr, "seconds %.3f\n", omp_get_wtime() - start);
	printf("%d queens: %ld ways\n", n, ways);
	return 0;
}
