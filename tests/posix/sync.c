// SPDX-License-Identifier: BSD-2-Clause
/* sync.c - mutexes, conditions, reader-writer locks, spin locks, barriers, semaphores. */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>

static pthread_barrier_t met;

/*
 * A thread of another rank runs hold(arg), then both are here; it runs drop(arg) after the second
 * meeting.
 */
struct holding {
	void (*hold)(void *), (*drop)(void *);
	void *arg;
};

static void *hold_for(void *arg)
{
	const struct holding *h = arg;

	h->hold(h->arg);
	pthread_barrier_wait(&met);
	pthread_barrier_wait(&met);
	h->drop(h->arg);
	return NULL;
}

static void held_by_another(const struct holding *h, void (*meanwhile)(void *))
{
	pthread_t thread;

	pthread_barrier_init(&met, NULL, 2);
	thread = start(hold_for, (void *)(uintptr_t)h);
	pthread_barrier_wait(&met);
	meanwhile(h->arg);
	pthread_barrier_wait(&met);
	ended(thread);
	pthread_barrier_destroy(&met);
}

/* ---- mutexes --------------------------------------------------------------------------------- */

static int mutex_make(pthread_mutex_t *m, int type)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	err = pthread_mutexattr_settype(&attr, type);
	err = err ? err : pthread_mutex_init(m, &attr);
	pthread_mutexattr_destroy(&attr);
	return err;
}

static void mutex_lock(void *m)
{
	say_error(pthread_mutex_lock(m));
}

static void mutex_unlock(void *m)
{
	say_error(pthread_mutex_unlock(m));
}

static void mutex_try(void *m)
{
	struct timespec soon = after_ms(CLOCK_REALTIME, 20), past = { .tv_sec = 1 };

	say_error(pthread_mutex_trylock(m));
	say_error(pthread_mutex_timedlock(m, &soon));
	say_error(pthread_mutex_timedlock(m, &past));
	soon = after_ms(CLOCK_MONOTONIC, 20);
	say_error(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &soon));
	soon.tv_nsec = 1000000000;
	say_error(pthread_mutex_timedlock(m, &soon));
}

static void mutex_try_destroy(void *m)
{
	mutex_try(m);
	mutex_unlock(m);
}

static void mutex_of(int type)
{
	pthread_mutex_t *m = calloc(1, sizeof(*m));
	const struct holding h = { mutex_lock, mutex_unlock, m };

	say_error(mutex_make(m, type));
	held_by_another(&h,
			type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE
				? mutex_try_destroy
				: mutex_try);
	mutex_lock(m);
	say_error(pthread_mutex_trylock(m));
	if (type == PTHREAD_MUTEX_RECURSIVE)
		mutex_unlock(m);
	if (type == PTHREAD_MUTEX_ERRORCHECK)
		mutex_lock(m);
	mutex_unlock(m);
	if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE)
		mutex_unlock(m);
	say_error(pthread_mutex_destroy(m));
	free(m);
}

CASE(mutex_normal, EACH)
{
	mutex_of(PTHREAD_MUTEX_NORMAL);
}

CASE(mutex_recursive, EACH)
{
	mutex_of(PTHREAD_MUTEX_RECURSIVE);
}

CASE(mutex_errorcheck, EACH)
{
	mutex_of(PTHREAD_MUTEX_ERRORCHECK);
}

CASE(mutex_adaptive, EACH)
{
	mutex_of(PTHREAD_MUTEX_ADAPTIVE_NP);
}

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER,
		       recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
		       checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, zeroed;

CASE(mutex_static, EACH)
{
	pthread_mutex_t *const all[] = { &plain, &recursive, &checking, &zeroed };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		mutex_lock(all[i]);
		say_error(pthread_mutex_trylock(all[i]));
		if (all[i] == &recursive)
			mutex_unlock(all[i]);
		mutex_unlock(all[i]);
	}
}

