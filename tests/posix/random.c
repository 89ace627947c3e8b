// SPDX-License-Identifier: BSD-2-Clause
/*
 * random.c - generators of random numbers: one sequence for all threads, where joins order their
 * calls.
 */
#define _GNU_SOURCE
#include "cases.h"

#include <sys/random.h>

static void *draw_rand(void *arg)
{
	say("%d", rand());
	return arg;
}

CASE(rand_sequence, EACH)
{
	int i;

	for (i = 0; i < 3; i++) {
		draw_rand(NULL);
		apart(draw_rand, NULL);
	}
	srand(7);
	apart(draw_rand, NULL);
	draw_rand(NULL);
}

static unsigned int rand_seed;

static void *draw_rand_r(void *arg)
{
	say("%d", rand_r(&rand_seed));
	return arg;
}

CASE(rand_reentrant, EACH)
{
	rand_seed = 11;
	draw_rand_r(NULL);
	apart(draw_rand_r, NULL);
	draw_rand_r(NULL);
	say("%u", rand_seed);
}

static void *draw_random(void *arg)
{
	say("%ld", random());
	return arg;
}

CASE(random_sequence, EACH)
{
	int i;

	for (i = 0; i < 3; i++) {
		draw_random(NULL);
		apart(draw_random, NULL);
	}
	srandom(9);
	apart(draw_random, NULL);
	draw_random(NULL);
}

static char state_small[8], state_large[256];

static void *set_small(void *arg)
{
	say("%d", setstate(state_small) == state_large);
	return arg;
}

CASE(random_states, EACH)
{
	char *before = initstate(3, state_small, sizeof(state_small));

	draw_random(NULL);
	apart(draw_random, NULL);
	say("%d", initstate(4, state_large, sizeof(state_large)) == state_small);
	apart(draw_random, NULL);
	draw_random(NULL);
	apart(set_small, NULL);
	draw_random(NULL);
	apart(draw_random, NULL);
	say("%d", setstate(before) == state_small);
	draw_random(NULL);
	say("%d", initstate(1, state_small, 7) == NULL);
}

static struct random_data own_data;
static char own_state[64];

static void *draw_random_r(void *arg)
{
	int32_t got = 0;

	say("%d", random_r(&own_data, &got));
	say("%d", got);
	return arg;
}

CASE(random_reentrant, EACH)
{
	memset(&own_data, 0, sizeof(own_data));
	say("%d", initstate_r(5, own_state, sizeof(own_state), &own_data));
	draw_random_r(NULL);
	apart(draw_random_r, NULL);
	say("%d", srandom_r(6, &own_data));
	apart(draw_random_r, NULL);
	draw_random_r(NULL);
}

static void *draw_48(void *arg)
{
	say("%.17g", drand48());
	say("%ld", lrand48());
	say("%ld", mrand48());
	return arg;
}

static unsigned short own_48[3];

static void *draw_own_48(void *arg)
{
	say("%.17g", erand48(own_48));
	say("%ld", nrand48(own_48));
	say("%ld", jrand48(own_48));
	return arg;
}

CASE(drand48_sequence, EACH)
{
	draw_48(NULL);
	apart(draw_48, NULL);
	draw_48(NULL);
	srand48(5);
	apart(draw_48, NULL);
	draw_48(NULL);
	memcpy(own_48, (unsigned short[]){ 1, 2, 3 }, sizeof(own_48));
	draw_own_48(NULL);
	apart(draw_own_48, NULL);
	say("%d %d %d", own_48[0], own_48[1], own_48[2]);
}

CASE(drand48_seeds, EACH)
{
	unsigned short seed[3] = { 9, 8, 7 }, parameters[7] = { 1, 2, 3, 0xe66d, 0xdeec, 5, 13 };
	const unsigned short *before;

	srand48(3);
	before = seed48(seed);
	say("%d %d %d", before[0], before[1], before[2]);
	apart(draw_48, NULL);
	draw_48(NULL);
	lcong48(parameters);
	apart(draw_48, NULL);
	draw_48(NULL);
	apart(draw_own_48, NULL);
	srand48(3);
	apart(draw_own_48, NULL);
}

static void *draw_true(void *arg)
{
	unsigned char bytes[32] = { 0 }, more[32] = { 0 };

	say_call(getrandom(bytes, sizeof(bytes), 0));
	say_call(getentropy(more, sizeof(more)));
	say("%d", memcmp(bytes, more, sizeof(more)) != 0);
	return arg;
}

CASE(random_of_kernel, EACH)
{
	draw_true(NULL);
	apart(draw_true, NULL);
}

/* Threads that run at the same time draw each value of the sequence once. */
static unsigned int drawn[4][1000];

static void *draw_many(void *arg)
{
	unsigned int i, *to = arg;

	for (i = 0; i < 1000; i++)
		to[i] = (unsigned int)rand();
	return arg;
}

static int by_value(const void *a, const void *b)
{
	const unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return x < y ? -1 : x > y;
}

CASE(rand_at_once, EACH)
{
	pthread_t threads[4];
	unsigned long sum = 0;
	unsigned int i, *all = drawn[0];

	srand(17);
	for (i = 0; i < 4; i++)
		threads[i] = start(draw_many, drawn[i]);
	for (i = 0; i < 4; i++)
		ended(threads[i]);
	qsort(all, 4000, sizeof(*all), by_value);
	for (i = 0; i < 4000; i++)
		sum = sum * 31 + all[i];
	say("%lu", sum);
	draw_rand(NULL);
}
