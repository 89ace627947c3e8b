// SPDX-License-Identifier: BSD-2-Clause
/* task.c - see task.h. */
#include "task.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "depend.h"
#include "entry.h"
#include "needs.h"
#include "team.h"

/* Flags of GCC's calls. */
enum {
	TASK_FINAL = 1 << 1,
	TASK_DEPEND = 1 << 3,
	TASK_UP = 1 << 8,
	TASK_GRAINSIZE = 1 << 9,
	TASK_IF = 1 << 10,
	TASK_NOGROUP = 1 << 11,
	TASK_REDUCTION = 1 << 12,
	TASK_DETACH = 1 << 13,
	TASK_STRICT = 1 << 14,
};

#define QUEUE_MOST 64u /* tasks that wait, for each thread: more are executed at once */

struct tasks {
	pthread_mutex_t lock;
	pthread_cond_t came; /* a task, or the end of a barrier */
	pthread_cond_t went; /* the last child of a task, or the last task of a group */
	struct task *oldest, *newest;
	unsigned int queued, n, arrived, idle, waiting;
	unsigned long left; /* tasks that are not done */
	uint64_t barriers;
	struct task roots[];
};

struct tasks *tasks_make(unsigned int n)
{
	struct tasks *t;

	if (!needs_tasks())
		return NULL;
	t = calloc(1, sizeof(*t) + n * sizeof(t->roots[0]));
	if (!t)
		openmp_die("no memory for tasks");
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->came, NULL);
	pthread_cond_init(&t->went, NULL);
	t->n = n;
	while (n--)
		t->roots[n].named = 1; /* they stay with the team */
	return t;
}

/* All tasks are done. */
void tasks_free(struct tasks *t)
{
	unsigned int i;

	if (!t)
		return;
	for (i = 0; i < t->n; i++)
		depend_forget(&t->roots[i]);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->came);
	pthread_cond_destroy(&t->went);
	free(t);
}

struct task *tasks_root(struct tasks *t, unsigned int id)
{
	return &t->roots[id];
}

/* ---- the queue: with the lock ---------------------------------------------------------------- */

static void task_queue(struct tasks *t, struct task *k)
{
	k->older = t->newest;
	if (t->newest)
		t->newest->newer = k;
	else
		t->oldest = k;
	t->newest = k;
	k->older_child = k->parent->newest;
	if (k->older_child)
		k->older_child->newer_child = k;
	k->parent->newest = k;
	t->queued++;
	if (t->idle)
		pthread_cond_signal(&t->came);
}

/* It is executed later, and counted from now on. */
static void task_count(struct tasks *t, struct task *k)
{
	if (!k->parent->children)
		depend_forget(k->parent);
	t->left++;
	k->parent->children++;
	k->parent->named++;
	if (k->group)
		k->group->left++;
}

static void task_ready(void *tasks, struct task *k)
{
	task_queue(tasks, k);
}

static void task_unqueue(struct tasks *t, struct task *k)
{
	if (k->older)
		k->older->newer = k->newer;
	else
		t->oldest = k->newer;
	if (k->newer)
		k->newer->older = k->older;
	else
		t->newest = k->older;
	if (k->older_child)
		k->older_child->newer_child = k->newer_child;
	if (k->newer_child)
		k->newer_child->older_child = k->older_child;
	else
		k->parent->newest = k->older_child;
	t->queued--;
}

/* A task that is done stays as long as others name it. */
static void task_forget(struct task *k)
{
	struct task *parent;

	for (; k && !--k->named; k = parent) {
		parent = k->parent;
		depend_forget(k);
		free(k);
	}
}

static void task_done(struct tasks *t, struct task *k)
{
	depend_done(k, task_ready, t);
	k->parent->children--;
	if (k->group)
		k->group->left--;
	t->left--;
	if (t->waiting)
		pthread_cond_broadcast(&t->went);
	if (!t->left && t->arrived == t->n)
		pthread_cond_broadcast(&t->came);
	task_forget(k);
}

/* ---- executing tasks ------------------------------------------------------------------------- */

/* This thread executes a task: what it knew of its own comes back afterwards. */
static void task_execute(struct task *k)
{
	struct task *before = self.task;
	const struct loop loop = self.loop;

	self.task = k;
	k->fn(k->data);
	self.task = before;
	self.loop = loop;
}

/* With the lock, which is free meanwhile. */
static void task_run(struct tasks *t, struct task *k)
{
	struct group *group = k->group;

	task_unqueue(t, k);
	pthread_mutex_unlock(&t->lock);
	task_execute(k);
	pthread_mutex_lock(&t->lock);
	k->group = group;
	task_done(t, k);
}