CASE(mutex_destroy_held, EACH)
{
	pthread_mutex_t *m = calloc(1, sizeof(*m));

	mutex_make(m, PTHREAD_MUTEX_NORMAL);
	mutex_lock(m);
	say_error(pthread_mutex_destroy(m));
	mutex_unlock(m);
	say_error(pthread_mutex_destroy(m));
	free(m);
}

CASE(mutexattr, EACH)
{
	pthread_mutexattr_t attr;
	int n = -1;

	say_error(pthread_mutexattr_init(&attr));
	pthread_mutexattr_gettype(&attr, &n);
	say("%d", n == PTHREAD_MUTEX_DEFAULT);
	say_error(pthread_mutexattr_settype(&attr, 99));
	say_error(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	pthread_mutexattr_getpshared(&attr, &n);
	say("%d", n == PTHREAD_PROCESS_SHARED);
	say_error(pthread_mutexattr_setpshared(&attr, 99));
	say_error(pthread_mutexattr_setrobust(&attr, 99));
	pthread_mutexattr_getrobust(&attr, &n);
	say("%d", n == PTHREAD_MUTEX_STALLED);
	say_error(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT));
	pthread_mutexattr_getprotocol(&attr, &n);
	say("%d", n == PTHREAD_PRIO_INHERIT);
	say_error(pthread_mutexattr_setprioceiling(&attr, 5));
	pthread_mutexattr_getprioceiling(&attr, &n);
	say("%d", n);
	say_error(pthread_mutexattr_destroy(&attr));
}

CASE(mutex_shared, EACH)
{
	pthread_mutex_t *m = calloc(1, sizeof(*m));
	const struct holding h = { mutex_lock, mutex_unlock, m };
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	say_error(pthread_mutex_init(m, &attr));
	held_by_another(&h, mutex_try);
	say_error(pthread_mutex_destroy(m));
	free(m);
}

static void *lock_and_end(void *m)
{
	say_error(pthread_mutex_lock(m));
	return NULL;
}

CASE(mutex_robust, EACH)
{
	pthread_mutex_t *m = calloc(1, sizeof(*m));
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = pthread_mutex_init(m, &attr);
	say_error(err);
	if (!err) {
		apart(lock_and_end, m);
		say_error(pthread_mutex_lock(m));
		say_error(pthread_mutex_consistent(m));
		mutex_unlock(m);
		say_error(pthread_mutex_destroy(m));
	}
	free(m);
}

static void mutex_protocol(int protocol)
{
	pthread_mutex_t *m = calloc(1, sizeof(*m));
	pthread_mutexattr_t attr;
	int err, n = -1;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutexattr_setprioceiling(&attr, 1);
	err = pthread_mutex_init(m, &attr);
	say_error(err);
	if (!err && protocol == PTHREAD_PRIO_PROTECT) {
		say_error(pthread_mutex_getprioceiling(m, &n));
		say("%d", n);
		say_error(pthread_mutex_setprioceiling(m, 2, &n));
	} else if (!err) {
		mutex_lock(m);
		mutex_unlock(m);
	}
	free(m);
}

CASE(mutex_inherit, EACH)
{
	mutex_protocol(PTHREAD_PRIO_INHERIT);
}

CASE(mutex_ceiling, EACH)
{
	mutex_protocol(PTHREAD_PRIO_PROTECT);
}

/*
 * A mutex without a protocol has no ceiling; a mutex that is not robust cannot be made consistent.
 */
CASE(mutex_no_protocol, EACH)
{
	int n;

	say_error(pthread_mutex_getprioceiling(&plain, &n));
	say_error(pthread_mutex_setprioceiling(&plain, 1, &n));
	say_error(pthread_mutex_consistent(&plain));
}

/* The holder ends: the mutex stays locked. */
CASE(mutex_left, EACH)
{
	pthread_mutex_t *m = calloc(1, sizeof(*m));

	mutex_make(m, PTHREAD_MUTEX_NORMAL);
	apart(lock_and_end, m);
	mutex_try(m);
}

