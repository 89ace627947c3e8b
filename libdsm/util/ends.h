/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ends.h - what the runtime does when a thread ends.
 *
 * A thread is noted on its way through a miss, which may have interrupted malloc(). pthread_setspecific() allocates, except for
 * the first 32 keys of a process. So the runtime has one key for all, made when the library is loaded: before the program's
 * constructors can make any.
 */
#ifndef UTIL_ENDS_H
#define UTIL_ENDS_H

#include <stdbool.h>

enum ends { ENDS_NET, ENDS_WORK, ENDS };

/* From now on fn is called by each thread that is noted and ends; what it undoes is its thread's. 0 or -EAGAIN: there was no
 * key. */
int ends_call(enum ends which, void (*fn)(void));
/* This thread. Any thread, at any time; in the fault handler, too. */
void ends_note(void);
/* Was the library loaded too late? Then ends_note() allocates. */
bool ends_allocate(void);

#endif
