/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * callbacks.h - functions of the program that libraries call. One that ends in a jump to a function
 * of the C library seems to be called by the library that has called it.
 *
 * So while this thread runs what the C library calls, the C library's calls are the program's; and
 * what returns to call_program() is the program's, which calls for this library.
 */
#ifndef PTHREAD_CALLBACKS_H
#define PTHREAD_CALLBACKS_H

/* ---- called by the C library ----------------------------------------------------------------- */

/* Calls of this thread, one in another, that may run functions of the program. */
extern __thread unsigned int callbacks_depth
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* This thread is about to run handlers of exit(), and does not come back. */
void callbacks_begin_last(void);
/* They have run, or the process ends without them: what follows is the runtime's. */
void callbacks_end_last(void);

/* ---- called by this library ------------------------------------------------------------------ */

/* Call fn, of up to three words, and return what it returns. Any thread, also in a handler. Blocks
 * as fn does; fn may be left by unwinding or siglongjmp(). */
long call_program(void *fn, long a, long b, long c);

/* Where its code is. */
extern const char calls_begin[] __asm__("__start_calls_program")
	__attribute__((visibility("hidden")));
extern const char calls_end[] __asm__("__stop_calls_program") __attribute__((visibility("hidden")));

#endif
