/* SPDX-License-Identifier: BSD-2-Clause */
/* futex.h - futexes on words of shared memory; programs call them by syscall(2). */
#ifndef PTHREAD_FUTEX_H
#define PTHREAD_FUTEX_H

#include "shim.h"

/* Create the lists of sleepers, in a job of several nodes. Called at job start; collective. 0,
 * -ENOMEM, errors of dsm_broadcast(). */
int futex_start(void);
/* End the futex wait, if any, that a signal handler of the program interrupted in this thread, with
 * EINTR. restarts: the handler has SA_RESTART, so end only a wait with a timeout. Preserves
 * errno. */
void futex_interrupt(bool restarts);
/* Free what this thread used to sleep, when it ends. */
void futex_thread_ended(void);

#endif
