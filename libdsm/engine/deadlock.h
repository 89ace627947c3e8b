/* SPDX-License-Identifier: BSD-2-Clause */
/* deadlock.h - all threads of all ranks wait for each other: DSM_DEADLOCK. */
#ifndef ENGINE_DEADLOCK_H
#define ENGINE_DEADLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEADLOCK_STATUS 71 /* of a job that DSM_DEADLOCK=abort has ended */

/* Does this process check for one? Rank 0 does. Constant while the job runs. */
bool deadlock_watches(void);
/* How long its service thread may sleep between two checks. */
int deadlock_ms(void);
/* By the service thread, or in a job of one rank by who waits: check, and start a thread that asks all ranks, if it is time. Does not
 * block. */
void deadlock_check(uint64_t now);
/* No check from here on; waits for one that is under way. Before the ranks part. */
void deadlock_stop(void);

/* CALL_ASLEEP, in the rank's own process. -EBUSY: a thread of the program is not waiting. Does not block. */
struct asleep;
int deadlock_serve(struct asleep *out);

#endif
