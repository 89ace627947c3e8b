/* SPDX-License-Identifier: BSD-2-Clause */
/* native.h - the POSIX threads of this process that can be cancelled or named. Any thread; no
 * function accesses shared memory. */
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
	/* created by the service thread, without the program's scheduling attributes */
	bool by_service;
	pthread_t thread;
};

/* Register a thread, and unregister it. The caller owns the memory. */
void native_note(struct live *l);
void native_forget(struct live *l);
/* Lock the list against lookups by other threads, so that the caller may set l->thread. Blocks all
 * signals; native_unlock() restores the mask *before. */
void native_lock(sigset_t *before);
void native_unlock(const sigset_t *before);
/* Call fn(thread, arg) while the thread cannot end, and return its result. fn must not call
 * functions of this file. -ESRCH: the record's thread is not in this process. */
int native_call(uint64_t record, int (*fn)(unsigned long thread, void *arg), void *arg);
/* For call_cancel: cancel the thread. Return 0, also if it has ended. */
int native_cancel(uint64_t record);

#endif
