// SPDX-License-Identifier: BSD-2-Clause
/*
 * sync.c - the synchronisation calls of POSIX: private objects use the C library, others
 * futex_sync.c or handle_sync.c.
 */
#include "sync.h"

#include <limits.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "futex_sync.h"
#include "handle_sync.h"
#include "opened.h"

#define KIND_AT(m) (&(m)->__data.__kind)

/* Fields in the memory of the objects, besides those of futex_sync.c. */
struct cond_extra {
	uint32_t futex[2];
	struct cond_own own;
};
_Static_assert(sizeof(struct cond_extra) <= sizeof(pthread_cond_t), "it lies in a condition");
struct barrier_extra {
	int n;
};
#define OWN_AT(c) (&((struct cond_extra *)(c))->own)
#define COUNT_AT(b) (&((struct barrier_extra *)(b))->n)

uint64_t time_of(const struct timespec *t)
{
	return t->tv_sec > MOST ? (uint64_t)MOST * 1000000000u
				: (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

uint64_t time_left(clockid_t clock, const struct timespec *until)
{
	struct timespec t;
	int64_t ns;

	clock_gettime(clock, &t);
	if (until->tv_sec < t.tv_sec)
		return 0;
	if (until->tv_sec - t.tv_sec > MOST)
		return (uint64_t)MOST * 1000000000u;
	ns = (until->tv_sec - t.tv_sec) * 1000000000l + (until->tv_nsec - t.tv_nsec);
	return ns > 0 ? (uint64_t)ns : 0;
}

static bool bad_clock(clockid_t clock)
{
	return clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC;
}

/* As in the C library, of a mutex that need not be waited for, only the clock is checked. */
static bool bad_time(clockid_t clock, const struct timespec *t)
{
	return bad_clock(clock) || !is_time(t);
}

/*
 * Forget handle_sync.c's object at this address: the shared object is destroyed, or made anew.
 * Returns 0.
 */
static int sync_forget(void *object)
{
	if (!shim.one_node)
		handle_sync_forget(object);
	return 0;
}

/* Make a shared object anew, by zeroing it. Returns 0. */
static int init_object(void *object, size_t size)
{
	memset(object, 0, size);
	return sync_forget(object);
}

/* ---- mutexes --------------------------------------------------------------------------------- */

EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	int kind = PTHREAD_MUTEX_NORMAL, robust = PTHREAD_MUTEX_STALLED,
	    protocol = PTHREAD_PRIO_NONE;

	if (!is_shared(m))
		return NEXT(pthread_mutex_init)(m, attr);
	if (attr) {
		pthread_mutexattr_gettype(attr, &kind);
		pthread_mutexattr_getrobust(attr, &robust);
		pthread_mutexattr_getprotocol(attr, &protocol);
	}
	if (robust != PTHREAD_MUTEX_STALLED)
		return start_cannot("a robust mutex"), ENOTSUP;
	if (protocol != PTHREAD_PRIO_NONE)
		return start_cannot("a mutex with a priority protocol"), ENOTSUP;
	init_object(m, sizeof(*m));
	m->__data.__kind = kind;
	return 0;
}

EXPORT int pthread_mutex_destroy(pthread_mutex_t *m)
{
	if (!is_shared(m))
		return NEXT(pthread_mutex_destroy)(m);
	if (!shim.one_node)
		return handle_sync_destroy(m);
	return m->__data.__lock ? EBUSY : 0;
}

/*
 * In one node a mutex is locked in few instructions. Everything else is out of line, so that this
 * path saves no registers.
 */
static bool is_futex_sync(const pthread_mutex_t *m)
{
	return shim.one_node && is_shared(m);
}

static __attribute__((noinline)) int lock_elsewhere(pthread_mutex_t *m)
{
	return is_shared(m) ? handle_sync_lock(m, KIND_AT(m), CLOCK_REALTIME, NULL)
			    : NEXT(pthread_mutex_lock)(m);
}

static __attribute__((noinline)) int unlock_elsewhere(pthread_mutex_t *m)
{
	return is_shared(m) ? handle_sync_unlock(m, KIND_AT(m)) : NEXT(pthread_mutex_unlock)(m);
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
	return is_futex_sync(m) ? futex_sync_lock(m, CLOCK_REALTIME, NULL) : lock_elsewhere(m);
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *m)
{
	if (!is_shared(m))
		return NEXT(pthread_mutex_trylock)(m);
	return shim.one_node ? futex_sync_trylock(m) : handle_sync_trylock(m, KIND_AT(m));
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock,
				   const struct timespec *until)
{
	struct timespec t = *until;

	if (!is_shared(m))
		return NEXT(pthread_mutex_clocklock)(m, clock, until);
	if (bad_clock(clock))
		return EINVAL;
	return shim.one_node ? futex_sync_lock(m, clock, &t)
			     : handle_sync_lock(m, KIND_AT(m), clock, &t);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *until)
{
	if (!is_shared(m))
		return NEXT(pthread_mutex_timedlock)(m, until);
	return pthread_mutex_clocklock(m, CLOCK_REALTIME, until);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *m)
{
	return is_futex_sync(m) ? futex_sync_unlock(m) : unlock_elsewhere(m);
}

EXPORT int pthread_mutex_consistent(pthread_mutex_t *m)
{
	return is_shared(m) ? EINVAL : NEXT(pthread_mutex_consistent)(m);
}

/* ---- conditions ------------------------------------------------------------------------------ */

EXPORT int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	clockid_t clock = CLOCK_REALTIME;

	opened_settle_for(c);
	if (!is_shared(c))
		return NEXT(pthread_cond_init)(c, attr);
	if (attr)
		pthread_condattr_getclock(attr, &clock);
	init_object(c, sizeof(*c));
	OWN_AT(c)->clock = clock == CLOCK_MONOTONIC;
	return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *c)
{
	if (!is_shared(c))
		return NEXT(pthread_cond_destroy)(c);
	if (shim.one_node)
		futex_sync_cond_end(c);
	return sync_forget(c);
}

