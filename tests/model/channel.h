/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.h - messages in flight. Ordered: first in, first out per pair of ranks. Unordered: a bag,
 * which chan_canon() sorts so that equivalent worlds become equal.
 *
 * A world numbers its ranks, slots and objects from 0. The machines see the numbers of a large job:
 * chan_widen() adds to each field the first number that exists in this world. chan_narrow()
 * subtracts it, and reports numbers that do not exist. So truncation in the core is noticed, and
 * worlds stay small.
 */
#ifndef MODEL_CHANNEL_H
#define MODEL_CHANNEL_H

#include <stdlib.h>
#include <string.h>

#include "core/queue.h"
#include "search.h"
#include "show.h"

#define CHAN_MAX 28

/* struct msg with the numbers of a small world. */
struct wmsg {
	uint8_t type, flags, op, src, dst, object, req_node, req_slot;
	uint8_t home; /* home + 1; 0: none */
	int8_t count;
	uint8_t value;
	uint8_t data; /* coherence: are the carried contents the latest? barriers: aux */
};

struct chan {
	uint8_t n;
	struct wmsg v[CHAN_MAX];
};

/* The first number of each kind, and how many exist in this world. */
struct chan_names {
	uint32_t rank, ranks, slot, slots, object, objects;
	uint32_t home, homes; /* coherence: ranks; locks: hold records */
	uint64_t value;       /* factor between values in the job and in the world */
};

static inline uint8_t chan_small(const char *what, uint64_t number, uint32_t first, uint32_t n)
{
	if (number >= first && number - first < n)
		return (uint8_t)(number - first);
	model_fail("a message has the %s %llu, which nobody here has", what,
		   (unsigned long long)number);
	return 0;
}

static inline struct wmsg chan_narrow(const struct chan_names *n, const struct msg *m)
{
	if (m->version != WIRE_VERSION || (int8_t)m->count != m->count || m->aux > UINT8_MAX ||
	    m->value % n->value || m->value / n->value > UINT8_MAX)
		model_fail("a message has count %d, aux %u, value %llu", m->count, m->aux,
			   (unsigned long long)m->value);
	return (struct wmsg){
		.type = m->type,
		.flags = m->flags,
		.op = m->op,
		.src = chan_small("sender", m->src, n->rank, n->ranks),
		.dst = chan_small("receiver", m->dst, n->rank, n->ranks),
		.object = chan_small("object", m->object, n->object, n->objects),
		.req_node = chan_small("requester", m->req_node, n->rank, n->ranks),
		.req_slot = chan_small("slot", m->req_slot, n->slot, n->slots),
		.home = m->home
			? (uint8_t)(chan_small("home or record", m->home, n->home, n->homes) + 1)
			: 0,
		.count = (int8_t)m->count,
		.value = (uint8_t)(m->value / n->value),
		.data = (uint8_t)m->aux,
	};
}

static inline struct msg chan_widen(const struct chan_names *n, const struct wmsg *m)
{
	return (struct msg){
		.version = WIRE_VERSION,
		.type = m->type,
		.flags = m->flags,
		.op = m->op,
		.src = (uint16_t)(n->rank + m->src),
		.dst = (uint16_t)(n->rank + m->dst),
		.object = n->object + m->object,
		.req_node = (uint16_t)(n->rank + m->req_node),
		.req_slot = (uint16_t)(n->slot + m->req_slot),
		.home = (uint16_t)(m->home ? n->home + m->home - 1 : 0),
		.count = m->count,
		.value = n->value * m->value,
		.aux = m->data,
	};
}

static inline void chan_say(const char *what, const struct wmsg *m)
{
	static const struct chan_names small = { .value = 1 };
	struct msg wide = chan_widen(&small, m);
	char text[128];

	if (model_trace)
		model_say("      %s %s%s\n", what, show_msg(&wide, text, sizeof(text)),
			  m->type != MSG_DATA ? ""
				  : m->data   ? " latest"
					      : " STALE");
}

static inline void chan_post(struct chan *c, const struct wmsg *m)
{
	if (c->n == CHAN_MAX) {
		model_fail("more than %d messages in flight", CHAN_MAX);
		return;
	}
	chan_say("sends", m);
	c->v[c->n++] = *m;
}

static inline struct wmsg chan_take(struct chan *c, unsigned int index)
{
	struct wmsg m = c->v[index];

	memmove(&c->v[index], &c->v[index + 1], (c->n - index - 1u) * sizeof(m));
	memset(&c->v[--c->n], 0, sizeof(m));
	model_say("rank %u receives\n", m.dst);
	chan_say("takes", &m);
	return m;
}

/* Is it the next message of its channel? Without order: the first of several equal ones? */
static inline bool chan_next(const struct chan *c, unsigned int index, bool fifo)
{
	const struct wmsg *m = &c->v[index];
	unsigned int i;

	for (i = 0; i < index; i++)
		if (fifo ? c->v[i].src == m->src && c->v[i].dst == m->dst
			 : !memcmp(&c->v[i], m, sizeof(*m)))
			return false;
	return true;
}

static inline int chan_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct wmsg));
}

static inline void chan_canon(struct chan *c, bool fifo)
{
	if (!fifo)
		qsort(c->v, c->n, sizeof(c->v[0]), chan_compare);
}

/* ---- queues ---------------------------------------------------------------------------------- */

/*
 * In a large job, a home has a queue entry for each slot of each rank. A world stores the entries
 * of its own slots, with their numbers in the job. They are in place only during a step.
 */
#define CHAN_SLOT 0x1001 /* the first slot that exists */
#define CHAN_SLOTS 4     /* number of slots, at most */
#define CHAN_NODES (WIRE_MAX_NODES * (CHAN_SLOT + CHAN_SLOTS))

static struct queue_entry chan_pool[CHAN_NODES];

static inline struct qpool chan_queue(void)
{
	return (struct qpool){ .entries = chan_pool, .nslots = CHAN_SLOT + CHAN_SLOTS };
}

/* Where the world stores this entry; false: it has none. */
static inline bool chan_node(const struct chan_names *n, uint32_t node, unsigned int *at)
{
	struct qpool q = chan_queue();
	uint32_t rank = queue_requester(&q, node) - n->rank, slot = queue_slot(&q, node) - n->slot;

	*at = rank * n->slots + slot;
	if (node && rank < n->ranks && slot < n->slots)
		return true;
	model_fail("a queue has the node %u, which is nobody's here", node);
	return false;
}

/* The entries of a rank are adjacent. */
static inline struct queue_entry *chan_place(const struct chan_names *n, unsigned int rank)
{
	return &chan_pool[(size_t)(n->rank + rank) * (CHAN_SLOT + CHAN_SLOTS) + n->slot];
}

static inline struct qpool chan_load(const struct chan_names *n, const struct queue_entry *nodes)
{
	unsigned int i;

	for (i = 0; i < n->ranks; i++)
		memcpy(chan_place(n, i), nodes + i * n->slots, n->slots * sizeof(*nodes));
	return chan_queue();
}

static inline void chan_store(const struct chan_names *n, struct queue_entry *nodes)
{
	unsigned int i;

	for (i = 0; i < n->ranks; i++)
		memcpy(nodes + i * n->slots, chan_place(n, i), n->slots * sizeof(*nodes));
}

/* The next entry in line, numbered as in the world; 0: none. */
static inline uint32_t chan_after(const struct chan_names *n, const struct queue_entry *nodes,
				  uint32_t node, unsigned int *at)
{
	uint32_t next;

	if (!chan_node(n, node, at))
		return 0;
	next = nodes[*at].next;
	return chan_node(n, next, at) ? next : 0;
}

#endif
