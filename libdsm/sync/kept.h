/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kept.h - locks that this node keeps because no other node has requested them. Called by any thread inside the runtime; no call
 * waits for another rank. ask: this rank's request for the lock.
 */
#ifndef SYNC_KEPT_H
#define SYNC_KEPT_H

#include <stdint.h>

#include "core/lock.h"
#include "core/wire.h"
#include "job/job.h"

/* Take the lock. Returns its hold record; -1: it is not kept here. */
int64_t kept_take(const struct msg *ask);
/* Queue behind a thread of this node. Returns that thread's hold record; -1: there is none. */
int64_t kept_join(const struct msg *ask);
/* Note the record that has the lock, so that it is found when it is kept. */
void kept_note(const struct msg *ask, uint32_t hold);
/* Give some kept locks back to their homes, because records are short. */
void kept_give_some(void);

#endif
