/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * octree.h - for barnes.c: Morton keys of points in a cube, and cells of an octree over bodies
 * sorted by them.
 *
 * The root is level 0; a key has one digit of three bits for each level below.
 */
#ifndef APPS_OCTREE_H
#define APPS_OCTREE_H

#include <stddef.h>
#include <stdint.h>

enum {
	DIMS = 3,
	LEVELS = 21 /* three bits each fill a key of 63 */
};

struct point { /* of a body, what others read */
	double x[DIMS], mass;
};

/*
 * Cells of a subtree lie in the order of a walk from the root that opens all; skip leads past the
 * cell's children.
 */
struct cell {
	double x[DIMS], mass; /* centre of mass */
	double reach2;        /* square of the distance from which the cell counts as one body */
	uint32_t skip;
	uint32_t start, count; /* a leaf's bodies; count 0: not a leaf */
};

/* Spread the low 21 bits three apart. */
static inline uint64_t spread(uint64_t v)
{
	v = (v | v << 32) & 0x001f00000000ffff;
	v = (v | v << 16) & 0x001f0000ff0000ff;
	v = (v | v << 8) & 0x100f00f00f00f00f;
	v = (v | v << 4) & 0x10c30c30c30c30c3;
	return (v | v << 2) & 0x1249249249249249;
}

static inline uint64_t key_of(const double x[DIMS], double half)
{
	uint64_t key = 0;

	for (int d = 0; d < DIMS; d++)
		key |= spread((uint64_t)((x[d] + half) / (2 * half) * (1 << LEVELS)) &
			      ((1 << LEVELS) - 1))
			<< d;
	return key;
}

static inline unsigned digit(uint64_t key, unsigned level)
{
	return key >> 3 * (LEVELS - 1 - level) & 7;
}

/* Level of the smallest cell that holds both keys. */
static inline unsigned common_level(uint64_t a, uint64_t b)
{
	return a == b ? LEVELS : ((unsigned)__builtin_clzll(a ^ b) - 1) / 3;
}

/* First of bodies lo to hi whose digit at the level is not below d. */
static inline size_t lower_digit(const uint64_t *key, size_t lo, size_t hi, unsigned level,
				 unsigned d)
{
	while (lo < hi) {
		size_t middle = (lo + hi) / 2;

		if (digit(key[middle], level) < d)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

/* The cell common to both keys, in a cube from -half to half, lengths over the opening angle. */
static inline void cell_begin(struct cell *c, double half, uint64_t first_key, uint64_t last_key)
{
	unsigned level = common_level(first_key, last_key);
	double reach = level == LEVELS ? 0 : 2 * half / (double)(1u << level);

	*c = (struct cell){ .reach2 = reach * reach };
}

static inline void cell_add(struct cell *c, const double x[DIMS], double mass)
{
	for (int d = 0; d < DIMS; d++)
		c->x[d] += mass * x[d];
	c->mass += mass;
}

static inline void cell_end(struct cell *c, uint32_t skip)
{
	for (int d = 0; d < DIMS; d++)
		c->x[d] /= c->mass;
	c->skip = skip;
}

static inline void cell_leaf(struct cell *c, const struct point *point, size_t start, size_t count)
{
	c->start = (uint32_t)start;
	c->count = (uint32_t)count;
	for (size_t i = start; i < start + count; i++)
		cell_add(c, point[i].x, point[i].mass);
}

#endif
