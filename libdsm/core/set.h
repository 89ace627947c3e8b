/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * set.h - sets of nodes in 64 bits: exact up to 64 nodes; with more nodes, each bit stands for
 * several (coarse vector).
 */
#ifndef CORE_SET_H
#define CORE_SET_H

#include "core/types.h"

#define SET_NOBODY 0xffff /* no node has this number */

static inline uint16_t set_granule(uint16_t nnodes)
{
	return (uint16_t)((nnodes + 63) / 64);
}

static inline uint64_t set_of(uint16_t node, uint16_t granule)
{
	return 1ULL << (node / granule);
}

static inline bool set_has(uint64_t set, uint16_t node, uint16_t granule)
{
	return set >> (node / granule) & 1;
}

/* The next member at or after node, except skip1 and skip2; nnodes if there is none. */
static inline uint16_t set_next(uint64_t set, uint16_t node, uint16_t nnodes, uint16_t granule,
				uint16_t skip1, uint16_t skip2)
{
	while (node < nnodes && (!set_has(set, node, granule) || node == skip1 || node == skip2))
		node++;
	return node;
}

static inline uint16_t set_count(uint64_t set, uint16_t nnodes, uint16_t granule, uint16_t skip1,
				 uint16_t skip2)
{
	uint16_t n = 0, r;

	for (r = set_next(set, 0, nnodes, granule, skip1, skip2); r < nnodes;
	     r = set_next(set, (uint16_t)(r + 1), nnodes, granule, skip1, skip2))
		n++;
	return n;
}

#endif
