/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * objects.h - the table of the synchronisation objects that live at a node, and their names.
 *
 * An object's name is its place (24 bits) and the generation of the place (24 bits). A message has
 * 8 bits of the generation in `object`, above the place, and 16 in req_node. Each object created in
 * a place has the next generation. A place that has used all generations is retired. So the name of
 * a destroyed object never names another object.
 *
 * The free places are a LIFO list through the table itself (tail), and a mark: places above it were
 * never used. Zeroed memory is the initial state, and memory of unused places is never touched. The
 * list is changed by compare-and-swap, without a lock. The upper half of `free` counts the changes,
 * against ABA:
 *
 *   A: reads free = 5, whose next is 7     B: takes 5, takes 7, gives 5 back
 *   A: would make 7 the head, which is in use; the count has changed, and A retries.
 */
#ifndef CORE_OBJECTS_H
#define CORE_OBJECTS_H

#include "core/sync.h"

#define OBJECT_GEN_MAX 0xffffffu
#define OBJECT_CHUNK 512u /* places per chunk, if the table is in chunks */

struct object_list {
	uint64_t free;  /* changes << 32 | place; place 0: none */
	uint32_t fresh; /* places above this were never used */
	uint32_t pad;
};

struct objects {
	struct object_list *list;
	struct sync *flat;    /* the table in one piece, or NULL: */
	struct sync **chunks; /* pieces of it, NULL if not allocated yet */
	uint32_t limit;       /* places are below this */
};

static inline uint32_t object_index(const struct msg *m)
{
	return m->object & SYNC_INDEX_MAX;
}

static inline uint32_t object_gen(const struct msg *m)
{
	return m->object >> 24 | (uint32_t)m->req_node << 8;
}

/* Place and generation in one number, as in the MSG_REPLY to SOP_CREATE. */
static inline uint64_t object_name(uint32_t index, uint32_t gen)
{
	return (uint64_t)gen << 24 | index;
}

static inline void object_address(struct msg *m, uint64_t name)
{
	m->object = (uint32_t)name;
	m->req_node = (uint16_t)(name >> 32);
}

/* The object in a place. NULL: no such place, or its memory is not allocated yet. */
static inline struct sync *objects_at(const struct objects *o, uint32_t index)
{
	struct sync *chunk;

	if (!index || index >= o->limit)
		return NULL;
	if (o->flat)
		return &o->flat[index];
	chunk = __atomic_load_n(&o->chunks[index / OBJECT_CHUNK], __ATOMIC_ACQUIRE);
	return chunk ? &chunk[index % OBJECT_CHUNK] : NULL;
}

/*
 * Allocate a place. 0: none is free; *missing is then 0, or the next place, whose memory must be
 * allocated first.
 */
static inline uint32_t objects_take(const struct objects *o, uint32_t *missing)
{
	uint64_t head = __atomic_load_n(&o->list->free, __ATOMIC_ACQUIRE);
	uint32_t fresh;

	*missing = 0;
	while ((uint32_t)head) {
		uint32_t index = (uint32_t)head;
		uint64_t after = ((head >> 32) + 1) << 32 |
			__atomic_load_n(&objects_at(o, index)->tail, __ATOMIC_RELAXED);

		if (__atomic_compare_exchange_n(&o->list->free, &head, after, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_ACQUIRE))
			return index;
	}
	fresh = __atomic_load_n(&o->list->fresh, __ATOMIC_RELAXED);
	while (fresh + 1 < o->limit) {
		if (!objects_at(o, fresh + 1)) {
			*missing = fresh + 1;
			return 0;
		}
		if (__atomic_compare_exchange_n(&o->list->fresh, &fresh, fresh + 1, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return fresh + 1;
	}
	return 0;
}

/* Free a place that nobody uses. A place that has used all generations is not freed. */
static inline void objects_give(const struct objects *o, uint32_t index)
{
	struct sync *s = objects_at(o, index);
	uint64_t head = __atomic_load_n(&o->list->free, __ATOMIC_RELAXED), after;

	if (s->gen == OBJECT_GEN_MAX)
		return;
	do {
		__atomic_store_n(&s->tail, (uint32_t)head, __ATOMIC_RELAXED);
		after = ((head >> 32) + 1) << 32 | index;
	} while (!__atomic_compare_exchange_n(&o->list->free, &head, after, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

#endif
