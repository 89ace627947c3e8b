/* SPDX-License-Identifier: BSD-2-Clause */
/* thread.h - threads of the program, and the sizes of their stacks. */
#ifndef PTHREAD_THREAD_H
#define PTHREAD_THREAD_H

#include "shim.h"

/* Create a thread of the program, on the rank that dsm_spawn() chooses. As pthread_create(), and
 * its errors: EAGAIN: no memory, or no room on a rank. EINVAL: attributes that do not work across
 * ranks, logged. Blocks for the rank's response. */
int make_thread(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* Set the default stack sizes of all ranks from rank 0's C library. Called at job start; on the
 * other ranks after rank 0. */
void stacks_start(void);

/* Run fn(arg) as main(), in the thread that becomes rank 0's first. Return its result; does not
 * return if main() calls pthread_exit(). */
void *run_as_main(void *(*fn)(void *), void *arg);
/* True if main() left by pthread_exit() or was cancelled, once its thread has ended. */
bool main_has_left(void);

#endif
