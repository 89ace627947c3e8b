/* SPDX-License-Identifier: GPL-2.0 */
/* step.h - steps of the core's state machines, for a message or for an event of a thread. Bottom halves are off. */
#ifndef KMOD_STEP_H
#define KMOD_STEP_H

#include "rank.h"

/* Can this be a block, as far as this rank knows? */
bool step_block_ok(const struct rank *r, u32 object);
/* 0, -EBADMSG, -ESTALE (core/dispatch.h), as the steps below. -EAGAIN: no memory in this context; see step_prepare(). */
int step_message(struct rank *r, const struct msg *m, struct actions *acts);
/* Allocate the memory that step_message() lacked. Sleeps, bottom halves are on. False: out of memory. */
bool step_prepare(struct rank *r, const struct msg *m);
/*
 * A thread requests a block that no rank has used yet, and this rank is its home. Do at once what messages to itself would do.
 * True: the caller opens the zeroed block as *open says, and calls step_first_used().
 */
bool step_is_first(struct rank *r, const struct msg *ask); /* can step_first() succeed? checks without a lock */
bool step_first(struct rank *r, const struct msg *ask, bool write, struct action *open);
void step_first_used(struct rank *r, const struct msg *ask, struct actions *acts);
/* A free record begins to wait for the lock of `ask`. Other threads, which found it for another lock, may still read it. */
void step_hold_begin(struct rank *r, u32 index, const struct msg *ask);
/* An event of this rank. about: only if the record has the lock of this message. */
int step_held(struct rank *r, u32 index, enum hold_event ev, const struct msg *about, struct actions *acts);
/* A thread of this rank leaves the queue of a record. False: it is not in it: it is requesting, or holds the lock. */
bool step_hold_leave(struct rank *r, u32 index, u16 slot);
int step_barrier(struct rank *r, const struct msg *m, const struct bar_group *group, struct bar_part *part, u32 *gen,
		 struct actions *acts);

#endif
