// SPDX-License-Identifier: BSD-2-Clause
/* ranks.c - see ranks.h. */
#include "everywhere.h"

#include <string.h>

#include "ranks.h"

struct order {
	int (*fn)(void *arg);
	size_t size;
	char arg[RANKS_ARG] __attribute__((aligned(16)));
};

/* For one rank. */
static void *ranks_carry_out(void *arg)
{
	struct order *shared = arg, o = *shared;
	const int err = o.fn(o.arg);

	memcpy(shared->arg, o.arg, o.size);
	return (void *)(intptr_t)err;
}

/* For each of several. */
static void *carry_out_alone(void *arg)
{
	struct order o = *(const struct order *)arg;

	return (void *)(intptr_t)o.fn(o.arg);
}

static struct order order(int (*fn)(void *arg), const void *arg, size_t size)
{
	struct order o = { .fn = fn, .size = size };

	if (size)
		memcpy(o.arg, arg, size);
	return o;
}

int ranks_run(int rank, int (*fn)(void *arg), void *arg, size_t size)
{
	struct order o;
	int err;

	if (rank == shim.rank)
		return fn(arg);
	o = order(fn, arg, size);
	err = everywhere_call(rank, ranks_carry_out, &o, sizeof(o));
	if (size)
		memcpy(arg, o.arg, size);
	return err;
}

int ranks_run_others(int (*fn)(void *arg), const void *arg, size_t size)
{
	struct order o = order(fn, arg, size);

	return everywhere_call(EVERYWHERE, carry_out_alone, &o, sizeof(o));
}