static int cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
			   const struct timespec *until)
{
	return shim.one_node ? futex_sync_wait(c, m, clock, until)
			     : handle_sync_wait(c, OWN_AT(c), m, KIND_AT(m), clock, until);
}

EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	return is_shared(c) ? cond_wait_until(c, m, CLOCK_REALTIME, NULL)
			    : NEXT(pthread_cond_wait)(c, m);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
				  const struct timespec *until)
{
	struct timespec t = *until;

	if (!is_shared(c))
		return NEXT(pthread_cond_clockwait)(c, m, clock, until);
	return bad_time(clock, &t) ? EINVAL : cond_wait_until(c, m, clock, &t);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *until)
{
	struct timespec t = *until;

	if (!is_shared(c))
		return NEXT(pthread_cond_timedwait)(c, m, until);
	if (!is_time(&t))
		return EINVAL;
	return cond_wait_until(c, m, shim.one_node ? clock_of(OWN_AT(c)->clock) : OWN_CLOCK, &t);
}

EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	if (!is_shared(c))
		return NEXT(pthread_cond_signal)(c);
	return shim.one_node ? futex_sync_wake(c, false) : handle_sync_wake(c, OWN_AT(c), false);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	if (!is_shared(c))
		return NEXT(pthread_cond_broadcast)(c);
	return shim.one_node ? futex_sync_wake(c, true) : handle_sync_wake(c, OWN_AT(c), true);
}

/* ---- barriers -------------------------------------------------------------------------------- */

EXPORT int pthread_barrier_init(pthread_barrier_t *b, const pthread_barrierattr_t *attr,
				unsigned int n)
{
	opened_settle_for(b);
	if (!is_shared(b))
		return NEXT(pthread_barrier_init)(b, attr, n);
	if (!n || n > INT_MAX)
		return EINVAL;
	init_object(b, sizeof(*b));
	*COUNT_AT(b) = (int)n;
	return 0;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *b)
{
	if (!is_shared(b))
		return NEXT(pthread_barrier_destroy)(b);
	if (shim.one_node)
		futex_sync_barrier_end(b);
	return sync_forget(b);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *b)
{
	if (!is_shared(b))
		return NEXT(pthread_barrier_wait)(b);
	return shim.one_node ? futex_sync_barrier(b) : handle_sync_barrier(b, COUNT_AT(b));
}

