/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h - signals of the program: reports of fatal signals, and the signal mask of the calling thread. None blocks. */
#ifndef PTHREAD_SIGNALS_H
#define PTHREAD_SIGNALS_H

#include "shim.h"

/* Catch SIGSEGV and SIGBUS for the program's actions, and report them where they are fatal. Called before dsm_init(), whose handler
 * passes on what is no miss. */
void faults_catch(void);
/* From now on, leave that handler in place when the program changes these actions. Called after dsm_init(). */
void faults_chain(void);
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
