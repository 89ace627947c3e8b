/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * queue.h - first-come-first-served queues of waiting requests, in space bounded by nodes x slots.
 *
 * A requester waits for one thing per slot, so the pair (node, slot) names an entry of its own at every home. A queue is a
 * circular list of entry numbers kept by its tail; zero is the empty queue, so that zeroed memory is a valid start. An entry
 * leaves its queue before the answer to its request is sent: only then may the requester use the slot again. An entry's type
 * is zero while it is in no queue.
 *
 * An entry's mark outlives its stay in a queue: it names the block whose copy the request is served, beside other requests for
 * that block, until the requester confirms it (core/dir.h).
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

#define QUEUE_CHUNK 256u /* entries of a chunk, where they are in chunks */

struct qpool {
	struct queue_entry *entries; /* nnodes * nslots in one piece, or NULL: */
	uint32_t nslots;
	struct queue_entry **
		chunks; /* pieces, NULL where there is none yet; who asks waits in none that is not there (queue_ready()) */
};

static inline uint32_t queue_number(const struct qpool *q, uint16_t node, uint16_t slot)
{
	return (uint32_t)node * q->nslots + slot + 1;
}

static inline struct queue_entry *queue_at(const struct qpool *q, uint32_t entry)
{
	if (q->entries)
		return &q->entries[entry - 1];
	return &__atomic_load_n(&q->chunks[(entry - 1) / QUEUE_CHUNK], __ATOMIC_ACQUIRE)[(entry - 1) % QUEUE_CHUNK];
}

/* Is there memory behind an entry? The host sees to that before it steps with a message that may wait there. */
static inline bool queue_ready(const struct qpool *q, uint32_t entry)
{
	return q->entries || __atomic_load_n(&q->chunks[(entry - 1) / QUEUE_CHUNK], __ATOMIC_ACQUIRE);
}

static inline uint16_t queue_requester(const struct qpool *q, uint32_t entry)
{
	return (uint16_t)((entry - 1) / q->nslots);
}

static inline uint16_t queue_slot(const struct qpool *q, uint32_t entry)
{
	return (uint16_t)((entry - 1) % q->nslots);
}

/* In a queue already? A correct node has one request per slot. Pushing an entry twice would make the list circular. */
static inline bool queue_busy(const struct qpool *q, uint32_t entry)
{
	return queue_at(q, entry)->type;
}

/*
 * Set an entry's mark, which must be free. A requester may use its slot for another block as soon as it has sent its
 * confirmation, which that request may overtake: then the mark is taken, and the caller does without. Two callers may
 * hold the locks of two blocks, hence the exchange.
 */
static inline bool queue_mark(const struct qpool *q, uint32_t entry, uint32_t block)
{
	uint32_t none = 0, mark = block + 1;

	return mark &&
		__atomic_compare_exchange_n(&queue_at(q, entry)->mark, &none, mark, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/* Take this block's mark from an entry; false: it has none, or there is no memory behind the entry. */
static inline bool queue_unmark(const struct qpool *q, uint32_t entry, uint32_t block)
{
	uint32_t mark = block + 1;

	return mark && queue_ready(q, entry) &&
		__atomic_compare_exchange_n(&queue_at(q, entry)->mark, &mark, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* All return the new tail. */
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

/* How many are before this entry; the queue's length when it is not there. */
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

/* Take one entry out, wherever it is; *found says whether it was there. */
static inline uint32_t queue_remove(const struct qpool *q, uint32_t tail, uint32_t entry, bool *found)
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
