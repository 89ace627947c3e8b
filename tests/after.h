/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * after.h - for programs that any compiler of a program builds, dsm-cc or another: the time that
 * they wait until.
 */
#ifndef TESTS_AFTER_H
#define TESTS_AFTER_H

#include <time.h>

static inline struct timespec after_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

#endif
