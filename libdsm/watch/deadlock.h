/* SPDX-License-Identifier: BSD-2-Clause */
/* deadlock.h - detection of a deadlock of all threads of all ranks: DSM_DEADLOCK. */
#ifndef WATCH_DEADLOCK_H
#define WATCH_DEADLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEADLOCK_STATUS 71 /* of a job that DSM_DEADLOCK=abort has ended */

/* Does this process check for a deadlock? Only rank 0 does. Constant while the job runs. */
bool deadlock_watches(void);
/* The time in ms that its service thread may sleep between two checks. */
int deadlock_ms(void);
/* Check for a deadlock; if a check of all ranks is due, start a thread that calls them. Called by
 * the service thread, or in a job of one rank by waiting threads. Does not block. */
void deadlock_check(uint64_t now);
/* Stop checking, and wait for a check in progress. Called before the ranks disconnect. */
void deadlock_stop(void);

/* Serve CALL_ASLEEP, in the rank's own process. -EBUSY: a thread of the program is not waiting.
 * Does not block. */
struct asleep;
int deadlock_serve(struct asleep *out);

#endif