/* ---- reader-writer locks --------------------------------------------------------------------- */

EXPORT int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr)
{
	if (!is_shared(l))
		return NEXT(pthread_rwlock_init)(l, attr);
	return init_object(l, sizeof(*l));
}

EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *l)
{
	return is_shared(l) ? sync_forget(l) : NEXT(pthread_rwlock_destroy)(l);
}

static int rwlock_until(pthread_rwlock_t *l, bool write, bool wait_, clockid_t clock,
			const struct timespec *until)
{
	return shim.one_node ? futex_sync_rwlock(l, write, wait_, clock, until)
			     : handle_sync_rwlock(l, write, wait_, clock, until);
}

static int rwlock_lock(pthread_rwlock_t *l, bool write, bool wait_)
{
	return rwlock_until(l, write, wait_, CLOCK_MONOTONIC, NULL);
}

static int rwlock_timed(pthread_rwlock_t *l, bool write, clockid_t clock,
			const struct timespec *until)
{
	struct timespec t = *until;

	return bad_time(clock, &t) ? EINVAL : rwlock_until(l, write, true, clock, &t);
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	return is_shared(l) ? rwlock_lock(l, false, true) : NEXT(pthread_rwlock_rdlock)(l);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	return is_shared(l) ? rwlock_lock(l, true, true) : NEXT(pthread_rwlock_wrlock)(l);
}

EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *l)
{
	return is_shared(l) ? rwlock_lock(l, false, false) : NEXT(pthread_rwlock_tryrdlock)(l);
}

EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *l)
{
	return is_shared(l) ? rwlock_lock(l, true, false) : NEXT(pthread_rwlock_trywrlock)(l);
}

EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock,
				      const struct timespec *until)
{
	if (!is_shared(l))
		return NEXT(pthread_rwlock_clockrdlock)(l, clock, until);
	return rwlock_timed(l, false, clock, until);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, const struct timespec *until)
{
	if (!is_shared(l))
		return NEXT(pthread_rwlock_timedrdlock)(l, until);
	return rwlock_timed(l, false, CLOCK_REALTIME, until);
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock,
				      const struct timespec *until)
{
	if (!is_shared(l))
		return NEXT(pthread_rwlock_clockwrlock)(l, clock, until);
	return rwlock_timed(l, true, clock, until);
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, const struct timespec *until)
{
	if (!is_shared(l))
		return NEXT(pthread_rwlock_timedwrlock)(l, until);
	return rwlock_timed(l, true, CLOCK_REALTIME, until);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	if (!is_shared(l))
		return NEXT(pthread_rwlock_unlock)(l);
	return shim.one_node ? futex_sync_rwunlock(l) : handle_sync_rwunlock(l);
}

/* ---- spin locks: mutexes of one word --------------------------------------------------------- */

EXPORT int pthread_spin_init(pthread_spinlock_t *l, int shared)
{
	(void)shared;
	__atomic_store_n((int *)l, 0, __ATOMIC_RELEASE);
	if (is_shared((const void *)l) && !shim.one_node)
		handle_sync_forget((void *)l);
	return 0;
}

EXPORT int pthread_spin_destroy(pthread_spinlock_t *l)
{
	return pthread_spin_init(l, 0);
}

EXPORT int pthread_spin_trylock(pthread_spinlock_t *l)
{
	if (is_shared((const void *)l) && !shim.one_node)
		return handle_sync_trylock((void *)l, NULL);
	return __atomic_exchange_n((int *)l, 1, __ATOMIC_ACQUIRE) ? EBUSY : 0;
}

EXPORT int pthread_spin_lock(pthread_spinlock_t *l)
{
	if (is_shared((const void *)l) && !shim.one_node)
		return handle_sync_lock((void *)l, NULL, CLOCK_REALTIME, NULL);
	brief_lock((uint32_t *)l);
	return 0;
}

