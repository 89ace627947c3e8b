/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_values.h - the tables of net/verbs/rules.h and core/word.h to walk: for documentation, and for values at the edges of each
 * rule and just outside. For unit tests and fuzzers.
 */
#ifndef TESTS_VERBS_VALUES_H
#define TESTS_VERBS_VALUES_H

#include "core/word.h"
#include "net/verbs/rules.h"
#include "values.h"

/* ---- structs ------------------------------------------------------------------------------------ */

enum verbs_shape {
#define SHAPE_NAME(shape, type, bytes) VERBS_SHAPE_##shape,
	VERBS_SHAPES(SHAPE_NAME)
#undef SHAPE_NAME
		VERBS_SHAPE_COUNT
};

struct verbs_field {
	const char *name;
	uint16_t offset, size;
	uint8_t rule;
};

struct verbs_type {
	const char *name, *type;
	const struct verbs_field *fields;
	uint16_t n, size;
};

#define FIELD_ENTRY(type, field, rule) \
	{ #field, offsetof(struct type, field), sizeof(((struct type *)0)->field), VERBS_RULE_##rule },
#define SHAPE_FIELDS(shape, type, bytes) \
	static const struct verbs_field verbs_fields_##shape[] = { VERBS_##shape(FIELD_ENTRY) };
VERBS_SHAPES(SHAPE_FIELDS)

static const struct verbs_type verbs_types[] = {
#define SHAPE_ENTRY(shape, type, bytes) \
	{ #shape, #type, verbs_fields_##shape, sizeof(verbs_fields_##shape) / sizeof(struct verbs_field), bytes },
	VERBS_SHAPES(SHAPE_ENTRY)
#undef SHAPE_ENTRY
};

static inline const char *verbs_rule_text(unsigned int rule)
{
	static const char *const texts[] = {
#define RULE_TEXT(rule, lo, hi, text) text,
		VERBS_RULES(RULE_TEXT)
#undef RULE_TEXT
	};

	return texts[rule];
}

static inline void verbs_range(const struct verbs_limits *x, unsigned int rule, uint64_t *lo, uint64_t *hi)
{
	const uint64_t ranges[][2] = {
#define RULE_RANGE(rule, lo, hi, text) { (uint64_t)(lo), (uint64_t)(hi) },
		VERBS_RULES(RULE_RANGE)
#undef RULE_RANGE
	};

	*lo = ranges[rule][0];
	*hi = ranges[rule][1];
}

/* False: the field has no room for the value. */
static inline bool verbs_set(const struct verbs_field *f, void *at, uint64_t v)
{
	if (f->size > 8 || (f->size < 8 && v >> 8 * f->size))
		return false;
	memcpy((char *)at + f->offset, &v, f->size);
	return true;
}

static inline uint64_t verbs_get(const struct verbs_field *f, const void *at)
{
	return verbs_number((const char *)at + f->offset, f->size);
}

/* VALUES_MAX at most. */
static inline unsigned int verbs_values(const struct verbs_limits *x, unsigned int rule, uint64_t *out)
{
	uint64_t lo, hi;

	verbs_range(x, rule, &lo, &hi);
	return values_to_try(true, lo, hi, out);
}

/* A struct that every rule allows; each field at the lower end of its range, or at the upper. */
static inline void verbs_good(const struct verbs_limits *x, enum verbs_shape shape, void *at, bool upper)
{
	const struct verbs_type *t = &verbs_types[shape];
	uint64_t lo, hi;
	unsigned int i;

	memset(at, 0, t->size);
	for (i = 0; i < t->n; i++) {
		verbs_range(x, t->fields[i].rule, &lo, &hi);
		if (!upper || !verbs_set(&t->fields[i], at, hi))
			verbs_set(&t->fields[i], at, lo);
	}
}

/* ---- immediate words ------------------------------------------------------------------------------ */

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
#define WORD_FIELDS(name) static const struct word_field word_fields_##name[] = { WORD_##name(WORD_ENTRY) };
WORDS(WORD_FIELDS)

static const struct word_type {
	const char *name;
	const struct word_field *fields;
	unsigned int n;
} word_types[] = {
#define WORD_TYPE(name) { #name, word_fields_##name, sizeof(word_fields_##name) / sizeof(struct word_field) },
	WORDS(WORD_TYPE)
#undef WORD_TYPE
};

/* Of a field: the lowest and highest value; below 0: none. */
static inline void word_range(const struct word_limits *x, enum word_kind kind, unsigned int field, int64_t *lo,
			      int64_t *hi)
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
