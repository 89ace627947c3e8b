/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h - signals of the program: reports of those that end it, and the mask of the calling thread. None blocks. */
#ifndef PTHREAD_SIGNALS_H
#define PTHREAD_SIGNALS_H

#include "shim.h"

/* Report SIGSEGV and SIGBUS, which end the process, from now on; off: no more, unless the program has a handler of its own.
 * Before dsm_init(), and where it fails. */
void report_faults(bool on);
/* Report the other signals that end the process. Once the job has started. */
void report_signals(void);

/* Block the signals whose handlers the program may have: where a handler must not come that calls sem_post(). Those of
 * misses stay. Returns the mask before. */
uint64_t block_signals(void);
/* Set the mask. */
void let_signals(uint64_t before);
/* The mask. */
uint64_t blocked_signals(void);

#endif
