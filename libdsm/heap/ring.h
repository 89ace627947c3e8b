/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - access to struct heap_shared by all processes of the host: live bits, and the producers'
 * side of the ring. */
#ifndef HEAP_RING_H
#define HEAP_RING_H

#include "heap/heap.h"

static inline uint64_t *live_word(struct heap_shared *s, uint64_t offset, uint64_t *mask)
{
	uint64_t bit = offset / HEAP_GRAIN;

	*mask = 1ull << bit % 64;
	return (uint64_t *)((char *)s + s->live) + bit / 64;
}

static inline bool live_test(struct heap_shared *s, uint64_t offset)
{
	uint64_t mask, *word = live_word(s, offset, &mask);

	return __atomic_load_n(word, __ATOMIC_ACQUIRE) & mask;
}

/* Release: the caller's accesses to the memory precede its reuse. Pairs with the acquire in
 * live_set(). */
static inline bool live_clear(struct heap_shared *s, uint64_t offset)
{
	uint64_t mask, *word = live_word(s, offset, &mask);

	return __atomic_fetch_and(word, ~mask, __ATOMIC_ACQ_REL) & mask;
}

static inline void live_set(struct heap_shared *s, uint64_t offset)
{
	uint64_t mask, *word = live_word(s, offset, &mask);

	__atomic_fetch_or(word, mask, __ATOMIC_ACQ_REL);
}

static inline bool ring_empty(const struct heap_shared *s)
{
	return __atomic_load_n(&s->head, __ATOMIC_RELAXED) ==
		__atomic_load_n(&s->tail, __ATOMIC_RELAXED);
}

/* Owner, by one thread at a time: the number of addresses in the ring from *head on; above
 * HEAP_RING: it is damaged. Partner of the acquire: the release of the tail in ring_free(). */
static inline uint32_t ring_filled(const struct heap_shared *s, uint32_t *head)
{
	*head = __atomic_load_n(&s->head, __ATOMIC_RELAXED);
	return __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE) - *head;
}

/* Owner: take the address at *head. Partner of the release: the acquire of the head in ring_free(),
 * before its place is written again. */
static inline uint64_t ring_take(struct heap_shared *s, uint32_t *head)
{
	const uint64_t address = s->ring[(*head)++ % HEAP_RING];

	__atomic_store_n(&s->head, *head, __ATOMIC_RELEASE);
	return address;
}

/* Free the allocation at offset, and put it into the ring. 0, -EINVAL or -EAGAIN as heap_free(). */
int ring_free(struct heap_shared *s, uint64_t offset);

/* True if the ring is more than half full, so that its owner should call heap_drain(). Any process
 * of the node; does not block. */
bool heap_wants_drain(const struct heap_shared *s);

#endif
