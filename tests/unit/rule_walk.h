/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rule_walk.h - tests each field of a table of rules with values at the bounds of its rule and
 * outside. A struct must be accepted exactly if all its fields are valid.
 */
#ifndef UNIT_RULE_WALK_H
#define UNIT_RULE_WALK_H

#include "../rule_values.h"
#include "suite.h"

struct rule_walk {
	const struct rule_table *table;
	const void *limits;
	/* The rules, expressed in another way. */
	bool (*means)(unsigned int rule, uint64_t v);
	unsigned int refused[96]; /* by rule */
};

/* Is a struct of this shape accepted? */
typedef bool walk_taken(unsigned int shape, const void *at);
/* May the value select the shape, so that another rule applies? */
typedef bool walk_other(const struct rule_field *f, uint64_t v);

static inline void walk_shape(struct rule_walk *w, unsigned int shape, walk_taken *taken,
			      walk_other *other)
{
	const struct rule_type *t = &w->table->types[shape];
	uint64_t values[VALUES_MAX];
	unsigned int i, k, n, upper;
	char at[512];

	for (upper = 0; upper < 2; upper++) {
		rule_good(w->table, w->limits, shape, at, upper);
		if (!taken(shape, at))
			ck_abort_msg("%s is refused", t->name);
	}
	for (i = 0; i < t->n; i++) {
		const struct rule_field *f = &t->fields[i];

		n = rule_values(w->table, w->limits, f->rule, values);
		for (k = 0; k < n; k++) {
			rule_good(w->table, w->limits, shape, at, false);
			if ((f->rule == w->table->any && f->size > 8) ||
			    !rule_set(f, at, values[k]) || (other && other(f, values[k])))
				continue;
			if (taken(shape, at) != w->means(f->rule, values[k]))
				ck_abort_msg("%s: %s %#lx", t->name, f->name,
					     (unsigned long)values[k]);
			w->refused[f->rule] += !w->means(f->rule, values[k]);
		}
	}
}

/* The same for many shapes. */
struct walk {
	unsigned int shape;
	walk_taken *taken;
	walk_other *other;
};

static inline void walk_shapes(struct rule_walk *w, const struct walk *v, unsigned int n)
{
	for (; n--; v++)
		walk_shape(w, v->shape, v->taken, v->other);
}

static inline void walk_end(const struct rule_walk *w)
{
	unsigned int r;

	ck_assert_uint_le(w->table->rules, sizeof(w->refused) / sizeof(w->refused[0]));
	for (r = 0; r < w->table->rules; r++)
		if (r != w->table->any && !w->refused[r])
			ck_abort_msg("no value breaks the rule \"%s\"", w->table->texts[r]);
}

#endif
