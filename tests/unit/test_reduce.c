// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_reduce.c - miss/reduce: every operation with every type, compared with 128-bit integers or
 * long double.
 */
#include "suite.h"

#include <string.h>

#include "dsm.h"
#include "miss/reduce.h"

#define OPS 7u
#define TYPES 12u
#define N 37 /* values: whole vectors and a remainder */

static unsigned int bits(unsigned int type)
{
	switch ((enum dsm_type)type) {
	case DSM_INT8:
	case DSM_UINT8: return 8;
	case DSM_INT16:
	case DSM_UINT16: return 16;
	case DSM_INT32:
	case DSM_UINT32: return 32;
	case DSM_INT64:
	case DSM_UINT64: return 64;
	default: return 0;
	}
}

static int is_signed(unsigned int type)
{
	return type == DSM_INT8 || type == DSM_INT16 || type == DSM_INT32 || type == DSM_INT64;
}

/* The value that a bit pattern has in a type. */
static __int128 value(unsigned int type, uint64_t pattern)
{
	unsigned int n = bits(type);
	__int128 v = n == 64 ? pattern : pattern & ((1ull << n) - 1);

	return is_signed(type) && (v >> (n - 1) & 1) ? v - ((__int128)1 << n) : v;
}

static __int128 whole(unsigned int op, __int128 a, __int128 b)
{
	switch ((enum dsm_op)op) {
	case DSM_SUM: return a + b;
	case DSM_MIN: return a < b ? a : b;
	case DSM_MAX: return a > b ? a : b;
	case DSM_AND: return a & b;
	case DSM_OR: return a | b;
	case DSM_XOR: return a ^ b;
	case DSM_PROD: return (__int128)((unsigned __int128)a * (unsigned __int128)b);
	}
	return 0;
}

static const uint64_t patterns[] = { 0,
				     1,
				     2,
				     3,
				     0x7f,
				     0x80,
				     0xff,
				     0x7fff,
				     0x8000,
				     0xffff,
				     0x7fffffff,
				     0x80000000,
				     0xffffffff,
				     INT64_MAX,
				     1ull << 63,
				     ~0ull,
				     0x0123456789abcdef };
#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

UNIT_TEST(integers_are_combined_as_their_values_are)
{
	unsigned int type, op, i, k;

	for (type = 0; type < TYPES; type++)
		for (op = 0; op < OPS && bits(type); op++)
			for (i = 0; i < PATTERNS; i++)
				for (k = 0; k < PATTERNS; k++) {
					const size_t size = bits(type) / 8;
					uint8_t to[8 * N], from[8 * N];
					unsigned int at;

					ck_assert_uint_eq(reduce_size(type), size);
					for (at = 0; at < N; at++) {
						memcpy(to + at * size, &patterns[i], size);
						memcpy(from + at * size, &patterns[k], size);
					}
					reduce_into((uint8_t)(op | type << 4), to, from, N * size);
					for (at = 0; at < N; at++) {
						__int128 want = whole(op, value(type, patterns[i]),
								      value(type, patterns[k]));
						uint64_t got = 0;

						memcpy(&got, to + at * size, size);
						if (value(type, got) != value(type, (uint64_t)want))
							ck_abort_msg(
								"type %u op %u of %#llx and %#llx is %#llx",
								type, op,
								(unsigned long long)patterns[i],
								(unsigned long long)patterns[k],
								(unsigned long long)got);
					}
				}
}

static const long double reals[] = { 0, 1, -1, 0.5L, -2.25L, 1024, 3e10L, -7e-10L };
#define REALS (sizeof(reals) / sizeof(reals[0]))

static void store(unsigned int type, void *at, long double v)
{
	if (type == DSM_FLOAT)
		*(float *)at = (float)v;
	else if (type == DSM_DOUBLE)
		*(double *)at = (double)v;
	else
		*(long double *)at = v;
}

static long double fetch(unsigned int type, const void *at)
{
	return type == DSM_FLOAT     ? *(const float *)at
		: type == DSM_DOUBLE ? *(const double *)at
				     : *(const long double *)at;
}

