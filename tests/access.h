/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * access.h - does an access to memory fail? The program handles SIGSEGV (or SIGBUS) by
 * access_trap().
 */
#ifndef TESTS_ACCESS_H
#define TESTS_ACCESS_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

static sigjmp_buf access_back;
static volatile sig_atomic_t access_armed;

static inline void access_trap(int sig)
{
	(void)sig;
	if (!access_armed)
		abort();
	siglongjmp(access_back, 1);
}

static inline bool access_fails(volatile char *p, bool write)
{
	bool failed;

	access_armed = 1;
	failed = sigsetjmp(access_back, 1);
	if (!failed && write)
		*p = 1;
	else if (!failed)
		(void)*p;
	access_armed = 0;
	return failed;
}

#endif
