/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reclaim.h - the bound of a node's memory (DSM_MEMORY), if this process hosts the core.
 *
 * Any thread, outside the runtime or in the service thread, that holds no stripe and no slot.
 */
#ifndef MISS_RECLAIM_H
#define MISS_RECLAIM_H

#include <stdbool.h>

#include "job/job.h"

/* Have so many blocks come that it is time to look? */
static inline bool reclaim_is_due(void)
{
	return job.set.memory &&
		__atomic_load_n(&job.me->reclaim.came, __ATOMIC_RELAXED) >=
		__atomic_load_n(&job.me->reclaim.due, __ATOMIC_RELAXED);
}

/*
 * Give up blocks if the node has too many. patient: wait up to a millisecond for homes that take
 * theirs.
 */
void reclaim_frames(bool patient);

/* Is no thread of the node giving up blocks? Later ones leave alone what no rank maps. */
bool reclaim_idle(void);

#endif
