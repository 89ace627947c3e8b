/* SPDX-License-Identifier: BSD-2-Clause */
/* futex.h - futexes on words of shared memory; the calls themselves come by syscall(2). */
#ifndef PTHREAD_FUTEX_H
#define PTHREAD_FUTEX_H

#include "shim.h"

/* Make the lists of sleepers, in a job of several nodes. When the job starts; collective. 0, -ENOMEM, errors of
 * dsm_broadcast(). */
int futex_start(void);
/* A handler of the program has run in this thread: the futex wait that it interrupted, if any, ends with EINTR. restarts:
 * the handler has SA_RESTART, so only a wait with a limit of time ends. Keeps errno. */
void futex_interrupt(bool restarts);
/* This thread ends: what it had to sleep with is freed. */
void futex_thread_ended(void);

#endif
