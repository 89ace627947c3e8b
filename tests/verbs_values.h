/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_values.h - the tables of net/verbs/rules.h and core/word.h to walk: for documentation, and
 * for values at the edges of each rule and just outside. For unit tests and fuzzers.
 */
#ifndef TESTS_VERBS_VALUES_H
#define TESTS_VERBS_VALUES_H

#include "core/word.h"
#include "net/verbs/rules.h"
#include "rule_values.h"

#define RULES_TYPES verbs_table
#define RULES_TABLE VERBS_RULES
#define RULES_SHAPES VERBS_SHAPES
#define RULES_FIELDS(shape) VERBS_##shape
#define RULES_NAME(x) verbs_##x
#define RULES_CONST(x) VERBS_##x
#include "rule_types.h"

/* ---- immediate words ------------------------------------------------------------------------- */

enum word_kind {
#define WORD_NAME(name) WORD_KIND_##name,
	WORDS(WORD_NAME)
#undef WORD_NAME
		WORD_KINDS
};

struct word_field {
	const char *name, *text;
	uint8_t first, bits;
};

#define WORD_ENTRY(field, first, bits, lo, hi, text) { #field, text, first, bits },
#define WORD_FIELDS(name) \
	static const struct word_field word_fields_##name[] = { WORD_##name(WORD_ENTRY) };
WORDS(WORD_FIELDS)

static const struct word_type {
	const char *name;
	const struct word_field *fields;
	unsigned int n;
} word_types[] = {
#define WORD_TYPE(name) \
	{ #name, word_fields_##name, sizeof(word_fields_##name) / sizeof(struct word_field) },
	WORDS(WORD_TYPE)
#undef WORD_TYPE
};

/* Of a field: the lowest and highest value; below 0: none. */
static inline void word_range(const struct word_limits *x, enum word_kind kind, unsigned int field,
			      int64_t *lo, int64_t *hi)
{
#define WORD_RANGE(field, first, bits, lo, hi, text) { (lo), (hi) },
#define WORD_RANGES(name)                                                \
	if (kind == WORD_KIND_##name) {                                  \
		const int64_t ranges[][2] = { WORD_##name(WORD_RANGE) }; \
		*lo = ranges[field][0];                                  \
		*hi = ranges[field][1];                                  \
	}
	*lo = *hi = -1;
	WORDS(WORD_RANGES)
#undef WORD_RANGES
#undef WORD_RANGE
	(void)x;
}

static inline bool word_good(const struct word_limits *x, enum word_kind kind, uint32_t word)
{
#define WORD_GOOD(name)                                                     \
	if (kind == WORD_KIND_##name) {                                     \
		const struct word_##name w = word_get_##name(word);         \
		return word_is_##name(&w, x) && word_put_##name(w) == word; \
	}
	WORDS(WORD_GOOD)
#undef WORD_GOOD
	return false;
}

static inline uint32_t word_set(const struct word_field *f, uint32_t word, uint64_t v)
{
	const uint32_t mask = WORD_MASK(f->bits) << f->first;

	return (word & ~mask) | ((uint32_t)(v << f->first) & mask);
}

#endif
