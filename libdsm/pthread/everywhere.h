/* SPDX-License-Identifier: BSD-2-Clause */
/* everywhere.h - what must be done in the process of each rank. */
#ifndef PTHREAD_EVERYWHERE_H
#define PTHREAD_EVERYWHERE_H

#include "shim.h"

/*
 * Call fn(arg) in a thread of each other rank, one rank after the other, and return the first error
 * that is not 0: of starting the thread (a negative errno value), or what fn returned, an int as a
 * pointer. arg is in shared memory. On the private stack (dsm_call()), with cancellation disabled.
 * Blocks for two round trips for each rank.
 */
int everywhere_run(void *(*fn)(void *), void *arg);

/* The same for one rank; r: any but this one. */
int everywhere_one(int r, void *(*fn)(void *), void *arg);

/* The first function, or with r >= 0 the second, on any stack, with a shared copy of the size bytes
 * at arg, which are written back. -ENOMEM. */
int everywhere_call(int r, void *(*fn)(void *), void *arg, size_t size);
#define EVERYWHERE (-1)

/* fn(arg) by a thread of that rank, or here if it is this one, on any stack; arg is in shared
 * memory. What fn returned, or of starting the thread a negative errno value. */
int everywhere_visit(int r, void *(*fn)(void *), void *arg);

/* ---- functions that pass their arguments to the kernel, which must not be shared memory ------ */

#define RANKS_ARG 1536u /* bytes of an argument */

/* Call fn on a rank with a private copy of the size bytes at arg, which are returned as fn leaves
 * them. Any thread, also in a handler of the program. Blocks until fn has returned, and is no
 * cancellation point. Returns what fn returns, or -errno: no thread or no memory. */
int ranks_run(int rank, int (*fn)(void *arg), void *arg, size_t size);
/* The same for all ranks but this one; what fn leaves in its copies is lost. Returns the first
 * error. */
int ranks_run_others(int (*fn)(void *arg), const void *arg, size_t size);

#endif
