/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* set.h - sets of ranks in 64 bits: exact up to 64 ranks, beyond that one bit for a group of neighbours (coarse vector). */
#ifndef CORE_SET_H
#define CORE_SET_H

#include "core/types.h"

#define SET_NOBODY 0xffff /* no rank has this number */

static inline uint16_t set_granule(uint16_t nranks)
{
	return (uint16_t)((nranks + 63) / 64);
}

static inline uint64_t set_of(uint16_t rank, uint16_t granule)
{
	return 1ULL << (rank / granule);
}

static inline bool set_has(uint64_t set, uint16_t rank, uint16_t granule)
{
	return set >> (rank / granule) & 1;
}

/* Next member at or after rank, skipping two; nranks when there is none. */
static inline uint16_t set_next(uint64_t set, uint16_t rank, uint16_t nranks, uint16_t granule, uint16_t skip1,
				uint16_t skip2)
{
	while (rank < nranks && (!set_has(set, rank, granule) || rank == skip1 || rank == skip2))
		rank++;
	return rank;
}

static inline uint16_t set_count(uint64_t set, uint16_t nranks, uint16_t granule, uint16_t skip1, uint16_t skip2)
{
	uint16_t n = 0, r;

	for (r = set_next(set, 0, nranks, granule, skip1, skip2); r < nranks;
	     r = set_next(set, (uint16_t)(r + 1), nranks, granule, skip1, skip2))
		n++;
	return n;
}

#endif
