/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.h - the locks that this thread holds, by handle, and the lane of counters that it has for itself. Nothing blocks.
 *
 * info is the hold record, or whether an rwlock is held for reading. What is inline is on the path of a lock that nobody else
 * wants, where each instruction counts: so the mutex that the thread has taken last stands apart, and need not be looked for.
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

/* A hash table of the thread's own, open addressing, at most half full; and one mutex apart. */
struct held {
	struct held_entry last; /* taken by sync/lent.h; its info is good as a hint for longer than it is held */
	bool last_held;
	uint32_t n, size; /* size 0: none was ever held */
	struct held_entry *v;
	struct lane *lane; /* NULL: it has none */
	struct held_entry few[HELD_FEW];
};
extern __thread struct held held __attribute__((tls_model("initial-exec")));

/* In dsm_init(). -EAGAIN. */
int held_start(void);
/* -EAGAIN: no memory; never after a held_remove() without one in between. */
int held_add(uint64_t id, uint32_t info);
/* After a removal: what stands behind the gap may belong into it. */
void held_close_gap(uint32_t index);

/* One more mutex was taken. The thread gets its lane, where one is free, and keeps it to its end. */
void held_count(void);
/* This thread makes no more calls, and gives its lane back before its end. */
void held_leave(void);
/* In the child of fork(2): it has no lane. */
void held_forked(void);

static inline uint32_t held_place(uint64_t id)
{
	return (uint32_t)(id * 0x9e3779b97f4a7c15u >> 32) & (held.size - 1);
}

/* Is there room for one more? */
static inline bool held_room(void)
{
	return held.n < held.size / 2;
}

/* Where there is room. */
static inline void held_put(uint64_t id, uint32_t info)
{
	uint32_t i = held_place(id);

	while (held.v[i].id)
		i = (i + 1) & (held.size - 1);
	held.v[i].id = id;
	held.v[i].info = info;
	held.n++;
}

#define HELD_LAST 0x7fffffff /* the index of the one apart */

/* An index, good until the next change; -1: it does not hold it. */
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
