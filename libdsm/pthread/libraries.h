/* SPDX-License-Identifier: BSD-2-Clause */
/* libraries.h - the program's own shared libraries, which are parts of the program as the
 * executable is (DSM_OWN_LIBRARIES). */
#ifndef PTHREAD_LIBRARIES_H
#define PTHREAD_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/* At the start, by the initialising thread of each rank: share the variables of the libraries, with
 * rank 0's values. 0, or a negative errno value after a message. */
int libraries_share(void);
/* The process joins no job of several ranks: its libraries are as ever. */
void libraries_leave(void);
/* At rank 0, at the end of the program: run the libraries' destructors. */
void libraries_finish(void);

/* True if p is a shared variable of such a library, or memory that one has allocated before the
 * start. Any thread; never blocks. */
bool libraries_has(const void *p);
/* True if the caller is code of such a library. Any thread; never blocks. */
bool libraries_has_code(const void *caller);

/* Before the start: the caller creates a thread, which each rank would have. */
void libraries_note_thread(const void *caller);
/* Before the start: memory for a constructor of such a library. NULL: the caller is another one. */
void *libraries_early(size_t align, size_t size, const void *caller);
/* True if libraries_early() has returned p. It is never freed. */
bool libraries_is_early(const void *p);

#endif
