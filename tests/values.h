/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * values.h - numbers to try in a field that has a range: its edges, what is next to them, powers of
 * two, and what a narrower field would cut to something allowed. For payload_values.h and
 * rule_values.h.
 */
#ifndef TESTS_VALUES_H
#define TESTS_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#define VALUES_MAX 32

/* `has`: there is a range lo to hi. At most VALUES_MAX values to out: how many. */
static inline unsigned int values_to_try(bool has, uint64_t lo, uint64_t hi, uint64_t *out)
{
	static const uint64_t odd[] = { 0,          1,          2,         3,         4,
					7,          8,          64,        255,       256,
					4095,       4096,       4097,      0x7fff,    0xffff,
					0x10000,    2 << 20,    3 << 20,   4 << 20,   INT32_MAX,
					UINT32_MAX, 1ull << 32, INT64_MAX, UINT64_MAX };
	unsigned int n = 0, i;

	if (has) {
		out[n++] = lo;
		out[n++] = hi;
		out[n++] = lo - 1;
		out[n++] = hi + 1;
	}
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		out[n++] = odd[i];
	return n;
}

#endif
