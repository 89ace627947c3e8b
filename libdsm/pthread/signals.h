/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h - signals of the program: reports of fatal signals, and the signal mask of the calling thread. None blocks. */
#ifndef PTHREAD_SIGNALS_H
#define PTHREAD_SIGNALS_H

#include "shim.h"

/* Start (on) or stop reporting fatal SIGSEGV and SIGBUS; do not stop if the program has its own handler. Called before dsm_init(),
 * and when it fails. */
void report_faults(bool on);
/* Start reporting the other fatal signals. Called after the job has started. */
void report_signals(void);

/* Block the signals that the program may handle, where a handler that calls sem_post() must not run. Signals of misses stay
 * unblocked. Return the previous mask. */
uint64_t block_signals(void);
/* Set the mask. */
void let_signals(uint64_t before);
/* Return the mask. */
uint64_t blocked_signals(void);

#endif