static long counted;

static void *count_up(void *arg)
{
	int i;

	for (i = 0; i < 500; i++) {
		pthread_mutex_lock(arg);
		counted++;
		pthread_mutex_unlock(arg);
	}
	return NULL;
}

CASE(mutex_excludes, EACH)
{
	pthread_t threads[3];
	int i;

	counted = 0;
	for (i = 0; i < 3; i++)
		threads[i] = start(count_up, &plain);
	for (i = 0; i < 3; i++)
		ended(threads[i]);
	say("%ld", counted);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turns;

static void *wait_turn(void *arg)
{
	pthread_mutex_lock(&plain);
	while (turns < (int)(intptr_t)arg)
		pthread_cond_wait(&changed, &plain);
	turns++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&plain);
	return NULL;
}

CASE(cond_wakes, EACH)
{
	pthread_t threads[3];
	int i;

	turns = 0;
	for (i = 0; i < 3; i++)
		threads[i] = start(wait_turn, (void *)(intptr_t)(i + 1));
	wait_ms(10);
	pthread_mutex_lock(&plain);
	turns = 1;
	say_error(pthread_cond_broadcast(&changed));
	pthread_mutex_unlock(&plain);
	for (i = 0; i < 3; i++)
		ended(threads[i]);
	say("%d", turns);
	say_error(pthread_cond_signal(&changed));
}

static void cond_clock(clockid_t clock)
{
	pthread_cond_t *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;
	struct timespec soon, begin = after_ms(CLOCK_MONOTONIC, 0), end;
	clockid_t got = -1;
	int shared = -1;

	say_error(pthread_condattr_init(&attr));
	say_error(pthread_condattr_setclock(&attr, clock));
	pthread_condattr_getclock(&attr, &got);
	say("%d", got == clock);
	say_error(pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	pthread_condattr_getpshared(&attr, &shared);
	say("%d", shared == PTHREAD_PROCESS_SHARED);
	say_error(pthread_cond_init(c, &attr));
	pthread_mutex_lock(&plain);
	soon = after_ms(clock, 20);
	say_error(pthread_cond_timedwait(c, &plain, &soon));
	soon = after_ms(CLOCK_MONOTONIC, 20);
	say_error(pthread_cond_clockwait(c, &plain, CLOCK_MONOTONIC, &soon));
	soon.tv_nsec = -1;
	say_error(pthread_cond_timedwait(c, &plain, &soon));
	pthread_mutex_unlock(&plain);
	end = after_ms(CLOCK_MONOTONIC, 0);
	say("%d",
	    (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 >= 39);
	say_error(pthread_cond_destroy(c));
	say_error(pthread_condattr_destroy(&attr));
	free(c);
}

CASE(cond_timed, EACH)
{
	cond_clock(CLOCK_REALTIME);
	cond_clock(CLOCK_MONOTONIC);
}

CASE(cond_bad_clock, EACH)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	say_error(pthread_condattr_setclock(&attr, CLOCK_PROCESS_CPUTIME_ID));
	say_error(pthread_condattr_setpshared(&attr, 99));
}

/* The mutex of an error-checking type is somebody else's. */
CASE(cond_not_holder, EACH)
{
	say_error(pthread_cond_wait(&changed, &checking));
}

/* ---- reader-writer locks --------------------------------------------------------------------- */

static void read_lock(void *l)
{
	say_error(pthread_rwlock_rdlock(l));
}

static void write_lock(void *l)
{
	say_error(pthread_rwlock_wrlock(l));
}

static void rw_unlock(void *l)
{
	say_error(pthread_rwlock_unlock(l));
}

static void rw_try(void *l)
{
	struct timespec soon = after_ms(CLOCK_REALTIME, 20);
	int err = pthread_rwlock_tryrdlock(l);

	say_error(err);
	if (!err)
		rw_unlock(l);
	err = pthread_rwlock_timedrdlock(l, &soon);
	say_error(err);
	if (!err)
		rw_unlock(l);
	say_error(pthread_rwlock_trywrlock(l));
	soon = after_ms(CLOCK_REALTIME, 20);
	say_error(pthread_rwlock_timedwrlock(l, &soon));
	soon = after_ms(CLOCK_MONOTONIC, 20);
	say_error(pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &soon));
	err = pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &soon);
	say_error(err);
	if (!err)
		rw_unlock(l);
}

