/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rule_types.h - makes a table of rules one to walk. With the macros of rules/make.h defined, and
 * RULES_TYPES: enum PREFIX_shape, and `static const struct rule_table RULES_TYPES`.
 */

#ifdef RULES_TYPES

#define SHAPE_NAME(shape, type, bytes) RULES_CONST(SHAPE_##shape),
enum RULES_NAME(shape) { RULES_SHAPES(SHAPE_NAME) RULES_CONST(SHAPE_COUNT) };

#define FIELD_ENTRY(type, field, rule)                                             \
	{ #field, offsetof(struct type, field), sizeof(((struct type *)0)->field), \
	  RULES_CONST(RULE_##rule) },
#define SHAPE_FIELDS(shape, type, bytes)           \
	static const struct rule_field RULES_NAME( \
		fields_##shape)[] = { RULES_FIELDS(shape)(FIELD_ENTRY) };
RULES_SHAPES(SHAPE_FIELDS)

#define SHAPE_ENTRY(shape, type, bytes)              \
	{ #shape, #type, RULES_NAME(fields_##shape), \
	  sizeof(RULES_NAME(fields_##shape)) / sizeof(struct rule_field), bytes },
static const struct rule_type RULES_NAME(types)[] = { RULES_SHAPES(SHAPE_ENTRY) };

#define RULE_TEXT(rule, lo, hi, text) text,
static const char *const RULES_NAME(texts)[] = { RULES_TABLE(RULE_TEXT) };

#define RULE_RANGE(rule, lo, hi, text) { (uint64_t)(lo), (uint64_t)(hi) },
static inline void RULES_NAME(range)(const void *limits, unsigned int rule, uint64_t *lo,
				     uint64_t *hi)
{
	const struct RULES_NAME(limits) *x = limits;
	const uint64_t ranges[][2] = { RULES_TABLE(RULE_RANGE) };

	*lo = ranges[rule][0];
	*hi = ranges[rule][1];
}

static const struct rule_table RULES_TYPES = { RULES_NAME(types), RULES_NAME(texts),
					       RULES_NAME(range), RULES_CONST(RULE_ANY),
					       RULES_CONST(RULE_COUNT) };

#undef SHAPE_NAME
#undef FIELD_ENTRY
#undef SHAPE_FIELDS
#undef SHAPE_ENTRY
#undef RULE_TEXT
#undef RULE_RANGE
#undef RULES_TYPES
#undef RULES_TABLE
#undef RULES_SHAPES
#undef RULES_FIELDS
#undef RULES_NAME
#undef RULES_CONST

#endif
