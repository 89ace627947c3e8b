/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ends.h - actions of the runtime when a thread ends.
 *
 * A thread is registered during a miss, which may have interrupted malloc(). pthread_setspecific()
 * allocates, except for the first 32 keys of a process. So the runtime has one key for all actions,
 * created when the library is loaded, before the program's constructors can create keys.
 */
#ifndef UTIL_ENDS_H
#define UTIL_ENDS_H

#include <stdbool.h>

enum ends { ENDS_NET, ENDS_WORK, ENDS };

/* Call fn in each registered thread when it ends; fn cleans up for that thread. 0 or -EAGAIN: there
 * was no key. */
int ends_call(enum ends which, void (*fn)(void));
/* Register the calling thread. Any thread, at any time, also in the fault handler. */
void ends_note(void);
/* True if the library was loaded too late. Then ends_note() allocates. */
bool ends_allocate(void);

#endif
