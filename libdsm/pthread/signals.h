/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h - signals of the program: their actions, and reports of fatal ones. None blocks. */
#ifndef PTHREAD_SIGNALS_H
#define PTHREAD_SIGNALS_H

#include "shim.h"

#include <signal.h>

/* Of all ranks, in a block of its own. Sets of signals as the kernel has them. */
struct signals {
	pthread_mutex_t lock;  /* one change of an action at a time */
	uint64_t armed;        /* atomic; handlers with SA_RESETHAND that were not called yet */
	uint64_t interrupting; /* atomic; siginterrupt() */
	/* atomic; of those that a launcher ends ranks with: what the program has ever blocked */
	uint64_t held;
	/* atomic; sent to the process, and blocked by all threads that were asked (pending.c) */
	uint64_t pending;
};
extern struct signals *together;

/* True if the launcher has sent the signal to this rank and to all others, of which rank 0 takes
 * it. */
bool is_launchers(const siginfo_t *info);
/* True if the signal has its default action. */
bool has_default(int sig);

/* Catch SIGSEGV and SIGBUS for the program's actions, and report them where they are fatal. Called
 * before dsm_init(), whose handler passes on what is no miss. */
void faults_catch(void);
/* From now on, leave that handler in place when the program changes these actions. Called after
 * dsm_init(). */
void faults_chain(void);
/* Start reporting the other fatal signals. Called after the job has started. */
void report_signals(void);
/* Make the shared state, on rank 0: false, there is no memory. Then use it, on every rank. */
bool signals_make(void);
void signals_share(void);

/* sending.c: signals that end the program. */

/*
 * Would this signal, to a thread that blocks these, end its process without a report? Any thread;
 * never blocks.
 */
bool signal_ends_unreported(int sig, uint64_t blocked);
/* kill(2) of the program, as itself. Any rank; blocks for a round trip. 0 or an errno value. */
int signal_end_program(int sig);

#endif
