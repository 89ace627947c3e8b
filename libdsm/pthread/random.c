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
#include "util/sizes.h"

#include <stdlib.h>
#include <string.h>

#define TABLE 128     /* bytes of the C library's own table for random() */
#define TABLE_MAX 256 /* bytes of the largest table that is used */

/*
 * Where the program's memory has release consistency, the numbers of a table of the program are
 * drawn from a copy: calls of other nodes would not see what this one stores into the table. The
 * table has them again once another one is used.
 */
struct generators {
	uint32_t lock;
	struct random_data data;
	char table[TABLE];
	char *given;       /* the program's table in use; NULL: `table` is */
	unsigned int copy; /* which one is in use then */
	char copies[2][TABLE_MAX];
	__attribute__((aligned(PAGE_BYTES))) uint32_t lock48;
	struct drand48_data data48;
};

int random_start(void)
{
	const size_t size = (sizeof(struct generators) + PAGE_BYTES - 1) & -PAGE_BYTES;
	struct generators *g = dsm_aligned_alloc(PAGE_BYTES, size);

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
 * Bytes of a table that initstate() has made, by its first word, in which the C library keeps the
 * degree of its polynomial, 0 to 4.
 */
static size_t table_size(const char *table)
{
	static const size_t sizes[] = { 8, 32, 64, 128, 256 };
	int32_t first;

	memcpy(&first, table, sizeof(first));
	return sizes[(uint32_t)first % 5];
}

/* As initstate() and setstate() take and return it. */
static char *table_now(const struct generators *g)
{
	return g->given ? g->given : (char *)&g->data.state[-1];
}

/* Where the numbers of a table are drawn from. */
static char *table_place(struct generators *g, char *table)
{
	return shim.weak && table != g->table ? g->copies[!g->copy] : table;
}

/* The C library uses this place, and has written into the one before where its numbers are. */
static void table_changed(struct generators *g, char *table, const char *place)
{
	if (g->given)
		memcpy(g->given, g->copies[g->copy], table_size(g->copies[g->copy]));
	g->given = NULL;
	if (place != table) {
		g->given = table;
		g->copy = !g->copy;
	}
}

EXPORT char *initstate(unsigned int seed, char *table, size_t size)
{
	struct generators *g;
	char *old, *place;

	if (!caller_is_ours(CALLER))
		return NEXT(initstate)(seed, table, size);
	g = team->generators;
	brief_lock(&g->lock);
	old = table_now(g);
	place = table_place(g, table);
	if (initstate_r(seed, place, size < TABLE_MAX ? size : TABLE_MAX, &g->data)) {
		old = NULL;
	} else {
		table_changed(g, table, place);
		if (place != table)
			memcpy(table, place, table_size(place));
	}
	brief_unlock(&g->lock);
	return old;
}

static char *change_table(struct generators *g, char *table)
{
	char *old = table_now(g), *place = table_place(g, table);

	if (table == g->given)
		return old;
	if (place != table)
		memcpy(place, table, table_size(table));
	if (setstate_r(place, &g->data))
		return NULL;
	table_changed(g, table, place);
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
	old = change_table(g, table);
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
