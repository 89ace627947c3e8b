/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * release_state.h - what this node knows of a release block (release.h): whether it is one, who is
 * its home, and whether a copy is here. Any thread inside the runtime. Nothing here waits.
 */
#ifndef MISS_RELEASE_STATE_H
#define MISS_RELEASE_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/release.h"
#include "job/job.h"

/* Has this node, or had it, a release block? */
static inline bool releases_used(void)
{
	return __builtin_expect(__atomic_load_n(&job.me->releases, __ATOMIC_RELAXED), 0);
}

/* Is the block at this offset a release block, of a region that this node knows? */
bool release_is(size_t off);
/* Is this node the home of this release block, as far as it knows? Without a lock. */
bool release_is_home(const struct region_homes *known, size_t off);
/* Is it not, and its copy in this state? */
bool release_copy_is(const struct region_homes *known, size_t off, enum rel_state state);
/* Is it not, and its copy of a block that the home had never touched? */
bool release_is_fresh(const struct region_homes *known, size_t off);
/* Is it not, and a copy under way? */
bool release_comes(const struct region_homes *known, size_t off);
/* Before a thread of this rank uses release blocks. */
void release_begin(void);

#endif
