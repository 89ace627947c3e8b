/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_args.h - values for the fields of an argument, from the table that the module checks by
 * (rules.h): any allowed value, and values just inside and just outside the range.
 */
#ifndef KMOD_ARGS_H
#define KMOD_ARGS_H

#include <stdbool.h>

#include "rules.h"

/* What the module counts by, of the context that the argument is for. */
struct args_limits {
	uint32_t pages;
	uint16_t ranks, me;
	uint16_t peer; /* that CONNECT names */
};

#define ARGS_EDGES 12u

/* A value of that field: the first of an array's elements if it is one. */
uint64_t args_get(const struct dsm_rule *r, const void *arg);
void args_put(const struct dsm_rule *r, void *arg, uint64_t value);

/* An allowed value, given the fields before it. ANY, POINTER and the like: what stands there. */
uint64_t args_inside(const struct dsm_rule *r, const struct args_limits *l, const void *arg,
		     uint64_t *random);

/*
 * The smallest, the largest, and their neighbours that the rule does not allow (true in `bad`);
 * returns how many.
 */
unsigned int args_edges(const struct dsm_rule *r, const struct args_limits *l, const void *arg,
			uint64_t *value, bool *bad);

/* The whole argument: every field allowed. ANY, POINTER, NONZERO and TEXT stay as they are. */
void args_fill(const struct dsm_variant *v, const struct args_limits *l, void *arg,
	       uint64_t *random);

/*
 * What to give to ioctl(2): the address of the argument, or the argument itself if the call takes
 * it by value.
 */
void *args_pass(const struct dsm_variant *v, void *arg);

const struct dsm_variant *args_variant(const char *name);
unsigned int args_number(const char *name); /* its place in dsm_variants */

#endif
