/* SPDX-License-Identifier: BSD-2-Clause */
/* pending.h - signals to the process. */
#ifndef PTHREAD_PENDING_H
#define PTHREAD_PENDING_H

#include "shim.h"

#include <signal.h>

/* Start this rank's thread for signals to the process. Called once, when actions are shared. 0 or
 * -errno. */
int pending_start(void);
/* A signal that another rank has passed on gets the si_code that it was sent with. Any signal;
 * async-signal-safe. */
void pending_restore(siginfo_t *info);
/* A call of this thread lets in these signals while it waits: those of the process may come to it,
 * one that is pending at once. Returns what pending_await_ends() gets. Any rank; blocks for round
 * trips. */
uint64_t pending_await(uint64_t signals);
void pending_await_ends(uint64_t outer);
/* What a thread of this process blocks; all, if it is gone. Opens a file. */
uint64_t pending_mask_of(int tid);
/* This thread has unblocked signals: fetch those of the process that it may take. Any rank, in no
 * handler. */
void pending_unblocked(void);

#endif
