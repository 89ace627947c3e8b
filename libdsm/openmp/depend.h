/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * depend.h - `depend`: the order of the children of a task that name the same memory.
 *
 * A child that writes an address comes after the last one that writes it, and after those that read
 * it since; one that reads, after the last one that writes. Under the lock of their home (task.h).
 */
#ifndef OPENMP_DEPEND_H
#define OPENMP_DEPEND_H

struct task;

/* An address that a task names. */
struct naming {
	struct named *what; /* NULL: later tasks need not wait for this one there */
	struct task *task;
	struct naming *next; /* of those that read it */
	int writes;
};

/* Those who wait for a task. */
struct successor {
	struct task *task;
	struct successor *next;
};

/* A task is created: what it names, as GCC says it. task.waits is the number of siblings that come
 * before it. */
void depend_add(struct task *k, void **list);
/* A task is done: `ready` is called for each task that waits for no other any more. */
void depend_done(struct task *k, void (*ready)(void *arg, struct task *k), void *arg);
/* All children of a task are done. */
void depend_forget(struct task *parent);

#endif