void tasks_barrier(struct tasks *t)
{
	uint64_t barrier;

	pthread_mutex_lock(&t->lock);
	barrier = t->barriers;
	t->arrived++;
	while (t->barriers == barrier) {
		if (t->oldest) {
			task_run(t, t->oldest);
		} else if (t->arrived == t->n && !t->left) {
			t->arrived = 0;
			t->barriers++;
			pthread_cond_broadcast(&t->came);
		} else {
			t->idle++;
			pthread_cond_wait(&t->came, &t->lock);
			t->idle--;
		}
	}
	pthread_mutex_unlock(&t->lock);
}

/* Wait for a count under the lock. first: the next task to execute meanwhile, or NULL. */
static void tasks_wait(struct tasks *t, const unsigned long *left,
		       struct task *(*first)(const struct tasks *t))
{
	struct task *k;

	pthread_mutex_lock(&t->lock);
	while (*left) {
		k = first(t);
		if (k) {
			task_run(t, k);
			continue;
		}
		t->waiting++;
		pthread_cond_wait(&t->went, &t->lock);
		t->waiting--;
	}
	pthread_mutex_unlock(&t->lock);
}

static struct task *first_child(const struct tasks *t)
{
	(void)t;
	return self.task->newest;
}

static bool group_has(const struct group *g, const struct group *inner)
{
	for (; inner; inner = inner->outer)
		if (inner == g)
			return true;
	return false;
}

static struct task *first_of_group(const struct tasks *t)
{
	struct task *k;

	for (k = t->newest; k && !group_has(self.task->group, k->group); k = k->older)
		;
	return k;
}

static struct tasks *tasks_of_team(void)
{
	return self.team ? self.team->tasks : NULL;
}

ENTRY void GOMP_taskwait(void)
{
	struct tasks *t = tasks_of_team();

	if (t)
		tasks_wait(t, &self.task->children, first_child);
}

/* All tasks that it might depend on are children of this one. */
ENTRY void GOMP_taskwait_depend(void **depend)
{
	(void)depend;
	GOMP_taskwait();
}

ENTRY void GOMP_taskyield(void)
{
}

/* ---- groups ---------------------------------------------------------------------------------- */

ENTRY void GOMP_taskgroup_start(void)
{
	struct tasks *t = tasks_of_team();
	struct group *g;

	if (!t)
		return;
	g = calloc(1, sizeof(*g));
	if (!g)
		openmp_die("no memory for a group of tasks");
	g->outer = self.task->group;
	self.task->group = g;
}

