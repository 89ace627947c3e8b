/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * make.h - makes the checks of a table of rules: one rule for each field of each struct that comes
 * from elsewhere. A header with such a table (rules.h of net/verbs, net/shared, net/ucx, share,
 * calls) defines, with its own prefix, and includes this once:
 *
 *   RULES_TABLE(R)       R(rule, lowest, highest, in words) for each rule; x: struct PREFIX_limits,
 *                        what a field is held against
 *   RULES_SHAPES(V)      V(shape, struct, bytes) for each shape; a struct whose fields mean
 *                        different things has several
 *   RULES_FIELDS(shape)  the macro of a shape, which has F(struct, field, rule) for each field, in
 *                        their order
 *   RULES_NAME(x), RULES_CONST(x)  x with the prefix, in small and in capital letters
 *
 * and if a rule depends on other fields, or is no range:
 *
 *   RULES_READ(at, size, x)  rules_number(), which may note in *x what the next fields are held
 *                            against
 *   RULES_ALSO(rule, v, x)   what else must be true of the value; may be a function that is defined
 *                            after the inclusion
 *
 * It makes enum PREFIX_rule, PREFIX_holds_RULE(number, x) and PREFIX_is_SHAPE(struct, x). A field
 * without a rule, or with two, does not compile. A field of more than 8 bytes is a string, whose
 * rule is about its length, or may be anything. Pure; in a layer of its own, for librshare includes
 * nothing else of libdsm.
 */
#ifndef RULES_MAKE_H
#define RULES_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A number of 1 to 8 bytes (1, 2, 4 or 8 where it is often asked for: others go through memory), or
 * the length of a string: all its bytes, if it has no end.
 */
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

#ifndef RULES_READ
#define RULES_READ(at, size, x) rules_number(at, size)
#endif
#ifndef RULES_ALSO
#define RULES_ALSO(rule, v, x) true
#endif

#define RULES_HOLDS(rule, lo, hi, text)                                                       \
	static inline bool RULES_NAME(holds_##rule)(uint64_t v,                               \
						    const struct RULES_NAME(limits) * x)      \
	{                                                                                     \
		(void)x;                                                                      \
		return rules_within(v, lo, hi) && RULES_ALSO(RULES_CONST(RULE_##rule), v, x); \
	}
RULES_TABLE(RULES_HOLDS)

/* Does each field keep its rule? */
#define RULES_ROW(type, field, rule) \
	&&RULES_NAME(holds_##rule)(RULES_READ(&p->field, sizeof(p->field), x), x)
#define RULES_IS(shape, type, bytes)                                                   \
	static inline bool RULES_NAME(is_##shape)(const struct type *p,                \
						  const struct RULES_NAME(limits) * x) \
	{                                                                              \
		(void)p, (void)x;                                                      \
		return true RULES_FIELDS(shape)(RULES_ROW);                            \
	}
RULES_SHAPES(RULES_IS)

/*
 * The sizes of the fields add up to that of the struct, and none has two rows, which would be a
 * case twice.
 */
#define RULES_BYTES(type, field, rule) +sizeof(((struct type *)0)->field)
#define RULES_PLACE(type, field, rule) case offsetof(struct type, field):
#define RULES_KIND(type, field, rule)                                                              \
	_Static_assert(sizeof(((struct type *)0)->field) <= 8 ||                                   \
			       RULES_CONST(RULE_##rule) == RULES_CONST(RULE_ANY) ||                \
			       __builtin_types_compatible_p(__typeof__(((struct type *)0)->field), \
							    char[]),                               \
		       "a rule for a number or a string");
#define RULES_RULED(shape, type, bytes)                                       \
	static inline void RULES_NAME(ruled_##shape)(size_t n)                \
	{                                                                     \
		_Static_assert(0 RULES_FIELDS(shape)(RULES_BYTES) == (bytes), \
			       "a field without a rule");                     \
		RULES_FIELDS(shape)(RULES_KIND) switch (n)                    \
		{                                                             \
			RULES_FIELDS(shape)(RULES_PLACE) default : break;     \
		}                                                             \
	}
RULES_SHAPES(RULES_RULED)

#undef RULES_ENUM
#undef RULES_HOLDS
#undef RULES_ROW
#undef RULES_IS
#undef RULES_BYTES
#undef RULES_PLACE
#undef RULES_KIND
#undef RULES_RULED
#undef RULES_TABLE
#undef RULES_SHAPES
#undef RULES_FIELDS
#undef RULES_READ
#undef RULES_ALSO
#undef RULES_NAME
#undef RULES_CONST

#endif
