/* SPDX-License-Identifier: BSD-2-Clause */
/* pending.h - signals to the process. */
#ifndef PTHREAD_PENDING_H
#define PTHREAD_PENDING_H

#include "shim.h"

#include <signal.h>

/* Start this rank's thread for signals to the process. Called once, when actions are shared. 0 or -errno. */
int pending_start(void);
/* A signal that another rank has passed on gets the si_code that it was sent with. Any signal; async-signal-safe. */
void pending_restore(siginfo_t *info);
/* This thread has unblocked signals: fetch those of the process that it may take. Any rank, in no handler. */
void pending_unblocked(void);

#endif
