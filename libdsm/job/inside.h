/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inside.h - tracks whether this thread is inside the runtime. A fault inside comes from a signal
 * handler that interrupted it.
 *
 * Inside, a thread holds slots, hold records and blocks, and does not access shared memory.
 * Cancellation is disabled, because the runtime calls cancellation points (read, splice, write).
 * The program's cancel state and errno are restored on return. engine_leave() reads what was saved
 * before it decrements the depth: in between, a handler may run, fault, and save its own.
 *
 * A thread that sleeps in a wait is at rest: it holds nothing but its request, which is answered in
 * any case. A signal handler that interrupts it may fault. Runtime calls of the handler are one
 * level deeper, and may rest as well.
 *
 * If the thread is not at rest, a handler may defer its signal (engine_keep_signal()) until the
 * thread leaves or rests.
 *
 * Any thread may call these functions, also in the fault handler. Only engine_keep_signal() can
 * fail. Nothing blocks.
 */
#ifndef JOB_INSIDE_H
#define JOB_INSIDE_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

extern __thread int engine_depth __attribute__((tls_model("initial-exec")));
extern __thread int engine_cancel __attribute__((tls_model("initial-exec")));
extern __thread int engine_errno __attribute__((tls_model("initial-exec")));
/* the depth at which it rests */
extern __thread int engine_rests __attribute__((tls_model("initial-exec")));
/* Signals that are blocked until the thread leaves or rests. */
extern __thread uint64_t engine_kept __attribute__((tls_model("initial-exec")));

/* Is the thread inside, and not at rest? */
static inline bool engine_busy(void)
{
	return engine_depth != engine_rests;
}

/*
 * Defer a signal. Called in a handler that interrupted this thread while it was busy: blocks the
 * signal in the interrupted context, and sends it to the thread again with its siginfo. 0 or
 * -errno.
 */
int engine_keep_signal(int sig, void *info, void *context);
/* Unblock the deferred signals, so that their handlers run. */
void engine_let_signals(void);

/* Deliver deferred signals after a change of engine_depth or engine_rests. A signal that arrives
 * before the change is seen here; one that arrives after it is not deferred. */
static inline void engine_look_at_signals(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(engine_kept != 0, 0) && !engine_busy())
		engine_let_signals();
}

/* Enter and leave the runtime. Calls are paired, and may nest. */
static inline void engine_enter(void)
{
	if (!engine_depth++) {
		engine_errno = errno;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &engine_cancel);
	}
}

static inline void engine_leave(void)
{
	int before = engine_cancel, kept = engine_errno, old;

	if (!--engine_depth) {
		pthread_setcancelstate(before, &old);
		errno = kept;
	}
	engine_look_at_signals();
}

/* Register the calling thread as a thread of the runtime, which never accesses shared memory. It
 * calls this first (net_config.thread). */
void engine_thread(void *arg);

/* Set the depth at which the thread rests, before and after a sleep. Returns the previous one. */
static inline int engine_rest(int depth)
{
	const int before = engine_rests;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	engine_rests = depth;
	engine_look_at_signals();
	return before;
}

/* Disable and restore cancellation. For calls that access shared memory between entries to the
 * runtime, or hold a lock across. */
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
