/* SPDX-License-Identifier: BSD-2-Clause */
/* sync.h - limits of time, as the synchronisation calls have them. None blocks. */
#ifndef PTHREAD_SYNC_H
#define PTHREAD_SYNC_H

#include "shim.h"

#define MOST 1000000000l /* seconds: their nanoseconds, added to any clock's, are a number */

/* Until then by that clock, in ns; 0: it is past; those of MOST and one second at most. is_time(until). */
uint64_t time_left(clockid_t clock, const struct timespec *until);
/* A length of time in ns; the same limit. is_time(t). */
uint64_t time_of(const struct timespec *t);

/* Are its nanoseconds less than a second? */
static inline bool is_time(const struct timespec *t)
{
	return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* Of a condition; in zeroed memory, it is CLOCK_REALTIME. */
static inline clockid_t clock_of(int monotonic)
{
	return monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

#endif
