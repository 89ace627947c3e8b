// SPDX-License-Identifier: BSD-2-Clause
/* payload.c - the tables of payload.h as code. */
#include "calls/payload.h"

#include <errno.h>
#include <string.h>

#include "calls/load.h"
#include "heap/units.h"
#include "job/ctl.h"
#include "job/note.h"
#include "job/stats.h"
#include "job/usage.h"
#include "miss/reduce.h"
#include "miss/sharing.h"

#define UNIT BLOCK_MAX /* regions consist of whole units */

_Static_assert(UNIT == UNIT_BYTES, "of the window and of the heap");
_Static_assert(PAYLOAD_STATS_VECTORS == STATS_VECTORS && PAYLOAD_STATS_LANES == STATS_LANES, "one row each");
_Static_assert(offsetof(struct stats_vectors, rows) == sizeof(struct rows_head), "the rows follow their number");
_Static_assert(offsetof(struct stats_lanes, rows) == sizeof(struct rows_head), "the rows follow their number");
_Static_assert(offsetof(struct trimmed, runs) == sizeof(struct rows_head), "the rows follow their number");

/*
 * Every byte of a struct has a rule: the sizes of the fields add up to the struct's, and no field has two rows (a duplicate case
 * does not compile).
 */
#define FIELD_SIZE(type, field, rule) +sizeof(((struct type *)0)->field)
#define ALL_HAVE_RULES(shape, type)                                          \
	_Static_assert(0 PAYLOAD_##shape(FIELD_SIZE) == sizeof(struct type), \
		       "each field of " #type " is in PAYLOAD_" #shape);
PAYLOAD_SHAPES(ALL_HAVE_RULES)
#define FIELD_PLACE(type, field, rule) case offsetof(struct type, field):
#define EACH_HAS_ONE(shape, type)                                                  \
	static inline __attribute__((unused)) void shape##_has_each_once(size_t n) \
	{                                                                          \
		switch (n) {                                                       \
			PAYLOAD_##shape(FIELD_PLACE) default : break;              \
		}                                                                  \
	}
PAYLOAD_SHAPES(EACH_HAS_ONE)

#define FIELD(type, field, rule) \
	{ #field, offsetof(struct type, field), sizeof(((struct type *)0)->field), PAYLOAD_RULE_##rule },
#define FIELDS(shape, type) static const struct payload_field shape##_fields[] = { PAYLOAD_##shape(FIELD) };
PAYLOAD_SHAPES(FIELDS)

static const struct payload_type types[] = { [SHAPE_NONE] = { "-", NULL, 0, 0 },
#define TYPE(shape, type)                                                                               \
	[SHAPE_##shape] = { #shape, shape##_fields, sizeof(shape##_fields) / sizeof(shape##_fields[0]), \
			    sizeof(struct type) },
					     PAYLOAD_SHAPES(TYPE)
#undef TYPE
};

static const struct payload_call calls[CALL_OPS] = {
#define CALL(call, to, from, request, answer, row, rows) \
	[CALL_##call] = { #call, CALL_WITH_##to, CALL_WITH_##from, SHAPE_##request, SHAPE_##answer, SHAPE_##row, rows },
	PAYLOAD_CALLS(CALL)
#undef CALL
};
#define ONE_CALL(...) +1
_Static_assert(1 PAYLOAD_CALLS(ONE_CALL) == CALL_OPS, "each call has a row");

/* The context that a field is checked in. */
struct around {
	const struct payload_limits *lim;
	const char *at; /* the struct */
	size_t rows;
};

/* Reads a number of 1, 2, 4 or 8 bytes, which may be unaligned in a transport's buffer. */
static uint64_t number(const char *at, size_t size)
{
	uint64_t v = 0;

	memcpy(&v, at, size);
	return v;
}

/* The value of the n-th field before, which has the same size. */
static uint64_t payload_before(const struct around *a, const struct payload_field *f, unsigned int n)
{
	return number(a->at + f->offset - n * f->size, f->size);
}

static uint64_t payload_units(uint64_t bytes)
{
	return (bytes + UNIT - 1) / UNIT * UNIT;
}

static bool is_in(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v >= lo && v <= hi;
}

/* The range of values that a rule allows, empty if lo > hi. False: it is no range. */
static bool payload_limits(const struct around *a, const struct payload_field *f, uint64_t *lo, uint64_t *hi)
{
	const struct payload_limits *lim = a->lim;
	const uint64_t units = lim->heap / UNIT;
	uint64_t from = 0, to = 0;

	switch ((enum payload_rule)f->rule) {
	case PAYLOAD_RULE_ANY:
	case PAYLOAD_RULE_NAME:
	case PAYLOAD_RULE_TEXT:
	case PAYLOAD_RULE_STALLED:
	case PAYLOAD_RULE_COUNT: return false;
	case PAYLOAD_RULE_ZERO: break;
	case PAYLOAD_RULE_BIT: to = 1; break;
	case PAYLOAD_RULE_SIZE: from = 1, to = lim->space; break;
	case PAYLOAD_RULE_BLOCK_SIZE: from = PAGE_BYTES, to = BLOCK_MAX; break;
	case PAYLOAD_RULE_POLICY: to = DSM_HOME_FIXED; break;
	case PAYLOAD_RULE_PRIORITY: to = DSM_PRIORITY_URGENT; break;
	case PAYLOAD_RULE_FIXED: to = payload_before(a, f, 1) == DSM_HOME_FIXED ? lim->ranks - 1u : 0; break;
	case PAYLOAD_RULE_HERE:
	case PAYLOAD_RULE_FROM:
	case PAYLOAD_RULE_RANK: to = lim->ranks - 1u; break;
	case PAYLOAD_RULE_RANK_OR_0:
	case PAYLOAD_RULE_USERS: to = lim->ranks; break;
	case PAYLOAD_RULE_NODE: to = lim->nodes - 1u; break;
	case PAYLOAD_RULE_NODE_OR_0: to = lim->nodes; break;
	case PAYLOAD_RULE_REGION: to = lim->regions - 1u; break;
	case PAYLOAD_RULE_REGION_OR_END: to = lim->regions; break;
	case PAYLOAD_RULE_PLACE: to = lim->space - UNIT; break;
	case PAYLOAD_RULE_UNITS: from = UNIT, to = lim->space - payload_before(a, f, 1); break;
	case PAYLOAD_RULE_TAKEN:
		from = payload_units(payload_before(a, f, 2));
		to = from <= lim->space - payload_before(a, f, 1) ? from : 0;
		break;
	case PAYLOAD_RULE_OFFSET: to = lim->space - 1; break;
	case PAYLOAD_RULE_LENGTH: to = lim->space - payload_before(a, f, 1); break;
	case PAYLOAD_RULE_HEAP:
		from = lim->heap ? lim->base : 1;
		to = lim->heap ? lim->base + lim->heap - 1 : 0;
		break;
	case PAYLOAD_RULE_UNIT:
		from = !units;
		to = units ? units - 1 : 0;
		break;
	case PAYLOAD_RULE_SOME: from = 1, to = UINT32_MAX; break;
	case PAYLOAD_RULE_RUN:
	case PAYLOAD_RULE_FEW:
	case PAYLOAD_RULE_RUN_OR_0:
		from = f->rule != PAYLOAD_RULE_RUN_OR_0;
		to = payload_before(a, f, 1) < units ? units - payload_before(a, f, 1) : 0;
		if (f->rule == PAYLOAD_RULE_FEW && to > PAYLOAD_UNITS_MAX)
			to = PAYLOAD_UNITS_MAX;
		break;
	case PAYLOAD_RULE_PART: to = payload_before(a, f, 1); break;
	case PAYLOAD_RULE_ROWS: to = a->rows; break;
	case PAYLOAD_RULE_ABOUT: to = ABOUT_DONE; break;
	}
	*lo = from;
	*hi = to;
	return true;
}

static bool is_zero(const char *at, size_t size)
{
	while (size && !*at)
		at++, size--;
	return !size;
}

static bool stalled_ok(const struct around *a)
{
	struct wait_about about;

	memcpy(&about, a->at + offsetof(struct stall_row, about), sizeof(about));
	/* A block's name (miss/block.h): twice its first page, and a bit for its size. */
	return about.kind != ABOUT_BLOCK ||
		(uint64_t)((about.object & (about.object - 1)) >> 1) < a->lim->space / PAGE_BYTES;
}

static bool payload_allowed(const struct around *a, const struct payload_field *f)
{
	const struct payload_limits *lim = a->lim;
	const char *at = a->at + f->offset;
	uint64_t v, lo, hi;

	switch ((enum payload_rule)f->rule) {
	case PAYLOAD_RULE_ANY: return true;
	case PAYLOAD_RULE_ZERO: return is_zero(at, f->size);
	case PAYLOAD_RULE_NAME: return at[0] && memchr(at, 0, f->size);
	case PAYLOAD_RULE_TEXT: return memchr(at, 0, f->size);
	case PAYLOAD_RULE_STALLED: return stalled_ok(a);
	default: break;
	}
	v = number(at, f->size);
	payload_limits(a, f, &lo, &hi);
	if (!is_in(v, lo, hi))
		return false;
	switch ((enum payload_rule)f->rule) {
	case PAYLOAD_RULE_BLOCK_SIZE: return !(v & (v - 1));
	case PAYLOAD_RULE_HERE: return lim->node_of[v] == lim->me;
	case PAYLOAD_RULE_FROM: return lim->node_of[v] == lim->from;
	case PAYLOAD_RULE_PLACE:
	case PAYLOAD_RULE_UNITS: return v % UNIT == 0;
	default: return true;
	}
}

bool payload_allows(const struct payload_limits *lim, enum payload_shape shape, const void *at, size_t rows)
{
	const struct around a = { lim, at, rows };
	unsigned int i;

	for (i = 0; i < types[shape].n; i++)
		if (!payload_allowed(&a, &types[shape].fields[i]))
			return false;
	return true;
}

int payload_request(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size, uint32_t room)
{
	const struct payload_call *c = payload_call(op);
	struct call_head head;
	size_t rest;

	if (!c || size != sizeof(head) + types[c->request].size || !payload_allows(lim, SHAPE_HEAD, payload, 0) ||
	    !payload_allows(lim, (enum payload_shape)c->request, (const char *)payload + sizeof(head), 0))
		return -EBADMSG;
	memcpy(&head, payload, sizeof(head));
	if ((c->to == CALL_WITH_FIRST && head.to) || (c->from == CALL_WITH_FIRST && lim->node_of[0] != lim->from) ||
	    room < types[c->answer].size || room > WIRE_CALL_MAX)
		return -EBADMSG;
	rest = room - types[c->answer].size;
	if (c->rows == PAYLOAD_MANY)
		return rest % types[c->row].size ? -EBADMSG : 0;
	return rest != c->rows * (size_t)types[c->row].size ? -EBADMSG : 0;
}

int payload_answer(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size, uint32_t room)
{
	const struct payload_call *c = payload_call(op);
	size_t rows, i, each;

	if (!c || size > room || (c->rows != PAYLOAD_MANY && size != room))
		return -EBADMSG;
	each = types[c->row].size;
	rows = each ? (size - types[c->answer].size) / each : 0;
	if (size < types[c->answer].size || size != types[c->answer].size + rows * each ||
	    !payload_allows(lim, (enum payload_shape)c->answer, payload, rows))
		return -EBADMSG;
	for (i = 0; i < rows; i++)
		if (!payload_allows(lim, (enum payload_shape)c->row,
				    (const char *)payload + types[c->answer].size + i * each, 0))
			return -EBADMSG;
	return 0;
}

int payload_chunk(bool part, uint8_t code, size_t size)
{
	if (!size || size > CTL_CHUNK_BYTES)
		return -EBADMSG;
	return part && (!reduce_has(code >> 4, code & 15) || size % reduce_size(code >> 4)) ? -EBADMSG : 0;
}

bool payload_counts(uint8_t op)
{
	return calls[op].rows == PAYLOAD_MANY;
}

const struct payload_call *payload_call(uint8_t op)
{
	return op && op < CALL_OPS ? &calls[op] : NULL;
}

const struct payload_type *payload_type(enum payload_shape shape)
{
	return &types[shape];
}

const char *payload_rule_name(unsigned int rule)
{
	static const char *const names[] = {
#define NAME(rule, text) text,
		PAYLOAD_RULES(NAME)
#undef NAME
	};

	return rule < PAYLOAD_RULE_COUNT ? names[rule] : "?";
}

bool payload_range(const struct payload_limits *lim, enum payload_shape shape, unsigned int field, const void *at,
		   size_t rows, uint64_t *lo, uint64_t *hi)
{
	const struct around a = { lim, at, rows };

	return payload_limits(&a, &types[shape].fields[field], lo, hi);
}
