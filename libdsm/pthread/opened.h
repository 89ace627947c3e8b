/* SPDX-License-Identifier: BSD-2-Clause */
/* opened.h - libraries that the program opens (dlopen()). */
#ifndef PTHREAD_OPENED_H
#define PTHREAD_OPENED_H

#include <stdbool.h>

/* Libraries that this thread opens, one in another: it may be in their constructors. */
extern __thread unsigned int opened_depth
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* True if the caller is a constructor of such a library that ranks can share. opened_depth > 0;
 * never blocks. */
bool opened_has_code(const void *caller);

/* This thread is about to create a thread: share what it opens before. Blocks for calls of each
 * rank. */
void opened_settle(void);

/* This thread is about to initialise an object that shared memory has in another form: if it is a
 * variable of what it opens, share that before. Blocks for calls of each rank. */
void opened_settle_for(const void *object);

#endif
