/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bag.h - tasks of a node that wait to be executed, in the order in which they came.
 *
 * A ring of pointers, so that who takes a task of another node need not write to its neighbours,
 * in memory that is written by the node that makes more. Under the lock of whom it is part.
 */
#ifndef OPENMP_BAG_H
#define OPENMP_BAG_H

#include <stdbool.h>
#include <stddef.h>

struct task;
struct group;

struct bag {
	struct task **ring; /* NULL: one that has been taken, not the first, nor the last */
	size_t size;        /* of the ring, a power of two; 0: there is none */
	size_t oldest, end; /* positions, modulo its size */
	unsigned int n;     /* tasks */
};

void bag_free(struct bag *b);
void bag_add(struct bag *b, struct task *k);
/* Each of these: NULL: there is none. */
/* The oldest one, which stays. */
struct task *bag_oldest(const struct bag *b);
struct task *bag_take_oldest(struct bag *b);
/* The oldest one of a group, or of those within. */
struct task *bag_take_of_group(struct bag *b, const struct group *g);
/* The newest child of a task. */
struct task *bag_take_child(struct bag *b, const struct task *parent);

#endif
