/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.h - calls of functions of the program. Such a function may end in a jump to one of the C
 * library, whose caller then seems to be here: what returns to call_program() is the program's.
 */
#ifndef PTHREAD_CALLS_H
#define PTHREAD_CALLS_H

/* Call fn, of up to three words, and return what it returns. Any thread, also in a handler. Blocks
 * as fn does; fn may be left by unwinding or siglongjmp(). */
long call_program(void *fn, long a, long b, long c);

/* Where its code is. */
extern const char calls_begin[] __asm__("__start_calls_program")
	__attribute__((visibility("hidden")));
extern const char calls_end[] __asm__("__stop_calls_program") __attribute__((visibility("hidden")));

#endif
