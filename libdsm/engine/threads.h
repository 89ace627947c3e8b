/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - does any thread of the program's still live? Nothing blocks. */
#ifndef ENGINE_THREADS_H
#define ENGINE_THREADS_H

#include <stdbool.h>

/* Before and after the runtime starts threads: which are its own. By the thread in dsm_init(). */
void threads_before(void);
void threads_after(void);
/* By a thread that ends, and has been in the runtime. */
void threads_end(void);
/* The service thread: ends the process, by exit(0), with the last thread of the program's. True: look again. */
bool threads_look(void);

#endif
