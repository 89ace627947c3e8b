/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * step.h - the state machines of this node, in the control segment. Callbacks of core/host.h that
 * find them and their stripes, and those that are called under a stripe: run.c has the others, and
 * the table. Nothing blocks except on a stripe. Any thread inside the runtime may call these
 * functions, also in the fault handler.
 */
#ifndef MISS_STEP_H
#define MISS_STEP_H

#include "core/host.h"
#include "job/job.h"

int step_find(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
	      struct core_place *p);
void step_lock(struct core_host *h, uint32_t key);
void step_unlock(struct core_host *h, uint32_t key);
uint32_t step_now(struct core_host *h);
void step_land(struct core_host *h, const struct msg *m, const void *data);
bool step_again(struct core_host *h, uint32_t object, uint8_t prot);
uint32_t step_answers(struct core_host *h, uint16_t slot);
void step_freed(struct core_host *h, uint32_t index, struct hold *hold);
/*
 * The thread that stepped a block sends it after the step. Nobody may drop the contents in between.
 * So step_leaves() counts the blocks to send, under the stripe, and step_left() is called when one
 * has been read. PE_DROP is stepped under the stripe, and only while step_any_leaves() is false:
 *
 *   service thread: FWD_READ of the home, DATA is queued     thread that detaches: no longer the
 *                                                            owner, drops its copy
 *   reads the block, which is a hole: zeros
 */
void step_leaves(struct core_host *h, uint32_t object);
void step_left(uint32_t object);
bool step_any_leaves(uint32_t object);
/*
 * If the kernel helper hosts the core: step a barrier with a local MSG_ARRIVE, which names the
 * group; *gen returns the episode in which it was counted. This node's threads only gather here, in
 * the barrier in node memory. When all have arrived, the list has an ACT_SEND of their arrival,
 * unless they are the whole group (alone). A MSG_DEPART from job.nodes, which is not a node, ends
 * the episode.
 */
int step_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen,
		struct actions *acts);
/*
 * Have all threads of this rank except the caller arrived at the barrier? threads: threads per
 * rank.
 */
bool step_bar_last(uint32_t object, uint32_t threads);

#endif
