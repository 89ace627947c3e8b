/* SPDX-License-Identifier: BSD-2-Clause */
/* handles.h - worlds of one home's table of objects, and ranks that make, use and destroy objects by handles they share. */
#ifndef MODEL_HANDLES_H
#define MODEL_HANDLES_H

#include "search.h"

struct handle_cfg {
	uint8_t nnodes;
	uint8_t places;  /* of the table */
	uint8_t ops[3];  /* of each rank */
	uint32_t gen;    /* that all places have had before */
	uint32_t skip;   /* so many others are made and destroyed there before each that a rank makes */
	bool give;       /* ranks give back mutexes that they keep */
	bool lock, fifo; /* mutexes are locked and unlocked; else atomics are added to */
};

extern const struct model handle_model;

#endif
