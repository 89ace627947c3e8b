/* SPDX-License-Identifier: GPL-2.0 */
/* step.h - where the core finds the state machines of a rank. Bottom halves are off. */
#ifndef KMOD_STEP_H
#define KMOD_STEP_H

#include "rank.h"

/* Can this be a block, as far as this rank knows? */
bool step_block_ok(const struct rank *r, u32 object);
/*
 * find() of core/host.h. wire_check() has checked the numbers in a peer's message; messages of
 * ranks of this kernel are trusted. -EBADMSG: there is no such object. -EAGAIN: no memory in this
 * context; see step_prepare().
 */
int step_place(struct core_host *h, enum target target, u32 number, const struct msg *m,
	       struct core_place *p);
/*
 * Allocate the memory that step_place() lacked. Sleeps, bottom halves are on. False: out of memory.
 */
bool step_prepare(struct rank *r, const struct msg *m);
/*
 * A thread requests a block that no rank has used yet, and this rank is its home. Do at once what
 * messages to itself would do. True: the caller opens the zeroed block as *open says, and calls
 * step_first_used().
 */
/* can step_first() succeed? checks without a lock */
bool step_is_first(struct rank *r, const struct msg *ask);
bool step_first(struct rank *r, const struct msg *ask, bool write, struct action *open);
void step_first_used(struct rank *r, const struct msg *ask, struct actions *acts);

#endif
