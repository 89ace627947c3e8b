// SPDX-License-Identifier: BSD-2-Clause
/*
 * random.c - the generators of random numbers belong to the process: threads that take turns, or
 * that joins order, draw one sequence, and no number is drawn twice without an order.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

#define THREADS 4
#define ROUNDS 3
#define DRAWS 2000

static char table[64], large[256], others[128];
static unsigned short mine[3] = { 1, 2, 3 }, param[7] = { 5, 6, 7, 0xe66d, 0xdeec, 5, 11 };
static char *tables[2];

static void print(const char *what)
{
	tell("%s: %d %ld %.9f %.9f %ld %ld %ld %ld\n", what, rand(), random(), drand48(),
	     erand48(mine), lrand48(), nrand48(mine), mrand48(), jrand48(mine));
}

/* What changes the state, each in another thread than the call before. */
static void change(int n)
{
	unsigned short *old;

	switch (n) {
	case 0: srand(7); break;
	case 1: srandom(8); break;
	case 2: srand48(9); break;
	case 3:
		old = seed48(param);
		tell("seed48: %d %d %d\n", old[0], old[1], old[2]);
		break;
	case 4: lcong48(param); break;
	case 5: tables[0] = initstate(10, table, sizeof(table)); break;
	case 6: tables[1] = initstate(11, large, sizeof(large)); break;
	case 7: check("setstate", setstate(tables[0]) == large); break;
	case 8: check("setstate again", setstate(table) == tables[0] && tables[1] == table); break;
	case 9: check("no table", !initstate(1, table, 4)); break;
	default: break;
	}
}

static void *turns(void *arg)
{
	const int me = (int)(intptr_t)arg;
	int i;

	for (i = me; i < THREADS * ROUNDS; i += THREADS) {
		until(i);
		change(i);
		print("turn");
		go_to(i + 1);
	}
	return NULL;
}

static void *once(void *arg)
{
	print(arg);
	return NULL;
}

/* Without an order, the threads still divide one sequence between them. */
static long drawn[THREADS][DRAWS], wanted[THREADS * DRAWS];

static void *draw(void *arg)
{
	long *to = drawn[(intptr_t)arg];
	int i;

	for (i = 0; i < DRAWS; i++)
		to[i] = i % 2 ? random() : rand();
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

static void divide(const char *of)
{
	int i;

	srandom(100);
	for (i = 0; i < THREADS * DRAWS; i++)
		wanted[i] = random();
	srandom(100);
	in_threads(THREADS, draw);
	qsort(wanted, THREADS * DRAWS, sizeof(long), compare);
	qsort(drawn, THREADS * DRAWS, sizeof(long), compare);
	check(of, !memcmp(wanted, drawn, sizeof(wanted)));
}

int main(void)
{
	in_thread(once, "another thread, without a seed");
	print("main");
	in_threads(THREADS, turns);
	print("main, after threads");
	divide("one sequence");
	check("a table", initstate(12, others, sizeof(others)) == table);
	divide("one sequence of a table");
	check("its size", setstate(table) == others && setstate(others) == table);
	print("main, with a table");
	return conclude();
}
