/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.h - the locks that this thread holds, by handle, and its lane: counters of its own. Nothing
 * blocks.
 *
 * info is the hold record, or whether an rwlock is held for reading. The inline functions are on
 * the path of an uncontended lock, where each instruction counts. So the mutex that the thread has
 * taken last is kept apart, and needs no look-up.
 */
#ifndef SYNC_HELD_H
#define SYNC_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELD_FEW 64u

struct held_entry {
	uint64_t id; /* 0: free */
	uint32_t info;
	uint32_t pad;
};

struct lane;

/* A per-thread hash table with open addressing, at most half full; the last mutex is apart. */
struct held {
	/* taken by sync/fast_lock.h; after the unlock, its info is still a hint */
	struct held_entry last;
	bool last_held;
	uint32_t n, size; /* size 0: no lock was held yet */
	struct held_entry *v;
	struct lane *lane; /* NULL: none */
	struct held_entry few[HELD_FEW];
};
extern __thread struct held held __attribute__((tls_model("initial-exec")));

/* Called by dsm_init(). -EAGAIN: no thread key is left. */
int held_start(void);
/* Add a lock. -EAGAIN: no memory; not possible if held_remove() was the last change. */
int held_add(uint64_t id, uint32_t info);
/* After a removal: move entries behind the gap into it where the look-up requires that. */
void held_close_gap(uint32_t index);

/*
 * Count a mutex that was taken. The first call gives the thread a lane, if one is free, until it
 * ends.
 */
void held_count(void);
/* Return the lane before the thread ends. The thread makes no more calls. */
void held_leave(void);
/* Called in the child of fork(2), which has no lane. */
void held_forked(void);

static inline uint32_t held_place(uint64_t id)
{
	return (uint32_t)(id * 0x9e3779b97f4a7c15u >> 32) & (held.size - 1);
}

/* Is there room for one more lock? */
static inline bool held_room(void)
{
	return held.n < held.size / 2;
}

/* Add a lock; the caller has checked held_room(). */
static inline void held_put(uint64_t id, uint32_t info)
{
	uint32_t i = held_place(id);

	while (held.v[i].id)
		i = (i + 1) & (held.size - 1);
	held.v[i].id = id;
	held.v[i].info = info;
	held.n++;
}

#define HELD_LAST 0x7fffffff /* the index of held.last */

/* The index of a lock, valid until the next change; -1: this thread does not hold it. */
static inline int held_find(uint64_t id)
{
	uint32_t i;

	if (held.last_held && held.last.id == id)
		return HELD_LAST;
	if (!held.n)
		return -1;
	for (i = held_place(id); held.v[i].id != id; i = (i + 1) & (held.size - 1))
		if (!held.v[i].id)
			return -1;
	return (int)i;
}

static inline uint32_t held_info(int index)
{
	return index == HELD_LAST ? held.last.info : held.v[index].info;
}

static inline void held_remove(int index)
{
	const uint32_t i = (uint32_t)index;

	if (index == HELD_LAST) {
		held.last_held = false;
		return;
	}
	held.v[i].id = 0;
	held.n--;
	if (held.v[(i + 1) & (held.size - 1)].id)
		held_close_gap(i);
}

#endif
