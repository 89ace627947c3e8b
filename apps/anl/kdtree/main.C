/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main.C - an ANL program: bodies that attract each other. Each step builds a k-d tree, whose cells collect their bodies under an
 * array of locks. Arguments: threads, steps.
 */
#include <stdio.h>
#include "tree.h"

MAIN_ENV

struct global *global;
static long steps = 2;

static void work(void)
{
	long me, i, step, energy;
	struct body *b;
	int k;

	THREAD_INIT_FREE();
	BARINCLUDE(global->phase);
	LOCK(global->sum_lock)
	me = global->ids++;
	UNLOCK(global->sum_lock)
	for (step = 0; step < steps; step++) {
		energy = 0;
		tree_build(global->threads);
		BARRIER(global->phase, global->threads)
		for (i = me; i < BODIES; i += global->threads)
			tree_force(&global->bodies[global->order[i]]);
		BARRIER(global->phase, global->threads);
		for (i = me; i < BODIES; i += global->threads) {
			b = &global->bodies[global->order[i]];
			for (k = 0; k < 3; k++) {
				b->speed[k] += 0.01 * b->force[k];
				b->at[k] += 0.01 * b->speed[k];
				energy += (long)(b->speed[k] * b->speed[k] * UNIT);
			}
		}
		LOCK(global->sum_lock);
		global->energy += energy;
		UNLOCK(global->sum_lock);
		BARRIER(global->phase, global->threads);
	}
}

int main(int argc, char **argv)
{
	unsigned long begun, ended;
	unsigned seed = 1;
	int i, k;

	MAIN_INITENV(, 1000000)
	global = (struct global *)G_MALLOC(sizeof(struct global))
	global->ids = global->energy = 0;
	global->threads = argc > 1 ? atol(argv[1]) : 1;
	steps = argc > 2 ? atol(argv[2]) : steps;
	LOCKINIT(global->sum_lock);
	ALOCKINIT(global->cell_lock, LOCKS);
	BARINIT(global->phase);
	GSINIT(global->work);
	for (i = 0; i < BODIES; i++) {
		global->order[i] = i;
		for (k = 0; k < 3; k++) {
			global->bodies[i].at[k] = rand_r(&seed) / (double)RAND_MAX;
			global->bodies[i].speed[k] = 0;
		}
	}
	CLOCK(begun);
	CREATE(work, global->threads)
	WAIT_FOR_END(global->threads)
	CLOCK(ended);
	printf("kdtree: %ld bodies, energy %ld, body 7 at %.12f %.12f %.12f\n", global->cells[1].n, global->energy,
	       global->bodies[7].at[0], global->bodies[7].at[1], global->bodies[7].at[2]);
	printf("took %lu us\n", ended - begun);
	MAIN_END
}
