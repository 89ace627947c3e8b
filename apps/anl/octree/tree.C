/* SPDX-License-Identifier: BSD-2-Clause */
/* tree.C - building the tree, its sums, and the force on a body. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tree.h"

EXTERN_ENV

#define OPENING 0.7    /* a cell acts as one mass if its edge is less than this part of its distance */
#define SOFTENING 0.05 /* of the distance between bodies */

__thread long tree_locks, tree_changes;

/* Of the calling process. */
static __thread long used;                   /* cells of its pool */
static __thread struct cell *levels[LEVELS]; /* those cells */

static struct cell *cell_of(child_t c)
{
	return &global->pool[(c - 1) / global->room][(c - 1) % global->room];
}

static int octant(const struct cell *c, const double *at)
{
	return (at[0] >= c->middle[0]) + 2 * (at[1] >= c->middle[1]) + 4 * (at[2] >= c->middle[2]);
}

static struct cell *new_cell(long me, long level)
{
	struct cell *c = &global->pool[me][used];

	if (used == global->room || level == LEVELS) {
		fprintf(stderr, "octree: process %ld has no room for a cell of level %ld after %ld cells\n", me, level, used);
		exit(1);
	}
	memset(c, 0, sizeof(*c));
	c->number = me * global->room + used++;
	c->level = level;
	c->next = levels[level];
	levels[level] = c;
	return c;
}

void tree_begin(long me)
{
	double low, high, half = 0;
	struct cell *root;
	long p;
	int k;

	used = 0;
	memset(levels, 0, sizeof(levels));
	if (me)
		return;
	root = new_cell(me, 0);
	for (k = 0; k < 3; k++) {
		low = global->own[0].low[k];
		high = global->own[0].high[k];
		for (p = 1; p < global->processes; p++) {
			low = fmin(low, global->own[p].low[k]);
			high = fmax(high, global->own[p].high[k]);
		}
		root->middle[k] = (low + high) / 2;
		half = fmax(half, (high - low) / 2);
	}
	root->half = half * 1.0001;
}

/* For an octant that has a body: a cell with that body. */
static child_t split(long me, const struct cell *above, int i, child_t body)
{
	struct cell *c = new_cell(me, above->level + 1);
	int k;

	c->half = above->half / 2;
	for (k = 0; k < 3; k++)
		c->middle[k] = above->middle[k] + (i >> k & 1 ? c->half : -c->half);
	c->child[octant(c, global->body[-1 - body].at)] = body;
	return c->number + 1;
}

void tree_insert(long me, long body)
{
	const double *at = global->body[body].at;
	struct cell *c = cell_of(1);
	child_t seen, now = 0;
	int i;

	while (now != -1 - body) {
		i = octant(c, at);
		seen = __atomic_load_n(&c->child[i], __ATOMIC_ACQUIRE);
		if (seen > 0) {
			c = cell_of(seen);
			continue;
		}
		ALOCK(global->cell_lock, c->number % LOCKS)
		/* Another process may have been here since. */
		if (c->child[i] == seen) {
			now = seen ? split(me, c, i, seen) : -1 - body;
			__atomic_store_n(&c->child[i], now, __ATOMIC_RELEASE);
			tree_changes++;
		}
		AULOCK(global->cell_lock, c->number % LOCKS)
		tree_locks++;
	}
}

/* Of what a cell has in an octant. */
static double mass_of(child_t c, const double **at, long *work)
{
	if (c > 0) {
		*at = cell_of(c)->at;
		*work = cell_of(c)->work;
		return cell_of(c)->mass;
	}
	*at = global->body[-1 - c].at;
	*work = global->body[-1 - c].work;
	return 1.0 / global->bodies;
}

static void sum(struct cell *c)
{
	const double *at;
	double mass;
	long work;
	int i, k;

	for (i = 0; i < 8; i++) {
		if (!c->child[i])
			continue;
		mass = mass_of(c->child[i], &at, &work);
		c->mass += mass;
		c->work += work;
		for (k = 0; k < 3; k++)
			c->at[k] += mass * at[k];
	}
	for (k = 0; k < 3; k++)
		c->at[k] /= c->mass;
}

void tree_sum(long me)
{
	long level, p, deepest = 0;
	struct cell *c;

	for (level = 0; level < LEVELS; level++)
		if (levels[level])
			global->own[me].deepest = level;
	BARRIER(global->phase, global->processes)
	for (p = 0; p < global->processes; p++)
		deepest = global->own[p].deepest > deepest ? global->own[p].deepest : deepest;
	for (level = deepest; level >= 0; level--) {
		for (c = levels[level]; c; c = c->next)
			sum(c);
		BARRIER(global->phase, global->processes)
	}
}

/* before: the work in the tree before this cell or body. It is of the process whose part that lies in. */
static long share(child_t c, long before, long from, long to, long *mine, long n)
{
	const double *at;
	long work;
	int i;

	if (c < 0) {
		if (before >= from && before < to)
			mine[n++] = -1 - c;
		return n;
	}
	for (i = 0; i < 8; i++) {
		child_t below = cell_of(c)->child[i];

		if (!below)
			continue;
		mass_of(below, &at, &work);
		if (before < to && before + work > from)
			n = share(below, before, from, to, mine, n);
		before += work;
	}
	return n;
}

long tree_share(long me, long *mine)
{
	const long all = cell_of(1)->work;

	return share(1, 0, me * all / global->processes, (me + 1) * all / global->processes, mine, 0);
}

static void pull(const double *on, double *force, const double *at, double mass)
{
	double d[3], r2 = SOFTENING * SOFTENING;
	int k;

	for (k = 0; k < 3; k++) {
		d[k] = at[k] - on[k];
		r2 += d[k] * d[k];
	}
	mass /= r2 * sqrt(r2);
	for (k = 0; k < 3; k++)
		force[k] += mass * d[k];
}

static bool is_far(const struct cell *c, const double *at)
{
	double r2 = 0;
	int k;

	for (k = 0; k < 3; k++)
		r2 += (c->at[k] - at[k]) * (c->at[k] - at[k]);
	return 4 * c->half * c->half < OPENING * OPENING * r2;
}

static long visit(child_t c, long body, double *force)
{
	const double *on = global->body[body].at;
	long work = 0;
	int i;

	if (c < 0) {
		if (c != -1 - body)
			pull(on, force, global->body[-1 - c].at, 1.0 / global->bodies);
		return 1;
	}
	if (is_far(cell_of(c), on)) {
		pull(on, force, cell_of(c)->at, cell_of(c)->mass);
		return 1;
	}
	for (i = 0; i < 8; i++)
		if (cell_of(c)->child[i])
			work += visit(cell_of(c)->child[i], body, force);
	return work;
}

void tree_force(long body)
{
	double force[3] = { 0, 0, 0 };
	long work = visit(1, body, force);

	memcpy(global->body[body].force, force, sizeof(force));
	global->body[body].work = work;
}

void direct_force(long body, double *force)
{
	long i;

	memset(force, 0, 3 * sizeof(double));
	for (i = 0; i < global->bodies; i++)
		if (i != body)
			pull(global->body[body].at, force, global->body[i].at, 1.0 / global->bodies);
}
