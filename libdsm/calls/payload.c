// SPDX-License-Identifier: BSD-2-Clause
/* payload.c - what calls carry, held against the tables of rules.h. */
#include "calls/payload.h"

#include <errno.h>
#include <string.h>

#include "calls/rules.h"
#include "heap/units.h"
#include "miss/reduce.h"

_Static_assert(PAYLOAD_UNIT == UNIT_BYTES, "of the window and of the heap");
_Static_assert(PAYLOAD_STATS_VECTORS == STATS_VECTORS && PAYLOAD_STATS_LANES == STATS_LANES,
	       "one row each");
_Static_assert(offsetof(struct stats_vectors, rows) == sizeof(struct rows_head),
	       "the rows follow their number");
_Static_assert(offsetof(struct stats_lanes, rows) == sizeof(struct rows_head),
	       "the rows follow their number");
_Static_assert(offsetof(struct trimmed, runs) == sizeof(struct rows_head),
	       "the rows follow their number");

#define SHAPE_SIZE(shape, type, bytes) bytes,
static const uint16_t sizes[] = { PAYLOAD_SHAPES(SHAPE_SIZE) };

static const struct payload_call calls[CALL_OPS] = {
#define CALL(call, to, from, request, answer, row, rows) \
	[CALL_##call] = { #call,                         \
			  CALL_WITH_##to,                \
			  CALL_WITH_##from,              \
			  SHAPE_##request,               \
			  SHAPE_##answer,                \
			  SHAPE_##row,                   \
			  rows },
	PAYLOAD_CALLS(CALL)
#undef CALL
};
#define ONE_CALL(...) +1
_Static_assert(1 PAYLOAD_CALLS(ONE_CALL) == CALL_OPS, "each call has a row");

bool payload_allows(const struct payload_limits *lim, unsigned int shape, const void *at,
		    size_t rows)
{
	/* A copy, for the struct may be unaligned in a transport's buffer. */
#define ALLOWS(shape, type, bytes)                                                       \
	case SHAPE_##shape: {                                                            \
		struct type one;                                                         \
		struct payload_seen seen = { 0 };                                        \
                                                                                         \
		memcpy(&one, at, bytes);                                                 \
		return payload_field_is_##shape(                                         \
			&one, &(struct payload_field_limits){ lim, &one, rows, &seen }); \
	}
	if (shape == SHAPE_NONE)
		return true;
	switch ((enum call_shape)shape) {
		PAYLOAD_SHAPES(ALLOWS)
	case SHAPES: break;
	}
#undef ALLOWS
	return false;
}

int payload_request(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size,
		    uint32_t room)
{
	const struct payload_call *c = payload_call(op);
	struct call_head head;
	size_t rest;

	if (!c || size != sizeof(head) + sizes[c->request] ||
	    !payload_allows(lim, SHAPE_HEAD, payload, 0) ||
	    !payload_allows(lim, c->request, (const char *)payload + sizeof(head), 0))
		return -EBADMSG;
	memcpy(&head, payload, sizeof(head));
	if ((c->to == CALL_WITH_FIRST && head.to) ||
	    (c->from == CALL_WITH_FIRST && lim->node_of[0] != lim->from) ||
	    room < sizes[c->answer] || room > WIRE_CALL_MAX)
		return -EBADMSG;
	rest = room - sizes[c->answer];
	if (c->rows == PAYLOAD_MANY)
		return rest % sizes[c->row] ? -EBADMSG : 0;
	return rest != c->rows * (size_t)sizes[c->row] ? -EBADMSG : 0;
}

int payload_answer(const struct payload_limits *lim, uint8_t op, const void *payload, size_t size,
		   uint32_t room)
{
	const struct payload_call *c = payload_call(op);
	size_t rows, i, each;

	if (!c || size > room || (c->rows != PAYLOAD_MANY && size != room))
		return -EBADMSG;
	each = sizes[c->row];
	rows = each ? (size - sizes[c->answer]) / each : 0;
	if (size < sizes[c->answer] || size != sizes[c->answer] + rows * each ||
	    !payload_allows(lim, c->answer, payload, rows))
		return -EBADMSG;
	for (i = 0; i < rows; i++)
		if (!payload_allows(lim, c->row,
				    (const char *)payload + sizes[c->answer] + i * each, 0))
			return -EBADMSG;
	return 0;
}

int payload_chunk(bool part, uint8_t code, size_t size)
{
	if (!size || size > CTL_CHUNK_BYTES)
		return -EBADMSG;
	return part && (!reduce_has(code >> 4, code & 15) || size % reduce_size(code >> 4))
		? -EBADMSG
		: 0;
}

bool payload_counts(uint8_t op)
{
	return calls[op].rows == PAYLOAD_MANY;
}

const struct payload_call *payload_call(uint8_t op)
{
	return op && op < CALL_OPS ? &calls[op] : NULL;
}
