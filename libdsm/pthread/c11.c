// SPDX-License-Identifier: BSD-2-Clause
/*
 * c11.c - C11 <threads.h>: the C library's types are those of POSIX, so each call is the POSIX one,
 * where this library replaces that.
 */
#include "shim.h"

#include <stdlib.h>
#include <threads.h>

#include "alloc.h"
#include "callbacks.h"
#include "libraries.h"
#include "thread.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t),
	       "the same objects");

#define MUTEX(m) ((pthread_mutex_t *)(m))
#define COND(c) ((pthread_cond_t *)(c))

static int c11_result(int err)
{
	switch (err) {
	case 0: return thrd_success;
	case ENOMEM:
	case EAGAIN: return thrd_nomem;
	case ETIMEDOUT: return thrd_timedout;
	case EBUSY: return thrd_busy;
	default: return thrd_error;
	}
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The new thread's arguments: in shared memory, until the thread has read them. */
struct birth {
	thrd_start_t fn;
	void *arg;
};

static void *c11_begin(void *arg)
{
	struct birth b = *(struct birth *)arg;

	free(arg);
	return (void *)(intptr_t)(int)call_program((void *)b.fn, (long)b.arg, 0, 0);
}

EXPORT int thrd_create(thrd_t *t, thrd_start_t fn, void *arg)
{
	struct birth *b;
	int err;

	if (!caller_is_ours(CALLER)) {
		if (shim.active)
			thread_log_stays(CALLER);
		else
			libraries_note_thread(CALLER);
		return NEXT(thrd_create)(t, fn, arg);
	}
	b = shared_alloc(sizeof(*b));
	if (!b)
		return thrd_nomem;
	*b = (struct birth){ fn, arg };
	err = make_thread(t, NULL, c11_begin, b);
	if (err)
		free(b);
	return c11_result(err);
}

EXPORT thrd_t thrd_current(void)
{
	return shim.active && is_program(CALLER) ? pthread_self() : NEXT(thrd_current)();
}

EXPORT void thrd_exit(int result)
{
	if (shim.active && dsm_self().id)
		pthread_exit((void *)(intptr_t)result);
	NEXT(thrd_exit)(result);
	__builtin_unreachable();
}

EXPORT int thrd_join(thrd_t t, int *result)
{
	void *got;
	int err;

	if (!is_shared((const void *)t))
		return NEXT(thrd_join)(t, result);
	err = pthread_join(t, &got);
	if (!err && result)
		*result = (int)(intptr_t)got;
	return c11_result(err);
}

EXPORT int thrd_detach(thrd_t t)
{
	return is_shared((const void *)t) ? c11_result(pthread_detach(t)) : NEXT(thrd_detach)(t);
}

EXPORT void call_once(once_flag *once, void (*fn)(void))
{
	_Static_assert(sizeof(once_flag) == sizeof(pthread_once_t), "the same object");
	if (is_shared(once))
		pthread_once((pthread_once_t *)once, fn);
	else
		NEXT(call_once)(once, fn);
}

/* ---- mutexes and conditions ------------------------------------------------------------------ */

EXPORT int mtx_init(mtx_t *m, int type)
{
	pthread_mutexattr_t attr;

	if (!is_shared(m))
		return NEXT(mtx_init)(m, type);
	if (type & ~(mtx_recursive | mtx_timed))
		return thrd_error;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(
		&attr, type & mtx_recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
	return c11_result(pthread_mutex_init(MUTEX(m), &attr));
}

EXPORT void mtx_destroy(mtx_t *m)
{
	if (is_shared(m))
		pthread_mutex_destroy(MUTEX(m));
	else
		NEXT(mtx_destroy)(m);
}

EXPORT int mtx_lock(mtx_t *m)
{
	return is_shared(m) ? c11_result(pthread_mutex_lock(MUTEX(m))) : NEXT(mtx_lock)(m);
}

EXPORT int mtx_trylock(mtx_t *m)
{
	return is_shared(m) ? c11_result(pthread_mutex_trylock(MUTEX(m))) : NEXT(mtx_trylock)(m);
}

EXPORT int mtx_timedlock(mtx_t *m, const struct timespec *until)
{
	return is_shared(m) ? c11_result(pthread_mutex_timedlock(MUTEX(m), until))
			    : NEXT(mtx_timedlock)(m, until);
}

EXPORT int mtx_unlock(mtx_t *m)
{
	return is_shared(m) ? c11_result(pthread_mutex_unlock(MUTEX(m))) : NEXT(mtx_unlock)(m);
}

EXPORT int cnd_init(cnd_t *c)
{
	return is_shared(c) ? c11_result(pthread_cond_init(COND(c), NULL)) : NEXT(cnd_init)(c);
}

EXPORT void cnd_destroy(cnd_t *c)
{
	if (is_shared(c))
		pthread_cond_destroy(COND(c));
	else
		NEXT(cnd_destroy)(c);
}

EXPORT int cnd_signal(cnd_t *c)
{
	return is_shared(c) ? c11_result(pthread_cond_signal(COND(c))) : NEXT(cnd_signal)(c);
}

EXPORT int cnd_broadcast(cnd_t *c)
{
	return is_shared(c) ? c11_result(pthread_cond_broadcast(COND(c))) : NEXT(cnd_broadcast)(c);
}

EXPORT int cnd_wait(cnd_t *c, mtx_t *m)
{
	return is_shared(c) ? c11_result(pthread_cond_wait(COND(c), MUTEX(m)))
			    : NEXT(cnd_wait)(c, m);
}

EXPORT int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *until)
{
	return is_shared(c) ? c11_result(pthread_cond_timedwait(COND(c), MUTEX(m), until))
			    : NEXT(cnd_timedwait)(c, m, until);
}

/* ---- thread-specific storage ----------------------------------------------------------------- */

EXPORT int tss_create(tss_t *key, tss_dtor_t destructor)
{
	if (!shim.active || !is_program(CALLER))
		return NEXT(tss_create)(key, destructor);
	return pthread_key_create(key, destructor) ? thrd_error : thrd_success;
}

EXPORT void tss_delete(tss_t key)
{
	if (shim.active)
		pthread_key_delete(key);
	else
		NEXT(tss_delete)(key);
}

EXPORT void *tss_get(tss_t key)
{
	return shim.active ? pthread_getspecific(key) : NEXT(tss_get)(key);
}

EXPORT int tss_set(tss_t key, void *value)
{
	if (!shim.active)
		return NEXT(tss_set)(key, value);
	return pthread_setspecific(key, value) ? thrd_error : thrd_success;
}
