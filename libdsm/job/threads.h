/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads.h - tracks the threads of the program: whether any is alive, and whether all of them
 * sleep. Nothing blocks.
 */
#ifndef JOB_THREADS_H
#define JOB_THREADS_H

#include <stdbool.h>

/*
 * Called before and after the runtime starts threads, to identify its own. For the thread in
 * dsm_init().
 */
void threads_before(void);
void threads_after(void);
/* Add a thread of the runtime that has just started; 0: it ends. One such thread at a time. */
void threads_note(int tid);
/*
 * The number of threads of the program in this process, if all of them sleep and waits() is true
 * for each; otherwise -1.
 */
int threads_asleep(bool (*waits)(int tid));
/* Does the program have a handler for signals from outside, other than for its own faults? */
bool threads_handle_signals(void);
/* Set a function that recognizes handlers that are not the program's. */
void threads_expect(bool (*is_expected)(int sig));
/* Called by a thread that ends and has been in the runtime. */
void threads_end(void);
/*
 * End the process by exit(0) when the last thread of the program has ended. For the service thread.
 * True: check again.
 */
bool threads_check(void);

#endif
