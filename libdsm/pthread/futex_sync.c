// SPDX-License-Identifier: BSD-2-Clause
/*
 * futex_sync.c - synchronisation in one node: the state is in the object, and threads of all ranks
 * sleep on it by futexes. Zeroed memory is an object that no thread holds, like the initialisers of
 * POSIX.
 */
#include "futex_sync.h"

#include "interpose/raw_syscall.h"
#include "sync.h"

#include <limits.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SPINS
#define SPINS 100
#endif

/* As pthread_mutex_t has them: its static initialisers set the kind. */
struct mutex {
	uint32_t lock; /* 0 free, 1 held, 2 held and awaited */
	uint32_t count;
	uint32_t owner; /* a thread; for a plain mutex the last owner, for reports */
	uint32_t users;
	uint32_t kind;
};
_Static_assert(offsetof(struct mutex, kind) == offsetof(pthread_mutex_t, __data.__kind),
	       "as the C library has it");

struct cond {
	uint32_t seq, waiters;
};

struct barrier {
	uint32_t n;
	uint32_t left; /* threads that have waited, and have left, in all rounds */
	union {
		struct {
			uint32_t arrived, round;
		};
		uint64_t state; /* both: more than n threads may use it */
	};
};
_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t) &&
		       offsetof(struct barrier, round) - offsetof(struct barrier, state) == 4,
	       "the round is the upper half of the state");

struct rwlock {
	union {
		struct {
			uint32_t state;   /* readers; WRITER, AWAITED */
			uint32_t writers; /* waiting writers: readers let them go first */
		};
		uint64_t word; /* both */
	};
	uint32_t owner; /* the thread that holds it for writing */
};
#define WRITER 0x80000000u  /* held for writing */
#define AWAITED 0x40000000u /* threads may sleep until state has changed */
#define WAITING_WRITER (1ull << 32)
_Static_assert(offsetof(struct rwlock, writers) - offsetof(struct rwlock, word) == 4,
	       "waiting writers are the upper half of the word");

struct sem {
	union {
		struct {
			uint32_t value, sleepers;
		};
		uint64_t word; /* both */
	};
};
#define SLEEPER (1ull << 32)
_Static_assert(sizeof(struct sem) <= sizeof(sem_t) &&
		       offsetof(struct sem, sleepers) - offsetof(struct sem, word) == 4,
	       "sleepers are the upper half of the word");

/*
 * The number of locks that this thread holds for reading. If there are any, it does not let writers
 * go first: the lock may be the same.
 */
static __thread uint32_t reading __attribute__((tls_model("initial-exec")));

static __thread uint32_t thread_id __attribute__((tls_model("initial-exec")));

static uint32_t me(void)
{
	if (!thread_id)
		thread_id = (uint32_t)gettid();
	return thread_id;
}

/* Not by syscall(2), which this library replaces. */
static long kernel_futex(uint32_t *word, int op, uint32_t value, const struct timespec *until,
			 uint32_t bits)
{
	const long arg[6] = { (long)word, op, value, (long)until, 0, bits };

	return raw_syscall(SYS_futex, arg);
}

static int sleep_word(uint32_t *word, uint32_t seen, clockid_t clock, const struct timespec *until)
{
	const int op = FUTEX_WAIT_BITSET | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
	const int saved = errno;
	int err;

	if (until && !is_time(until))
		return EINVAL;
	if (until && until->tv_sec < 0)
		return ETIMEDOUT;
	err = kernel_futex(word, op, seen, until, FUTEX_BITSET_MATCH_ANY) && errno == ETIMEDOUT
		? ETIMEDOUT
		: 0;
	errno = saved;
	return err;
}

/* The thread that holds the object, as far as the object tells. */
static int holder_of(enum dsm_wait what, const void *object)
{
	if (what == DSM_WAIT_MUTEX)
		return (int)__atomic_load_n(&((const struct mutex *)object)->owner,
					    __ATOMIC_RELAXED);
	if (what == DSM_WAIT_RWLOCK)
		return (int)__atomic_load_n(&((const struct rwlock *)object)->owner,
					    __ATOMIC_RELAXED);
	return 0;
}

