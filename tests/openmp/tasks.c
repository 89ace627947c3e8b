// SPDX-License-Identifier: BSD-2-Clause
/* tasks.c - tasks: each is executed once, after and before what OpenMP says. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void check(const char *what, int ok)
{
	if (!ok) {
		printf("%s: wrong\n", what);
		failures++;
	}
}

static long fib(int n)
{
	long a, b;

	if (n < 2)
		return n;
#pragma omp task shared(a) if (n > 8)
	a = fib(n - 1);
#pragma omp task shared(b) final(n < 6)
	b = fib(n - 2);
#pragma omp taskwait
	return a + b;
}

struct node {
	struct node *left, *right;
	int value;
};

static struct node *grow(int depth)
{
	struct node *n = malloc(sizeof(*n));

	n->value = depth;
	n->left = n->right = NULL;
	if (depth) {
#pragma omp task
		n->left = grow(depth - 1);
#pragma omp task
		n->right = grow(depth - 1);
	}
	return n;
}

static long sum_of(const struct node *n)
{
	return n ? n->value + sum_of(n->left) + sum_of(n->right) : 0;
}

static void visit(const struct node *n, long *sum)
{
	if (!n)
		return;
#pragma omp atomic
	*sum += n->value;
#pragma omp task
	visit(n->left, sum);
#pragma omp task
	visit(n->right, sum);
}

static void sort(int *v, int n)
{
	int i, j = 0, t;

	if (n < 2)
		return;
	for (i = 0; i < n - 1; i++)
		if (v[i] < v[n - 1]) {
			t = v[i];
			v[i] = v[j];
			v[j++] = t;
		}
	t = v[j];
	v[j] = v[n - 1];
	v[n - 1] = t;
#pragma omp task if (n > 100)
	sort(v, j);
#pragma omp task if (n > 100)
	sort(v + j + 1, n - j - 1);
}

/* Tasks that read some words and write others give what the same statements give one by one. */
static unsigned int mixed(unsigned int a, unsigned int b, unsigned int c)
{
	return (a ^ b * 0x9e3779b9u) * 0x85ebca6bu + c;
}

static void words(void)
{
	enum { WORDS = 6, STEPS = 1500 };
	unsigned int one[WORDS] = { 0 }, all[WORDS] = { 0 }, seed = 7;
	int from[STEPS], by[STEPS], to[STEPS], i, bad = 0, running = 0, most = 0;

	for (i = 0; i < STEPS; i++) {
		from[i] = rand_r(&seed) % WORDS;
		by[i] = rand_r(&seed) % WORDS;
		to[i] = rand_r(&seed) % WORDS;
		one[to[i]] = mixed(one[from[i]], one[by[i]], (unsigned int)i);
	}
#pragma omp parallel
#pragma omp single
	for (i = 0; i < STEPS; i++) {
		unsigned int *a = &all[from[i]], *b = &all[by[i]], *c = &all[to[i]];

#pragma omp task depend(in : a[0], b[0]) depend(inout : c[0]) firstprivate(i) if (i % 97)
		*c = mixed(*a, *b, (unsigned int)i);
	}
	for (i = 0; i < WORDS; i++)
		bad += one[i] != all[i];
	check("depend, many", !bad);

	/* who only reads need not wait for each other: two of them meet */
#pragma omp parallel
#pragma omp single
	if (omp_get_num_threads() > 1) {
		for (i = 0; i < 2; i++) {
#pragma omp task depend(in : seed) shared(running, most)
			{
				const double end = omp_get_wtime() + 20;
				int now;

#pragma omp atomic
				running++;
				do {
#pragma omp atomic read
					now = running;
				} while (now < 2 && omp_get_wtime() < end);
				if (now == 2) {
#pragma omp atomic
					most++;
				}
			}
		}
#pragma omp task depend(out : seed) shared(running, most)
		running = most;
	} else {
		running = 2;
	}
	check("depend, readers", running == 2);
}

