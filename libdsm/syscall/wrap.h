/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wrap.h - libdsm-syscall.so: system calls on shared memory in jobs of several nodes without the
 * kernel helper.
 *
 * In such jobs the kernel does not wait for a block: a call fails with EFAULT if a block of its
 * buffer is not present. The library interposes the C library's functions. A wrapped function with
 * shared memory arguments runs on private copies (it bounces); read(2), write(2) and similar calls
 * pin large buffers of files. All other calls are passed to the C library after one check of each
 * pointer, which in a job of one node tests a flag.
 *
 * A call that may wait never holds a block: it bounces. So a thread that waits in recv(2) does not
 * stop other ranks.
 *
 * The work runs on the private stack (dsm_call()): memory that a C library function passes to the
 * kernel from its own stack is then private too. A wrapper passes no local variable to the kernel
 * from a shared stack.
 *
 * Apart from the requests of request.c, the only state is the addresses of the next definitions.
 * All functions that the C library allows in signal handlers may be called there; only the pins of
 * large buffers use malloc().
 */
#ifndef SYSCALL_WRAP_H
#define SYSCALL_WRAP_H

#include "interpose/next.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIECE (1ul << 20)     /* the most that one copy or pin of read(2) and its like takes */
#define PIN_FROM (64ul << 10) /* transfers of files pin from this size on: see docs/tuning.md */

/* True if p is in memory that may be absent for a system call. */
static inline bool is_away(const void *p)
{
	/* avoids a warning about reading memory that the function only writes */
	__asm__("" : "+r"(p));
	return p && dsm_needs_pin(p, 1);
}

/* A function with a list of arguments, and the one with the arguments themselves, which are called
 * `ap` and come after `format`. */
#define TWO_FORMS(name, vname, parameters, call) \
	EXPORT int vname(parameters, va_list ap) \
	{                                        \
		return call;                     \
	}                                        \
	EXPORT int name(parameters, ...)         \
	{                                        \
		va_list ap;                      \
		int n;                           \
		va_start(ap, format);            \
		n = call;                        \
		va_end(ap);                      \
		return n;                        \
	}
#define PARAMETERS(...) __VA_ARGS__

/* True if the stack is in such memory. */
#define STACK_IS_AWAY is_away(__builtin_frame_address(0))

#endif
