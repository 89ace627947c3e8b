/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * payload_values.h - values for the fields of what calls carry, made from the table of calls/payload.h: what each rule allows at its
 * edges, and what lies just outside. For unit tests and fuzzers.
 */
#ifndef TESTS_PAYLOAD_VALUES_H
#define TESTS_PAYLOAD_VALUES_H

#include <string.h>

#include "calls/payload.h"
#include "values.h"

static inline bool payload_is_number(const struct payload_field *f)
{
	return f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8;
}

/* False: the field has no room for the value. */
static inline bool payload_set(const struct payload_field *f, void *at, uint64_t v)
{
	if (f->size < 8 && v >> 8 * f->size)
		return false;
	memcpy((char *)at + f->offset, &v, f->size);
	return true;
}

static inline uint64_t payload_get(const struct payload_field *f, const void *at)
{
	uint64_t v = 0;

	memcpy(&v, (const char *)at + f->offset, f->size);
	return v;
}

/* Of a number; VALUES_MAX at most. */
static inline unsigned int payload_values(const struct payload_limits *lim, enum payload_shape shape,
					  unsigned int field, const void *at, size_t rows, uint64_t *out)
{
	uint64_t lo = 0, hi = 0;
	const bool has = payload_range(lim, shape, field, at, rows, &lo, &hi);

	return values_to_try(has, lo, hi, out);
}

static inline uint16_t payload_rank_of(const struct payload_limits *lim, uint16_t node)
{
	uint16_t r = 0;

	while (r < lim->ranks && lim->node_of[r] != node)
		r++;
	return r;
}

/* A struct that every rule allows. */
static inline void payload_good(const struct payload_limits *lim, enum payload_shape shape, void *at)
{
	const struct payload_type *t = payload_type(shape);
	unsigned int i;

	memset(at, 0, t->size);
	for (i = 0; i < t->n; i++) {
		const struct payload_field *f = &t->fields[i];
		uint64_t lo, hi;

		if (f->rule == PAYLOAD_RULE_NAME)
			((char *)at)[f->offset] = 'a';
		else if (f->rule == PAYLOAD_RULE_HERE || f->rule == PAYLOAD_RULE_FROM)
			payload_set(f, at, payload_rank_of(lim, f->rule == PAYLOAD_RULE_HERE ? lim->me : lim->from));
		else if (payload_is_number(f) && payload_range(lim, shape, i, at, 0, &lo, &hi))
			payload_set(f, at, lo);
	}
}

/* A request of a call, behind its head, for the first rank that may get it: its size. */
static inline size_t payload_good_request(const struct payload_limits *lim, uint8_t op, void *at)
{
	const struct payload_call *c = payload_call(op);

	payload_good(lim, SHAPE_HEAD, at);
	payload_good(lim, (enum payload_shape)c->request, (char *)at + sizeof(struct call_head));
	return sizeof(struct call_head) + payload_type((enum payload_shape)c->request)->size;
}

/* Room for the whole answer; of any number of rows, for `many`. */
static inline uint32_t payload_room(uint8_t op, uint32_t many)
{
	const struct payload_call *c = payload_call(op);

	return payload_type((enum payload_shape)c->answer)->size +
		(c->rows == PAYLOAD_MANY ? many : c->rows) * payload_type((enum payload_shape)c->row)->size;
}

#endif