/* Note a wait, until dsm_wait_end(). A wait with a time limit is no part of a deadlock. */
static int begin_wait(enum dsm_wait what, const void *object, const struct timespec *until)
{
	return until ? -1 : dsm_wait_begin(what, object, holder_of(what, object));
}

/* Sleep on a word of an object. */
static int word_wait(enum dsm_wait what, const void *object, uint32_t *word, uint32_t seen,
		     clockid_t clock, const struct timespec *until)
{
	const int note = begin_wait(what, object, until),
		  err = sleep_word(word, seen, clock, until);

	dsm_wait_end(note);
	return err;
}

/* The same as a cancellation point: the caller's handler ends *note. */
static int wait_point(enum dsm_wait what, const void *object, uint32_t *word, uint32_t seen,
		      clockid_t clock, const struct timespec *until, int *note)
{
	int (*const choose)(int, int *) = NEXT(pthread_setcanceltype);
	int type, err;

	*note = begin_wait(what, object, until);
	choose(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	err = sleep_word(word, seen, clock, until);
	choose(type, &type);
	dsm_wait_end(*note);
	return err;
}

static void word_wake(uint32_t *word, int n)
{
	kernel_futex(word, FUTEX_WAKE, (uint32_t)n, NULL, 0);
}

static int lock_slow(struct mutex *m, clockid_t clock, const struct timespec *until)
{
	uint32_t *l = &m->lock;
	int spin, err = 0;

	for (spin = 0; spin < SPINS; spin++) {
		uint32_t free = 0;

		__builtin_ia32_pause();
		if (!__atomic_load_n(l, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(l, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 0;
	}
	while (__atomic_exchange_n(l, 2, __ATOMIC_ACQUIRE)) {
		if (err)
			return err;
		err = word_wait(DSM_WAIT_MUTEX, m, l, 2, clock, until);
	}
	return 0;
}

static int lock_word(struct mutex *m, clockid_t clock, const struct timespec *until)
{
	uint32_t free = 0;
	int err = 0;

	if (__builtin_expect(!__atomic_compare_exchange_n(&m->lock, &free, 1, 0, __ATOMIC_ACQUIRE,
							  __ATOMIC_RELAXED),
			     0))
		err = lock_slow(m, clock, until);
	if (!err)
		__atomic_store_n(&m->owner, me(), __ATOMIC_RELAXED);
	return err;
}

static __attribute__((noinline)) int wake_next(uint32_t *l)
{
	word_wake(l, 1);
	return 0;
}

/* Returns 0. */
static int unlock_word(uint32_t *l)
{
	return __builtin_expect(__atomic_exchange_n(l, 0, __ATOMIC_RELEASE) == 2, 0) ? wake_next(l)
										     : 0;
}

/* If this thread holds a recursive or checking mutex: the result of locking it again; else -1. */
static int held_already(struct mutex *m, bool try)
{
	if (__atomic_load_n(&m->owner, __ATOMIC_RELAXED) != me())
		return -1;
	if ((m->kind & 3) != PTHREAD_MUTEX_RECURSIVE)
		return try ? EBUSY : EDEADLK;
	if (m->count == UINT_MAX)
		return EAGAIN;
	m->count++;
	return 0;
}

static bool mutex_is_plain(const struct mutex *m)
{
	return (m->kind & 3) == PTHREAD_MUTEX_NORMAL || (m->kind & 3) == PTHREAD_MUTEX_ADAPTIVE_NP;
}

static __attribute__((noinline)) int lock_any(struct mutex *m, clockid_t clock,
					      const struct timespec *until)
{
	const int err = mutex_is_plain(m) ? -1 : held_already(m, false);

	return err >= 0 ? err : lock_word(m, clock, until);
}

/*
 * The slow path is in other functions: inlined, it would make this one save registers before it
 * locks a free mutex.
 */
int futex_sync_lock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
	struct mutex *m = (struct mutex *)mutex;
	const uint32_t thread = thread_id;
	uint32_t free = 0;

	if (__builtin_expect(!thread || !mutex_is_plain(m) ||
				     !__atomic_compare_exchange_n(&m->lock, &free, 1, 0,
								  __ATOMIC_ACQUIRE,
								  __ATOMIC_RELAXED),
			     0))
		return lock_any(m, clock, until);
	__atomic_store_n(&m->owner, thread, __ATOMIC_RELAXED);
	return 0;
}

int futex_sync_trylock(pthread_mutex_t *mutex)
{
	struct mutex *m = (struct mutex *)mutex;
	uint32_t free = 0;
	int err = mutex_is_plain(m) ? -1 : held_already(m, true);

	if (err >= 0)
		return err;
	if (!__atomic_compare_exchange_n(&m->lock, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return EBUSY;
	__atomic_store_n(&m->owner, me(), __ATOMIC_RELAXED);
	return 0;
}

static __attribute__((noinline)) int unlock_owned(struct mutex *m)
{
	if (__atomic_load_n(&m->owner, __ATOMIC_RELAXED) != me())
		return EPERM;
	if (m->count) {
		m->count--;
		return 0;
	}
	__atomic_store_n(&m->owner, 0, __ATOMIC_RELAXED);
	return unlock_word(&m->lock);
}

int futex_sync_unlock(pthread_mutex_t *mutex)
{
	struct mutex *m = (struct mutex *)mutex;

	return __builtin_expect(mutex_is_plain(m), 1) ? unlock_word(&m->lock) : unlock_owned(m);
}

struct waiter {
	struct cond *c;
	pthread_mutex_t *mutex;
	uint32_t seq, count;
	int note; /* note of the wait */
};

/*
 * Leave the condition, which may be gone from then on. A recursive mutex is released completely,
 * and locked again as often as before.
 */
static void lock_again(struct waiter *w)
{
	struct mutex *m = (struct mutex *)w->mutex;

	__atomic_fetch_sub(&w->c->waiters, 1, __ATOMIC_SEQ_CST);
	futex_sync_lock(w->mutex, CLOCK_REALTIME, NULL);
	if (!mutex_is_plain(m))
		m->count = w->count;
}

/* A thread is cancelled: if it has got a signal, that is for another thread. */
static void wait_ended(void *arg)
{
	struct waiter *w = arg;

	dsm_wait_end(w->note);
	if (__atomic_load_n(&w->c->seq, __ATOMIC_SEQ_CST) != w->seq)
		word_wake(&w->c->seq, 1);
	lock_again(w);
}

int futex_sync_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
		    const struct timespec *until)
{
	struct cond *c = (struct cond *)cond;
	struct mutex *m = (struct mutex *)mutex;
	struct waiter w = { .c = c,
			    .mutex = mutex,
			    .seq = __atomic_load_n(&c->seq, __ATOMIC_SEQ_CST),
			    .count = m->count,
			    .note = -1 };
	int err;

	pthread_testcancel();
	__atomic_fetch_add(&c->waiters, 1, __ATOMIC_SEQ_CST);
	if (!mutex_is_plain(m))
		m->count = 0;
	err = futex_sync_unlock(mutex);
	if (err) {
		if (!mutex_is_plain(m))
			m->count = w.count;
		__atomic_fetch_sub(&c->waiters, 1, __ATOMIC_SEQ_CST);
		return err;
	}
	pthread_cleanup_push(wait_ended, &w);
	err = wait_point(DSM_WAIT_COND, c, &c->seq, w.seq, clock, until, &w.note);
	pthread_cleanup_pop(0);
	if (err == ETIMEDOUT && __atomic_load_n(&c->seq, __ATOMIC_SEQ_CST) != w.seq)
		err = 0;
	lock_again(&w);
	return err;
}

/*
 * Of an object that they leave, threads access this count last. (Whoever has woken them wakes by
 * an address alone.) No cancellation point. A count below zero is of an object that was made anew
 * without being destroyed.
 */
static void await_leavers(bool (*left)(const void *), const void *object)
{
	int spin;

	for (spin = 0; spin < SPINS && !left(object); spin++)
		__builtin_ia32_pause();
	while (!left(object))
		raw_pause(50000);
}

static bool cond_is_left(const void *cond)
{
	return (int32_t)__atomic_load_n(&((const struct cond *)cond)->waiters, __ATOMIC_ACQUIRE) <=
		0;
}

void futex_sync_cond_end(pthread_cond_t *cond)
{
	await_leavers(cond_is_left, cond);
}

int futex_sync_wake(pthread_cond_t *cond, bool all)
{
	struct cond *c = (struct cond *)cond;

	__atomic_fetch_add(&c->seq, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->waiters, __ATOMIC_SEQ_CST))
		word_wake(&c->seq, all ? INT_MAX : 1);
	return 0;
}

static uint32_t barrier_round(const struct barrier *b)
{
	return (uint32_t)(__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) >> 32);
}

int futex_sync_barrier(pthread_barrier_t *barrier)
{
	struct barrier *b = (struct barrier *)barrier;
	uint64_t seen = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
	uint32_t round;
	bool last;
	int spin;

	do
		last = (uint32_t)seen + 1 >= b->n;
	while (!__atomic_compare_exchange_n(&b->state, &seen,
					    last ? ((seen >> 32) + 1) << 32 : seen + 1, 0,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	if (last) {
		word_wake(&b->round, INT_MAX);
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	round = (uint32_t)(seen >> 32);
	for (spin = 0; spin < SPINS && barrier_round(b) == round; spin++)
		__builtin_ia32_pause();
	while (barrier_round(b) == round)
		word_wait(DSM_WAIT_BARRIER, b, &b->round, round, CLOCK_MONOTONIC, NULL);
	__atomic_fetch_add(&b->left, 1, __ATOMIC_RELEASE);
	return 0;
}

static bool barrier_is_left(const void *barrier)
{
	const struct barrier *b = barrier;
	const uint32_t waited = barrier_round(b) * (b->n - 1);

	return (int32_t)(waited - __atomic_load_n(&b->left, __ATOMIC_ACQUIRE)) <= 0;
}

void futex_sync_barrier_end(pthread_barrier_t *barrier)
{
	await_leavers(barrier_is_left, barrier);
}

static bool rwlock_admits(uint64_t word, bool write)
{
	return write ? !((uint32_t)word & ~AWAITED)
		     : !(word & WRITER) && (reading || !(word >> 32));
}

/* waited: it is one of the waiting writers. */
static bool rwlock_take(struct rwlock *l, bool write, bool waited)
{
	uint64_t seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED), next;

	do {
		if (!rwlock_admits(seen, write))
			return false;
		next = write ? (seen | WRITER) - (waited ? WAITING_WRITER : 0) : seen + 1;
	} while (!__atomic_compare_exchange_n(&l->word, &seen, next, 0, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	if (write)
		__atomic_store_n(&l->owner, me(), __ATOMIC_RELAXED);
	else
		reading++;
	return true;
}

/*
 * Before sleeping on *state: mark the lock as awaited, as long as it does not admit the thread.
 * Whoever ends the reason for that clears the mark in the same access, and wakes by the address:
 * the lock may be gone from then on.
 */
static bool rwlock_await(struct rwlock *l, bool write, uint32_t *state)
{
	uint64_t seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED);

	do {
		if (rwlock_admits(seen, write))
			return false;
	} while (!__atomic_compare_exchange_n(&l->word, &seen, seen | AWAITED, 0, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	*state = (uint32_t)seen | AWAITED;
	return true;
}

/* Readers may go on, unless another writer waits. */
static void writer_gives_up(struct rwlock *l)
{
	uint64_t seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED), next;

	do {
		next = seen - WAITING_WRITER;
		if (!(next >> 32))
			next &= ~(uint64_t)AWAITED;
	} while (!__atomic_compare_exchange_n(&l->word, &seen, next, 0, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	if ((seen & ~next) & AWAITED)
		word_wake(&l->state, INT_MAX);
}

int futex_sync_rwlock(pthread_rwlock_t *lock, bool write, bool wait, clockid_t clock,
		      const struct timespec *until)
{
	struct rwlock *l = (struct rwlock *)lock;
	uint32_t state;
	int err = 0;

	if (rwlock_take(l, write, false))
		return 0;
	if (!wait)
		return EBUSY;
	if (__atomic_load_n(&l->owner, __ATOMIC_RELAXED) == me())
		return EDEADLK;
	if (write)
		__atomic_fetch_add(&l->word, WAITING_WRITER, __ATOMIC_RELAXED);
	while (!rwlock_take(l, write, write)) {
		if (err) {
			if (write)
				writer_gives_up(l);
			return err;
		}
		if (rwlock_await(l, write, &state))
			err = word_wait(DSM_WAIT_RWLOCK, l, &l->state, state, clock, until);
	}
	return 0;
}

int futex_sync_rwunlock(pthread_rwlock_t *lock)
{
	struct rwlock *l = (struct rwlock *)lock;
	uint64_t seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED), next;

	if (seen & WRITER)
		__atomic_store_n(&l->owner, 0, __ATOMIC_RELAXED);
	else
		reading -= reading != 0; /* another thread may unlock it */
	do {
		next = seen & WRITER ? seen & ~(uint64_t)WRITER : seen - 1;
		if (!((uint32_t)next & ~AWAITED))
			next &= ~(uint64_t)AWAITED;
	} while (!__atomic_compare_exchange_n(&l->word, &seen, next, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	if ((seen & ~next) & AWAITED)
		word_wake(&l->state, INT_MAX);
	return 0;
}

struct sleeper {
	struct sem *sem;
	int note;
};

static void sleep_ended(void *arg)
{
	struct sleeper *s = arg;

	dsm_wait_end(s->note);
	/* another thread may have taken it */
	if ((uint32_t)__atomic_sub_fetch(&s->sem->word, SLEEPER, __ATOMIC_RELAXED))
		word_wake(&s->sem->value, 1);
}

static int sem_sleep(struct sem *sem, clockid_t clock, const struct timespec *until)
{
	struct sleeper s = { sem, -1 };
	int err;

	__atomic_fetch_add(&sem->word, SLEEPER, __ATOMIC_RELAXED);
	pthread_cleanup_push(sleep_ended, &s);
	err = wait_point(DSM_WAIT_SEM, sem, &sem->value, 0, clock, until, &s.note);
	pthread_cleanup_pop(0);
	__atomic_fetch_sub(&sem->word, SLEEPER, __ATOMIC_RELAXED);
	return err;
}

int futex_sync_sem_wait(uint32_t *object, bool wait, clockid_t clock, const struct timespec *until,
			const uint32_t *stop)
{
	struct sem *sem = (struct sem *)object;
	uint64_t seen = __atomic_load_n(&sem->word, __ATOMIC_RELAXED);
	int err = 0;

	if (wait)
		pthread_testcancel();
	for (;;) {
		while ((uint32_t)seen)
			if (__atomic_compare_exchange_n(&sem->word, &seen, seen - 1, 0,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return 0;
		if (!wait)
			return EAGAIN;
		if (err)
			return err;
		err = sem_sleep(sem, clock, until);
		if (__atomic_load_n(stop, __ATOMIC_RELAXED))
			err = EINTR;
		seen = __atomic_load_n(&sem->word, __ATOMIC_RELAXED);
	}
}

/* The thread that has taken what is posted may destroy the semaphore: one access. */
int futex_sync_sem_post(uint32_t *object)
{
	struct sem *sem = (struct sem *)object;
	uint64_t seen = __atomic_load_n(&sem->word, __ATOMIC_RELAXED);

	do {
		if ((uint32_t)seen == SEM_VALUE_MAX)
			return EOVERFLOW;
	} while (!__atomic_compare_exchange_n(&sem->word, &seen, seen + 1, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	if (seen >> 32)
		word_wake(&sem->value, 1);
	return 0;
}
