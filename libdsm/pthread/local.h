/* SPDX-License-Identifier: BSD-2-Clause */
/* local.h - functions of the C library whose state each rank has for itself. */
#ifndef PTHREAD_LOCAL_H
#define PTHREAD_LOCAL_H

/* Report, once in the job, that the program makes this system call, if what it changes is of one
 * rank. arg: six words. Any thread; keeps errno. Blocks for shared memory at most. */
void local_note_number(long n, const long *arg, const void *caller);

#endif
