/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cached_lock.h - locks that this node caches because no other node has requested them. Called by
 * any thread inside the runtime; no call waits for another rank. ask: this rank's request for the
 * lock.
 */
#ifndef SYNC_CACHED_LOCK_H
#define SYNC_CACHED_LOCK_H

#include <stdint.h>

#include "core/lock.h"
#include "core/wire.h"
#include "job/job.h"

/* Take the lock. Returns its hold record; -1: it is not cached here. */
int64_t cached_lock_take(const struct msg *ask);
/* Queue behind a thread of this node. Returns that thread's hold record; -1: there is none. */
int64_t cached_lock_join(const struct msg *ask);
/* Note the record that has the lock, so that it is found when it is cached. */
void cached_lock_note(const struct msg *ask, uint32_t hold);
/* Give some cached locks back to their homes, because records are short. */
void cached_lock_give_some(void);

#endif
