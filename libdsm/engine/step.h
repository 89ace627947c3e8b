/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * step.h - steps of the core's machines in the control segment. Functions with a result of type int return 0, -EBADMSG or -ESTALE
 * (core/dispatch.h). The caller carries the actions out (run.c). Nothing blocks except on a stripe. Any thread inside the
 * runtime may call these functions, also in the fault handler.
 */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "core/dispatch.h"
#include "engine/job.h"

/* The context of a page_step() by this node, with the current time. */
struct page_ctx step_ctx(void);
/* Step the machine that m addresses. payload: the bytes that followed m. */
int step_message(const struct msg *m, const void *payload, size_t size, struct actions *acts);
/*
 * The thread that stepped a block sends it after the step. Nobody may drop the contents in between. So step_leaves() counts the
 * blocks to send, under the stripe, and step_left() is called when one has been read. PE_DROP is stepped under the stripe, and
 * only while step_any_leaves() is false:
 *
 *   service thread: FWD_READ of the home, DATA is queued     thread that detaches: no longer the owner, drops its copy
 *   reads the block, which is a hole: zeros
 */
void step_leaves(uint32_t object, const struct actions *acts);
void step_left(uint32_t object);
bool step_any_leaves(uint32_t object);
/* Step a barrier with a local MSG_ARRIVE, which names the group; *gen returns the episode in which it was counted. For a peer's
 * message, group and gen are NULL. */
int step_bar(const struct msg *m, const struct bar_group *group, uint32_t *gen, struct actions *acts);
/* The same if the kernel helper hosts the core: this node's threads only gather here, in the barrier in node memory. When all
 * have arrived, the list has an ACT_SEND of their arrival, unless they are the whole group (alone). A MSG_DEPART from job.nodes,
 * which is not a node, ends the episode. */
int step_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen, struct actions *acts);
/* Have all threads of this rank except the caller arrived at the barrier? threads: threads per rank. */
bool step_bar_last(uint32_t object, uint32_t threads);
/* Initialize a free record for the lock request `ask`. Other threads may still read the record: they found it while it belonged
 * to another lock. */
void step_hold_begin(uint32_t index, const struct msg *ask);
/* Step a hold record for a local event. about: as for hold_thread(). */
int step_held(uint32_t index, enum hold_event ev, const struct msg *about, struct actions *acts);
/* Remove a thread of this node from a record's queue. False: not queued; it requests the lock, is called, or holds it. */
bool step_hold_leave(uint32_t index, uint16_t slot);

#endif
