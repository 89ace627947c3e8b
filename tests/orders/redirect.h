/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redirect.h - included before the first line of a scene: calls that the instrumentation does not
 * see. The system's headers come first, so that their declarations keep their names.
 */
#ifndef ORDERS_REDIRECT_H
#define ORDERS_REDIRECT_H

#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void *order_memcpy(void *to, const void *from, size_t bytes);
void *order_memset(void *at, int byte, size_t bytes);
/* FUTEX_WAIT without a time limit, FUTEX_WAKE, and membarrier(2). */
long order_syscall(long number, ...);
/* No time passes. */
int order_clock(clockid_t clock, struct timespec *t);

#define memcpy order_memcpy
#define memset order_memset
#define syscall order_syscall
#define clock_gettime order_clock
#define sched_yield() ((void)0)

#endif
