// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_args.h"

#include <stdlib.h>
#include <string.h>

#include "tests/kmod/common.h"

static unsigned int width(const struct dsm_rule *r)
{
	return r->kind == ARG_EACH                              ? 2
		: r->kind == ARG_TEXT || r->kind == ARG_NONZERO ? 1
		: r->size < 8                                   ? r->size
								: 8;
}

uint64_t args_get(const struct dsm_rule *r, const void *arg)
{
	uint64_t v = 0;

	memcpy(&v, (const char *)arg + r->at, width(r));
	return v;
}

void args_put(const struct dsm_rule *r, void *arg, uint64_t value)
{
	memcpy((char *)arg + r->at, &value, width(r));
}

/*
 * The fields page, pages and size are at the same offset in all structs whose rules refer to them.
 */
static uint32_t word(const void *arg, size_t at)
{
	uint32_t v;

	memcpy(&v, (const char *)arg + at, sizeof(v));
	return v;
}

static uint16_t own_size(const void *arg)
{
	return ((const struct dsm_ioc_join *)arg)->size;
}

/*
 * The range of values that a rule allows: lowest, highest, step. False: the rule allows no range.
 */
static bool span(const struct dsm_rule *r, const struct args_limits *l, const void *arg,
		 int64_t *lo, int64_t *hi, int64_t *step)
{
	*lo = 0;
	*step = 1;
	switch (r->kind) {
	case ARG_ZERO: *hi = 0; return true;
	case ARG_IS: *lo = *hi = r->a; return true;
	case ARG_NUMBER:
	case ARG_SIGNED:
	case ARG_EACH:
		*lo = r->a;
		*hi = (int64_t)r->b;
		return true;
	case ARG_MULTIPLE:
		*lo = *step = r->a;
		*hi = (int64_t)r->b;
		return true;
	case ARG_INDEX:
	case ARG_INDEX_OR: *hi = (int64_t)r->b - 1; return true;
	case ARG_RANK: *hi = l->ranks - 1; return true;
	case ARG_PEER: *lo = *hi = l->peer; return true;
	case ARG_SIZE: *lo = *hi = l->ranks; return true;
	case ARG_OWN_RANK: *hi = own_size(arg) - 1; return true;
	case ARG_BARRIER:
		*lo = 1;
		*hi = (int64_t)(l->ranks * r->b) - 1;
		return true;
	case ARG_PAGE:
		*step = r->a;
		*hi = ((int64_t)l->pages - 1) / r->a * r->a;
		return true;
	case ARG_PAGES: /* `page` precedes `pages` in all structs */
		*lo = *step = r->a;
		*hi = ((int64_t)l->pages - word(arg, r->at - 4)) / r->a * r->a;
		return true;
	default: return false;
	}
}

uint64_t args_inside(const struct dsm_rule *r, const struct args_limits *l, const void *arg,
		     uint64_t *random)
{
	int64_t lo, hi, step;
	unsigned int bit;

	if (r->kind == ARG_INDEX_OR && !pick(random, 2))
		return (uint64_t)r->a;
	if (span(r, l, arg, &lo, &hi, &step))
		return (uint64_t)lo +
			(hi > lo ? next(random) % (uint64_t)((hi - lo) / step + 1) * (uint64_t)step
				 : 0);
	switch (r->kind) {
	case ARG_FLAGS: return next(random) & r->b;
	case ARG_OBJECT: return 1 + pick(random, 16);
	case ARG_GROUP:
		return pick(random, 2)
			? 0
			: (l->ranks >= 64 ? next(random)
					  : next(random) & ((1ull << l->ranks) - 1)) |
				1ull << l->me;
	case ARG_ONE_OF:
		do
			bit = pick(random, 64);
		while (!(r->b >> bit & 1));
		return bit;
	default: return args_get(r, arg);
	}
}

/* Can the field hold the value? */
static bool fits(const struct dsm_rule *r, int64_t v)
{
	const unsigned int bits = width(r) * 8;
	const bool is_signed = r->kind == ARG_SIGNED || r->kind == ARG_EACH;

	if (is_signed)
		return v >= -(1ll << (bits - 1)) && v < 1ll << (bits - 1);
	return v >= 0 && (bits == 64 || v < 1ll << bits);
}

