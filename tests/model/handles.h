/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handles.h - worlds of one home's table of objects, with ranks that make, use and destroy objects
 * by shared handles.
 */
#ifndef MODEL_HANDLES_H
#define MODEL_HANDLES_H

#include "search.h"

struct handle_cfg {
	uint8_t nnodes;
	uint8_t places; /* indices of the table */
	uint8_t ops[3]; /* operations of each rank */
	uint32_t gen;   /* generation of all indices at the start */
	/* number of objects made and destroyed there before each object of a rank */
	uint32_t skip;
	bool give;       /* ranks give back mutexes that they have kept */
	bool lock, fifo; /* lock: objects are mutexes; else atomics */
};

extern const struct model handle_model;

#endif
