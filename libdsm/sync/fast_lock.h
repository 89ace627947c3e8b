/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fast_lock.h - the fast path for mutexes that this node has and no thread waits for: one
 * compare-and-swap of the word of their hold record (core/lock.h) locks or unlocks them, outside
 * the runtime.
 *
 * Only for threads that have a lane (held.h): such a thread has used the slow path before, and is
 * not in a forked child. Nothing blocks. If a function returns false, the caller takes the slow
 * path, which finds the reason.
 */
#ifndef SYNC_FAST_LOCK_H
#define SYNC_FAST_LOCK_H

#include "core/lock.h"
#include "job/job.h"
#include "sync/cached_lock.h"
#include "sync/handle.h"
#include "sync/held.h"

/*
 * The lock's name in words; 0: id is no mutex, this thread has no lane, or the job is not running.
 */
static inline uint64_t fast_name(uint64_t id)
{
	if (handle_kind(id) != SYNC_MUTEX || !held.lane ||
	    __atomic_load_n(&job.state, __ATOMIC_RELAXED) != CTL_RUNNING)
		return 0;
	return id & ~HANDLE_KIND;
}

/* The record noted for a lock, + 1; 0: none. A hint: the record may have another lock. */
static inline uint32_t fast_at(uint64_t name)
{
	return __atomic_load_n(cached_lock_place(name), __ATOMIC_RELAXED);
}

/* Count a taken lock, and record this rank as its holder. */
static inline void fast_mine(uint32_t hold)
{
	if (job.me->hold_by[hold] != job.local)
		job.me->hold_by[hold] = job.local;
	__atomic_store_n(&held.lane->locks, held.lane->locks + 1, __ATOMIC_RELAXED);
}

/* Lock a mutex other than the last one, found by its name. */
static inline bool fast_lock_other(uint64_t id)
{
	const uint64_t name = fast_name(id);
	const uint32_t at = name ? fast_at(name) : 0;

	if (!at || (held.last_held && !held_room()) ||
	    !hold_fast_take(&job.me->holds[at - 1].word, name))
		return false;
	if (held.last_held) {
		held_put(id, at - 1);
	} else {
		held.last.id = id;
		held.last.info = at - 1;
		held.last_held = true;
	}
	fast_mine(at - 1);
	return true;
}

/* Lock the last mutex again. Makes no call, so that no register must be saved. */
static inline bool fast_lock_last(uint64_t id)
{
	if (!id || held.last.id != id || held.last_held) /* held.last.id 0: there is no last one */
		return false;
	/* Its record may have another lock by now: then the swap fails. */
	if (__atomic_load_n(&job.state, __ATOMIC_RELAXED) != CTL_RUNNING ||
	    !hold_fast_take(&job.me->holds[held.last.info].word, id & ~HANDLE_KIND))
		return false;
	held.last_held = true;
	fast_mine(held.last.info);
	return true;
}

/* Lock a mutex, and add it to the held locks. */
static inline bool fast_lock(uint64_t id)
{
	return fast_lock_last(id) || fast_lock_other(id);
}

/* Does a thread of this node hold it by the fast path, so that fast_lock() may succeed soon? */
static inline bool fast_busy(uint64_t id)
{
	const uint64_t name = fast_name(id);
	const uint32_t at = name ? fast_at(name) : 0;

	return at && hold_fast_taken(&job.me->holds[at - 1].word, name);
}

static inline bool fast_unlock_last(uint64_t id)
{
	if (!held.last_held || held.last.id != id ||
	    __atomic_load_n(&job.state, __ATOMIC_RELAXED) != CTL_RUNNING ||
	    !hold_fast_release(&job.me->holds[held.last.info].word, id & ~HANDLE_KIND))
		return false;
	held.last_held = false;
	return true;
}

/* Unlock a mutex that this thread holds, and remove it from the held locks. */
static inline bool fast_unlock(uint64_t id)
{
	const uint64_t name = fast_name(id);
	int at;

	if (fast_unlock_last(id))
		return true;
	at = held_find(id);
	if (!name || at < 0 || !hold_fast_release(&job.me->holds[held_info(at)].word, name))
		return false;
	held_remove(at);
	return true;
}

#endif
