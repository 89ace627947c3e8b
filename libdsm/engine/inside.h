/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inside.h - is this thread inside the runtime? A fault then comes from a signal handler that interrupted it.
 *
 * Inside, a thread holds slots, hold records and blocks, and touches no shared memory. No thread is cancelled there: what it calls
 * (read, splice, write) are cancellation points. The state that the program had chosen is back before it goes on. In leaving,
 * it is read before the depth falls: a handler may run between, fault, and save a state of its own.
 *
 * A thread that sleeps in a wait is at rest: all that it holds is its request, which is answered whatever it does. There, a
 * signal handler may miss.
 *
 * Any thread may call all of this, also in the fault handler. Nothing blocks or fails.
 */
#ifndef ENGINE_INSIDE_H
#define ENGINE_INSIDE_H

#include <pthread.h>

extern __thread int engine_depth __attribute__((tls_model("initial-exec")));
extern __thread int engine_cancel __attribute__((tls_model("initial-exec")));
extern __thread int engine_rests __attribute__((tls_model("initial-exec")));

/* Symmetric, and may nest. */
static inline void engine_enter(void)
{
	if (!engine_depth++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &engine_cancel);
}

static inline void engine_leave(void)
{
	int before = engine_cancel, old;

	if (!--engine_depth)
		pthread_setcancelstate(before, &old);
}

/* A handler sees what was set before the sleep, and after it. */
static inline void engine_rest(int rests)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	engine_rests = rests;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* As enter and leave, for calls that touch shared memory between their visits to the runtime, or hold a lock across them. */
static inline int engine_keep(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void engine_let(int before)
{
	int old;

	pthread_setcancelstate(before, &old);
}

#endif
