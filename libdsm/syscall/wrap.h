/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wrap.h - libdsm-syscall.so: system calls on shared memory in jobs of several nodes without the kernel helper.
 *
 * There the kernel does not wait for a block: a call fails with EFAULT where a block of its buffer is not here. The library stands
 * in front of the C library. A function of its table that is given shared memory runs with private copies instead (it bounces);
 * read(2), write(2) and their like pin large buffers of files. Everything else goes on to the C library after one check of each
 * pointer, which in a job of one node is the test of a flag.
 *
 * A call that may wait never keeps a block: it bounces. So a thread that waits in recv(2) does not stop other ranks.
 *
 * The work runs on the private stack (dsm_call()): what a C library function passes to the kernel from its own stack is private
 * as well, and no local variable of a wrapper is given to the kernel where a thread has a shared stack.
 *
 * But for the requests of request.c, there is no state but the addresses of the next definitions. All functions that the C library allows in signal handlers may
 * be called there; only the pins of large buffers use malloc().
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

/* Is it in memory that a system call may not find? */
static inline bool is_away(const void *p)
{
	__asm__("" : "+r"(p)); /* else the compiler warns of a read of what the function only writes */
	return p && dsm_needs_pin(p, 1);
}

/* Is the stack? */
#define STACK_IS_AWAY is_away(__builtin_frame_address(0))

#endif
