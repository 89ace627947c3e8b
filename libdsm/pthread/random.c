// SPDX-License-Identifier: BSD-2-Clause
/*
 * random.c - the C library's generators of random numbers, for the program: their state is the
 * job's, so calls that joins or locks order return the sequence of one process, whatever ranks they
 * are made on. Libraries keep the generators of their rank.
 *
 * Each of the two states has pages of its own, together with its lock: the lock is a word, so that
 * a call whose node has the page needs no message, and a call whose node has not fetches both at
 * once. A section takes some instructions and waits for nothing but blocks.
 */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define TABLE 128 /* bytes of the C library's own table for random() */

struct generators {
	uint32_t lock;
	struct random_data data;
	char table[TABLE];
	__attribute__((aligned(PAGE))) uint32_t lock48;
	struct drand48_data data48;
};

int random_start(void)
{
	const size_t size = (sizeof(struct generators) + PAGE - 1) & -(size_t)PAGE;
	struct generators *g = dsm_aligned_alloc(PAGE, size);

	if (!g)
		return -ENOMEM;
	memset(g, 0, size);
	/* as the C library's, of which no seed has been set */
	if (initstate_r(1, g->table, TABLE, &g->data))
		return -errno;
	team->generators = g;
	return 0;
}

/* ---- rand(), random() ------------------------------------------------------------------------ */

static long next_random(void)
{
	struct generators *g = team->generators;
	int32_t value;

	brief_lock(&g->lock);
	random_r(&g->data, &value);
	brief_unlock(&g->lock);
	return value;
}

static void seed_random(unsigned int seed)
{
	struct generators *g = team->generators;

	brief_lock(&g->lock);
	srandom_r(seed, &g->data);
	brief_unlock(&g->lock);
}

EXPORT long random(void)
{
	return caller_is_ours(CALLER) ? next_random() : NEXT(random)();
}

EXPORT int rand(void)
{
	return caller_is_ours(CALLER) ? (int)next_random() : NEXT(rand)();
}

EXPORT void srandom(unsigned int seed)
{
	if (caller_is_ours(CALLER))
		seed_random(seed);
	else
		NEXT(srandom)(seed);
}

EXPORT void srand(unsigned int seed)
{
	if (caller_is_ours(CALLER))
		seed_random(seed);
	else
		NEXT(srand)(seed);
}

/*
 * The table in use, as initstate() and setstate() take it: there is a word for the C library before
 * its numbers.
 */
static char *random_table(const struct random_data *data)
{
	return (char *)&data->state[-1];
}

EXPORT char *initstate(unsigned int seed, char *table, size_t size)
{
	struct generators *g;
	char *old;

	if (!caller_is_ours(CALLER))
		return NEXT(initstate)(seed, table, size);
	g = team->generators;
	brief_lock(&g->lock);
	old = random_table(&g->data);
	if (initstate_r(seed, table, size, &g->data))
		old = NULL;
	brief_unlock(&g->lock);
	return old;
}

EXPORT char *setstate(char *table)
{
	struct generators *g;
	char *old;

	if (!caller_is_ours(CALLER))
		return NEXT(setstate)(table);
	g = team->generators;
	brief_lock(&g->lock);
	old = random_table(&g->data);
	if (setstate_r(table, &g->data))
		old = NULL;
	brief_unlock(&g->lock);
	return old;
}

/* ---- drand48() and its family ---------------------------------------------------------------- */

/* A call of the reentrant form with the job's state; NAME(ARGUMENTS) for libraries. */
#define OF_48(call, other)                   \
	({                                   \
		struct generators *g;        \
		if (!caller_is_ours(CALLER)) \
			return other;        \
		g = team->generators;        \
		brief_lock(&g->lock48);      \
		call;                        \
		brief_unlock(&g->lock48);    \
	})

/* One that returns a number; the reentrant form takes the state, and where the number goes. */
#define NUMBER_48(type, name, parameters, arguments, ...)                   \
	EXPORT type name parameters                                         \
	{                                                                   \
		type value;                                                 \
		OF_48(name##_r(__VA_ARGS__, &value), NEXT(name) arguments); \
		return value;                                               \
	}
NUMBER_48(double, drand48, (void), (), &g->data48)
NUMBER_48(double, erand48, (unsigned short x[3]), (x), x, &g->data48)
NUMBER_48(long, lrand48, (void), (), &g->data48)
NUMBER_48(long, nrand48, (unsigned short x[3]), (x), x, &g->data48)
NUMBER_48(long, mrand48, (void), (), &g->data48)
NUMBER_48(long, jrand48, (unsigned short x[3]), (x), x, &g->data48)

EXPORT void srand48(long seed)
{
	OF_48(srand48_r(seed, &g->data48), NEXT(srand48)(seed));
}

EXPORT unsigned short *seed48(unsigned short x[3])
{
	OF_48(seed48_r(x, &g->data48), NEXT(seed48)(x));
	return team->generators->data48.__old_x;
}

EXPORT void lcong48(unsigned short param[7])
{
	OF_48(lcong48_r(param, &g->data48), NEXT(lcong48)(param));
}