/* The result, rounded to the type. */
static long double real(unsigned int type, unsigned int op, long double a, long double b)
{
	long double v = op == DSM_SUM ? a + b
		: op == DSM_PROD      ? a * b
		: op == DSM_MIN       ? (a < b ? a : b)
		: a > b               ? a
				      : b;

	return type == DSM_FLOAT ? (float)v : type == DSM_DOUBLE ? (double)v : v;
}

UNIT_TEST(floating_values_are_combined_in_their_precision)
{
	static const unsigned int types[] = { DSM_FLOAT, DSM_DOUBLE, DSM_LONG_DOUBLE },
				  ops[] = { DSM_SUM, DSM_MIN, DSM_MAX, DSM_PROD };
	unsigned int t, o, i, k, at;

	for (t = 0; t < 3; t++)
		for (o = 0; o < 4; o++)
			for (i = 0; i < REALS; i++)
				for (k = 0; k < REALS; k++) {
					const size_t size = reduce_size(types[t]);
					long double to[N], from[N], a, b;

					for (at = 0; at < N; at++) {
						store(types[t], (char *)to + at * size, reals[i]);
						store(types[t], (char *)from + at * size, reals[k]);
					}
					a = fetch(types[t], to);
					b = fetch(types[t], from);
					reduce_into((uint8_t)(ops[o] | types[t] << 4), to, from,
						    N * size);
					for (at = 0; at < N; at++)
						ck_assert(fetch(types[t], (char *)to + at * size) ==
							  real(types[t], ops[o], a, b));
				}
}

UNIT_TEST(any_byte_but_zero_is_true)
{
	static const uint8_t v[] = { 0, 1, 2, 255 };
	unsigned int i, k;

	for (i = 0; i < 4; i++)
		for (k = 0; k < 4; k++) {
			uint8_t and = v[i], or = v[i], xor = v[i];

			reduce_into(DSM_AND | DSM_BOOL << 4, &and, &v[k], 1);
			reduce_into(DSM_OR | DSM_BOOL << 4, & or, &v[k], 1);
			reduce_into(DSM_XOR | DSM_BOOL << 4, &xor, &v[k], 1);
			ck_assert_uint_eq(and, v[i] && v[k]);
			ck_assert_uint_eq(or, v[i] || v[k]);
			ck_assert_uint_eq(xor, !v[i] != !v[k]);
		}
}

/* A peer may name any operation with any type. */
UNIT_TEST(what_a_type_lacks_changes_nothing)
{
	unsigned int code;

	for (code = 0; code < 256; code++) {
		uint8_t to[32], from[32], was[32];

		memset(from, 0x35, sizeof(from));
		memset(to, 0x5a, sizeof(to));
		memcpy(was, to, sizeof(to));
		reduce_into((uint8_t)code, to, from, sizeof(to));
		if (!reduce_has(code >> 4, code & 15))
			ck_assert_mem_eq(to, was, sizeof(to));
		else if ((code & 15) == DSM_XOR)
			ck_assert_mem_ne(to, was, sizeof(to));
		ck_assert_uint_eq(!!reduce_size(code >> 4), code >> 4 < TYPES);
		if (code >> 4 >= TYPES || (code & 15) >= OPS)
			ck_assert(!reduce_has(code >> 4, code & 15));
	}
	ck_assert(reduce_has(DSM_BOOL, DSM_XOR) && !reduce_has(DSM_BOOL, DSM_SUM) &&
		  !reduce_has(DSM_FLOAT, DSM_AND));
	ck_assert_uint_eq(reduce_size(TYPES), 0);
}

/* Neither past the end, nor part of a value. */
UNIT_TEST(only_whole_values_are_combined)
{
	uint32_t to[3] = { 1, 1, 1 }, from[3] = { 2, 2, 2 };

	reduce_into(DSM_SUM | DSM_UINT32 << 4, to, from, 11);
	ck_assert(to[0] == 3 && to[1] == 3 && to[2] == 1);
	ck_assert_uint_eq(reduce_combine(DSM_SUM | DSM_UINT64 << 4, 1ull << 40, 5),
			  (1ull << 40) + 5);
}

UNIT_SUITE("reduce")
