// SPDX-License-Identifier: BSD-2-Clause
/* constructs.c - everything but loops and tasks: each construct does what OpenMP says. */
#include <omp.h>
#include <pthread.h>
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

static int kept;
static double table[10];
static struct {
	int a, b[3];
} record;
#pragma omp threadprivate(kept, table, record)

static void regions(int threads)
{
	int ids = 0, n = 0, inside = 0, i;
	long sum = 0;

#pragma omp parallel reduction(+ : ids, n, inside)
	{
		ids += 1 << omp_get_thread_num();
		n += omp_get_num_threads();
		inside += omp_in_parallel() == (threads > 1) && omp_get_level() == 1 &&
			omp_get_active_level() == (threads > 1);
	}
	check("thread numbers", ids == (1 << threads) - 1);
	check("team size", n == threads * threads);
	check("in parallel", inside == threads && !omp_in_parallel() && !omp_get_level());
	for (i = 1; i <= 7; i++) {
		n = 0;
#pragma omp parallel num_threads(i) reduction(+ : n)
		n += omp_get_num_threads();
		check("num_threads", n == i * i);
	}
	n = 0;
#pragma omp parallel if (threads == 100) reduction(+ : n)
	n += omp_get_num_threads() + omp_get_level();
	check("if", n == 2);
	omp_set_num_threads(3);
#pragma omp parallel
#pragma omp single
	n = omp_get_num_threads();
	check("set_num_threads", n == 3 && omp_get_max_threads() == 3);
	omp_set_num_threads(threads);
	for (i = 0; i < 300; i++) {
#pragma omp parallel reduction(+ : sum)
		sum += i;
	}
	check("many regions", sum == 299l * 300 / 2 * threads);
#pragma omp parallel
	{
#pragma omp parallel num_threads(2)
		{
#pragma omp atomic
			n += omp_get_num_threads() == 1 && omp_get_level() == 2 &&
				!omp_get_thread_num() && omp_get_ancestor_thread_num(1) >= 0 &&
				omp_get_team_size(0) == 1;
		}
	}
	check("nested", n == 3 + threads || threads == 1);
}

/* A loop outside of regions, whose iterations have regions with such loops. */
static int inner(int n)
{
	int sum = 0;

#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
	for (int i = 0; i < n; i++)
		sum++;
	return sum;
}

static void levels(int threads)
{
	int wrong = 0, sum = 0, i;

#pragma omp for schedule(dynamic)
	for (i = 0; i < 10; i++)
		sum += inner(i);
	check("a loop around regions", sum == 45);
#pragma omp parallel if (0)
	{
#pragma omp parallel num_threads(3) reduction(+ : wrong)
		wrong += omp_get_num_threads() != 3 || omp_get_level() != 2 ||
			omp_get_ancestor_thread_num(2) != omp_get_thread_num() ||
			omp_get_ancestor_thread_num(1) != 0 || omp_get_team_size(1) != 1;
	}
	check("a region in one of one thread", !wrong);
#pragma omp parallel reduction(+ : wrong)
	{
		const int me = omp_get_thread_num();

#pragma omp parallel num_threads(2) reduction(+ : wrong)
		wrong += omp_get_ancestor_thread_num(1) != me || omp_get_thread_num() ||
			omp_get_team_size(1) != threads || omp_get_team_size(2) != 1 ||
			omp_in_parallel() != (threads > 1) || omp_get_ancestor_thread_num(3) != -1;
	}
	check("who is around", !wrong || threads == 1);
}

/* Sections that wait for each other, as there are enough threads. */
static void pipeline(int threads)
{
	int given = 0, taken = 0, r, round = 0;

	if (threads < 2)
		return;
	for (r = 1; r <= 50; r++) {
#pragma omp parallel sections num_threads(2)
		{
#pragma omp section
			{
				int seen;

				do {
#pragma omp atomic read
					seen = given;
				} while (seen != r);
				taken += seen;
			}
#pragma omp section
			{
#pragma omp atomic write
				given = r;
			}
		}
		round = r;
	}
	check("sections side by side", taken == 50 * 51 / 2 && round == 50);
}