static void recursion(void)
{
	struct node *root = NULL;
	long f = 0, sum = 0;

#pragma omp parallel
#pragma omp single
	f = fib(17);
	check("fib", f == 1597);

#pragma omp parallel
#pragma omp single
	root = grow(9);
	check("a tree grows", sum_of(root) == 1013); /* sum of depth * 2^(9 - depth) */
#pragma omp parallel
#pragma omp single nowait
	visit(root, &sum);
	check("it is visited", sum == 1013);
}

static void sorting(void)
{
	static int v[20000];
	unsigned int seed = 1;
	int i, bad = 0;

	for (i = 0; i < 20000; i++)
		v[i] = rand_r(&seed);
#pragma omp parallel
#pragma omp single
	sort(v, 20000);
	for (i = 1; i < 20000; i++)
		bad += v[i - 1] > v[i];
	check("sort", !bad);
}

#define N 3000

/* By all threads, with data of their own; more than wait at a time. */
static void many(void)
{
	static int executed[N], by[64];
	char data[300];
	int i, bad = 0;

	memset(data, 7, sizeof(data));
#pragma omp parallel shared(executed)
	{
#pragma omp for
		for (i = 0; i < N; i++) {
			const int mine = i;

#pragma omp task firstprivate(data) untied
			{
				executed[mine] += data[0] + data[299] == 14;
#pragma omp atomic
				by[omp_get_thread_num()]++;
			}
		}
	}
	for (i = 0; i < N; i++)
		bad += executed[i] != 1;
	check("tasks of all threads", !bad);
}

/* Groups wait for what is within their tasks, taskwait does not. */
static void groups(void)
{
	int i, inner = 0, after = -1;

#pragma omp parallel
#pragma omp single
	{
#pragma omp taskgroup
		{
			for (i = 0; i < 20; i++) {
#pragma omp task
				{
#pragma omp task
					{
#pragma omp atomic
						inner++;
					}
#pragma omp atomic
					inner++;
				}
			}
		}
		after = inner;
	}
	check("group", after == 40);
}

static void dependences(void)
{
	int i, chain = 0, x = 0, y = 0;

#pragma omp parallel
#pragma omp single
	{
		for (i = 0; i < 50; i++) {
#pragma omp task depend(inout : chain) firstprivate(i)
			{
				if (chain == i)
					chain++;
			}
		}
#pragma omp task depend(out : x)
		x = 5;
#pragma omp task depend(in : x) depend(out : y)
		y = x + 1;
#pragma omp taskwait
	}
	check("depend", chain == 50 && y == 6);
}

static void taskloops(void)
{
	static int executed[N];
	int i, bad = 0;

#pragma omp parallel
#pragma omp single
	{
#pragma omp taskloop grainsize(7)
		for (i = 0; i < N; i++)
			executed[i]++;
#pragma omp taskloop num_tasks(13)
		for (i = N - 1; i >= 0; i -= 2)
			executed[i]++;
#pragma omp taskloop
		for (unsigned long long k = 0; k < N; k += 3)
			executed[k]++;
	}
	for (i = 0; i < N; i++)
		bad += executed[i] != 1 + (i % 2 != N % 2) + (i % 3 == 0);
	check("taskloop", !bad);
}

static void finals(void)
{
	int inner = 0;

#pragma omp parallel
#pragma omp single
	{
#pragma omp task final(1)
		{
#pragma omp atomic
			inner += omp_in_final();
#pragma omp task
			{
#pragma omp atomic
				inner += 10 * omp_in_final();
			}
		}
#pragma omp task
		{
#pragma omp atomic
			inner += 100 * omp_in_final();
		}
	}
	check("final", inner == 11);
}

static void alone(void)
{
	int x = 0;

#pragma omp task shared(x)
	x = 9;
#pragma omp taskwait
	check("outside of regions", x == 9);
}

int main(void)
{
	recursion();
	sorting();
	many();
	groups();
	dependences();
	words();
	taskloops();
	finals();
	alone();
	printf("tasks, %d threads: %d failures\n", omp_get_max_threads(), failures);
	return failures != 0;
}
