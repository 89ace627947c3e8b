/* SPDX-License-Identifier: BSD-2-Clause */
/* tree.C - building the tree, and the force on a body. */
#include <math.h>
#include "tree.h"
#include <string.h>

EXTERN_ENV

static __thread int axis;

void cell_range(int cell, int *first, int *last)
{
	int level = 0;

	while (cell >> (level + 1))
		level++;
	*first = (cell - (1 << level)) * (BODIES >> level);
	*last = *first + (BODIES >> level);
}

static int compare(const void *x, const void *y)
{
	const double a = global->bodies[*(const int *)x].at[axis], b = global->bodies[*(const int *)y].at[axis];

	return a < b ? -1 : a > b ? 1 : *(const int *)x - *(const int *)y;
}

/* A leaf adds its bodies to all cells above. */
static void add_up(int leaf)
{
	long moment[3] = { 0, 0, 0 };
	int first, last, i, k, c;

	cell_range(leaf, &first, &last);
	for (i = first; i < last; i++)
		for (k = 0; k < 3; k++)
			moment[k] += (long)(global->bodies[global->order[i]].at[k] * UNIT);
	for (c = leaf; c; c /= 2) {
		ALOCK(global->cell_lock, c % LOCKS)
		global->cells[c].n += last - first;
		for (k = 0; k < 3; k++)
			global->cells[c].moment[k] += moment[k];
		AULOCK(global->cell_lock, c % LOCKS)
	}
}

static void begin(int cell)
{
	struct cell *c = &global->cells[cell];
	int first, last, i;
	double low, high;

	c->n = c->moment[0] = c->moment[1] = c->moment[2] = 0;
	cell_range(cell, &first, &last);
	low = high = global->bodies[global->order[first]].at[axis];
	for (i = first; i < last; i++) {
		double x = global->bodies[global->order[i]].at[axis];

		low = x < low ? x : low;
		high = x > high ? x : high;
	}
	c->width = high - low;
	qsort(&global->order[first], last - first, sizeof(int), compare);
}

/* By all threads: level by level, then the sums. */
void tree_build(long threads)
{
	int level;
	long i;

	for (level = 0; level <= LEVELS; level++) {
		axis = level % 3;
		for (;;) {
			GETSUB(global->work, i, (1 << level) - 1, threads);
			if (i < 0)
				break;
			begin((1 << level) + i);
		}
	}
	for (;;) {
		GETSUB(global->work, i, (1 << LEVELS) - 1, threads)
		if (i < 0)
			break;
		add_up((1 << LEVELS) + i);
	}
}

static void pull(struct body *b, const double *at, double mass)
{
	double d[3], r2 = 0.01;
	int k;

	for (k = 0; k < 3; k++) {
		d[k] = at[k] - b->at[k];
		r2 += d[k] * d[k];
	}
	for (k = 0; k < 3; k++)
		b->force[k] += mass * d[k] / (r2 * sqrt(r2));
}

static void visit(struct body *b, int cell)
{
	const struct cell *c = &global->cells[cell];
	double at[3], r2 = 0;
	int k, first, last, i;

	for (k = 0; k < 3; k++) {
		at[k] = (double)c->moment[k] / (double)c->n / UNIT;
		r2 += (at[k] - b->at[k]) * (at[k] - b->at[k]);
	}
	if (c->width * c->width < 0.25 * r2) {
		pull(b, at, (double)c->n / BODIES);
	} else if (cell < 1 << LEVELS) {
		visit(b, 2 * cell);
		visit(b, 2 * cell + 1);
	} else {
		cell_range(cell, &first, &last);
		for (i = first; i < last; i++)
			pull(b, global->bodies[global->order[i]].at, 1.0 / BODIES);
	}
}

void tree_force(struct body *b)
{
	memset(b->force, 0, sizeof(b->force));
	visit(b, 1);
}
