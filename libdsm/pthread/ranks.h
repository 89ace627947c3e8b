/* SPDX-License-Identifier: BSD-2-Clause */
/* ranks.h - functions that pass their arguments to the kernel, in the process of another rank: everywhere.h with private copies. */
#ifndef PTHREAD_RANKS_H
#define PTHREAD_RANKS_H

#include <stddef.h>

#define RANKS_ARG 1536u /* bytes of an argument */

/* Call fn on a rank with a private copy of the size bytes at arg, which are returned as fn leaves them. Any thread, also in a handler
 * of the program. Blocks until fn has returned, and is no cancellation point. Returns what fn returns, or -errno: no thread or no
 * memory. */
int ranks_run(int rank, int (*fn)(void *arg), void *arg, size_t size);
/* The same for all ranks but this one; what fn leaves in its copies is lost. Returns the first error. */
int ranks_run_others(int (*fn)(void *arg), const void *arg, size_t size);

#endif
