/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handle_sync.h - objects by name, in a job of several nodes. Any thread of the program. The
 * functions return 0 or a positive errno value, and are otherwise as those of futex_sync.h; all may
 * block for round trips. They may also return ENOMEM: the first use of an object needs a record.
 * Only handle_sync_wait() and handle_sync_sem_wait() are cancellation points.
 *
 * kind: location of the mutex's type; NULL: a normal mutex. n: location of the barrier's count.
 * They, and the condition's clock, are read when this process first uses the object.
 */
#ifndef PTHREAD_HANDLE_SYNC_H
#define PTHREAD_HANDLE_SYNC_H

#include "shim.h"

#define OWN_CLOCK ((clockid_t)-1) /* handle_sync_wait(): the condition's */

/*
 * In a condition's memory, with release consistency. A signal in vain would take a round trip and a
 * close within the critical section, so a thread that holds a mutex sends none if nobody has
 * waited, or if nobody waits and `mutex` is the one that it has locked last.
 *
 * With its mutex held, a thread that waits writes both words, and one whose signal finds nobody
 * clears `waited`. So a thread that holds the mutex reads what is true, and one that has locked it
 * after a thread began to wait sees that there has been a wait. If threads wait with several
 * mutexes, all signals are sent from then on: what they write is in no order.
 */
struct cond_own {
	int clock;       /* as clock_of() returns it */
	uint32_t waited; /* a thread may be waiting */
	/* that threads wait with; NULL: none has waited; the condition: several */
	const void *mutex;
};

/* As pthread_mutex_clocklock(), pthread_mutex_trylock() and pthread_mutex_unlock(). */
int handle_sync_lock(void *m, const int *kind, clockid_t clock, const struct timespec *until);
int handle_sync_trylock(void *m, const int *kind);
int handle_sync_unlock(void *m, const int *kind);

/* As pthread_cond_clockwait(). */
int handle_sync_wait(void *c, struct cond_own *own, void *m, const int *kind, clockid_t clock,
		     const struct timespec *until);
/* As pthread_cond_signal(), or, all, pthread_cond_broadcast(). */
int handle_sync_wake(void *c, struct cond_own *own, bool all);

/* As pthread_barrier_wait(). */
int handle_sync_barrier(void *b, const int *n);

/* As the calls of pthread_rwlock_*lock(). wait: until the limit; otherwise EBUSY. */
int handle_sync_rwlock(void *l, bool write, bool wait, clockid_t clock,
		       const struct timespec *until);
int handle_sync_rwunlock(void *l);

/* As sem_clockwait(). wait: until the limit, or until a handler has set *stop; otherwise EAGAIN. */
int handle_sync_sem_wait(void *s, bool wait, clockid_t clock, const struct timespec *until,
			 const uint32_t *stop);
/* As sem_post(), sem_getvalue() and sem_init(). *value is set on success only. */
int handle_sync_sem_post(void *s);
int handle_sync_sem_value(void *s, int *value);
int handle_sync_sem_init(void *s, uint32_t value);

/* Free the object's record, and with it the object's state. EBUSY: it is in use. */
int handle_sync_destroy(void *object);
/* The same, even if it is in use: the object is initialised again, or its memory is reused. */
void handle_sync_forget(void *object);

#endif
