/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * queue.h - FIFO queues of waiting requests, in space bounded by nodes x slots.
 *
 * A requester has one request per slot, so each pair (node, slot) has its own entry at every home.
 * A queue is a circular list of entry numbers, and is represented by its tail. Zero is the empty
 * queue, so zeroed memory is a valid initial state. An entry is removed before the answer to its
 * request is sent, because the requester may reuse the slot after that. The type of an entry is
 * zero while it is in no queue.
 *
 * The mark of an entry remains after the entry has left the queue. It names the block of a read
 * that is served concurrently with other reads, until MSG_DONE (core/dir.h).
 */
#ifndef CORE_QUEUE_H
#define CORE_QUEUE_H

#include "core/types.h"

struct queue_entry {
	uint32_t next; /* entry number + 1 */
	uint32_t mark; /* block + 1; 0: none */
	uint8_t type;
	uint8_t flags;
	uint16_t aux;
};
CORE_ASSERT_SIZE(struct queue_entry, 12);

#define QUEUE_CHUNK 256u /* entries per chunk, if they are in chunks */

struct qpool {
	struct queue_entry *entries; /* nnodes * nslots in one piece, or NULL: */
	uint32_t nslots;
	/*
	 * pieces, NULL if not allocated yet; check queue_ready() before a request may queue in such
	 * a piece
	 */
	struct queue_entry **chunks;
};

static inline uint32_t queue_number(const struct qpool *q, uint16_t node, uint16_t slot)
{
	return (uint32_t)node * q->nslots + slot + 1;
}

static inline struct queue_entry *queue_at(const struct qpool *q, uint32_t entry)
{
	if (q->entries)
		return &q->entries[entry - 1];
	return &__atomic_load_n(&q->chunks[(entry - 1) / QUEUE_CHUNK],
				__ATOMIC_ACQUIRE)[(entry - 1) % QUEUE_CHUNK];
}

/*
 * Is the memory of an entry allocated? The host ensures this before it steps with a message that
 * may queue there.
 */
static inline bool queue_ready(const struct qpool *q, uint32_t entry)
{
	return q->entries ||
		__atomic_load_n(&q->chunks[(entry - 1) / QUEUE_CHUNK], __ATOMIC_ACQUIRE);
}

static inline uint16_t queue_requester(const struct qpool *q, uint32_t entry)
{
	return (uint16_t)((entry - 1) / q->nslots);
}

static inline uint16_t queue_slot(const struct qpool *q, uint32_t entry)
{
	return (uint16_t)((entry - 1) % q->nslots);
}

/*
 * Is the entry in a queue? A correct node has one request per slot. Pushing an entry twice would
 * corrupt the list.
 */
static inline bool queue_busy(const struct qpool *q, uint32_t entry)
{
	return queue_at(q, entry)->type;
}

/*
 * Set the mark of an entry. False: the mark is in use. A requester may reuse its slot for another
 * block as soon as it has sent MSG_DONE, or has got the contents of a brief read, and the new
 * request may overtake MSG_DONE; the caller then serves it without a mark. Callers may hold the
 * locks of different blocks, hence the compare-and-swap.
 */
static inline bool queue_mark(const struct qpool *q, uint32_t entry, uint32_t block)
{
	uint32_t none = 0, mark = block + 1;

	return mark &&
		__atomic_compare_exchange_n(&queue_at(q, entry)->mark, &none, mark, 0,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Clear this block's mark. False: the entry does not have it, or its memory is not allocated. */
static inline bool queue_unmark(const struct qpool *q, uint32_t entry, uint32_t block)
{
	uint32_t mark = block + 1;

	return mark && queue_ready(q, entry) &&
		__atomic_compare_exchange_n(&queue_at(q, entry)->mark, &mark, 0, 0,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* queue_push(), queue_pop() and queue_remove() return the new tail. */
static inline uint32_t queue_push(const struct qpool *q, uint32_t tail, uint32_t entry)
{
	struct queue_entry *n = queue_at(q, entry);

	if (!tail) {
		n->next = entry;
	} else {
		n->next = queue_at(q, tail)->next;
		queue_at(q, tail)->next = entry;
	}
	return entry;
}

static inline uint32_t queue_head(const struct qpool *q, uint32_t tail)
{
	return tail ? queue_at(q, tail)->next : 0;
}

static inline uint32_t queue_pop(const struct qpool *q, uint32_t tail)
{
	uint32_t head = queue_head(q, tail);

	if (!head)
		return 0;
	queue_at(q, head)->type = 0;
	if (head == tail)
		return 0;
	queue_at(q, tail)->next = queue_at(q, head)->next;
	return tail;
}

static inline uint32_t queue_length(const struct qpool *q, uint32_t tail)
{
	uint32_t n = 0, at = tail;

	if (tail)
		do {
			at = queue_at(q, at)->next;
			n++;
		} while (at != tail);
	return n;
}

/* The number of entries before this one; the queue's length if it is not in the queue. */
static inline uint32_t queue_position(const struct qpool *q, uint32_t tail, uint32_t entry)
{
	uint32_t n = 0, at = tail;

	if (tail)
		do {
			at = queue_at(q, at)->next;
			if (at == entry)
				return n;
			n++;
		} while (at != tail);
	return n;
}

/* Remove an entry at any position. *found: it was in the queue. */
static inline uint32_t queue_remove(const struct qpool *q, uint32_t tail, uint32_t entry,
				    bool *found)
{
	uint32_t at = tail;

	*found = false;
	if (!tail)
		return 0;
	do {
		uint32_t next = queue_at(q, at)->next;

		if (next == entry) {
			*found = true;
			queue_at(q, entry)->type = 0;
			if (next == at)
				return 0;
			queue_at(q, at)->next = queue_at(q, entry)->next;
			return entry == tail ? at : tail;
		}
		at = next;
	} while (at != tail);
	return tail;
}

#endif
