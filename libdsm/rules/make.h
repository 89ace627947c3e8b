/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * make.h - makes the checks of a table of rules: one rule for each field of each struct that comes from elsewhere. A header with
 * such a table (rules.h of net/verbs, net/shared, net/ucx, share) defines, with its own prefix, and includes this once:
 *
 *   RULES_TABLE(R)       R(rule, lowest, highest, in words) for each rule; x: struct PREFIX_limits, what a field is held against
 *   RULES_SHAPES(V)      V(shape, struct, bytes) for each shape; a struct whose fields mean different things has several
 *   RULES_FIELDS(shape)  the macro of a shape, which has F(struct, field, rule) for each field, in their order
 *   RULES_NAME(x), RULES_CONST(x)  x with the prefix, in small and in capital letters
 *
 * It makes enum PREFIX_rule, PREFIX_holds_RULE(number, x) and PREFIX_is_SHAPE(struct, x). A field without a rule, or with two,
 * does not compile. A field of more than 8 bytes is a string, whose rule is about its length, or may be anything. Pure; in
 * a layer of its own, for librshare includes nothing else of libdsm.
 */
#ifndef RULES_MAKE_H
#define RULES_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A number of 1 to 8 bytes (1, 2, 4 or 8 where it is often asked for: others go through memory), or the length of a string: all its bytes, if it has no end. */
static inline uint64_t rules_number(const void *at, size_t size)
{
	uint64_t v = 0;

	if (size > sizeof(v))
		return strnlen(at, size);
	memcpy(&v, at, size);
	return v;
}

static inline bool rules_within(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v >= lo && v <= hi;
}

#endif

#ifdef RULES_TABLE

#define RULES_ENUM(rule, lo, hi, text) RULES_CONST(RULE_##rule),
enum RULES_NAME(rule) { RULES_TABLE(RULES_ENUM) RULES_CONST(RULE_COUNT) };

#define RULES_HOLDS(rule, lo, hi, text)                                                              \
	static inline bool RULES_NAME(holds_##rule)(uint64_t v, const struct RULES_NAME(limits) * x) \
	{                                                                                            \
		(void)x;                                                                             \
		return rules_within(v, lo, hi);                                                      \
	}
RULES_TABLE(RULES_HOLDS)

/* Does each field keep its rule? */
#define RULES_ROW(type, field, rule) &&RULES_NAME(holds_##rule)(rules_number(&p->field, sizeof(p->field)), x)
#define RULES_IS(shape, type, bytes)                                                                         \
	static inline bool RULES_NAME(is_##shape)(const struct type *p, const struct RULES_NAME(limits) * x) \
	{                                                                                                    \
		return true RULES_FIELDS(shape)(RULES_ROW);                                                  \
	}
RULES_SHAPES(RULES_IS)

/* The rows, laid out without holes, are the struct. */
#define RULES_FIELD(type, field, rule) __typeof__(((struct type *)0)->field) field;
#define RULES_PLACE(type, field, rule)                                                                                \
	_Static_assert(offsetof(ruled, field) == offsetof(struct type, field), "a field without a rule");             \
	_Static_assert(sizeof(((struct type *)0)->field) <= 8 || RULES_CONST(RULE_##rule) == RULES_CONST(RULE_ANY) || \
			       __builtin_types_compatible_p(__typeof__(((struct type *)0)->field), char[]),           \
		       "a rule for a number or a string");
#define RULES_RULED(shape, type, bytes)                                             \
	static inline void RULES_NAME(ruled_##shape)(void)                          \
	{                                                                           \
		typedef struct {                                                    \
			RULES_FIELDS(shape)(RULES_FIELD)                            \
		} __attribute__((packed)) ruled;                                    \
		_Static_assert(sizeof(ruled) == (bytes), "a field without a rule"); \
		RULES_FIELDS(shape)(RULES_PLACE)                                    \
	}
RULES_SHAPES(RULES_RULED)

#undef RULES_ENUM
#undef RULES_HOLDS
#undef RULES_ROW
#undef RULES_IS
#undef RULES_FIELD
#undef RULES_PLACE
#undef RULES_RULED
#undef RULES_TABLE
#undef RULES_SHAPES
#undef RULES_FIELDS
#undef RULES_NAME
#undef RULES_CONST

#endif
