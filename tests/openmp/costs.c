// SPDX-License-Identifier: BSD-2-Clause
/* costs.c - what each construct costs, in us (docs/lab/openmp.md). Usage: costs [ROUNDS] */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static void report(const char *what, double start, long n)
{
	printf("%-24s %9.2f\n", what, (omp_get_wtime() - start) / (double)n * 1e6);
}

#ifdef TASKS /* a program with tasks has other barriers */
static void work(int us)
{
	const double end = omp_get_wtime() + us * 1e-6;

	while (omp_get_wtime() < end)
		;
}

/* By one thread, for all. */
static void tasks(long rounds)
{
	double start = omp_get_wtime();
	char what[64];
	long n;

#pragma omp parallel
#pragma omp single
	for (long k = 0; k < rounds; k++) {
#pragma omp task
		__asm__ volatile("" ::: "memory");
	}
	report("task", start, rounds);
	for (int us = 10; us <= 1000; us *= 10) {
		n = rounds * 200 / us + 1;
		start = omp_get_wtime();
#pragma omp parallel
#pragma omp single
		for (long k = 0; k < n; k++) {
#pragma omp task
			work(us);
		}
		snprintf(what, sizeof(what), "task of %d us", us);
		report(what, start, n);
	}
}
#endif

int main(int argc, char **argv)
{
	const long rounds = argc > 1 ? atol(argv[1]) : 1000;
	long sum = 0, i;
	double start;

#pragma omp parallel
#pragma omp critical
	sum++;
	start = omp_get_wtime();
	for (i = 0; i < rounds; i++) {
#pragma omp parallel
		__asm__ volatile("" ::: "memory");
	}
	report("parallel", start, rounds);
	start = omp_get_wtime();
#pragma omp parallel private(i)
	for (i = 0; i < rounds; i++) {
#pragma omp barrier
	}
	report("barrier", start, rounds);
	start = omp_get_wtime();
#pragma omp parallel private(i)
	for (i = 0; i < rounds; i++) {
#pragma omp critical
		sum++;
	}
	report("critical, all threads", start, rounds);
	start = omp_get_wtime();
	for (i = 0; i < rounds; i++) {
#pragma omp parallel for reduction(+ : sum)
		for (int k = 0; k < 100; k++)
			sum += k;
	}
	report("reduction", start, rounds);
	start = omp_get_wtime();
	for (i = 0; i < rounds / 10; i++) {
#pragma omp parallel for schedule(dynamic)
		for (int k = 0; k < 1000; k++)
			__asm__ volatile("");
	}
	report("dynamic, 1,000 chunks", start, rounds / 10);
	start = omp_get_wtime();
	for (i = 0; i < rounds / 10; i++) {
#pragma omp parallel for schedule(monotonic : dynamic)
		for (int k = 0; k < 1000; k++)
			__asm__ volatile("");
	}
	report("the same, monotonic", start, rounds / 10);
#ifdef TASKS
	tasks(rounds);
#endif
	return sum < 0;
}
