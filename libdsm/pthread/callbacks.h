/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * callbacks.h - functions of the program that the C library calls. One that ends in a jump to
 * another function of the C library seems to be called by that library: while this thread runs such
 * functions, what the C library calls is called by the program.
 */
#ifndef PTHREAD_CALLBACKS_H
#define PTHREAD_CALLBACKS_H

/* Calls of this thread, one in another, that may run functions of the program. */
extern __thread unsigned int callbacks_depth
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* This thread is about to run handlers of exit(), and does not come back. */
void callbacks_begin_last(void);
/* They have run, or the process ends without them: what follows is the runtime's. */
void callbacks_end_last(void);

#endif