EXPORT int pthread_spin_unlock(pthread_spinlock_t *l)
{
	if (is_shared((const void *)l) && !shim.one_node)
		return handle_sync_unlock((void *)l, NULL);
	brief_unlock((uint32_t *)l);
	return 0;
}

/* ---- semaphores ------------------------------------------------------------------------------ */

static int sync_failed(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

EXPORT int sem_init(sem_t *s, int shared, unsigned int value)
{
	opened_settle_for(s);
	if (!is_shared(s))
		return NEXT(sem_init)(s, shared, value);
	if (value > SEM_VALUE_MAX)
		return sync_failed(EINVAL);
	memset(s, 0, sizeof(*s));
	if (!shim.one_node)
		return sync_failed(handle_sync_sem_init(s, value));
	*(uint32_t *)s = value;
	return 0;
}

EXPORT int sem_destroy(sem_t *s)
{
	return is_shared(s) ? sync_forget(s) : NEXT(sem_destroy)(s);
}

/*
 * The wait of this thread for a semaphore: private memory, which the runtime may read. A handler
 * may wait for one, too.
 */
static __thread struct sem_wait {
	uint32_t waits, timed, stop;
} sem_waits __attribute__((tls_model("initial-exec")));

static void sem_wait_ends(void *outer)
{
	sem_waits = *(struct sem_wait *)outer;
}

static int sem(sem_t *s, bool wait_, clockid_t clock, const struct timespec *until)
{
	struct sem_wait outer = sem_waits;
	int err;

	sem_waits = (struct sem_wait){ .waits = wait_, .timed = until != NULL };
	pthread_cleanup_push(sem_wait_ends, &outer);
	err = shim.one_node
		? futex_sync_sem_wait((uint32_t *)s, wait_, clock, until, &sem_waits.stop)
		: handle_sync_sem_wait(s, wait_, clock, until, &sem_waits.stop);
	pthread_cleanup_pop(1);
	return sync_failed(err);
}

void sem_interrupt(bool restarts)
{
	if (sem_waits.waits && (sem_waits.timed || !restarts))
		__atomic_store_n(&sem_waits.stop, 1, __ATOMIC_RELAXED);
}

EXPORT int sem_wait(sem_t *s)
{
	return is_shared(s) ? sem(s, true, CLOCK_REALTIME, NULL) : NEXT(sem_wait)(s);
}

EXPORT int sem_trywait(sem_t *s)
{
	return is_shared(s) ? sem(s, false, CLOCK_REALTIME, NULL) : NEXT(sem_trywait)(s);
}

static int sem_until(sem_t *s, clockid_t clock, const struct timespec *until)
{
	struct timespec t = *until;

	return bad_time(clock, &t) ? sync_failed(EINVAL) : sem(s, true, clock, &t);
}

EXPORT int sem_timedwait(sem_t *s, const struct timespec *until)
{
	return is_shared(s) ? sem_until(s, CLOCK_REALTIME, until) : NEXT(sem_timedwait)(s, until);
}

EXPORT int sem_clockwait(sem_t *s, clockid_t clock, const struct timespec *until)
{
	return is_shared(s) ? sem_until(s, clock, until) : NEXT(sem_clockwait)(s, clock, until);
}

EXPORT int sem_post(sem_t *s)
{
	if (!is_shared(s))
		return NEXT(sem_post)(s);
	return sync_failed(shim.one_node ? futex_sync_sem_post((uint32_t *)s)
					 : handle_sync_sem_post(s));
}

EXPORT int sem_getvalue(sem_t *s, int *value)
{
	if (!is_shared(s))
		return NEXT(sem_getvalue)(s, value);
	if (!shim.one_node) {
		int got, err = handle_sync_sem_value(s, &got);

		if (!err)
			*value = got;
		return sync_failed(err);
	}
	*value = (int)__atomic_load_n((uint32_t *)s, __ATOMIC_RELAXED);
	return 0;
}
