/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inside.h - is this thread inside the runtime? A fault then comes from a signal handler that interrupted it.
 *
 * Inside, a thread holds slots, hold records and blocks, and touches no shared memory. No thread is cancelled there: what it calls
 * (read, splice, write) are cancellation points. The state that the program had chosen is back before it goes on. In leaving,
 * it is read before the depth falls: a handler may run between, fault, and save a state of its own.
 *
 * A thread that sleeps in a wait is at rest: all that it holds is its request, which is answered whatever it does. There, a
 * signal handler may miss. What the handler calls here is inside again, one level deeper, and may rest as well.
 *
 * Elsewhere a handler may put its signal off (engine_keep_signal()): it comes again when the thread leaves, or rests.
 *
 * Any thread may call all of this, also in the fault handler. Nothing blocks or fails.
 */
#ifndef ENGINE_INSIDE_H
#define ENGINE_INSIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

extern __thread int engine_depth __attribute__((tls_model("initial-exec")));
extern __thread int engine_cancel __attribute__((tls_model("initial-exec")));
extern __thread int engine_rests __attribute__((tls_model("initial-exec"))); /* the depth at which it rests */
/* Signals that are blocked until it leaves. */
extern __thread uint64_t engine_kept __attribute__((tls_model("initial-exec")));

/* Inside, and not at rest. */
static inline bool engine_busy(void)
{
	return engine_depth != engine_rests;
}

/*
 * In a handler that interrupted this thread where it is busy: block the signal in the interrupted context, and send it to the thread
 * again, with what it carries. 0 or -errno.
 */
int engine_keep_signal(int sig, void *info, void *context);
/* Unblock them: their handlers run. */
void engine_let_signals(void);

/* After a change of the depth, or of where it rests. A signal that comes before the change is seen here; one that comes after it is
 * not kept. */
static inline void engine_look_at_signals(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(engine_kept != 0, 0) && !engine_busy())
		engine_let_signals();
}

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
	engine_look_at_signals();
}

/* Rest at that depth, before and after a sleep; returns where it rested before. A handler sees what was set before and after. */
static inline int engine_rest(int depth)
{
	const int before = engine_rests;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	engine_rests = depth;
	engine_look_at_signals();
	return before;
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
