/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dsm_anl.h - the functions to which the ANL macros of c.m4.dsm expand. libdsm-anl.a contains them;
 * dsm-anl(7) documents the macros.
 *
 * The header includes nothing, defines no macro except its guard, and names no parameter. So it
 * does not conflict with the macros of an application.
 *
 * Any thread may call the functions, except as noted. A zeroed object is valid without
 * initialisation. Objects need not be destroyed. Each struct has room for the POSIX object in it. A
 * call that fails ends the process with a message and status 1.
 */
#ifndef DSM_ANL_H
#define DSM_ANL_H

#ifdef __cplusplus
extern "C" {
#endif

struct dsm_anl_lock {
	unsigned long dsm_anl_opaque[5];
};
struct dsm_anl_cond {
	unsigned long dsm_anl_opaque[6];
};
struct dsm_anl_pause {
	unsigned long dsm_anl_opaque[4];
};
struct dsm_anl_barrier {
	unsigned long dsm_anl_opaque[7];
};
struct dsm_anl_counter {
	unsigned long dsm_anl_opaque[14];
};

/* Begin: the first thread calls this before all others. End: exit the process with status 0. */
void dsm_anl_start(void);
void dsm_anl_end(void) __attribute__((noreturn));

/* Run a function in the given number of threads. The caller is the first of them, and also runs it.
 * 0: run it in one new thread, and return at once. */
void dsm_anl_create(void (*)(void), long);
/* Block until all created threads have ended. */
void dsm_anl_wait_for_end(void);
/* Return the number of the calling thread: 0 for the first, then in the order of creation. */
long dsm_anl_self(void);

/* Mutexes. The initialisation takes an array of the given length. Locking blocks. */
void dsm_anl_lock_init(volatile struct dsm_anl_lock *, long);
void dsm_anl_lock(volatile struct dsm_anl_lock *);
void dsm_anl_unlock(volatile struct dsm_anl_lock *);

/* Conditions. Waiting blocks and may wake up spuriously. Wake: 0 wakes one thread, 1 wakes all. */
void dsm_anl_cond_init(volatile struct dsm_anl_cond *);
void dsm_anl_cond_wait(volatile struct dsm_anl_cond *, volatile struct dsm_anl_lock *);
void dsm_anl_cond_wake(volatile struct dsm_anl_cond *, int);

/* Counting semaphores, initially 0. The initialisation takes an array of the given length. Set adds
 * 1; wait blocks while the semaphore is 0, then subtracts 1. */
void dsm_anl_pause_init(volatile struct dsm_anl_pause *, long);
void dsm_anl_pause_set(volatile struct dsm_anl_pause *);
void dsm_anl_pause_wait(volatile struct dsm_anl_pause *);

/* Barriers for the given number of threads. 0 in dsm_anl_barrier(): the number of the
 * initialisation. Waiting blocks. */
void dsm_anl_barrier_init(volatile struct dsm_anl_barrier *, long);
void dsm_anl_barrier(volatile struct dsm_anl_barrier *, long);

/* Loop counters. Arguments of next: the maximum, and the number of threads. Returns 0, 1 ... the
 * maximum. Then it blocks until all threads have called it, returns -1 in all of them, and the
 * counter is 0 again. */
void dsm_anl_counter_init(volatile struct dsm_anl_counter *);
long dsm_anl_counter_next(volatile struct dsm_anl_counter *, long, long);

/* Allocate shared memory. Arguments: the size in bytes, and the number of the thread whose node
 * becomes the home (-1: none; ignored below 4 KiB). Never returns NULL: without memory, the process
 * exits with a message. */
void *dsm_anl_malloc(unsigned long, long);
void dsm_anl_free(volatile void *);

/* Return the time of day in microseconds. */
unsigned long dsm_anl_clock(void);
/* Begin (not 0) or end (0) the part of the program that ANL_REPORT times. */
void dsm_anl_roi(int);

#ifdef __cplusplus
}
#endif
#endif
