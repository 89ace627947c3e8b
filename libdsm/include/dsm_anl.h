/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dsm_anl.h - the functions that the ANL macros of c.m4.dsm expand to; dsm-anl(7) documents the macros. They are in libdsm-anl.a.
 *
 * The header includes nothing, defines no macro except its guard, and names no parameter. Therefore an application may define
 * what it likes before and after it.
 *
 * An object is valid when it is zero, and may be forgotten at any time. Objects have room for those of POSIX.
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

void dsm_anl_start(void);
void dsm_anl_end(void) __attribute__((noreturn));

/* Number of threads including the caller, which runs the function as well; 0: one more thread, and the caller goes on. */
void dsm_anl_create(void (*)(void), long);
void dsm_anl_wait_for_end(void);
long dsm_anl_self(void);

void dsm_anl_lock_init(volatile struct dsm_anl_lock *, long);
void dsm_anl_lock(volatile struct dsm_anl_lock *);
void dsm_anl_unlock(volatile struct dsm_anl_lock *);

void dsm_anl_cond_init(volatile struct dsm_anl_cond *);
void dsm_anl_cond_wait(volatile struct dsm_anl_cond *, volatile struct dsm_anl_lock *);
void dsm_anl_cond_wake(volatile struct dsm_anl_cond *, int);

void dsm_anl_pause_init(volatile struct dsm_anl_pause *, long);
void dsm_anl_pause_set(volatile struct dsm_anl_pause *);
void dsm_anl_pause_wait(volatile struct dsm_anl_pause *);

/* Number of threads; 0 for a barrier: that of its initialisation. */
void dsm_anl_barrier_init(volatile struct dsm_anl_barrier *, long);
void dsm_anl_barrier(volatile struct dsm_anl_barrier *, long);

void dsm_anl_counter_init(volatile struct dsm_anl_counter *);
long dsm_anl_counter_next(volatile struct dsm_anl_counter *, long, long);

/* Size and home: the number of a thread, -1 for none. Never NULL. */
void *dsm_anl_malloc(unsigned long, long);
void dsm_anl_free(volatile void *);

unsigned long dsm_anl_clock(void);
void dsm_anl_roi(int);

#ifdef __cplusplus
}
#endif
#endif
