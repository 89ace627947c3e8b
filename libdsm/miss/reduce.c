// SPDX-License-Identifier: BSD-2-Clause
/* reduce.c - see reduce.h. Not part of the core, which has no floating point. */
#include "miss/reduce.h"

#include "core/wire.h"
#include "dsm.h"

_Static_assert(DSM_PROD + 1 == WIRE_REDUCE_OPS && DSM_BOOL + 1 == WIRE_REDUCE_TYPES,
	       "the rules of messages know them all");

#define INTEGER_OPS                                                                     \
	(1u << DSM_SUM | 1u << DSM_MIN | 1u << DSM_MAX | 1u << DSM_AND | 1u << DSM_OR | \
	 1u << DSM_XOR | 1u << DSM_PROD)
#define FLOATING_OPS (1u << DSM_SUM | 1u << DSM_MIN | 1u << DSM_MAX | 1u << DSM_PROD)
#define BOOL_OPS (1u << DSM_AND | 1u << DSM_OR | 1u << DSM_XOR)

static const struct {
	uint8_t size, ops;
} types[] = {
	[DSM_INT64] = { 8, INTEGER_OPS },
	[DSM_UINT64] = { 8, INTEGER_OPS },
	[DSM_INT8] = { 1, INTEGER_OPS },
	[DSM_UINT8] = { 1, INTEGER_OPS },
	[DSM_INT16] = { 2, INTEGER_OPS },
	[DSM_UINT16] = { 2, INTEGER_OPS },
	[DSM_INT32] = { 4, INTEGER_OPS },
	[DSM_UINT32] = { 4, INTEGER_OPS },
	[DSM_FLOAT] = { 4, FLOATING_OPS },
	[DSM_DOUBLE] = { 8, FLOATING_OPS },
	[DSM_BOOL] = { 1, BOOL_OPS },
	[DSM_LONG_DOUBLE] = { sizeof(long double), FLOATING_OPS },
};

size_t reduce_size(unsigned int type)
{
	return type < WIRE_REDUCE_TYPES ? types[type].size : 0;
}

bool reduce_has(unsigned int type, unsigned int op)
{
	return type < WIRE_REDUCE_TYPES && op < WIRE_REDUCE_OPS && types[type].ops >> op & 1;
}

/*
 * One function per type, with one loop per operation, which the compiler can vectorise. wide:
 * unsigned, and at least as wide as int, so that nothing overflows.
 */
#define EACH(expression)                         \
	for (i = 0; i < n; i++) {                \
		const type_ a = to[i], b = x[i]; \
		to[i] = (type_)(expression);     \
	}                                        \
	break

/* clang-format off */
#define COMBINES(name, type, wide, others)                                       \
	static void name(enum dsm_op op, void *into, const void *from, size_t n) \
	{                                                                        \
		typedef type type_;                                              \
		type *to = into;                                                 \
		const type *x = from;                                            \
		size_t i;                                                        \
                                                                                 \
		switch (op) {                                                    \
		case DSM_SUM: EACH((wide)a + (wide)b);                           \
		case DSM_MIN: EACH(a < b ? a : b);                               \
		case DSM_MAX: EACH(a > b ? a : b);                               \
		case DSM_PROD: EACH((wide)a * (wide)b);                          \
		others                                                           \
		}                                                                \
	}

#define BITWISE                                                                  \
		case DSM_AND: EACH(a & b);                                       \
		case DSM_OR: EACH(a | b);                                        \
		case DSM_XOR: EACH(a ^ b);

#define INTEGERS(name, type, wide) COMBINES(name, type, wide, BITWISE)
#define FLOATING(name, type) COMBINES(name, type, type, default: break;)
/* clang-format on */

INTEGERS(int8s, int8_t, uint32_t)
INTEGERS(uint8s, uint8_t, uint32_t)
INTEGERS(int16s, int16_t, uint32_t)
INTEGERS(uint16s, uint16_t, uint32_t)
INTEGERS(int32s, int32_t, uint32_t)
INTEGERS(uint32s, uint32_t, uint32_t)
INTEGERS(int64s, int64_t, uint64_t)
INTEGERS(uint64s, uint64_t, uint64_t)
FLOATING(floats, float)
FLOATING(doubles, double)
FLOATING(long_doubles, long double)

/* Every value but 0 is true. */
static void bools(enum dsm_op op, void *into, const void *from, size_t n)
{
	typedef uint8_t type_;
	uint8_t *to = into;
	const uint8_t *x = from;
	size_t i;

	switch (op) {
	case DSM_AND: EACH(a && b);
	case DSM_OR: EACH(a || b);
	case DSM_XOR: EACH(!a != !b);
	default: break;
	}
}

void reduce_into(uint8_t code, void *into, const void *from, size_t bytes)
{
	const unsigned int type = code >> 4;
	const enum dsm_op op = (enum dsm_op)(code & 15);
	size_t n;

	if (!reduce_has(type, op))
		return;
	n = bytes / types[type].size;
	switch ((enum dsm_type)type) {
	case DSM_INT64: int64s(op, into, from, n); break;
	case DSM_UINT64: uint64s(op, into, from, n); break;
	case DSM_DOUBLE: doubles(op, into, from, n); break;
	case DSM_INT8: int8s(op, into, from, n); break;
	case DSM_UINT8: uint8s(op, into, from, n); break;
	case DSM_INT16: int16s(op, into, from, n); break;
	case DSM_UINT16: uint16s(op, into, from, n); break;
	case DSM_INT32: int32s(op, into, from, n); break;
	case DSM_UINT32: uint32s(op, into, from, n); break;
	case DSM_FLOAT: floats(op, into, from, n); break;
	case DSM_LONG_DOUBLE: long_doubles(op, into, from, n); break;
	case DSM_BOOL: bools(op, into, from, n); break;
	}
}

uint64_t reduce_combine(uint8_t code, uint64_t a, uint64_t b)
{
	reduce_into(code, &a, &b, sizeof(a));
	return a;
}
