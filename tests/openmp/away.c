// SPDX-License-Identifier: BSD-2-Clause
/* away.c - tasks that other threads than their creator's execute: when, and who waits for them. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int failures;

static void check(const char *what, int ok)
{
	if (!ok) {
		printf("%s: wrong\n", what);
		failures++;
	}
}

/* Two tasks of a region, executed at the same time. */
static void meet(int *running, int *met)
{
	const double end = omp_get_wtime() + 20;
	int now;

#pragma omp atomic
	++*running;
	do {
#pragma omp atomic read
		now = *running;
	} while (now < 2 && omp_get_wtime() < end);
	if (now == 2) {
#pragma omp atomic
		++*met;
	}
}

static void pair(int *running, int *met)
{
	int i;

	for (i = 0; i < 2 && omp_get_num_threads() > 1; i++) {
#pragma omp task firstprivate(running, met)
		meet(running, met);
	}
}

static int alone(void)
{
	return omp_get_max_threads() == 1;
}

/* A region that made no tasks makes some: others execute them from the next time on. */
static void sometimes(int tasks, int together, int *count)
{
	int running = 0, met = 0, i;

#pragma omp parallel
#pragma omp single
	{
		for (i = 0; i < tasks; i++) {
#pragma omp task
			{
#pragma omp atomic
				++*count;
			}
		}
		if (together)
			pair(&running, &met);
	}
	if (together)
		check("tasks after a region without", alone() || met == 2);
}

static void learned(void)
{
	int count = 0, i;

	for (i = 0; i < 5; i++)
		sometimes(0, 0, &count);
	sometimes(50, 0, &count);
	check("tasks of a region that had none", count == 50);
	sometimes(50, 1, &count);
	check("tasks of a region that had some", count == 100);
}

/* A region that makes tasks each time has others execute them each time. */
static void always(void)
{
	int met = 0, round;

	for (round = 0; round < 7; round++) {
		int running = 0;

#pragma omp parallel shared(running, met)
#pragma omp single
		pair(&running, &met);
	}
	check("tasks each time", alone() || met == 14);
}

/* Who has waited for its own tasks, and executed some of other nodes meanwhile, leaves none. */
static void maker(int tasks)
{
	int count = 0;

#pragma omp parallel num_threads(4) shared(count)
	for (int i = 0; i < tasks; i++) {
		const int id = omp_get_thread_num(), us = id == 0 ? 60000 : id == 1 ? 1000 : 1;

		if (i < (id == 1 ? tasks : id != 3)) {
#pragma omp task firstprivate(us) shared(count)
			{
				usleep((useconds_t)us);
#pragma omp atomic
				count++;
			}
		}
	}
	check("makers of a region that made none", !tasks || count == tasks + 2);
}

/* The same with barriers of one region. */
static void later(void)
{
	int count = 0, running = 0, met = 0, seen[3] = { 0 };

#pragma omp parallel shared(count, running, met, seen)
	{
		int i;

		for (i = 0; i < 70; i++) {
#pragma omp barrier
		}
#pragma omp single
		for (i = 0; i < 40; i++) {
#pragma omp task shared(count)
			{
#pragma omp atomic
				count++;
			}
		}
#pragma omp single
		{
			seen[0] = count;
			if (omp_get_num_threads() > 1)
				pair(&running, &met);
		}
#pragma omp single
		seen[1] = met;
		for (i = 0; i < 5; i++) {
#pragma omp barrier
		}
#pragma omp task shared(count)
		{
#pragma omp atomic
			count++;
		}
#pragma omp barrier
#pragma omp single
		seen[2] = count - omp_get_num_threads();
	}
	check("tasks after many barriers", seen[0] == 40);
	check("tasks after those", alone() || seen[1] == 2);
	check("tasks of all threads", seen[2] == 40);
}

