/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h - the monotonic clock of this host, CLOCK_MONOTONIC. Any thread, also in handlers of
 * signals; never blocks.
 */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ms(void)
{
	return clock_ns() / 1000000u;
}

#endif
