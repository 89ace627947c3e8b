/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main.C - an ANL program: bodies that attract each other, by the method of Barnes and Hut. In each step, all processes put their bodies
 * into one octree, whose cells are changed under an array of locks. Arguments: processes, bodies, steps.
 *
 * It fails if a body is not in the tree once, or if the forces on some bodies are not those of the sum over all bodies.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "tree.h"

MAIN_ENV

#define STEP 0.01
#define SAMPLE 32      /* bodies whose force is compared */
#define ERROR_MAX 0.03 /* of their forces, relative */

struct global *global;

/* The box around the bodies of a process. */
static void bound(long me, const long *mine, long n)
{
	struct own *o = &global->own[me];
	long i;
	int k;

	for (k = 0; k < 3; k++) {
		o->low[k] = 1e300;
		o->high[k] = -1e300;
		for (i = 0; i < n; i++) {
			o->low[k] = fmin(o->low[k], global->body[mine[i]].at[k]);
			o->high[k] = fmax(o->high[k], global->body[mine[i]].at[k]);
		}
	}
}

static double error(void)
{
	double wrong = 0, all = 0, force[3];
	long i;
	int k;

	for (i = 0; i < global->bodies; i += (global->bodies + SAMPLE - 1) / SAMPLE) {
		direct_force(i, force);
		for (k = 0; k < 3; k++) {
			wrong += (global->body[i].force[k] - force[k]) * (global->body[i].force[k] - force[k]);
			all += force[k] * force[k];
		}
	}
	return sqrt(wrong / all);
}

/* Leapfrog: speeds are half a step ahead of places. */
static void move(struct body *b, long step)
{
	int k;

	for (k = 0; k < 3; k++) {
		b->speed[k] += b->force[k] * (step ? STEP : STEP / 2);
		b->at[k] += b->speed[k] * STEP;
	}
}

static void work(void)
{
	long me, step, i, n = 0, moves = 0, *mine = (long *)malloc(global->bodies * sizeof(long));

	LOCK(global->id_lock)
	me = global->ids++;
	UNLOCK(global->id_lock)
	for (i = me * global->bodies / global->processes; i < (me + 1) * global->bodies / global->processes; i++)
		mine[n++] = i;
	for (step = 0; step < global->steps; step++) {
		bound(me, mine, n);
		BARRIER(global->phase, global->processes)
		tree_begin(me);
		BARRIER(global->phase, global->processes)
		for (i = 0; i < n; i++)
			tree_insert(me, mine[i]);
		tree_sum(me);
		n = tree_share(me, mine);
		BARRIER(global->phase, global->processes)
		for (i = 0; i < n; i++)
			tree_force(mine[i]);
		BARRIER(global->phase, global->processes)
		if (!me && step == global->steps - 1)
			global->error = error();
		BARRIER(global->phase, global->processes)
		for (i = 0; i < n; i++)
			move(&global->body[mine[i]], step);
		moves += n;
	}
	free(mine);
	LOCK(global->id_lock)
	global->locks += tree_locks;
	global->changes += tree_changes;
	global->moves += moves;
	UNLOCK(global->id_lock)
}

/* A model of Plummer, at rest: half of the mass is within 1.3 of the middle, and some of it far away. */
static void place(struct body *b, unsigned *seed)
{
	double r = 1 / sqrt(pow(0.99 * (rand_r(seed) + 1.0) / (RAND_MAX + 2.0), -2.0 / 3) - 1), d2;
	int k;

	do {
		d2 = 0;
		for (k = 0; k < 3; k++) {
			b->at[k] = 2.0 * rand_r(seed) / RAND_MAX - 1;
			d2 += b->at[k] * b->at[k];
		}
	} while (d2 > 1 || d2 < 1e-6);
	for (k = 0; k < 3; k++) {
		b->at[k] *= r / sqrt(d2);
		b->speed[k] = 0;
	}
	b->work = 1;
}

/* The order of an octree around 0: bodies that are neighbours in space mostly are neighbours in memory. */
static int compare(const void *x, const void *y)
{
	const struct body *a = (const struct body *)x, *b = (const struct body *)y;
	double middle[3] = { 0, 0, 0 }, half = 16;
	int level, k, p, q;

	for (level = 0; level < LEVELS; level++, half /= 2) {
		for (p = q = k = 0; k < 3; k++) {
			p |= (a->at[k] >= middle[k]) << k;
			q |= (b->at[k] >= middle[k]) << k;
		}
		if (p != q)
			return p - q;
		for (k = 0; k < 3; k++)
			middle[k] += p >> k & 1 ? half / 2 : -half / 2;
	}
	return 0;
}

static void make(long processes, long bodies, long steps)
{
	unsigned seed = 1;
	long i;

	global = (struct global *)G_MALLOC(sizeof(*global))
	global->ids = global->locks = global->changes = global->moves = 0;
	global->processes = processes;
	global->bodies = bodies;
	global->steps = steps;
	global->room = bodies + 1000;
	LOCKINIT(global->id_lock)
	ALOCKINIT(global->cell_lock, LOCKS)
	BARINIT(global->phase, processes)
	global->body = (struct body *)G_MALLOC(bodies * sizeof(struct body))
	for (i = 0; i < bodies; i++)
		place(&global->body[i], &seed);
	qsort(global->body, bodies, sizeof(struct body), compare);
	for (i = 0; i < processes; i++)
		global->pool[i] = (struct cell *)NU_MALLOC(global->room * sizeof(struct cell), i);
}

int main(int argc, char **argv)
{
	long i, k, processes, bodies, steps;
	double energy = 0;

	MAIN_INITENV(,)
	processes = argc > 1 ? atol(argv[1]) : 1;
	bodies = argc > 2 ? atol(argv[2]) : 1024;
	steps = argc > 3 ? atol(argv[3]) : 3;
	if (processes < 1 || processes > PROCESSES || bodies < 2 || steps < 1) {
		fprintf(stderr, "octree: 1 to %d processes, 2 bodies, 1 step\n", PROCESSES);
		exit(2);
	}
	make(processes, bodies, steps);
	CREATE(work, processes)
	WAIT_FOR_END(processes)
	for (i = 0; i < bodies; i++)
		for (k = 0; k < 3; k++)
			energy += global->body[i].speed[k] * global->body[i].speed[k] / 2 / bodies;
	printf("octree: %ld bodies, %ld changes of the tree, kinetic energy %.12e, error of forces %.6f\n", bodies,
	       global->changes, energy, global->error);
	printf("octree: body 7 at %.12f %.12f %.12f\n", global->body[7 % bodies].at[0], global->body[7 % bodies].at[1],
	       global->body[7 % bodies].at[2]);
	printf("took %ld lock calls\n", global->locks);
	if (!(global->error < ERROR_MAX)) {
		fprintf(stderr, "octree: the error is larger than %g\n", ERROR_MAX);
		exit(1);
	}
	if (global->moves != bodies * steps) {
		fprintf(stderr, "octree: %ld bodies moved in %ld steps, of %ld\n", global->moves, steps, bodies);
		exit(1);
	}
	MAIN_END
}
