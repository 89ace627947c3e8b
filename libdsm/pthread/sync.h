/* SPDX-License-Identifier: BSD-2-Clause */
/* sync.h - timeouts and interruption of synchronisation calls. None blocks. */
#ifndef PTHREAD_SYNC_H
#define PTHREAD_SYNC_H

#include "shim.h"

#define MOST 1000000000l /* seconds: their nanoseconds, added to any clock's, are a number */

/* Return the time until `until` by that clock, in ns; 0: it is past; at most that of MOST and one
 * second. Needs is_time(until). */
uint64_t time_left(clockid_t clock, const struct timespec *until);
/* Convert a duration to ns; the same limit. Needs is_time(t). */
uint64_t time_of(const struct timespec *t);

/* True if tv_nsec is valid. */
static inline bool is_time(const struct timespec *t)
{
	return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* End the wait for a semaphore, if any, that a signal handler of the program interrupted in this
 * thread, with EINTR. restarts: the handler has SA_RESTART, so end only a wait with a timeout, as
 * the kernel does. Async-signal-safe. */
void sem_interrupt(bool restarts);

/* Return the clock of a condition; in zeroed memory, CLOCK_REALTIME. */
static inline clockid_t clock_of(int monotonic)
{
	return monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

#endif
