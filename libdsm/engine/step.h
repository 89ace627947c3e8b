/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * step.h - steps of the core's machines in the control segment. All return 0, -EBADMSG or -ESTALE (core/dispatch.h), and leave the
 * actions to the caller (run.c); none blocks but for a stripe. Any thread inside the runtime, also in the fault handler.
 */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "core/dispatch.h"
#include "engine/job.h"

/* For page_step() by this node, now. */
struct page_ctx step_ctx(void);
/* Whatever m is for. payload: what came behind it. */
int step_message(const struct msg *m, const void *payload, size_t size, struct actions *acts);
/*
 * Blocks leave after their step, by the thread that stepped. Between the two nobody may drop their contents: counted under the
 * stripe, until they have been read. None may be on their way when PE_DROP is stepped, under the stripe as well:
 *
 *   service thread: FWD_READ of the home, DATA is queued     thread that detaches: no longer the owner, drops its copy
 *   reads the block, which is a hole: zeros
 */
void step_leaves(uint32_t object, const struct actions *acts);
void step_left(uint32_t object);
bool step_any_leaves(uint32_t object);
/* MSG_ARRIVE of this node's own, which names the group: *gen is the episode in which it was counted. Or a peer's message: group and gen
 * are NULL. */
int step_bar(const struct msg *m, const struct bar_group *group, uint32_t *gen, struct actions *acts);
/* The same where the core is hosted elsewhere, and this node's threads only gather here, in the barrier of the node's memory.
 * When all have come the list has an ACT_SEND, unless they are the whole group (alone): what is sent is their arrival. A MSG_DEPART
 * from job.nodes, which is no node, ends the episode. */
int step_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen, struct actions *acts);
/* Are all threads of this rank but the caller, which is about to arrive, in the barrier? threads: of each rank. */
bool step_bar_last(uint32_t object, uint32_t threads);
/* A free record begins to wait for the lock that `ask` asks for. Other threads may still read the record:
 * they found it while it belonged to another lock. */
void step_hold_begin(uint32_t index, const struct msg *ask);
/* An event of this node's own in one of its hold records; about: if it is of the lock that this message names. */
int step_held(uint32_t index, enum hold_event ev, const struct msg *about, struct actions *acts);
/* A thread of this node leaves the line behind a record. False: it is not there; it asks, or is called, or holds. */
bool step_hold_leave(uint32_t index, uint16_t slot);

#endif
