/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * futex_sync.h - objects in place, in a job of one node. Any thread of the program. The functions
 * return 0 or a positive errno value. until NULL: no timeout. An invalid timeout (tv_nsec out of
 * range) is EINVAL, but only if the call would have to wait.
 */
#ifndef PTHREAD_FUTEX_SYNC_H
#define PTHREAD_FUTEX_SYNC_H

#include "shim.h"

/* As pthread_mutex_clocklock(). Blocks. ETIMEDOUT. EDEADLK: this thread holds the error-checking
 * mutex. EAGAIN: recursion limit of a recursive mutex. */
int futex_sync_lock(pthread_mutex_t *m, clockid_t clock, const struct timespec *until);
/* As pthread_mutex_trylock(). Never blocks. EBUSY. EAGAIN: as futex_sync_lock(). */
int futex_sync_trylock(pthread_mutex_t *m);
/* As pthread_mutex_unlock(). EPERM: another thread holds it, for mutex types with an owner. */
int futex_sync_unlock(pthread_mutex_t *m);

/* As pthread_cond_clockwait(). Blocks; a cancellation point. ETIMEDOUT. EPERM: as
 * futex_sync_unlock(). The caller holds m again in any case. */
int futex_sync_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
		    const struct timespec *until);
/* As pthread_cond_signal(), or, all, pthread_cond_broadcast(). Always 0. */
int futex_sync_wake(pthread_cond_t *c, bool all);

/* As pthread_barrier_wait(). Blocks. One of the threads gets PTHREAD_BARRIER_SERIAL_THREAD. */
int futex_sync_barrier(pthread_barrier_t *b);
/*
 * Before an object is destroyed: block until the threads that it has let go do not use it any more;
 * of a condition, as in the C library, also those that nobody has woken. No cancellation points.
 */
void futex_sync_barrier_end(pthread_barrier_t *b);
void futex_sync_cond_end(pthread_cond_t *c);

/* As the calls of pthread_rwlock_*lock() for reading and writing. wait: block, until the timeout.
 * EBUSY: without wait. ETIMEDOUT. EDEADLK: this thread holds it for writing. */
int futex_sync_rwlock(pthread_rwlock_t *l, bool write, bool wait, clockid_t clock,
		      const struct timespec *until);
/* As pthread_rwlock_unlock(). Always 0. */
int futex_sync_rwunlock(pthread_rwlock_t *l);

/* As sem_clockwait(). wait: blocks, and is a cancellation point; otherwise EAGAIN. ETIMEDOUT.
 * EINTR: a handler has set *stop. */
int futex_sync_sem_wait(uint32_t *sem, bool wait, clockid_t clock, const struct timespec *until,
			const uint32_t *stop);
/* As sem_post(). EOVERFLOW. May be called by signal handlers. */
int futex_sync_sem_post(uint32_t *sem);

#endif
