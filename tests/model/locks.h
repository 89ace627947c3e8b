/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks.h - worlds of one queue lock: its home, the hold records of the ranks, and threads that
 * lock and unlock.
 */
#ifndef MODEL_LOCKS_H
#define MODEL_LOCKS_H

#include "search.h"

struct lock_cfg {
	uint8_t nnodes, nthreads;
	uint8_t records; /* hold records per rank: few, so that they are reused soon */
	uint8_t home;
	uint8_t ops[4]; /* by rank: operations of each thread */
	bool try, fifo;
	/* threads of a rank queue behind each other; passes while another rank waits */
	uint8_t passes;
	bool give; /* ranks give back locks that they keep */
	/* threads lock and unlock by the record's word, and are woken without the lock */
	bool fast;
};

extern const struct model lock_model;

#endif
