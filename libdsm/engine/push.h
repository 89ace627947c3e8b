/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * push.h - a node gives blocks that it has written back to their homes when it synchronises, if the homes have said so (core/push.h).
 *
 * Each rank has a list in node memory of what its threads were told to push. The last of its threads to arrive at a barrier pushes
 * all of it, in batches, and waits until the homes have asked for the contents. The node keeps copies to read.
 *
 * All of it is a hint: a block that is not pushed is fetched by the home when it is used. Inside the runtime, without a stripe.
 */
#ifndef ENGINE_PUSH_H
#define ENGINE_PUSH_H

#include "core/wire.h"
#include "engine/job.h"

/* This node was granted a block, and is told to push it. Does not block. */
void push_note(const struct msg *grant);

/* Is there anything to push for this rank? */
static inline bool push_due(void)
{
	const struct push_list *l = &job.mine->pushes;

	return __atomic_load_n(&l->noted, __ATOMIC_RELAXED) != __atomic_load_n(&l->taken, __ATOMIC_RELAXED);
}

/* Push it. Waits for the homes as long as they ask for one after the other; what they do not ask for meanwhile is forgotten. */
void push_all(void);

#endif
