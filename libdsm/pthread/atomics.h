/* SPDX-License-Identifier: BSD-2-Clause */
/* atomics.h - atomic operations of programs, which dsm-cc has compiled to calls of functions. */
#ifndef PTHREAD_ATOMICS_H
#define PTHREAD_ATOMICS_H

#include "shim.h"

#include <signal.h>

/* Make the locks of the operations. Collective, before the job is active. 0, -ENOMEM, errors of
 * dsm_broadcast(). */
int atomics_start(void);
/* True if the signal has interrupted an operation of this thread that takes a lock: it is sent
 * again, blocked, and let in at the end of the operation. Called in its handler. */
bool atomics_keep_signal(int sig, siginfo_t *info, void *context);

#endif
