/* SPDX-License-Identifier: BSD-2-Clause */
/* maps.h - worlds of one page of one node, whose ranks map the same copy of it. */
#ifndef MODEL_MAPS_H
#define MODEL_MAPS_H

#include "core/map.h"
#include "search.h"

struct map_cfg {
	uint8_t nranks;
	uint16_t rank[3]; /* the ranks' indices: some share a bit */
	uint8_t kind;     /* enum map_kind */
	uint8_t ops[3];   /* accesses of each rank */
	/* markers are set before they are needed, as when a neighbour is filled */
	bool early;
	bool ahead; /* ranks map the page before they touch it */
	/* Violations of the host's contract. */
	bool unlocked;  /* again() does not wait for a change in progress */
	bool wrong_way; /* the contents leave before the mappings are lowered */
};

extern const struct model map_model;

#endif
