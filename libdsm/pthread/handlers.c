// SPDX-License-Identifier: BSD-2-Clause
/*
 * handlers.c - functions that the program registers for the end of its process run on rank 0, which
 * runs exit() and quick_exit(). So those that a thread of another rank registers are registered
 * there, in the order of the calls. atexit() and at_quick_exit() are in the executable itself, and
 * call the first two functions; so do destructors of C++ objects with static storage duration.
 */
#include "shim.h"

#include <stdlib.h>

#include "everywhere.h"

int __cxa_atexit(void (*fn)(void *), void *arg, void *library);
int __cxa_at_quick_exit(void (*fn)(void *), void *library);

struct handler {
	enum { AT_EXIT, AT_QUICK_EXIT, WITH_STATUS } kind;
	void *fn, *arg, *library;
};

static int register_handler(void *arg)
{
	const struct handler *h = arg;

	switch (h->kind) {
	case AT_EXIT: return NEXT(__cxa_atexit)((void (*)(void *))h->fn, h->arg, h->library);
	case AT_QUICK_EXIT: return NEXT(__cxa_at_quick_exit)((void (*)(void *))h->fn, h->library);
	case WITH_STATUS: break;
	}
	return NEXT(on_exit)((void (*)(int, void *))h->fn, h->arg);
}

static int register_for(struct handler h, const void *caller)
{
	return ranks_run(caller_is_forwarded(caller) ? 0 : shim.rank, register_handler, &h,
			 sizeof(h))
		? -1
		: 0;
}

EXPORT int __cxa_atexit(void (*fn)(void *), void *arg, void *library)
{
	return register_for((struct handler){ AT_EXIT, (void *)fn, arg, library }, CALLER);
}

EXPORT int __cxa_at_quick_exit(void (*fn)(void *), void *library)
{
	return register_for((struct handler){ AT_QUICK_EXIT, (void *)fn, NULL, library }, CALLER);
}

EXPORT int on_exit(void (*fn)(int, void *), void *arg)
{
	return register_for((struct handler){ WITH_STATUS, (void *)fn, arg, NULL }, CALLER);
}
