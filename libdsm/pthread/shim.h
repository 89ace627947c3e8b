/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shim.h - libdsm-pthread.so: POSIX threads of an ordinary program over the ranks of a job.
 *
 * The library stands in front of the C library: the program's calls come here, and so do those of every other library of the
 * process. Objects in shared memory are the program's, and handled here; objects elsewhere belong to libraries and to threads
 * of one rank, and go on to the C library. Where there is no object to tell by (malloc(), pthread_self()), the caller's address
 * does: the executable and the C++ library are the program.
 *
 * In a job of one rank everything goes on to the C library.
 */
#ifndef PTHREAD_SHIM_H
#define PTHREAD_SHIM_H

#include "interpose/next.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <sched.h>

#define CALLER __builtin_return_address(0)

#define KEYS 1024u /* PTHREAD_KEYS_MAX */

/* In blocks of their own, which change with the keys only: they are read with each value. */
struct key {
	uint64_t seq; /* atomic; counts the times that it was made and deleted */
	void (*destructor)(void *);
};

/* What this process knows of the job; constant once it is active. */
struct shim {
	bool active; /* a job of several ranks, joined */
	bool near;   /* of one node: memory is coherent, and futexes work between ranks */
	int rank, size;
	int pid;
	char *heap, *heap_end;       /* the shared heap */
	char *globals, *globals_end; /* the program's variables */
	char *maps, *maps_end;       /* shared mappings (map.c) are between */
	bool shares_maps;            /* DSM_MMAP */
	struct key *keys;            /* KEYS of them */
};

extern struct shim shim;

/* Is it of mmap(), and shared? */
static inline bool is_mapped(const void *p)
{
	const char *at = p;

	return at < __atomic_load_n(&shim.maps_end, __ATOMIC_RELAXED) &&
		at >= __atomic_load_n(&shim.maps, __ATOMIC_RELAXED);
}

/* Is it in shared memory? */
static inline bool is_shared(const void *p)
{
	const char *at = p;

	return shim.active &&
		((at >= shim.heap && at < shim.heap_end) || (at >= shim.globals && at < shim.globals_end) ||
		 is_mapped(p));
}

/* Does the program call, not a library? */
bool is_program(const void *caller);

/* Does the program call, of a job whose memory is shared? */
static inline bool is_ours(const void *caller)
{
	return shim.active && is_program(caller);
}

/* A library of the program's creates a thread, which is private to this rank: say so, once for each library. */
void say_stays(const void *caller);

/* What all ranks share, in the heap. Counters are atomic. */
struct team {
	uint32_t live;             /* threads made and not yet ended, main() among them */
	uint32_t how;              /* the program ends: enum ending; the first call decides */
	uint32_t status;           /* of the job, once `over` */
	pthread_mutex_t once_lock; /* over changes of every pthread_once_t */
	pthread_cond_t once_moved;
	dsm_sem_t exits; /* somebody wants the job to end, as `how` and `status` say */
	dsm_sem_t over;  /* the other ranks wait for this, and main() where it has left */
	pthread_mutex_t maps_lock;
	struct mapping *maps;
	uint32_t maps_made;
	pthread_mutex_t named_lock;
	struct named *named;
	struct key *keys;
	size_t stack_size, guard_size; /* of threads whose creator has no other wish */
};

extern struct team *team;

/* A thread of the program: as pthread_create(). */
int make_thread(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* The stacks of threads, as rank 0's C library has them: each rank's follows. When the job starts; all ranks after rank 0. */
void stacks_start(void);

/* main(): fn(arg), by the thread that is then rank 0's first. */
void *run_as_main(void *(*fn)(void *), void *arg);
/* By pthread_exit(), or cancelled; once it has ended. */
bool main_has_left(void);
/* Rank 0 calls exit(0): the program's last thread, of any rank, is about to end. */
void last_ended(void);

/* signals.c: signals that end the process are reported, those of faults since before dsm_init(). */
void report_faults(bool on);
void report_signals(void);

/* Block the signals whose handlers the program may have, and have the mask back: where a handler must not come that calls
 * sem_post(). */
uint64_t block_signals(void);
void let_signals(uint64_t before);
uint64_t blocked_signals(void); /* the mask */

/* For this library: as malloc() of the program. NULL. */
void *shared_alloc(size_t size);

/* While it is not 0, what this thread allocates in the C library is the program's. */
extern __thread uint32_t lent __attribute__((tls_model("initial-exec")));

/* A message that names what does not work across ranks. ENOSYS. */
int cannot(const char *what);

/* ---- objects in place: one node (near.c) ---------------------------------------------------------- */

/* They return 0 or a positive errno value. until NULL: for ever; EINVAL: it is no time, and would have been waited for.
 * near_wait() and near_sem_wait() are cancellation points. */
int near_lock(pthread_mutex_t *m, clockid_t clock, const struct timespec *until);
int near_trylock(pthread_mutex_t *m);
int near_unlock(pthread_mutex_t *m);
int near_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *until);
int near_wake(pthread_cond_t *c, bool all);
int near_barrier(pthread_barrier_t *b);
int near_rwlock(pthread_rwlock_t *l, bool write, bool wait, clockid_t clock, const struct timespec *until);
int near_rwunlock(pthread_rwlock_t *l);
int near_sem_wait(uint32_t *sem, bool wait, clockid_t clock, const struct timespec *until);
int near_sem_post(uint32_t *sem);

/* ---- objects by name: several nodes (far.c) ------------------------------------------------------- */

/*
 * As those of near.c. kind: where the mutex has its type; NULL: a normal one. own: where the condition has its clock. n:
 * where the barrier has its count. They are read when this process first uses the object.
 */
int far_lock(void *m, const int *kind, clockid_t clock, const struct timespec *until);
int far_trylock(void *m, const int *kind);
int far_unlock(void *m, const int *kind);
int far_wait(void *c, const int *own, void *m, const int *kind, clockid_t clock, const struct timespec *until);
int far_wake(void *c, const int *own, bool all);
int far_barrier(void *b, const int *n);
int far_rwlock(void *l, bool write, bool wait, clockid_t clock, const struct timespec *until);
int far_rwunlock(void *l);
int far_sem_wait(void *s, bool wait, clockid_t clock, const struct timespec *until);
int far_sem_post(void *s);
int far_sem_value(void *s, int *value);
int far_sem_init(void *s, uint32_t value);
int far_destroy(void *object); /* EBUSY: it is in use */
void far_forget(void *object); /* the same, in use or not; or made anew */
int far_start(void);           /* collective */

/* ---- futexes (futex.c) ---------------------------------------------------------------------------- */

int futex_start(void);               /* collective */
void futex_interrupt(bool restarts); /* behind a handler of the program: what it interrupted may be a futex's sleep */
void futex_thread_ended(void);       /* what this thread had to sleep with is free */

#define MOST 1000000000l /* seconds: their nanoseconds, added to any clock's, are a number */

#define OWN_CLOCK ((clockid_t)-1) /* far_wait(): the condition's */

/* Of a condition; in zeroed memory, it is CLOCK_REALTIME. */
static inline clockid_t clock_of(int monotonic)
{
	return monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* Until then, in ns; 0: it is past; those of MOST and one second at most. */
uint64_t time_left(clockid_t clock, const struct timespec *until);

/* So long, in ns; the same. */
uint64_t time_of(const struct timespec *t);

static inline bool is_time(const struct timespec *t)
{
	return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* x86-64 keeps loads in order, and stores; this keeps the compiler from changing it. */
static inline void in_order(void)
{
	__asm__ volatile("" ::: "memory");
}

#endif
