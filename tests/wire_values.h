/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire_values.h - values for the fields of messages, made from the table of core/wire.h: what each
 * rule allows at its edges, and what lies just outside. For unit tests and fuzzers.
 */
#ifndef TESTS_WIRE_VALUES_H
#define TESTS_WIRE_VALUES_H

#include "core/sync.h"
#include "core/wire.h"

#define WIRE_VALUES_MAX 32

/* False: the field has no room for the value. */
static inline bool wire_set(struct msg *m, enum wire_field f, int64_t v)
{
	switch (f) {
#define SET(field) \
	case WF_##field: m->field = (__typeof__(m->field))v; return (int64_t)m->field == v;
		WIRE_FIELDS(SET)
#undef SET
	case WIRE_FIELD_COUNT: break;
	}
	return false;
}

static inline int64_t wire_get(const struct msg *m, enum wire_field f)
{
	switch (f) {
#define GET(field) \
	case WF_##field: return (int64_t)m->field;
		WIRE_FIELDS(GET)
#undef GET
	case WIRE_FIELD_COUNT: break;
	}
	return 0;
}

/*
 * The edges of a field's range and what is next to them, the powers of two, and what cuts to
 * something allowed.
 */
static inline unsigned int wire_values(const struct msg *m, enum wire_field f,
				       const struct wire_limits *lim, int64_t *out)
{
	static const int64_t odd[] = { 0,       1,         2,         3,          4,         8,
				       15,      16,        31,        127,        128,       255,
				       256,     257,       1024,      0x7fff,     0x8000,    0xffff,
				       0x10000, 0x1000001, INT32_MAX, UINT32_MAX, INT64_MAX, -1 };
	int64_t lo, hi;
	unsigned int n = 0, i;

	wire_range(wire_rule_of(m->type, f), m, lim, &lo, &hi);
	out[n++] = lo;
	out[n++] = hi;
	if (lo > INT64_MIN)
		out[n++] = lo - 1;
	if (hi < INT64_MAX)
		out[n++] = hi + 1;
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		out[n++] = odd[i];
	return n;
}

/* A message of a type that every rule allows: from a rank, to lim->me. */
static inline struct msg wire_good(uint8_t type, uint16_t src, const struct wire_limits *lim)
{
	struct msg m = { .version = WIRE_VERSION, .type = type, .src = src, .dst = lim->me };
	int f;

	for (f = WF_flags; f < WIRE_FIELD_COUNT; f++) {
		enum wire_rule rule = wire_rule_of(type, (enum wire_field)f);
		int64_t lo, hi;

		if (f == WF_src || f == WF_dst || rule == RULE_ANY)
			continue;
		wire_range(rule, &m, lim, &lo, &hi);
		wire_set(&m, (enum wire_field)f,
			 rule == RULE_INDEX                            ? 1
				 : rule == RULE_OTHER && lo == lim->me ? lo + 1
				 : rule == RULE_CAS                    ? 0
								       : lo);
	}
	return m;
}

#endif
