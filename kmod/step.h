/* SPDX-License-Identifier: GPL-2.0 */
/* step.h - a step of the core's machines: of a message, of a thread's own event. Bottom halves are off. */
#ifndef KMOD_STEP_H
#define KMOD_STEP_H

#include "rank.h"

/* Is this a block, as far as this rank knows? */
bool step_block_ok(const struct rank *r, u32 object);
/* 0, -EBADMSG, -ESTALE (core/dispatch.h); step_message() also -EAGAIN: not in this context */
int step_message(struct rank *r, const struct msg *m, struct actions *acts);
bool step_prepare(struct rank *r,
		  const struct msg *m); /* sleeps: the memory that -EAGAIN was for; false: there is none */
/*
 * A thread here wants a block that nobody ever had, and this rank is its home: what messages to itself would do. True: the
 * zeroed block is to be opened as *open says, and used; step_first_used() goes on.
 */
bool step_is_first(struct rank *r, const struct msg *ask); /* may it be? looks without a lock */
bool step_first(struct rank *r, const struct msg *ask, bool write, struct action *open);
void step_first_used(struct rank *r, const struct msg *ask, struct actions *acts);
/* A free record begins to wait for the lock that `ask` asks for. Other threads may still read it: they found it under another lock. */
void step_hold_begin(struct rank *r, u32 index, const struct msg *ask);
/* An event of this rank's own; about: if the record is of the lock that this message names. */
int step_held(struct rank *r, u32 index, enum hold_event ev, const struct msg *about, struct actions *acts);
/* A thread of this rank leaves the line behind a record. False: it is not there; it asks, or holds. */
bool step_hold_leave(struct rank *r, u32 index, u16 slot);
int step_barrier(struct rank *r, const struct msg *m, const struct bar_group *group, struct bar_part *part, u32 *gen,
		 struct actions *acts);

#endif
