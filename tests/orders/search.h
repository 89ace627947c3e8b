/* SPDX-License-Identifier: BSD-2-Clause */
/* search.h - runs a scene under a memory model in every way. */
#ifndef ORDERS_SEARCH_H
#define ORDERS_SEARCH_H

#include "machine.h"

enum verdict { HOLDS, VIOLATED, GAVE_UP };

struct step {
	unsigned int thread;
	struct op op;
};

/* why, steps: of the run that is violated, until the next search. */
struct result {
	enum verdict verdict;
	size_t states, runs;
	const char *why;
	const struct step *steps;
	unsigned int nsteps;
};

/* GAVE_UP: it takes longer than `seconds`. */
struct result search(const struct scene *scene, const struct model *model, double seconds);

/* The name of shared memory, and the byte in it. */
const char *memory_name(const void *at, size_t *offset);

/* Put the running thread to sleep until another thread wakes it. */
void thread_sleep(void);

/* The memory model of this search. */
const struct model *current_model(void);

double now_seconds(void);

#endif
