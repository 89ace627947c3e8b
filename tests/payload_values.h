/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * payload_values.h - the table of calls/rules.h to walk, and values for the fields of what calls
 * carry: what each rule allows at its edges, and what lies just outside. For documentation, unit
 * tests and fuzzers.
 */
#ifndef TESTS_PAYLOAD_VALUES_H
#define TESTS_PAYLOAD_VALUES_H

#include "calls/rules.h"
#include "rule_values.h"

#define RULES_TYPES payload_table
#define RULES_TABLE PAYLOAD_RULES
#define RULES_SHAPES PAYLOAD_SHAPES
#define RULES_FIELDS(shape) PAYLOAD_##shape
#define RULES_NAME(x) payload_field_##x
#define RULES_CONST(x) PAYLOAD_##x
#include "rule_types.h"

static inline const struct rule_type *payload_type(unsigned int shape)
{
	return &payload_table.types[shape];
}

static inline bool payload_is_number(const struct rule_field *f)
{
	return f->size <= 8;
}

/* A range that contains all values that the field's rule allows. False: the rule is not a range. */
static inline bool payload_range(const struct payload_limits *lim, unsigned int shape,
				 unsigned int field, const void *at, size_t rows, uint64_t *lo,
				 uint64_t *hi)
{
	const struct rule_field *f = &payload_type(shape)->fields[field];
	struct payload_seen seen = { .size = f->size };
	const struct payload_field_limits x = { lim, at, rows, &seen };

	if (field)
		seen.before = rule_get(f - 1, at);
	if (field > 1)
		seen.before2 = rule_get(f - 2, at);
	payload_table.range(&x, f->rule, lo, hi);
	return payload_is_number(f) && f->rule != PAYLOAD_RULE_ANY &&
		f->rule != PAYLOAD_RULE_STALLED;
}

/* Of a number; VALUES_MAX at most. */
static inline unsigned int payload_values(const struct payload_limits *lim, unsigned int shape,
					  unsigned int field, const void *at, size_t rows,
					  uint64_t *out)
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
static inline void payload_good(const struct payload_limits *lim, unsigned int shape, void *at)
{
	const struct rule_type *t = payload_type(shape);
	unsigned int i;

	memset(at, 0, t->size);
	for (i = 0; i < t->n; i++) {
		const struct rule_field *f = &t->fields[i];
		uint64_t lo, hi;

		if (f->rule == PAYLOAD_RULE_NAME)
			((char *)at)[f->offset] = 'a';
		else if (f->rule == PAYLOAD_RULE_HERE || f->rule == PAYLOAD_RULE_FROM)
			rule_set(f, at,
				 payload_rank_of(
					 lim, f->rule == PAYLOAD_RULE_HERE ? lim->me : lim->from));
		else if (payload_is_number(f) && payload_range(lim, shape, i, at, 0, &lo, &hi))
			rule_set(f, at, lo);
	}
}

/* A request of a call, behind its head, for the first rank that may get it: its size. */
static inline size_t payload_good_request(const struct payload_limits *lim, uint8_t op, void *at)
{
	const struct payload_call *c = payload_call(op);

	payload_good(lim, SHAPE_HEAD, at);
	payload_good(lim, c->request, (char *)at + sizeof(struct call_head));
	return sizeof(struct call_head) + payload_type(c->request)->size;
}

/* Room for the whole answer; of any number of rows, for `many`. */
static inline uint32_t payload_room(uint8_t op, uint32_t many)
{
	const struct payload_call *c = payload_call(op);

	return payload_type(c->answer)->size +
		(c->rows == PAYLOAD_MANY ? many : c->rows) * payload_type(c->row)->size;
}

#endif
