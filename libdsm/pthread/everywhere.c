// SPDX-License-Identifier: BSD-2-Clause
/* everywhere.c - has a thread of each other rank do something in its process. */
#include "everywhere.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

int everywhere_one(int r, void *(*fn)(void *), void *arg)
{
	/* no handler of the program runs in it */
	const struct dsm_thread_options quiet = { .signals_blocked = 1 };
	void *result = NULL;
	dsm_thread_t t;
	int err = dsm_spawn(&t, r, &quiet, fn, arg);

	if (!err)
		err = dsm_join(t, &result);
	return err ? err : (int)(intptr_t)result;
}

int everywhere_run(void *(*fn)(void *), void *arg)
{
	int r, err = 0;

	for (r = 0; r < shim.size; r++) {
		int failed = r == shim.rank ? 0 : everywhere_one(r, fn, arg);

		if (!err)
			err = failed;
	}
	return err;
}

struct round {
	void *(*fn)(void *);
	void *arg;
	int rank, err;
};

static void run_round(void *arg)
{
	struct round *out = arg, r = *out;

	r.err = r.rank < 0 ? everywhere_run(r.fn, r.arg) : everywhere_one(r.rank, r.fn, r.arg);
	out->err = r.err;
}

int everywhere_call(int rank, void *(*fn)(void *), void *arg, size_t size)
{
	struct round r = { .fn = fn, .arg = shared_alloc(size), .rank = rank };
	int state;

	if (!r.arg)
		return -ENOMEM;
	memcpy(r.arg, arg, size);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
			       &state); /* the functions that use this are no cancellation points */
	dsm_call(run_round, &r);
	pthread_setcancelstate(state, &state);
	memcpy(arg, r.arg, size);
	free(r.arg);
	return r.err;
}

int everywhere_visit(int rank, void *(*fn)(void *), void *arg)
{
	struct round r = { .fn = fn, .arg = arg, .rank = rank };
	int state;

	if (rank == shim.rank)
		return (int)(intptr_t)fn(arg);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	dsm_call(run_round, &r);
	pthread_setcancelstate(state, &state);
	return r.err;
}

/* ---- with private copies --------------------------------------------------------------------- */

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
