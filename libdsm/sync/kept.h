/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kept.h - locks that this node keeps, as nobody else has asked for them. Any thread inside the runtime; nothing waits for
 * another rank. ask: a request for the lock, of this rank.
 */
#ifndef SYNC_KEPT_H
#define SYNC_KEPT_H

#include <stdint.h>

#include "core/lock.h"
#include "core/wire.h"
#include "engine/job.h"

/* Where the record of a lock is noted: its number + 1. name: hold_name(). */
static inline uint32_t *kept_place(uint64_t name)
{
	return &job.me->kept_at[name * 0x9e3779b97f4a7c15u >> 32 & (CTL_KEPT_PLACES - 1)];
}

/* The lock is this thread's now: its hold record; -1: it is not kept here. */
int64_t kept_take(const struct msg *ask);
/* In line behind a thread of this node: that thread's hold record; -1: nobody is there. */
int64_t kept_join(const struct msg *ask);
/* It is held in this record, and will be found there when it is kept. */
void kept_note(const struct msg *ask, uint32_t hold);
/* Records run short: give some back. */
void kept_give_some(void);

#endif
