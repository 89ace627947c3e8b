/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keep.h - the mutexes that this node keeps although another node wants them, during its quantum
 * (core/quantum.h): MSG_NEXT is delivered later, as if its channel had delayed it.
 *
 * A message is delivered after 2 ms, after 128 releases of the lock here, or when the quantum ends
 * or pauses, whichever is first. Because of the 128 releases one contended lock alternates, and
 * threads that poll data under a lock see changes. A request with a short limit of time
 * (MSGF_TIMED) is not delayed; a thread in line behind another one of its node does not set that
 * flag. All messages are delivered when a thread here has waited for a lock for 300 us: it may be
 * the holder of those locks that waits for one of these.
 *
 * Any thread inside the runtime, without a stripe. Nothing waits for another rank, or is sent:
 * run.h has the functions that deliver.
 */
#ifndef MISS_KEEP_H
#define MISS_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/host.h"

/* A MSG_NEXT has come. True: it is kept, and will be delivered later. */
bool keep_next(struct core_host *h, const struct msg *next);
/* Is a message kept? */
bool keep_any(void);
/* Take a message that is due, or with `all` any: the caller steps it. False: there is none; *left
 * is the time until one is due, in ns, or 0 if none is kept. */
bool keep_take(bool all, struct msg *m, uint64_t *left);
/* A thread of the node has released this record's lock by HE_UNLOCK. True: the caller steps *m. */
bool keep_released(uint32_t hold, struct msg *m);

/* A thread of the node waits for a lock of another one. */
void keep_waited(void);
/* op of a MSG_LOCK that the node sends now. */
uint8_t keep_claim(void);

/* A thread of the node begins, and ends, to wait for other threads. Its wait calls run_kept(). */
void keep_pause(void);
void keep_resume(void);

#endif