/* Many short ones, of which other nodes take several: a group waits for what they create. */
static void batches(int n)
{
	int i, round, done = 0, made = 0, bad = 0;

#pragma omp parallel shared(done, made, bad)
#pragma omp single
	for (round = 0; round < 10; round++) {
#pragma omp taskgroup
		for (i = 0; i < n; i++) {
#pragma omp task
			{
				int own = 0;

#pragma omp task
				{
					volatile int spin = 3000;

					while (spin)
						spin--;
#pragma omp atomic
					made++;
				}
#pragma omp task shared(own)
				own = 1;
#pragma omp taskwait
				if (!own) {
#pragma omp atomic
					bad++;
				}
#pragma omp atomic
				done++;
			}
		}
		bad += done != (round + 1) * n || made != (round + 1) * n;
	}
	check("batches", !bad);
}

static void spin_and_count(int *count)
{
	volatile int spin = 5000;

	while (spin)
		spin--;
#pragma omp atomic
	++*count;
}

/* Short ones of several tasks and groups, side by side: each is counted where it belongs. */
static void mixtures(void)
{
	enum { OUTER = 60, INNER = 8 };
	int bad = 0, k;

#pragma omp parallel shared(bad)
#pragma omp single
	for (k = 0; k < OUTER; k++) {
#pragma omp task shared(bad)
		{
			int before = 0, within = 0, wrong = 0, i;

			for (i = 0; i < INNER; i++) {
#pragma omp task shared(before)
				spin_and_count(&before);
			}
#pragma omp taskgroup
			{
				for (i = 0; i < INNER; i++) {
#pragma omp task shared(within)
					spin_and_count(&within);
				}
			}
			wrong = within != INNER;
#pragma omp taskwait
			wrong += before != INNER;
#pragma omp atomic
			bad += wrong;
		}
	}
	check("mixtures", !bad);
}

static long executed;
#pragma omp threadprivate(executed)

static void brief(void)
{
	volatile int spin = 1500;

	while (spin)
		spin--;
	executed++;
}

/* Such that touch no memory of others, so that a node takes many at once. */
static void tiny(void)
{
	enum { OUTER = 40, INNER = 20 };
	long sum = 0;

#pragma omp parallel
	executed = 0;
#pragma omp parallel
#pragma omp single
	for (int k = 0; k < OUTER; k++) {
#pragma omp task
		{
			for (int i = 0; i < INNER; i++) {
#pragma omp task
				brief();
			}
#pragma omp taskgroup
			for (int i = 0; i < INNER; i++) {
#pragma omp task
				brief();
			}
#pragma omp taskwait
		}
	}
#pragma omp parallel reduction(+ : sum)
	sum += executed;
	check("tiny", sum == 2 * OUTER * INNER);
}

/* Those of one group follow those of another one, and those of one task those of another. */
static void edges(void)
{
	enum { ROUNDS = 20, OWN = 25 };
	int bad = 0;

#pragma omp parallel shared(bad)
#pragma omp single
	for (int round = 0; round < ROUNDS; round++) {
		int own[OWN] = { 0 };

#pragma omp taskgroup
		{
			for (int i = 0; i < 6; i++) {
#pragma omp task
				brief();
			}
#pragma omp taskgroup
			for (int i = 0; i < 80; i++) {
#pragma omp task
				brief();
			}
		}
		for (int i = 0; i < OWN; i++) {
#pragma omp task shared(own)
			{
				brief();
				own[i] = 1;
			}
#pragma omp task if (0)
			for (int k = 0; k < 3; k++) {
#pragma omp task
				brief();
			}
		}
#pragma omp taskwait
		for (int i = 0; i < OWN; i++)
			bad += !own[i];
	}
	check("edges", !bad);
}

