/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rule_values.h - a table of rules/make.h to walk (rule_types.h makes it): for documentation, and
 * for values at the edges of each rule and just outside.
 */
#ifndef TESTS_RULE_VALUES_H
#define TESTS_RULE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/make.h"

#define VALUES_MAX 32

/*
 * Numbers to try in a field that has a range: its edges, what is next to them, powers of two, and
 * what a narrower field would cut to something allowed. `has`: there is a range lo to hi. At most
 * VALUES_MAX values to out: how many.
 */
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

struct rule_field {
	const char *name;
	uint16_t offset, size;
	uint8_t rule;
};

struct rule_type {
	const char *name, *type;
	const struct rule_field *fields;
	uint16_t n, size;
};

struct rule_table {
	const struct rule_type *types;
	const char *const *texts; /* of the rules */
	void (*range)(const void *limits, unsigned int rule, uint64_t *lo, uint64_t *hi);
	unsigned int any, rules; /* the rule ANY; how many there are */
};

/*
 * False: the field has no room for the value. Of a string it is the length. (Not inline: gcc would
 * take each field for each struct.)
 */
static __attribute__((noinline, unused)) bool rule_set(const struct rule_field *f, void *at,
						       uint64_t v)
{
	char *p = (char *)at + f->offset;

	if (f->size > 8 ? v > f->size : f->size < 8 && v >> 8 * f->size)
		return false;
	if (f->size > 8) {
		memset(p, 0, f->size);
		memset(p, 'x', v);
	} else {
		memcpy(p, &v, f->size);
	}
	return true;
}

static inline uint64_t rule_get(const struct rule_field *f, const void *at)
{
	return rules_number((const char *)at + f->offset, f->size);
}

/* VALUES_MAX at most. */
static inline unsigned int rule_values(const struct rule_table *t, const void *limits,
				       unsigned int rule, uint64_t *out)
{
	uint64_t lo, hi;

	t->range(limits, rule, &lo, &hi);
	return values_to_try(true, lo, hi, out);
}

/* A struct that every rule allows; each field at the lower end of its range, or at the upper. */
static inline void rule_good(const struct rule_table *t, const void *limits, unsigned int shape,
			     void *at, bool upper)
{
	const struct rule_type *y = &t->types[shape];
	uint64_t lo, hi;
	unsigned int i;

	memset(at, 0, y->size);
	for (i = 0; i < y->n; i++) {
		t->range(limits, y->fields[i].rule, &lo, &hi);
		if (!upper || !rule_set(&y->fields[i], at, hi))
			rule_set(&y->fields[i], at, lo);
	}
}

/* Does each field keep its rule? As the table says, not as its code does. */
static inline bool rule_all_hold(const struct rule_table *t, const void *limits, unsigned int shape,
				 const void *at)
{
	const struct rule_type *y = &t->types[shape];
	uint64_t lo, hi, v;
	unsigned int i;

	for (i = 0; i < y->n; i++) {
		v = rule_get(&y->fields[i], at);
		t->range(limits, y->fields[i].rule, &lo, &hi);
		if (v < lo || v > hi)
			return false;
	}
	return true;
}

/*
 * The bytes of a fuzzer choose: fields, and of each one of its values. Returns how many bytes it
 * has used.
 */
static inline size_t rule_choose(const struct rule_table *t, const void *limits, unsigned int shape,
				 void *at, const uint8_t *data, size_t size)
{
	const struct rule_type *y = &t->types[shape];
	uint64_t values[VALUES_MAX];
	const struct rule_field *f;
	size_t i;

	rule_good(t, limits, shape, at, size & 1);
	for (i = 0; i + 1 < size && data[i]; i += 2) {
		f = &y->fields[data[i] % y->n];
		rule_set(f, at, values[data[i + 1] % rule_values(t, limits, f->rule, values)]);
	}
	return i + 2 < size ? i + 2 : size;
}

#endif
