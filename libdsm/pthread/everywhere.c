// SPDX-License-Identifier: BSD-2-Clause
/* everywhere.c - has a thread of each other rank do something in its process. */
#include "everywhere.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

int everywhere_run(void *(*fn)(void *), void *arg)
{
	int r, err = 0;

	for (r = 0; r < shim.size; r++) {
		void *result = NULL;
		dsm_thread_t t;
		int failed;

		if (r == shim.rank)
			continue;
		failed = dsm_spawn(&t, r, NULL, fn, arg);
		if (!failed)
			failed = dsm_join(t, &result);
		if (!failed)
			failed = (int)(intptr_t)result;
		if (!err)
			err = failed;
	}
	return err;
}

struct round {
	void *(*fn)(void *);
	void *arg;
	int err;
};

static void run_round(void *arg)
{
	struct round *out = arg, r = *out;

	r.err = everywhere_run(r.fn, r.arg);
	out->err = r.err;
}

int everywhere_call(void *(*fn)(void *), void *arg, size_t size)
{
	struct round r = { .fn = fn, .arg = shared_alloc(size) };
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
