// SPDX-License-Identifier: BSD-2-Clause
/* reduce.c - the arithmetic of dsm_reduce(); outside the core, which knows no floating point. */
#include "engine/reduce.h"

#include <string.h>

#include "dsm.h"

static uint64_t combine_int64(enum dsm_op op, int64_t a, int64_t b)
{
	switch (op) {
	case DSM_SUM: return (uint64_t)a + (uint64_t)b;
	case DSM_MIN: return (uint64_t)(a < b ? a : b);
	case DSM_MAX: return (uint64_t)(a > b ? a : b);
	case DSM_AND: return (uint64_t)(a & b);
	case DSM_OR:  return (uint64_t)(a | b);
	case DSM_XOR: return (uint64_t)(a ^ b);
	}
	return 0;
}

static uint64_t combine_uint64(enum dsm_op op, uint64_t a, uint64_t b)
{
	switch (op) {
	case DSM_MIN: return a < b ? a : b;
	case DSM_MAX: return a > b ? a : b;
	default: return combine_int64(op, (int64_t)a, (int64_t)b);
	}
}

static uint64_t combine_double(enum dsm_op op, uint64_t a, uint64_t b)
{
	double x, y, z;

	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	z = op == DSM_MIN ? (x < y ? x : y) : op == DSM_MAX ? (x > y ? x : y) : x + y;
	memcpy(&a, &z, sizeof(a));
	return a;
}

uint64_t reduce_combine(uint8_t op, uint64_t a, uint64_t b)
{
	switch ((enum dsm_type)(op >> 4)) {
	case DSM_INT64: return combine_int64((enum dsm_op)(op & 15), (int64_t)a, (int64_t)b);
	case DSM_UINT64: return combine_uint64((enum dsm_op)(op & 15), a, b);
	case DSM_DOUBLE: return combine_double((enum dsm_op)(op & 15), a, b);
	}
	return 0;
}