static void private_data(int threads)
{
	int bad = 0, first = 5, none = 7, i;

	kept = 11;
#pragma omp parallel copyin(kept) reduction(+ : bad)
	{
		bad += kept != 11;
		kept += omp_get_thread_num();
	}
#pragma omp parallel reduction(+ : bad) firstprivate(first) private(none)
	{
		bad += kept != 11 + omp_get_thread_num();
		bad += first != 5;
		none = first += omp_get_thread_num();
		bad += none != 5 + omp_get_thread_num();
	}
	check("threadprivate, copyin, firstprivate, private", !bad && first == 5 && none == 7);
#pragma omp parallel reduction(+ : bad)
	{
		int told = -1;

#pragma omp single copyprivate(told)
		told = 33;
		bad += told != 33;
		for (i = 0; i < 1; i++)
			told++;
		bad += told != 34;
	}
	check("copyprivate", !bad);
	(void)threads;
}

/* Whole arrays and structures. */
static void private_arrays(void)
{
	int bad = 0, i;

	for (i = 0; i < 10; i++)
		table[i] = i * 1.5;
	record.a = 4;
	record.b[2] = 9;
#pragma omp parallel copyin(table, record) reduction(+ : bad) private(i)
	{
		double list[4] = { 0 };

		for (i = 0; i < 10; i++)
			bad += table[i] != i * 1.5;
		bad += record.a != 4 || record.b[2] != 9;
		table[0] = omp_get_thread_num();
#pragma omp single copyprivate(table, record, list)
		{
			table[5] = -1;
			record.b[0] = 77;
			list[3] = 8;
		}
		bad += table[5] != -1 || record.b[0] != 77 || list[3] != 8;
#pragma omp barrier
		table[9] = 100 + omp_get_thread_num();
#pragma omp barrier
		bad += table[9] != 100 + omp_get_thread_num();
	}
	check("copyin and copyprivate of arrays", !bad && table[9] == 100 && table[5] == -1);
}

struct point {
	double x, y;
};
#pragma omp declare reduction(add                                             \
			      : struct point                                  \
			      : omp_out.x += omp_in.x, omp_out.y += omp_in.y) \
	initializer(omp_priv = (struct point){ 0, 0 })

static void reductions(void)
{
	int sum = 0, product = 1, and = ~0, or = 0, xor = 0;
	int all = 1, any = 0, low = 1000, high = -1;
	double d = 0;
	struct point p = { 0, 0 };
	int hist[10] = { 0 }, i, bad = 0;

#pragma omp parallel for reduction(+ : sum, d) reduction(* : product) reduction(& : and) \
	reduction(| : or) reduction(^ : xor) reduction(&& : all) reduction(|| : any)     \
	reduction(min : low) reduction(max : high) reduction(add : p) reduction(+ : hist[:10])
	for (i = 1; i <= 200; i++) {
		sum += i;
		d += 0.5;
		product *= i % 50 ? 1 : 3;
		and &= ~(i & 3);
		or |= 1 << i % 20;
		xor ^= i;
		all = all && i;
		any = any || i == 77;
		low = i < low ? i : low;
		high = i > high ? i : high;
		p.x += i;
		p.y += 1;
		hist[i % 10]++;
	}
	for (i = 0; i < 10; i++)
		bad += hist[i] != 20;
	check("reductions of sums", sum == 20100 && d == 100 && product == 81 && !bad);
	check("reductions of bits", and == ~3 && or == (1 << 20) - 1 && xor == 200);
	check("reductions of choices", all && any && low == 1 && high == 200);
	check("reductions of structures", p.x == 20100 && p.y == 200);
}

static void exclusion(int threads)
{
	long plain = 0, named = 0, both = 0, atomic = 0, taken = 0;
	long double wide = 0;
	int i, singles = 0, masters = 0;

#pragma omp parallel private(i) shared(plain, named, both, atomic, taken, wide, singles, masters)
	for (i = 0; i < 200; i++) {
#pragma omp critical
		plain++;
#pragma omp critical(one)
		{
			named++;
#pragma omp critical(two)
			both++;
		}
#pragma omp atomic
		atomic += 2;
#pragma omp atomic
		wide += 0.5L;
		{
			long was;

#pragma omp atomic capture
			was = taken++;
			if (was < 0)
				abort();
		}
		if (i < 50) {
#pragma omp single
			singles++;
#pragma omp master
			masters++;
#pragma omp single nowait
			singles++;
		}
	}
	check("critical", plain == 200 * threads && named == plain && both == plain);
	check("atomic",
	      atomic == 400 * threads && wide == 100.0L * threads && taken == 200 * threads);
	check("single, master", singles == 100 && masters == 50);
}