CASE(rwlock, EACH)
{
	pthread_rwlock_t *l = calloc(1, sizeof(*l));
	const struct holding reader = { read_lock, rw_unlock, l },
			     writer = { write_lock, rw_unlock, l };

	say_error(pthread_rwlock_init(l, NULL));
	held_by_another(&reader, rw_try);
	held_by_another(&writer, rw_try);
	write_lock(l);
	say_error(pthread_rwlock_wrlock(l));
	say_error(pthread_rwlock_rdlock(l));
	rw_unlock(l);
	read_lock(l);
	read_lock(l);
	rw_unlock(l);
	rw_unlock(l);
	say_error(pthread_rwlock_destroy(l));
	free(l);
}

CASE(rwlockattr, EACH)
{
	pthread_rwlockattr_t attr;
	int n = -1;

	say_error(pthread_rwlockattr_init(&attr));
	say_error(pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	pthread_rwlockattr_getpshared(&attr, &n);
	say("%d", n == PTHREAD_PROCESS_SHARED);
	say_error(
		pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
	pthread_rwlockattr_getkind_np(&attr, &n);
	say("%d", n == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	say_error(pthread_rwlockattr_setkind_np(&attr, 99));
	say_error(pthread_rwlockattr_destroy(&attr));
}

static void *wait_to_write(void *l)
{
	write_lock(l);
	rw_unlock(l);
	return NULL;
}

/* A writer waits: a reader that holds no lock gets in, or waits. */
static void rwlock_late_reader(void *l)
{
	pthread_t writer = start(wait_to_write, l);
	struct timespec soon;
	int err;

	wait_ms(50);
	soon = after_ms(CLOCK_REALTIME, 50);
	err = pthread_rwlock_timedrdlock(l, &soon);
	say_error(err);
	if (!err)
		rw_unlock(l);
	pthread_barrier_wait(&met);
	ended(writer);
}

CASE(rwlock_prefers, EACH)
{
	pthread_rwlock_t *l = calloc(1, sizeof(*l));
	const struct holding reader = { read_lock, rw_unlock, l };
	pthread_t thread;

	pthread_rwlock_init(l, NULL);
	pthread_barrier_init(&met, NULL, 2);
	thread = start(hold_for, (void *)(uintptr_t)&reader);
	pthread_barrier_wait(&met);
	rwlock_late_reader(l);
	ended(thread);
	pthread_barrier_destroy(&met);
	pthread_rwlock_destroy(l);
	free(l);
}

/* ---- spin locks, barriers -------------------------------------------------------------------- */

static void spin_lock(void *l)
{
	say_error(pthread_spin_lock(l));
}

static void spin_unlock(void *l)
{
	say_error(pthread_spin_unlock(l));
}

static void spin_try(void *l)
{
	say_error(pthread_spin_trylock(l));
}

CASE(spin, EACH)
{
	pthread_spinlock_t *l = calloc(16, sizeof(int));
	const struct holding h = { spin_lock, spin_unlock, (void *)(uintptr_t)l };

	say_error(pthread_spin_init(l, PTHREAD_PROCESS_PRIVATE));
	held_by_another(&h, spin_try);
	spin_try((void *)(uintptr_t)l);
	spin_unlock((void *)(uintptr_t)l);
	say_error(pthread_spin_destroy(l));
	free((void *)(uintptr_t)l);
}

static void *meet(void *arg)
{
	const int got = pthread_barrier_wait(arg);

	return (void *)(intptr_t)(got == PTHREAD_BARRIER_SERIAL_THREAD ? 1 : got ? 100 : 0);
}

CASE(barrier, EACH)
{
	pthread_barrier_t *b = calloc(1, sizeof(*b));
	pthread_barrierattr_t attr;
	pthread_t threads[2];
	int round, n = -1;
	intptr_t serial;

	say_error(pthread_barrierattr_init(&attr));
	say_error(pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	pthread_barrierattr_getpshared(&attr, &n);
	say("%d", n == PTHREAD_PROCESS_SHARED);
	say_error(pthread_barrier_init(b, &attr, 0));
	say_error(pthread_barrier_init(b, &attr, 3));
	for (round = 0; round < 3; round++) {
		threads[0] = start(meet, b);
		threads[1] = start(meet, b);
		serial = (intptr_t)meet(b);
		serial += (intptr_t)ended(threads[0]);
		serial += (intptr_t)ended(threads[1]);
		say("%ld", (long)serial);
	}
	say_error(pthread_barrier_destroy(b));
	say_error(pthread_barrierattr_destroy(&attr));
	free(b);
}

/* ---- semaphores ------------------------------------------------------------------------------ */

static void *post_later(void *s)
{
	wait_ms(20);
	say_call(sem_post(s));
	return NULL;
}

static void semaphore_of(sem_t *s)
{
	struct timespec soon = after_ms(CLOCK_REALTIME, 20), bad = { .tv_nsec = -1 };
	pthread_t thread;
	int n = -1;

	say_call(sem_getvalue(s, &n));
	say("%d", n);
	say_call(sem_wait(s));
	say_call(sem_trywait(s));
	say_call(sem_timedwait(s, &soon));
	say_call(sem_timedwait(s, &bad));
	soon = after_ms(CLOCK_MONOTONIC, 20);
	say_call(sem_clockwait(s, CLOCK_MONOTONIC, &soon));
	thread = start(post_later, s);
	say_call(sem_wait(s));
	ended(thread);
	say_call(sem_post(s));
	say_call(sem_timedwait(s, &bad));
	say_call(sem_getvalue(s, &n));
	say("%d", n);
}

CASE(semaphore, EACH)
{
	sem_t *s = calloc(1, sizeof(*s));

	say_call(sem_init(s, 0, (unsigned int)SEM_VALUE_MAX + 1));
	say_call(sem_init(s, 0, SEM_VALUE_MAX));
	say_call(sem_post(s));
	say_call(sem_init(s, 1, 1));
	semaphore_of(s);
	say_call(sem_destroy(s));
	free(s);
}

static void *open_again(void *arg)
{
	sem_t *s = sem_open(arg, 0);

	say("%s", s == SEM_FAILED ? error_name(errno) : "open");
	if (s != SEM_FAILED)
		say_call(sem_post(s));
	return s;
}

CASE(semaphore_named, EACH)
{
	char name[] = "/dsm-posix-XXXXXX";
	sem_t *s;

	snprintf(name, sizeof(name), "/dsm-posix-%ld", (long)getpid() % 100000);
	open_again(name);
	s = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
	say("%s", s == SEM_FAILED ? error_name(errno) : "open");
	say("%d", apart(open_again, name) == s);
	say("%s",
	    sem_open(name, O_CREAT | O_EXCL, 0600, 0) == SEM_FAILED ? error_name(errno) : "open");
	semaphore_of(s);
	say_call(sem_unlink(name));
	say_call(sem_unlink(name));
	say_call(sem_post(s));
	say_call(sem_close(s));
	say("%s", sem_open("", O_CREAT, 0600, 0) == SEM_FAILED ? error_name(errno) : "open");
	say("%s", sem_open("/a/b", O_CREAT, 0600, 0) == SEM_FAILED ? error_name(errno) : "open");
	say("%s",
	    sem_open(name, O_CREAT, 0600, 1u << 31) == SEM_FAILED ? error_name(errno) : "open");
}
