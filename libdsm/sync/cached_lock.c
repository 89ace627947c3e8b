// SPDX-License-Identifier: BSD-2-Clause
/*
 * cached_lock.c - a lock that no other node asks for is cached: it stays with its last holder's
 * node, in its hold record (core/lock.h).
 *
 * A table indexed by hash tells which record a lock is in; reading it takes no lock. The entry is a
 * hint: the record is checked under its stripe, and may have another lock by then. A lock whose
 * entry was overwritten is still cached. Its home finds it, and passes it between records of one
 * node as between nodes.
 */
#include "sync/cached_lock.h"

#include "job/job.h"
#include "miss/run.h"

#define SCAN 16 /* records to check at once */

static uint32_t *place_of_request(const struct msg *ask)
{
	return cached_lock_place(hold_name(ask->dst, ask->object, ask->req_node));
}

int64_t cached_lock_take(const struct msg *ask)
{
	uint32_t at = __atomic_load_n(place_of_request(ask), __ATOMIC_RELAXED);

	if (!at || run_held(at - 1, HE_TAKE, ask))
		return -1;
	job.me->hold_by[at - 1] = job.local;
	return at - 1;
}

int64_t cached_lock_join(const struct msg *ask)
{
	uint32_t at = __atomic_load_n(place_of_request(ask), __ATOMIC_RELAXED);

	return at && !run_held(at - 1, HE_JOIN, ask) ? (int64_t)at - 1 : -1;
}

void cached_lock_note(const struct msg *ask, uint32_t hold)
{
	__atomic_store_n(place_of_request(ask), hold + 1, __ATOMIC_RELAXED);
}

void cached_lock_give_some(void)
{
	uint32_t end = __atomic_load_n(&job.me->hold_pool.fresh, __ATOMIC_RELAXED), i;

	for (i = 0; i < SCAN; i++) {
		uint32_t at = __atomic_fetch_add(&job.me->cached_hand, 1, __ATOMIC_RELAXED) % end;

		run_held(at, HE_GIVE, NULL); /* if it is cached */
	}
}
