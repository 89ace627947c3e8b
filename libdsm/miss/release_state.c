// SPDX-License-Identifier: BSD-2-Clause
/* release_state.c - see release_state.h. */
#include "miss/release_state.h"

/*
 * A block that another node has named before its region was known here is one: whoever serves that
 * request must not take it for sequential later on.
 */
bool release_is(size_t off)
{
	const struct region_homes *known = region_known(off);

	if (!known && __atomic_load_n(&job.mem.rels[off >> PAGE_SHIFT].early, __ATOMIC_SEQ_CST))
		return true;
	if (!known)
		known = region_known(off); /* release_enter() may have taken the mark since */
	return known && known->consistency == DSM_CONSISTENCY_RELEASE;
}

bool release_is_home(const struct region_homes *known, size_t off)
{
	const struct rel_ctx ctx = { .home = region_home_of(known, off) };

	return rel_home(&ctx, &job.mem.rels[off >> PAGE_SHIFT]) == job.node;
}

bool release_copy_is(const struct region_homes *known, size_t off, enum rel_state state)
{
	return __atomic_load_n(&job.mem.rels[off >> PAGE_SHIFT].state, __ATOMIC_ACQUIRE) == state &&
		!release_is_home(known, off);
}

bool release_is_fresh(const struct region_homes *known, size_t off)
{
	const struct rel_ctx ctx = { .me = job.node, .home = region_home_of(known, off) };

	return rel_fresh(&ctx, &job.mem.rels[off >> PAGE_SHIFT]);
}

bool release_comes(const struct region_homes *known, size_t off)
{
	return release_copy_is(known, off, REL_FETCH) || release_copy_is(known, off, REL_AGAIN) ||
		release_copy_is(known, off, REL_GOT) || release_copy_is(known, off, REL_RAISE);
}

void release_begin(void)
{
	if (!releases_used())
		__atomic_store_n(&job.me->releases, 1, __ATOMIC_SEQ_CST);
}
