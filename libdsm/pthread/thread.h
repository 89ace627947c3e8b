/* SPDX-License-Identifier: BSD-2-Clause */
/* thread.h - threads of the program, and the sizes of their stacks. */
#ifndef PTHREAD_THREAD_H
#define PTHREAD_THREAD_H

#include "shim.h"

/* A thread of the program, on the rank that dsm_spawn() chooses. As pthread_create(), and its errors: EAGAIN: no memory, or
 * no room on a rank. EINVAL: attributes that do not work across ranks, which is logged. Blocks for the rank's answer. */
int make_thread(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* The stacks of threads, as rank 0's C library has them: each rank's follows. When the job starts; all ranks after rank 0. */
void stacks_start(void);

/* main(): fn(arg), by the thread that is then rank 0's first. Returns its result, or not at all where main() leaves by
 * pthread_exit(). */
void *run_as_main(void *(*fn)(void *), void *arg);
/* Has main() left by pthread_exit(), or was it cancelled? Once its thread has ended. */
bool main_has_left(void);

#endif
