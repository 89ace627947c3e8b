/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * queue.h - first-come-first-served queues of waiting requests, in space bounded by ranks x slots.
 *
 * A requester waits for one thing per slot, so the pair (rank, slot) names a node of its own at every home. A queue is a
 * circular list of node numbers kept by its tail; zero is the empty queue, so that zeroed memory is a valid start. A node
 * leaves its queue before the answer to its request is sent: only then may the requester use the slot again. A node's type
 * is zero while it is in no queue.
 */
#ifndef CORE_QUEUE_H
#define CORE_QUEUE_H

#include "core/types.h"

struct qnode {
	uint32_t next;  /* node number + 1 */
	uint8_t type;
	uint8_t flags;
	uint16_t aux;
};
CORE_ASSERT_SIZE(struct qnode, 8);

struct qpool {
	struct qnode *nodes; /* nranks * nslots */
	uint16_t nslots;
};

static inline uint32_t queue_node(const struct qpool *q, uint16_t rank, uint16_t slot)
{
	return (uint32_t)rank * q->nslots + slot + 1;
}

static inline struct qnode *queue_at(const struct qpool *q, uint32_t node)
{
	return &q->nodes[node - 1];
}

static inline uint16_t queue_rank(const struct qpool *q, uint32_t node)
{
	return (uint16_t)((node - 1) / q->nslots);
}

static inline uint16_t queue_slot(const struct qpool *q, uint32_t node)
{
	return (uint16_t)((node - 1) % q->nslots);
}

/* In a queue already? A correct rank never asks twice in one slot's name; a second push would tie a knot into the list. */
static inline bool queue_busy(const struct qpool *q, uint32_t node)
{
	return queue_at(q, node)->type;
}

/* All return the new tail. */
static inline uint32_t queue_push(const struct qpool *q, uint32_t tail, uint32_t node)
{
	struct qnode *n = queue_at(q, node);

	if (!tail) {
		n->next = node;
	} else {
		n->next = queue_at(q, tail)->next;
		queue_at(q, tail)->next = node;
	}
	return node;
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

/* How many are before this node; the queue's length when it is not there. */
static inline uint32_t queue_position(const struct qpool *q, uint32_t tail, uint32_t node)
{
	uint32_t n = 0, at = tail;

	if (tail)
		do {
			at = queue_at(q, at)->next;
			if (at == node)
				return n;
			n++;
		} while (at != tail);
	return n;
}

/* Take one node out, wherever it is; *found says whether it was there. */
static inline uint32_t queue_remove(const struct qpool *q, uint32_t tail, uint32_t node, bool *found)
{
	uint32_t at = tail;

	*found = false;
	if (!tail)
		return 0;
	do {
		uint32_t next = queue_at(q, at)->next;

		if (next == node) {
			*found = true;
			queue_at(q, node)->type = 0;
			if (next == at)
				return 0;
			queue_at(q, at)->next = queue_at(q, node)->next;
			return node == tail ? at : tail;
		}
		at = next;
	} while (at != tail);
	return tail;
}

#endif
