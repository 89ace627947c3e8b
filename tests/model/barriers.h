/* SPDX-License-Identifier: BSD-2-Clause */
/* barriers.h - worlds of one barrier and the threads that meet there. */
#ifndef MODEL_BARRIERS_H
#define MODEL_BARRIERS_H

#include "search.h"

struct bar_cfg {
	uint8_t nranks;
	uint8_t threads[4]; /* of each rank */
	uint8_t says[4][2]; /* threads a rank has, as its threads say */
	uint8_t parent[4];  /* the tree; rank 0 is the root */
	uint8_t episodes;
	bool spoiled; /* they contradict each other: everybody must be told */
	bool fifo;
};

extern const struct model bar_model;

#endif
