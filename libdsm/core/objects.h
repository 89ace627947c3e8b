/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * objects.h - the table of the synchronisation objects that live at a node, and their names.
 *
 * An object is named by its place, 24 bits, and the generation of the place, as many: 8 of them in a message's `object`, above
 * the place, 16 in its req_node. Each object that is made in a place has the next generation; a place that has used them up is
 * never used again. So the name of an object that was destroyed is never that of another.
 *
 * Free places are a list through the table itself (tail), last in first out, and a mark below which all places were used once:
 * zeroed memory is the start, and what was never used is never touched. The list is changed by compare and exchange, whatever
 * locks its user holds; the upper half of `free` counts the changes:
 *
 *   A: reads free = 5, whose next is 7     B: takes 5, takes 7, gives 5 back
 *   A: would make 7 the first, which is in use; the count has moved, and A tries again.
 */
#ifndef CORE_OBJECTS_H
#define CORE_OBJECTS_H

#include "core/sync.h"

#define OBJECT_GEN_MAX 0xffffffu
#define OBJECT_CHUNK 512u /* places of a chunk, where the table is in chunks */

struct object_list {
	uint64_t free;  /* changes << 32 | place; place 0: none */
	uint32_t fresh; /* places above this were never used */
	uint32_t pad;
};

struct objects {
	struct object_list *list;
	struct sync *flat;    /* the table in one piece, or NULL: */
	struct sync **chunks; /* pieces of it, NULL where there is none yet */
	uint32_t limit;       /* places are below */
};

static inline uint32_t object_index(const struct msg *m)
{
	return m->object & SYNC_INDEX_MAX;
}

static inline uint32_t object_gen(const struct msg *m)
{
	return m->object >> 24 | (uint32_t)m->req_node << 8;
}

/* Both as one number, as MSG_REPLY to SOP_CREATE has it. */
static inline uint64_t object_name(uint32_t index, uint32_t gen)
{
	return (uint64_t)gen << 24 | index;
}

static inline void object_address(struct msg *m, uint64_t name)
{
	m->object = (uint32_t)name;
	m->req_node = (uint16_t)(name >> 32);
}

/* NULL: there is no such place, or nothing behind it yet. */
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

/* A free place, now the caller's; 0: there is none, or *missing: none behind which there is memory. */
static inline uint32_t objects_take(const struct objects *o, uint32_t *missing)
{
	uint64_t head = __atomic_load_n(&o->list->free, __ATOMIC_ACQUIRE);
	uint32_t fresh;

	*missing = 0;
	while ((uint32_t)head) {
		uint32_t index = (uint32_t)head;
		uint64_t after =
			((head >> 32) + 1) << 32 | __atomic_load_n(&objects_at(o, index)->tail, __ATOMIC_RELAXED);

		if (__atomic_compare_exchange_n(&o->list->free, &head, after, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
			return index;
	}
	fresh = __atomic_load_n(&o->list->fresh, __ATOMIC_RELAXED);
	while (fresh + 1 < o->limit) {
		if (!objects_at(o, fresh + 1)) {
			*missing = fresh + 1;
			return 0;
		}
		if (__atomic_compare_exchange_n(&o->list->fresh, &fresh, fresh + 1, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return fresh + 1;
	}
	return 0;
}

/* Nobody uses this place any more. One whose generations are used up stays taken for ever. */
static inline void objects_give(const struct objects *o, uint32_t index)
{
	struct sync *s = objects_at(o, index);
	uint64_t head = __atomic_load_n(&o->list->free, __ATOMIC_RELAXED), after;

	if (s->gen == OBJECT_GEN_MAX)
		return;
	do {
		__atomic_store_n(&s->tail, (uint32_t)head, __ATOMIC_RELAXED);
		after = ((head >> 32) + 1) << 32 | index;
	} while (!__atomic_compare_exchange_n(&o->list->free, &head, after, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

#endif
