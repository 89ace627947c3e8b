// SPDX-License-Identifier: BSD-2-Clause
/*
 * loops.c - each iteration of each kind of loop is executed once, with the right value of its
 * variable, and a thread's iterations have the order that its schedule promises.
 */
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 5000

static unsigned char seen[MOST];
static int failures;

static void begin(void)
{
	memset(seen, 0, sizeof(seen));
}

static void end(const char *what, long n)
{
	long i, bad = 0;

	for (i = 0; i < MOST; i++)
		bad += seen[i] != (i < n);
	if (bad) {
		printf("%s, %ld iterations: %ld wrong\n", what, n, bad);
		failures++;
	}
}

/* Loops over each type, up and down, in steps. */
#define DO(x) _Pragma(#x)
#define LOOP(name, type, ...)                                                  \
	static void name(long n)                                               \
	{                                                                      \
		const type first = (type)7, step = (type)3;                    \
		type i;                                                        \
                                                                               \
		begin();                                                       \
		DO(omp parallel for __VA_ARGS__)                               \
		for (i = first; i < (type)(first + (type)n * step); i += step) \
			seen[(i - first) / step]++;                            \
		end(#name ", up", n);                                          \
		begin();                                                       \
		DO(omp parallel for __VA_ARGS__)                               \
		for (i = (type)(first + (type)n * step); i > first; i -= step) \
			seen[(i - first) / step - 1]++;                        \
		end(#name ", down", n);                                        \
	}

#define TYPES(name, ...)                     \
	LOOP(name##_int, int, __VA_ARGS__)   \
	LOOP(name##_long, long, __VA_ARGS__) \
	LOOP(name##_ull, unsigned long long, __VA_ARGS__)

TYPES(usual, shared(seen))
TYPES(chunks, schedule(static, 3))
TYPES(dynamic, schedule(dynamic))
TYPES(dynamic7, schedule(dynamic, 7))
TYPES(monotonic, schedule(monotonic : dynamic, 2))
TYPES(guided, schedule(guided))
TYPES(guided5, schedule(guided, 5))
TYPES(monotonic_guided, schedule(monotonic : guided, 2))
TYPES(runtime, schedule(runtime))
TYPES(automatic, schedule(auto))
TYPES(ordered, ordered schedule(static, 2))
TYPES(ordered_dynamic, ordered schedule(dynamic, 3))

#define ALL(name, n) (name##_int(n), name##_long(n), name##_ull(n))

static void each(long n)
{
	static const omp_sched_t kinds[] = { omp_sched_static, omp_sched_dynamic, omp_sched_guided,
					     omp_sched_auto };
	int k, chunk;

	ALL(usual, n);
	ALL(chunks, n);
	ALL(dynamic, n);
	ALL(dynamic7, n);
	ALL(monotonic, n);
	ALL(guided, n);
	ALL(guided5, n);
	ALL(monotonic_guided, n);
	ALL(automatic, n);
	ALL(ordered, n);
	ALL(ordered_dynamic, n);
	for (k = 0; k < 4; k++)
		for (chunk = 0; chunk < 5; chunk += 4) {
			omp_set_schedule(kinds[k], chunk);
			ALL(runtime, n);
		}
}

/* At the ends of the types. */
static void bounds(void)
{
	unsigned long long u, count = 0;
	long l;

#pragma omp parallel for schedule(dynamic, 2) reduction(+ : count)
	for (l = LONG_MAX - 10; l < LONG_MAX - 5; l += 4)
		count += (unsigned long long)(LONG_MAX - l);
#pragma omp parallel for schedule(guided) reduction(+ : count)
	for (u = ULLONG_MAX; u > ULLONG_MAX - 5; u -= 2)
		count += 100 * (ULLONG_MAX - u + 1);
#pragma omp parallel for schedule(static, 1) reduction(+ : count)
	for (l = LONG_MIN; l < LONG_MIN + 3; l++)
		count += 10000;
	printf("at the ends of types: %llu\n", count);
	failures += count != 10 + 6 + 100 * (1 + 3 + 5) + 30000;
}

/* Threads run through many loops without waiting for each other. */
static void nowait(void)
{
	enum { LOOPS = 300, N = 16 };
	static int counts[LOOPS][N], others[LOOPS][N];
	int k, bad = 0;

#pragma omp parallel
	for (int r = 0; r < LOOPS; r++) {
#pragma omp for schedule(monotonic : dynamic) nowait
		for (int i = 0; i < N; i++)
			counts[r][i] += i + 1;
		if (r % 3 == 0) {
#pragma omp for schedule(dynamic) nowait
			for (int i = 0; i < N; i++)
				others[r][i] += 100;
		}
		if (r % 100 == 99) {
#pragma omp barrier
		}
	}
	for (k = 0; k < LOOPS * N; k++)
		bad += counts[k / N][k % N] != k % N + 1 ||
			others[k / N][k % N] != (k / N % 3 ? 0 : 100);
	printf("loops in a row: %d wrong\n", bad);
	failures += bad;
}

/* A thread that is late for some loops finds that the others have executed them. */
static void late(void)
{
	enum { LOOPS = 6, N = 50 };
	static int counts[LOOPS][N];
	int done = 0, bad = 0, k;

#pragma omp parallel shared(done)
	{
		if (omp_get_thread_num() == 0 && omp_get_num_threads() > 1) {
			const double end = omp_get_wtime() + 20;
			int now;

			do {
#pragma omp atomic read
				now = done;
			} while (now < LOOPS * N && omp_get_wtime() < end);
			if (now < LOOPS * N) {
#pragma omp atomic
				bad++;
			}
		}
		for (int r = 0; r < LOOPS; r++) {
#pragma omp for schedule(dynamic) nowait
			for (int i = 0; i < N; i++) {
				counts[r][i]++;
#pragma omp atomic
				done++;
			}
		}
	}
	for (k = 0; k < LOOPS * N; k++)
		bad += counts[k / N][k % N] != 1;
	printf("a late thread: %d wrong\n", bad);
	failures += bad;
}

/* Each iteration once, whatever their threads do between loops. */
static void uneven(void)
{
	enum { LOOPS = 500, N = 9 };
	static int counts[LOOPS][N];
	int bad = 0, k;

#pragma omp parallel
	{
		unsigned int seed = 1 + (unsigned int)omp_get_thread_num();

		for (int r = 0; r < LOOPS; r++) {
			volatile int spin = rand_r(&seed) % 8 ? 0 : rand_r(&seed) % 30000;

			while (spin)
				spin--;
#pragma omp for schedule(dynamic) nowait
			for (int i = 0; i < N; i++)
				counts[r][i]++;
		}
	}
	for (k = 0; k < LOOPS * N; k++)
		bad += counts[k / N][k % N] != 1;
	printf("uneven threads: %d wrong\n", bad);
	failures += bad;
}

/* What `ordered` promises, and `monotonic`. */
static void order(void)
{
	static int list[200];
	int at = 0, bad = 0, i;

#pragma omp parallel for ordered schedule(dynamic, 3)
	for (i = 0; i < 200; i++) {
#pragma omp ordered
		list[at++] = i;
	}
	for (i = 0; i < 200; i++)
		bad += list[i] != i;
#pragma omp parallel for ordered schedule(static)
	for (i = 0; i < 200; i++) {
		if (i % 3 == 0) {
#pragma omp ordered
			list[i] = at++;
		}
	}
	for (i = 3; i < 200; i += 3)
		bad += list[i] != list[i - 3] + 1;
#pragma omp parallel reduction(+ : bad)
	{
		int last = -1;

#pragma omp for schedule(monotonic : dynamic, 2)
		for (int k = 0; k < 1000; k++) {
			bad += k <= last;
			last = k;
		}
#pragma omp for schedule(static, 5)
		for (int k = 0; k < 1000; k++)
			bad += k / 5 % omp_get_num_threads() != omp_get_thread_num();
	}
	printf("order: %d wrong\n", bad);
	failures += bad;
}

/* The value of the last iteration, whoever executes it, and whatever it executes besides. */
static void last_values(void)
{
	int n, bad = 0, i;

	for (n = 1; n < 60; n++) {
		int a = -1, b = -1, c = -1;

#pragma omp parallel
		{
#pragma omp for schedule(dynamic) lastprivate(a)
			for (i = 0; i < n; i++) {
				for (int k = 0; k < (n - i) * 50; k++)
					__asm__ volatile("");
				a = i;
			}
#pragma omp for schedule(guided) lastprivate(b)
			for (i = n; i > 0; i--)
				b = i;
#pragma omp for schedule(monotonic : dynamic, 2) lastprivate(c)
			for (i = 0; i < n; i++)
				c = i;
		}
		bad += a != n - 1 || b != 1 || c != n - 1;
	}
	printf("last values: %d wrong\n", bad);
	failures += bad;
}

/* Loops within loops, and several made one. */
static void nests(void)
{
	static int square[40][40];
	int i, j, bad = 0, sum = 0, last = 0;

#pragma omp parallel for collapse(2) schedule(dynamic, 7) lastprivate(last)
	for (i = 0; i < 40; i++)
		for (j = 0; j < 40; j++) {
			square[i][j] += i * 40 + j;
			last = square[i][j];
		}
	for (i = 0; i < 40; i++)
		for (j = 0; j < 40; j++)
			bad += square[i][j] != i * 40 + j;
#pragma omp parallel for reduction(+ : sum)
	for (i = 0; i < 10; i++) {
#pragma omp parallel for reduction(+ : sum) schedule(dynamic)
		for (int k = 0; k < 10; k++)
			sum += i * k + (omp_get_num_threads() == 1) + (omp_get_level() == 2);
	}
	printf("nests: %d wrong, last %d, sum %d\n", bad, last, sum);
	failures += bad + (last != 1599) + (sum != 45 * 45 + 200);
}

int main(void)
{
	static const long numbers[] = { 0, 1, 2, 3, 7, 64, 1000, 4999 };
	unsigned int i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		each(numbers[i]);
	bounds();
	nowait();
	late();
	uneven();
	order();
	last_values();
	nests();
	printf("loops: %d failures\n", failures);
	return failures != 0;
}