struct edges {
	const struct dsm_rule *r;
	uint64_t *value;
	bool *bad;
	unsigned int n;
};

static void edge(struct edges *e, int64_t v, bool bad)
{
	if (e->n == ARGS_EDGES || !fits(e->r, v))
		return;
	e->value[e->n] = (uint64_t)v;
	e->bad[e->n++] = bad;
}

unsigned int args_edges(const struct dsm_rule *r, const struct args_limits *l, const void *arg,
			uint64_t *value, bool *bad)
{
	struct edges e = { r, value, bad, 0 };
	int64_t lo, hi, step;
	unsigned int i;

	if (span(r, l, arg, &lo, &hi, &step)) {
		if (hi >= lo) {
			edge(&e, lo, false);
			edge(&e, hi, false);
		}
		edge(&e, lo - 1, r->kind != ARG_INDEX_OR || lo - 1 != r->a);
		edge(&e, hi + 1, r->kind != ARG_INDEX_OR || hi + 1 != r->a);
		edge(&e, hi + step, r->kind != ARG_INDEX_OR || hi + step != r->a);
		if (step > 1 && hi > lo)
			edge(&e, lo + 1, true);
		if (r->kind == ARG_INDEX_OR) {
			edge(&e, r->a, false);
			edge(&e, r->a + 1, true);
		}
		/*
		 * The largest value of the field's width; above INT_MAX, it is negative as an int.
		 */
		if (width(r) < 8 && hi < (1ll << (width(r) * 8)) - 1 && r->kind != ARG_EACH &&
		    r->kind != ARG_SIGNED)
			edge(&e, (1ll << (width(r) * 8)) - 1, true);
		return e.n;
	}
	for (i = 0; i < width(r) * 8; i++) {
		if (r->kind == ARG_FLAGS)
			edge(&e, (int64_t)(1ull << i), !(r->b >> i & 1));
		else if (r->kind == ARG_ONE_OF && i < 64 && (!(r->b >> i & 1) || i == 0))
			edge(&e, i, !(r->b >> i & 1));
		else if (r->kind == ARG_GROUP && i + 1 >= l->ranks && i < l->ranks + 4u && i < 63)
			edge(&e, (int64_t)(1ull << i | 1ull << l->me), i >= l->ranks);
	}
	if (r->kind == ARG_GROUP && l->ranks > 1)
		edge(&e, 1ll << (l->me ? 0 : 1), true); /* a mask without this rank */
	if (r->kind == ARG_OBJECT) {
		edge(&e, 0, true);
		edge(&e, (int64_t)r->b + 1, true);
	}
	if (r->kind == ARG_ONE_OF) {
		edge(&e, 64, true);
		edge(&e, 255, true);
	}
	return e.n;
}

void args_fill(const struct dsm_variant *v, const struct args_limits *l, void *arg,
	       uint64_t *random)
{
	unsigned int i;

	for (i = 0; i < v->n; i++)
		/* its rank is followed by the field that depends on it */
		if (v->rules[i].kind == ARG_OWN_RANK)
			args_put(&v->rules[i + 1], arg,
				 args_inside(&v->rules[i + 1], l, arg, random));
	for (i = 0; i < v->n; i++) {
		const struct dsm_rule *r = &v->rules[i];

		if (i && v->rules[i - 1].kind == ARG_OWN_RANK)
			continue;
		if (r->kind != ARG_ANY && r->kind != ARG_POINTER && r->kind != ARG_TEXT &&
		    r->kind != ARG_NONZERO)
			args_put(r, arg, args_inside(r, l, arg, random));
	}
}

unsigned int args_number(const char *name)
{
	unsigned int i;

	for (i = 0; i < dsm_nvariants; i++)
		if (!strcmp(dsm_variants[i].name, name))
			return i;
	abort();
}

void *args_pass(const struct dsm_variant *v, void *arg)
{
	void *value;

	if (v->cmd != DSM_IOC_PROTECT_PAGE)
		return arg;
	memcpy(&value, arg, sizeof(value));
	return value;
}

const struct dsm_variant *args_variant(const char *name)
{
	return &dsm_variants[args_number(name)];
}
