/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * push.h - gives written blocks back to their homes when a node synchronises, if the homes
 * requested it (core/push.h).
 *
 * Each rank has a list in node memory of the blocks that its threads were told to push. The last of
 * its threads to arrive at a barrier pushes all of them, in batches, and waits until the homes have
 * requested the contents. The node keeps read copies.
 *
 * Pushing is only a hint: the home fetches a block that was not pushed when it uses it. Inside the
 * runtime, without a stripe.
 */
#ifndef MISS_PUSH_H
#define MISS_PUSH_H

#include "core/wire.h"
#include "job/job.h"

/* Record a grant that tells this node to push the block. Does not block. */
void push_note(const struct msg *grant);

/* Is there anything to push for this rank? */
static inline bool push_due(void)
{
	const struct push_list *l = &job.mine->pushes;

	return __atomic_load_n(&l->noted, __ATOMIC_RELAXED) !=
		__atomic_load_n(&l->taken, __ATOMIC_RELAXED);
}

/*
 * Push all listed blocks. Waits while the homes keep requesting them. Drops blocks that they do not
 * request from the list.
 */
void push_all(void);

#endif
