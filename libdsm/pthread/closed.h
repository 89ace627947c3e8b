/* SPDX-License-Identifier: BSD-2-Clause */
/* closed.h - shared memory that the program has closed by mprotect(2), for all ranks. */
#ifndef PTHREAD_CLOSED_H
#define PTHREAD_CLOSED_H

#include <stdbool.h>
#include <stddef.h>

/* As mprotect(2), for shared memory. 0 or -errno; -ENOSYS, after a message: ranks cannot have such
 * memory. Any thread, on any stack; blocks for a call of each other rank, except to open what is
 * not closed. */
int closed_protect(void *addr, size_t length, int prot);

/* Is a page of the range closed, to all access or to stores? Any thread; never blocks. */
bool closed_has(const void *addr, size_t length);

#endif
