/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * barriers.h - worlds of one barrier and its threads, or of two successive barriers with the same
 * number.
 */
#ifndef MODEL_BARRIERS_H
#define MODEL_BARRIERS_H

#include "search.h"

/*
 * What a thread does with the old handle: one call; or one call, then all episodes with the new
 * handle.
 */
enum bar_old { BAR_OLD = 1, BAR_OLD_FIRST };

struct bar_cfg {
	uint8_t nnodes;
	uint8_t locals;     /* ranks per node; thread t is one of rank t % locals; 0: one */
	uint8_t threads[4]; /* threads of each node */
	uint8_t says[4][4]; /* number of threads of a rank, as each thread claims */
	uint8_t parent[4];  /* the tree; node 0 is the root */
	uint8_t episodes;
	/* The barrier was destroyed and made again, maybe with other members and another tree. */
	bool remade;
	uint8_t old[4][4];  /* by thread: enum bar_old */
	uint8_t members[2]; /* members of the new and of the old barrier; 0: all */
	uint8_t was[4];     /* the old tree */
	bool spoiled;       /* the threads contradict each other: all must get an error */
	bool fifo;
};

extern const struct model bar_model;

#endif