ENTRY void GOMP_taskgroup_end(void)
{
	struct tasks *t = tasks_of_team();
	struct group *g;

	if (!t)
		return;
	g = self.task->group;
	tasks_wait(t, &g->left, first_of_group);
	self.task->group = g->outer;
	free(g);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static struct task *task_make(void (*fn)(void *), void *data, void (*copy)(void *, void *),
			      long size, long align)
{
	const size_t head =
		(sizeof(struct task) + (size_t)align - 1) / (size_t)align * (size_t)align;
	struct task *k = aligned_alloc(64, (head + (size_t)size + 63) / 64 * 64);

	if (!k || align > 64)
		openmp_die(k ? "a task with data aligned to %ld bytes"
			     : "no memory for a task of %ld",
			   k ? align : size);
	*k = (struct task){ .fn = fn, .data = (char *)k + head, .named = 1 };
	if (copy)
		copy(k->data, data);
	else
		memcpy(k->data, data, (size_t)size);
	return k;
}

/* Now, by this thread. */
static void task_do(struct task *k)
{
	struct tasks *t = tasks_of_team();

	k->parent = self.task;
	if (!t) {
		task_execute(k);
		free(k);
		return;
	}
	k->group = self.task->group;
	task_execute(k);
	pthread_mutex_lock(&t->lock);
	k->parent = NULL; /* it has never been counted there */
	task_forget(k);
	pthread_mutex_unlock(&t->lock);
}

/* depend: NULL, or what it names: then it may have to wait. */
static bool task_later(struct tasks *t, struct task *k, void **depend)
{
	bool later;

	pthread_mutex_lock(&t->lock);
	later = depend || t->queued < QUEUE_MOST * t->n;
	if (later) {
		k->parent = self.task;
		k->group = self.task->group;
		task_count(t, k);
		if (depend)
			depend_add(k, depend);
		if (!k->waits)
			task_queue(t, k);
	}
	pthread_mutex_unlock(&t->lock);
	return later;
}

static void task_submit(struct task *k, bool at_once, unsigned int flags, void **depend)
{
	struct tasks *t = tasks_of_team();

	k->final = flags & TASK_FINAL || (self.task && self.task->final);
	if (t && !at_once && !k->final && task_later(t, k, depend))
		return;
	/* those that it may depend on are older children of this task */
	if (depend)
		GOMP_taskwait();
	task_do(k);
}

/* priority is a hint. */
ENTRY void GOMP_task(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size,
		     long align, bool deferred, unsigned int flags, void **depend, int priority,
		     void *detach)
{
	(void)priority, (void)detach;
	if (flags & TASK_DETACH)
		openmp_die("`detach' is not supported");
	task_submit(task_make(fn, data, copy, size, align), !deferred, flags,
		    flags & TASK_DEPEND ? depend : NULL);
}

/* ---- taskloop: the first two words of a task's data are its bounds --------------------------- */

struct taskloop {
	void (*fn)(void *);
	void *data;
	void (*copy)(void *, void *);
	long size, align;
	unsigned int flags;
	uint64_t start, step, n, tasks;
	bool strict; /* each but the last task has `each` iterations */
	uint64_t each;
};

/* wanted: iterations of each task at least, with TASK_GRAINSIZE; else tasks; 0: neither. */
static void taskloop_divide(struct taskloop *l, uint64_t wanted)
{
	const uint64_t most = team_size() > 1 ? 8 * team_size() : 1;

	if (l->flags & TASK_GRAINSIZE) {
		l->each = wanted ? wanted : 1;
		l->strict = l->flags & TASK_STRICT;
		l->tasks = l->strict ? (l->n + l->each - 1) / l->each : l->n / l->each;
	} else {
		l->tasks = wanted ? wanted : most;
	}
	if (!l->tasks)
		l->tasks = 1;
	if (l->tasks > l->n)
		l->tasks = l->n;
}

static uint64_t taskloop_begin(const struct taskloop *l, uint64_t task)
{
	const uint64_t each = l->n / l->tasks, more = l->n % l->tasks;

	if (l->strict)
		return task * l->each < l->n ? task * l->each : l->n;
	return each * task + (task < more ? task : more);
}

static void taskloop(struct taskloop *l, uint64_t wanted)
{
	const bool at_once = !(l->flags & TASK_IF);
	struct task *k;
	uint64_t i, *bounds;

	if (l->flags & TASK_REDUCTION)
		openmp_die("reductions of tasks are not supported");
	if (!l->n)
		return;
	taskloop_divide(l, wanted);
	if (!(l->flags & TASK_NOGROUP))
		GOMP_taskgroup_start();
	for (i = 0; i < l->tasks; i++) {
		k = task_make(l->fn, l->data, l->copy, l->size, l->align);
		bounds = k->data;
		bounds[0] = l->start + taskloop_begin(l, i) * l->step;
		bounds[1] = l->start + taskloop_begin(l, i + 1) * l->step;
		task_submit(k, at_once, l->flags & TASK_FINAL, NULL);
	}
	if (!(l->flags & TASK_NOGROUP))
		GOMP_taskgroup_end();
}

ENTRY void GOMP_taskloop(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size,
			 long align, unsigned int flags, unsigned long wanted, int priority,
			 long start, long end, long step)
{
	struct taskloop l = { .fn = fn,
			      .data = data,
			      .copy = copy,
			      .size = size,
			      .align = align,
			      .flags = flags,
			      .start = (uint64_t)start,
			      .step = (uint64_t)step,
			      .n = loop_of_long(0, true, false, start, end, step, 0).n };

	(void)priority;
	taskloop(&l, wanted);
}

ENTRY void GOMP_taskloop_ull(void (*fn)(void *), void *data, void (*copy)(void *, void *),
			     long size, long align, unsigned int flags, unsigned long wanted,
			     int priority, unsigned long long start, unsigned long long end,
			     unsigned long long step)
{
	struct taskloop l = {
		.fn = fn,
		.data = data,
		.copy = copy,
		.size = size,
		.align = align,
		.flags = flags,
		.start = start,
		.step = step,
		.n = loop_of_ull(0, true, false, flags & TASK_UP, start, end, step, 0).n
	};

	(void)priority;
	taskloop(&l, wanted);
}

ENTRY int omp_in_final(void)
{
	return self.task && self.task->final;
}
