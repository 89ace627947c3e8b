/* SPDX-License-Identifier: BSD-2-Clause */
/* barriers.h - worlds of one barrier and the threads that meet there; or of two that have one number, one after the other. */
#ifndef MODEL_BARRIERS_H
#define MODEL_BARRIERS_H

#include "search.h"

/* A thread has the old handle, for one call; or then the new one, for all episodes. */
enum bar_old { BAR_OLD = 1, BAR_OLD_FIRST };

struct bar_cfg {
	uint8_t nnodes;
	uint8_t locals;     /* ranks of a node, of which thread t is one of rank t % locals; 0: one */
	uint8_t threads[4]; /* of each node */
	uint8_t says[4][4]; /* threads a rank has, as its threads say */
	uint8_t parent[4];  /* the tree; node 0 is the root */
	uint8_t episodes;
	/* The barrier was destroyed and made again. Its members and its tree may have been others. */
	bool remade;
	uint8_t old[4][4];  /* of a thread: enum bar_old */
	uint8_t members[2]; /* of the new, of the old; 0: all */
	uint8_t was[4];     /* the old tree */
	bool spoiled;       /* they contradict each other: everybody must be told */
	bool fifo;
};

extern const struct model bar_model;

#endif
