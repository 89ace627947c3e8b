/* SPDX-License-Identifier: BSD-2-Clause */
/* native.h - the POSIX threads of this process that can be cancelled or named. Any thread; nothing touches shared memory. */
#ifndef API_NATIVE_H
#define API_NATIVE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct record;
struct work;

/* A thread of this rank that can be cancelled. */
struct live {
	struct live *next;
	struct record *record;
	struct work *work; /* reserved for it */
	bool by_service;   /* created by the service thread, whose scheduling is not the program's */
	pthread_t thread;
};

/* The thread can be found from now on; until then. The memory is the caller's. */
void native_note(struct live *l);
void native_forget(struct live *l);
/* No other thread finds any thread while it is locked: the caller may set l->thread. All signals are blocked; *before: the mask that
 * native_unlock() restores. */
void native_lock(sigset_t *before);
void native_unlock(const sigset_t *before);
/* The result of fn(thread, arg), called while the thread cannot end; fn calls no function of this file. -ESRCH: the record's thread is
 * not in this process. */
int native_call(uint64_t record, int (*fn)(unsigned long thread, void *arg), void *arg);
/* For call_cancel: cancel the thread. 0, also when it has ended. */
int native_cancel(uint64_t record);

#endif
