// SPDX-License-Identifier: BSD-2-Clause
/*
 * once.c - what one thread of the program does for all: routines of pthread_once(), and the
 * initialisation of static variables of C++ functions, by the functions that the compiler calls for
 * them.
 *
 * The compiler has a function test the first byte of a variable's guard by a load, and call only
 * if that is 0. Where stores of other nodes come by synchronisation alone, that load would show the
 * guard, and not the variable. So that byte stays 0 there, and each use is a call, which
 * synchronises once for each rank. What the guard says is in its second half.
 *
 * This file is compiled with -fexceptions, as thread.c is.
 */
#include "shim.h"

#include "callbacks.h"

enum { ONCE_NOT, ONCE_RUNS, ONCE_DONE };

/* What protects states, and is signalled when one changes. */
struct turns {
	pthread_mutex_t *lock;
	pthread_cond_t *moved;
};

static struct turns turns_of(const int *state)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

	return is_shared(state) ? (struct turns){ &team->once_lock, &team->once_moved }
				: (struct turns){ &lock, &moved };
}

static void set_once(int *state, int value)
{
	const struct turns t = turns_of(state);

	pthread_mutex_lock(t.lock);
	__atomic_store_n(state, value, __ATOMIC_RELEASE);
	pthread_cond_broadcast(t.moved);
	pthread_mutex_unlock(t.lock);
}

/*
 * True: the caller must run the routine. False: it was run. pthread_once() is no cancellation
 * point.
 */
static bool take_once(int *state)
{
	const struct turns t = turns_of(state);
	int cancel;
	bool mine;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(t.lock);
	while (__atomic_load_n(state, __ATOMIC_RELAXED) == ONCE_RUNS)
		pthread_cond_wait(t.moved, t.lock);
	mine = *state == ONCE_NOT;
	if (mine)
		__atomic_store_n(state, ONCE_RUNS, __ATOMIC_RELAXED);
	pthread_mutex_unlock(t.lock);
	pthread_setcancelstate(cancel, &cancel);
	return mine;
}

/* Cancelled in the routine: reset, as if it had not been called. */
static void give_once(void *state)
{
	set_once(state, ONCE_NOT);
}

static void run_once(int *state, void (*fn)(void))
{
	pthread_cleanup_push(give_once, state);
	call_program((void *)fn, 0, 0, 0);
	pthread_cleanup_pop(0);
	set_once(state, ONCE_DONE);
}

EXPORT int pthread_once(pthread_once_t *once, void (*fn)(void))
{
	if (!is_shared(once))
		return NEXT(pthread_once)(once, fn);
	/*
	 * If a load alone finds that it is done, other stores of the routine may not be here yet:
	 * take_once() synchronises.
	 */
	if ((shim.weak || __atomic_load_n(once, __ATOMIC_ACQUIRE) != ONCE_DONE) && take_once(once))
		run_once(once, fn);
	return 0;
}

/* ---- guards ---------------------------------------------------------------------------------- */

int __cxa_guard_acquire(int64_t *guard);
void __cxa_guard_release(int64_t *guard);
void __cxa_guard_abort(int64_t *guard);

#define KNOWN 1024u

/*
 * States that a thread of this rank has found DONE, by synchronisation: so the node has what was
 * stored before. One may take the place of another.
 */
static const int *known[KNOWN];

static const int **known_place(const int *state)
{
	return &known[((uintptr_t)state >> 3) * 0x9e3779b97f4a7c15u >> 54];
}

/* Does the first byte stay 0? */
static bool guard_is_apart(const int64_t *guard)
{
	return shim.weak && !shim.one_node && is_shared(guard);
}

static int *guard_state(int64_t *guard)
{
	return (int *)guard + 1;
}

static bool guard_is_done(const int64_t *guard, const int *state)
{
	return guard_is_apart(guard)
		? __atomic_load_n(known_place(state), __ATOMIC_ACQUIRE) == state
		: __atomic_load_n((const char *)guard, __ATOMIC_ACQUIRE);
}

/*
 * The C++ library's functions would do for the other guards; but it may be in none of the scopes
 * that dlsym(3) searches, where a library that was loaded later needs it.
 */
EXPORT int __cxa_guard_acquire(int64_t *guard)
{
	int *state = guard_state(guard);

	if (guard_is_done(guard, state))
		return 0;
	if (take_once(state))
		return 1;
	if (guard_is_apart(guard))
		__atomic_store_n(known_place(state), state, __ATOMIC_RELEASE);
	return 0;
}

EXPORT void __cxa_guard_release(int64_t *guard)
{
	if (!guard_is_apart(guard))
		__atomic_store_n((char *)guard, 1, __ATOMIC_RELEASE);
	set_once(guard_state(guard), ONCE_DONE);
}

/* The constructor has thrown an exception. */
EXPORT void __cxa_guard_abort(int64_t *guard)
{
	set_once(guard_state(guard), ONCE_NOT);
}