/* A tree, whose nodes wait for their children or for all below, or leave that to the region. */
static long tree(unsigned int seed, int depth, long *below)
{
	long sums[3] = { 0 }, own = seed % 7, sum = own;
	unsigned int i, kids = depth ? (seed / 7) % 4 : 0, next;

	for (i = 0; i < kids; i++) {
		next = (seed + i) * 2654435761u >> 3;
		if (below) {
#pragma omp task firstprivate(next, i) shared(sums)
			sums[i] = tree(next, depth - 1, below);
		} else {
			sums[i] = tree(next, depth - 1, below);
		}
	}
	if (below) {
#pragma omp atomic
		*below += own;
#pragma omp taskwait
	}
	for (i = 0; i < kids; i++)
		sum += sums[i];
	return sum;
}

static void trees(void)
{
	unsigned int seed;
	long want, got, below;
	int bad = 0;

	for (seed = 1000; seed < 1040; seed++) {
		want = tree(seed * 977, 9, NULL);
		got = below = 0;
#pragma omp parallel shared(got, below)
#pragma omp single
		{
#pragma omp taskgroup
			{
#pragma omp task shared(got, below)
				got = tree(seed * 977, 9, &below);
			}
			bad += got != want || below != want;
		}
		bad += got != want || below != want;
	}
	check("trees", !bad);
}

/* Tasks that depend on each other, and create some themselves. */
static void chains(void)
{
	enum { CHAINS = 8, STEPS = 60 };
	int at[CHAINS] = { 0 }, inner[CHAINS] = { 0 }, i, step, bad = 0;

#pragma omp parallel shared(at, inner, bad)
#pragma omp single
	for (step = 0; step < STEPS; step++)
		for (i = 0; i < CHAINS; i++) {
#pragma omp task depend(inout : at[i]) firstprivate(i, step) shared(at, inner, bad)
			{
#pragma omp task shared(inner) firstprivate(i)
				inner[i]++;
#pragma omp taskwait
				if (at[i] != step || inner[i] != step + 1) {
#pragma omp atomic
					bad++;
				}
				at[i]++;
			}
		}
	for (i = 0; i < CHAINS; i++)
		bad += at[i] != STEPS || inner[i] != STEPS;
	check("chains", !bad);
}

/* Wait up to 20 s until a count is that high. */
static int await(int *count, int high)
{
	const double end = omp_get_wtime() + 20;
	int now;

	do {
#pragma omp atomic read
		now = *count;
	} while (now < high && omp_get_wtime() < end);
	return now >= high;
}

/* A thread that waits for its children executes one that gets ready, though all others are busy. */
static void ready(void)
{
	int first = 0, running = 0, met = 0, x = 0;

#pragma omp parallel num_threads(2) shared(first, running, met, x)
#pragma omp single
	if (omp_get_num_threads() == 2) {
#pragma omp task depend(out : x) shared(first, running, met, x)
		{
			x = 1;
#pragma omp atomic
			first++;
#pragma omp task shared(running, met)
			meet(&running, &met);
		}
#pragma omp task depend(in : x) shared(running, met)
		meet(&running, &met);
		await(&first, 1);
#pragma omp taskwait
	} else {
		met = 2;
		x = 1;
	}
	check("a child gets ready", met == 2 && x == 1);
}

/* Who waits for a group executes no others, which may wait for what comes after it. */
static void beside(void)
{
	int after = 0, inner = 0, right = 0;

#pragma omp parallel shared(after, inner, right)
#pragma omp single
	if (omp_get_num_threads() > 1) {
#pragma omp task shared(after, right)
		right = await(&after, 1);
#pragma omp taskgroup
		{
			int i;

			for (i = 0; i < 4; i++) {
#pragma omp task shared(inner)
				spin_and_count(&inner);
			}
		}
#pragma omp atomic
		after++;
	} else {
		right = 1;
	}
	check("a task beside a group", right);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

	while (rounds--) {
		for (int i = 0; i < 5; i++)
			maker(0);
		maker(100);
		always();
		learned();
		later();
		batches(60);
		mixtures();
		tiny();
		edges();
		/* now that short tasks are left to their node for a moment */
		always();
		trees();
		chains();
		ready();
		beside();
	}
	printf("away, %d threads: %d failures\n", omp_get_max_threads(), failures);
	return failures != 0;
}
