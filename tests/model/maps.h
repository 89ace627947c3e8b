/* SPDX-License-Identifier: BSD-2-Clause */
/* maps.h - worlds of one page of one node, whose ranks map the same copy of it. */
#ifndef MODEL_MAPS_H
#define MODEL_MAPS_H

#include "core/map.h"
#include "search.h"

struct map_cfg {
	uint8_t nranks;
	uint16_t rank[3]; /* what the ranks are called: some share a bit */
	uint8_t kind;     /* enum map_kind */
	uint8_t ops[3];   /* accesses of each rank */
	bool early;       /* markers are laid before they are needed, as by a neighbour's filling */
	bool ahead;       /* ranks map the page before they touch it */
	/* What a host must not do. */
	bool unlocked;  /* again() does not wait for a change under way */
	bool wrong_way; /* contents leave before the mappings are lowered */
};

extern const struct model map_model;

#endif
