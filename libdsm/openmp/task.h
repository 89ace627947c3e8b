/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * task.h - the tasks of a team: for each node a store, with a lock and a bag.
 *
 * A task is in the store of the node whose thread has created it, its home. Under that lock are
 * what it waits for, and the counts of its parent and its group. A parent is executed by one
 * thread, so all its children have one home. A thread that finds no task at its node takes a batch
 * of another one to its own store. Their home hears when all of them are done, and nobody takes
 * them back meanwhile.
 *
 * No thread has two locks of these at a time.
 */
#ifndef OPENMP_TASK_H
#define OPENMP_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Under the lock of the node whose thread began it. */
struct group {
	struct group *outer; /* constant */
	unsigned long left;  /* tasks within it that are not done; for a batch: reported */
	struct batch *batch; /* constant. NULL, or what it stands for away from home */
};

/* Siblings that another node executes: under the lock of that one. */
struct batch {
	/* home to n: constant */
	struct store *home;
	struct store *taker;  /* executes them */
	struct task *parent;  /* at home */
	struct task *depends; /* NULL, or the only one, and others may wait for it */
	unsigned int n;
	struct group sub; /* they, and what they create, in the group that they are in at home */
	unsigned int left;
};

/* Under the lock of its home, but for its children. In a batch, most are copies, which their home
 * does not know: under the lock of the taker. */
struct task {
	/* fn to size: constant */
	void (*fn)(void *);
	void *data;  /* within */
	size_t size; /* with its data */
	bool plain;  /* its data may be copied, byte by byte, while it waits */
	struct task *parent;
	struct group *group; /* the innermost around what it executes now */
	struct batch *batch; /* NULL: it is at home */
	struct task *newer;  /* of those that have been taken */
	bool final;
	/* waits to n_namings: depend.h */
	unsigned long waits; /* siblings that come before it */
	struct successor *successors;
	struct naming *namings;
	size_t n_namings;
	/* under the lock of the node that executes it: */
	unsigned long children; /* that are not done */
	unsigned long waiting;  /* of these, in the bag there */
	unsigned long named;    /* itself until it is done, and those children */
	struct names *names;    /* of its children: depend.h */
};

/* Is a group this one, or within it? */
static inline bool group_has(const struct group *g, const struct group *inner)
{
	while (inner && inner != g)
		inner = inner->outer;
	return inner;
}

struct tasks;

/* For a team of n threads. NULL: nothing that is loaded makes tasks. */
struct tasks *tasks_make(unsigned int n);
void tasks_free(struct tasks *t);
/* This thread leaves its team. */
void tasks_thread_end(void);
/* The task that this thread executes in a region of that team: its thread `id`. */
struct task *tasks_root(struct tasks *t, unsigned int id);

/* A task of `size` bytes with its data, all else zero; aligned to 64 bytes. Until task_later() has
 * taken it, or task_end(), free() gives it back. */
struct task *task_alloc(size_t size);
/* Have a child of this thread's task executed later. depend: NULL, or what it names. False: too
 * many wait already. */
bool task_later(struct tasks *t, struct task *k, void **depend);
/* Execute it now. What this thread knew of its own comes back afterwards. */
void task_execute(struct task *k);
/* A task that was never to be executed later has been executed. */
void task_end(struct tasks *t, struct task *k);

/* Wait for the children of this thread's task, and execute those that wait. */
void tasks_await_children(struct tasks *t);
/* Wait for its innermost group, and execute what is in it. */
void tasks_await_group(struct tasks *t);
/* Wait until all tasks are done that threads of this node have made in their own tasks, and those
 * within. Execute any, also of other nodes. */
void tasks_await_all(struct tasks *t);
/* Tasks are made before the next tasks_barrier(). */
void tasks_note(struct tasks *t);
/* Wait for all threads, and until all tasks are done. Were any noted since the last one? */
bool tasks_barrier(struct tasks *t);

#endif
