/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.h - messages in flight. Ordered: per pair of ranks, first in first out. Unordered: a bag, kept sorted by
 * chan_canon() so that worlds that differ in nothing else are one.
 */
#ifndef MODEL_CHANNEL_H
#define MODEL_CHANNEL_H

#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "show.h"

#define CHAN_MAX 28

/* struct msg in the sizes of small worlds. */
struct wmsg {
	uint8_t type, flags, op, src, dst, object, req_rank, req_slot, home;
	int8_t count;
	uint8_t value;
	uint8_t data; /* coherence: are the contents that travel along the latest? barriers: aux */
};

struct chan {
	uint8_t n;
	struct wmsg v[CHAN_MAX];
};

static inline struct wmsg chan_narrow(const struct msg *m)
{
	return (struct wmsg){
		.type = m->type,
		.flags = m->flags,
		.op = m->op,
		.src = (uint8_t)m->src,
		.dst = (uint8_t)m->dst,
		.object = (uint8_t)m->object,
		.req_rank = (uint8_t)m->req_rank,
		.req_slot = (uint8_t)m->req_slot,
		.home = (uint8_t)m->home,
		.count = (int8_t)m->count,
		.value = (uint8_t)m->value,
		.data = (uint8_t)m->aux,
	};
}

static inline struct msg chan_widen(const struct wmsg *m)
{
	return (struct msg){
		.version = WIRE_VERSION,
		.type = m->type,
		.flags = m->flags,
		.op = m->op,
		.src = m->src,
		.dst = m->dst,
		.object = m->object,
		.req_rank = m->req_rank,
		.req_slot = m->req_slot,
		.home = m->home,
		.count = m->count,
		.value = m->value,
		.aux = m->data,
	};
}

static inline void chan_say(const char *what, const struct wmsg *m)
{
	struct msg wide = chan_widen(m);
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

/* Is it the next of its channel, or, without order, the first of its likes? */
static inline bool chan_next(const struct chan *c, unsigned int index, bool fifo)
{
	const struct wmsg *m = &c->v[index];
	unsigned int i;

	for (i = 0; i < index; i++)
		if (fifo ? c->v[i].src == m->src && c->v[i].dst == m->dst : !memcmp(&c->v[i], m, sizeof(*m)))
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

#endif