static void sections(void)
{
	int done[6] = { 0 }, i, bad = 0, last = 0;

#pragma omp parallel
	{
#pragma omp sections
		{
#pragma omp section
			done[0]++;
#pragma omp section
	done[1]++;
#pragma omp section
	done[2]++;
}
}
#pragma omp parallel sections lastprivate(last)
{
#pragma omp section
	done[3]++;
#pragma omp section
	done[4]++;
#pragma omp section
	{
		done[5]++;
		last = 6;
	}
}
for (i = 0; i < 6; i++)
	bad += done[i] != 1;
check("sections", !bad && last == 6);
}

static void locks(int threads)
{
	omp_lock_t lock, many[2000];
	omp_nest_lock_t nest;
	long count = 0, nested = 0, tested = 0;
	int i;

	omp_init_lock(&lock);
	omp_init_nest_lock(&nest);
	for (i = 0; i < 2000; i++)
		omp_init_lock(&many[i]);
#pragma omp parallel for
	for (i = 0; i < 2000; i++) {
		omp_set_lock(&many[i]);
		omp_unset_lock(&many[i]);
		if (i % 20)
			continue;
		omp_set_lock(&lock);
		count++;
		omp_unset_lock(&lock);
		omp_set_nest_lock(&nest);
		omp_set_nest_lock(&nest);
		{
			const long seen = nested;
			const int took = omp_test_nest_lock(&nest);

			for (int k = 0; k < 200000; k++)
				__asm__ volatile("");
			nested = seen + took;
		}
		omp_unset_nest_lock(&nest);
		omp_unset_nest_lock(&nest);
		omp_unset_nest_lock(&nest);
		while (!omp_test_lock(&lock))
			;
		tested++;
		omp_unset_lock(&lock);
	}
	check("locks", count == 100 && tested == 100 && nested == 300);
	for (i = 0; i < 2000; i++)
		omp_destroy_lock(&many[i]);
	omp_destroy_lock(&lock);
	omp_destroy_nest_lock(&nest);
	(void)threads;
}

static void barriers(int threads)
{
	static int rounds[8][16];
	int bad = 0;

#pragma omp parallel reduction(+ : bad)
	for (int r = 1; r <= 100; r++) {
		rounds[omp_get_thread_num()][0] = r;
#pragma omp barrier
		for (int i = 0; i < omp_get_num_threads(); i++)
			bad += rounds[i][0] != r;
#pragma omp barrier
	}
	check("barriers", !bad);
	(void)threads;
}

/* Each POSIX thread leads teams of its own. */
static void *leader(void *arg)
{
	long *sum = arg;
	long s = 0;

#pragma omp parallel for num_threads(3) reduction(+ : s)
	for (int i = 0; i < 1000; i++)
		s += i;
	*sum = s;
	return NULL;
}

static void leaders(void)
{
	long sums[3];
	pthread_t t[3];
	int i;

	for (i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, leader, &sums[i]);
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	check("leaders", sums[0] == 499500 && sums[1] == 499500 && sums[2] == 499500);
}

int main(void)
{
	const int threads = omp_get_max_threads();
	const double start = omp_get_wtime();
	omp_sched_t kind;
	int chunk;

	regions(threads);
	levels(threads);
	pipeline(threads);
	private_data(threads);
	private_arrays();
	reductions();
	exclusion(threads);
	sections();
	locks(threads);
	barriers(threads);
	leaders();
	omp_set_schedule(omp_sched_guided, 9);
	omp_get_schedule(&kind, &chunk);
	check("schedule", kind == omp_sched_guided && chunk == 9);
	check("time", omp_get_wtime() >= start && omp_get_wtick() > 0);
	check("limits", omp_get_thread_limit() >= threads && omp_get_num_procs() > 0);
	check("devices", omp_is_initial_device() && !omp_get_num_devices());
	printf("constructs, %d threads: %d failures\n", threads, failures);
	return failures != 0;
}
