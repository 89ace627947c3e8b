/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * task.h - tasks of a team: one queue, under one lock.
 *
 * A thread that waits for all others executes any task; one that waits for its children, or for a
 * group, executes those. A program without tasks has no queue, and cheaper barriers.
 */
#ifndef OPENMP_TASK_H
#define OPENMP_TASK_H

#include <stdbool.h>
#include <stddef.h>

struct group {
	struct group *outer;
	unsigned long left; /* tasks within it that are not done */
};

/* Under the lock of its team, but for what is constant. */
struct task {
	void (*fn)(void *); /* constant */
	void *data;         /* constant */
	struct task *parent;
	struct group *group;                    /* the innermost around what it executes now */
	struct task *older, *newer;             /* in the queue */
	struct task *older_child, *newer_child; /* of its parent, in the queue */
	struct task *newest;                    /* its children in the queue */
	unsigned long children;                 /* that are not done */
	unsigned long named; /* itself until it is done, and children whose parent it is */
	bool final;
	unsigned long waits; /* siblings that come before it: next five: depend.h */
	struct successor *successors;
	struct naming *namings;
	size_t n_namings;
	struct names *names; /* of its children */
};

struct tasks;

/* For a team of n threads. NULL: nothing that is loaded makes tasks. */
struct tasks *tasks_make(unsigned int n);
void tasks_free(struct tasks *t);
/* The task that a thread of the team executes in a region. */
struct task *tasks_root(struct tasks *t, unsigned int id);
/* Wait for all threads, and until all tasks are done. */
void tasks_barrier(struct tasks *t);

#endif
