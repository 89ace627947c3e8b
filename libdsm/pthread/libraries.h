/* SPDX-License-Identifier: BSD-2-Clause */
/* libraries.h - the program's own shared libraries, which are parts of the program as the
 * executable is (DSM_OWN_LIBRARIES). */
#ifndef PTHREAD_LIBRARIES_H
#define PTHREAD_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

struct library;

/* At the start, by the initialising thread of each rank: share the variables of the libraries, with
 * rank 0's values. 0, or a negative errno value after a message. */
int libraries_share(void);
/* The process joins no job of several ranks: its libraries are as ever. */
void libraries_leave(void);
/* True if the program's own libraries are parts of it. Any thread; never blocks. */
bool libraries_are_shared(void);
/* At rank 0, at the end of the program: run the libraries' destructors. */
void libraries_finish(void);

/* True if p is a shared variable of such a library, or memory that one has allocated before the
 * start. Any thread; never blocks. */
bool libraries_has(const void *p);
/* True if the caller is code of such a library. Any thread; never blocks. */
bool libraries_has_code(const void *caller);

/* After the start: share its variables, with rank 0's values. Collective: a thread of each rank.
 * Errors of dsm_region_adopt(). */
int libraries_adopt(char *low, char *high);
/* Add one whose variables are shared; map: NULL on ranks whose loader does not know it. A thread at
 * a time. -ENOSPC. */
int libraries_add(const struct library *l);

/* Before the start: the caller creates a thread, or opens a library, which each rank would have. */
void libraries_note_thread(const void *caller);
void libraries_note_open(const void *caller);
/* Before the start: memory for a constructor of such a library. NULL: the caller is another one. */
void *libraries_early(size_t align, size_t size, const void *caller);
/* True if libraries_early() has returned p. Before the start it can be freed; never later. */
bool libraries_is_early(const void *p);
void libraries_early_free(void *p);

#endif
