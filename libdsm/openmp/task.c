// SPDX-License-Identifier: BSD-2-Clause
/* task.c - tasks as GCC calls them. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "task.h"
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

/* NULL: this thread is alone, and executes its tasks at once. */
static struct tasks *tasks_of_team(void)
{
	struct tasks *t = self.team ? self.team->tasks : NULL;

	if (t)
		team_makes_tasks();
	return t;
}

ENTRY void GOMP_taskwait(void)
{
	struct tasks *t = tasks_of_team();

	if (t)
		tasks_await_children(t);
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
	g = openmp_must(calloc(1, sizeof(*g)), "a group of tasks");
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
	tasks_await_group(t);
	self.task->group = g->outer;
	free(g);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static struct task *task_make(void (*fn)(void *), void *data, void (*copy)(void *, void *),
			      long size, long align)
{
	const size_t head =
		(sizeof(struct task) + (size_t)align - 1) / (size_t)align * (size_t)align;
	struct task *k;

	if (align > 64)
		openmp_die("a task with data aligned to %ld bytes", align);
	k = task_alloc(head + (size_t)size);
	k->fn = fn;
	k->data = (char *)k + head;
	k->plain = !copy;
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

	if (!t) {
		task_execute(k);
		free(k);
		return;
	}
	k->group = self.task->group;
	task_execute(k);
	task_end(t, k);
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
