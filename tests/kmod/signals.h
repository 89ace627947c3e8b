/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.h - shared by the files of signals: a job of two ranks, whose rank 0 has a thread that
 * waits and gets signals, and the tests of each file.
 */
#ifndef KMOD_SIGNALS_H
#define KMOD_SIGNALS_H

#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#define SIGNALS 20u
#define WRITTEN 41u
#define BARRIER 3u

/* A call on an object of rank 1. */
#define SYNC(o, ...)                                                     \
	{                                                                \
		.call = DSM_CALL_SYNC, .op = (o), .home = 1, __VA_ARGS__ \
	}

/* Memory of both ranks: what each has done, and how many checks have failed. */
extern struct both {
	_Atomic unsigned int pinned, handled, ended, failed, object, tid, let;
} * both;
extern struct job *j;

extern int waiter_fd;          /* file of rank 0 */
extern sigjmp_buf out_of_here; /* where the thread that leaves its wait goes on */
/* the handler leaves only after the object of the wait has arrived */
extern bool late;
extern bool busy; /* handlers make a call, too */
extern bool ends; /* the thread exits after leaving, and makes no other call */

/* Print what does not hold, with errno, and count it. Returns `is`. */
static inline bool expect(bool is, const char *what)
{
	if (!is) {
		printf("FAILED: %s (%s)\n", what, strerror(errno));
		atomic_fetch_add(&both->failed, 1);
	}
	return is;
}

/* DSM_IOC_RANGE. Returns 0, or -1 and errno. */
int range(int fd, unsigned int op, unsigned int page, unsigned int pages, unsigned int write);
/* DSM_IOC_CALL of a copy of c, which is *out afterwards. False: see errno. */
bool call(int fd, const struct dsm_ioc_call *c, struct dsm_ioc_call *out);
/* Make another call by waiter_fd, which must succeed. */
void another_call(void);

/*
 * Rank 0: join, and wait until the other rank is ready. SIGUSR1 is counted; if `goes`, its handler
 * leaves by out_of_here.
 */
void begins(bool goes);
/*
 * Start the waiting thread, and send all its signals while it waits, only one if it leaves; call
 * `meanwhile` before each.
 */
pthread_t begin_and_signal(void *(*run)(void *), bool goes, void (*meanwhile)(void));

/*
 * Run a job of two processes: rank 0 calls one(how), rank 1 other(how), and each exits. Returns
 * true if both have ended, the module has nothing left of them, and no check has failed.
 */
bool run_ranks(void (*one)(bool), void (*other)(bool), bool how, bool rdma);

bool test_calls(void);     /* signals_calls.c */
bool test_ranges(void);    /* signals_ranges.c */
bool test_disturbed(void); /* signals_disturbed.c */

#endif
