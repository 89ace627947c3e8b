/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - the threads of the program: does any still live, do all of them sleep? Nothing blocks. */
#ifndef ENGINE_THREADS_H
#define ENGINE_THREADS_H

#include <stdbool.h>

/* Before and after the runtime starts threads: which are its own. By the thread in dsm_init(). */
void threads_before(void);
void threads_after(void);
/* One more thread of the runtime, which has just begun; 0: it ends. One at a time. */
void threads_note(int tid);
/* How many threads the program has here, if all of them sleep and waits() is true for each; else -1. */
int threads_asleep(bool (*waits)(int tid));
/* Has the program a handler of signals that come from elsewhere? (Not of faults of its own.) */
bool threads_handle_signals(void);
/* Handlers that are not the program's. */
void threads_expect(bool (*is_expected)(int sig));
/* By a thread that ends, and has been in the runtime. */
void threads_end(void);
/* The service thread: ends the process, by exit(0), with the last thread of the program's. True: check again. */
bool threads_check(void);

#endif
