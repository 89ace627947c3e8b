/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h - signals of the program: their actions, and reports of fatal ones. None blocks. */
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
/* Make the shared state, on rank 0: false, there is no memory. Then use it, on every rank. */
bool signals_make(void);
void signals_share(void);

#endif
