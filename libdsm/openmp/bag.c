// SPDX-License-Identifier: BSD-2-Clause
/* bag.c - see bag.h. */
#include "bag.h"

#include <dsm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "depend.h"
#include "needs.h"
#include "team.h"

/* Absent without libdsm. */
#pragma weak dsm_node
#pragma weak dsm_nodes

/* ns that tasks of another node take this thread; 0: unknown */
static __thread float pace __attribute__((tls_model("initial-exec")));

#define QUEUE_MOST 64u     /* tasks that wait, for each thread: more are executed at once */
#define BATCH_NS 250000.0f /* a batch is to take so long at most */

struct bag {
	pthread_mutex_t lock;
	struct task *oldest, *newest;
	unsigned int queued;
	struct group root; /* around all that threads of this node create */
	uint64_t offers;   /* how often all threads were told that there are tasks here */
	bool offered;      /* nobody has found that there are none since */
	bool awaited;      /* a thread waits until tasks are done */
	bool news;         /* there is something for all: they are told after the lock */
	struct task roots[] __attribute__((aligned(64)));
};

struct tasks {
	unsigned int n, nodes, spins; /* constant */
	size_t size;                  /* constant: of a bag */
	char *bags;                   /* constant */
	pthread_mutex_t lock __attribute__((aligned(TEAM_PAGE)));
	pthread_cond_t came;
	uint32_t events; /* that somebody may sleep for; atomic for those that spin */
	unsigned int arrived;
	uint64_t barriers;
	bool noted;        /* tasks, since the last barrier */
	bool made;         /* before that one */
	uint64_t offers[]; /* of each bag. 0: it has no tasks */
};

static struct bag *bag_of(const struct tasks *t, unsigned int node)
{
	return (struct bag *)(t->bags + node * t->size);
}

static struct bag *bag_mine(const struct tasks *t)
{
	return bag_of(t, t->nodes > 1 ? (unsigned int)dsm_node() : 0);
}

static unsigned int bag_number(const struct tasks *t, const struct bag *b)
{
	return (unsigned int)((size_t)((const char *)b - t->bags) / t->size);
}

static void *must(void *memory)
{
	if (!memory)
		openmp_die("no memory for tasks");
	return memory;
}

static size_t pages_of(size_t size)
{
	return (size + TEAM_PAGE - 1) / TEAM_PAGE * TEAM_PAGE;
}

struct tasks *tasks_make(unsigned int n)
{
	struct tasks *t;
	unsigned int i, k, nodes;
	size_t size;

	if (!needs_tasks())
		return NULL;
	nodes = dsm_nodes && dsm_nodes() > 1 ? (unsigned int)dsm_nodes() : 1;
	size = sizeof(*t) + nodes * sizeof(t->offers[0]);
	t = must(aligned_alloc(TEAM_PAGE, pages_of(size)));
	memset(t, 0, size);
	t->n = n;
	t->nodes = nodes;
	t->spins = meet_spins(n);
	t->size = pages_of(sizeof(struct bag) + n * sizeof(struct task));
	t->bags = must(aligned_alloc(TEAM_PAGE, t->nodes * t->size));
	memset(t->bags, 0, t->nodes * t->size);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->came, NULL);
	for (i = 0; i < t->nodes; i++) {
		pthread_mutex_init(&bag_of(t, i)->lock, NULL);
		for (k = 0; k < n; k++) {
			bag_of(t, i)->roots[k].named = 1; /* they stay with the team */
			bag_of(t, i)->roots[k].group = &bag_of(t, i)->root;
		}
	}
	return t;
}

/* All tasks are done. */
void tasks_free(struct tasks *t)
{
	unsigned int i, k;

	if (!t)
		return;
	for (i = 0; i < t->nodes; i++) {
		for (k = 0; k < t->n; k++)
			depend_forget(&bag_of(t, i)->roots[k]);
		pthread_mutex_destroy(&bag_of(t, i)->lock);
	}
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->came);
	free(t->bags);
	free(t);
}

struct task *tasks_root(struct tasks *t, unsigned int id)
{
	return &bag_mine(t)->roots[id];
}

/* ---- events: who sleeps looks again ---------------------------------------------------------- */

/* With the lock of the team. */
static void event_make(struct tasks *t)
{
	if (t->spins)
		__atomic_store_n(&t->events, t->events + 1, __ATOMIC_RELEASE);
	else
		t->events++;
	pthread_cond_broadcast(&t->came);
}

/* With the lock of the team, which is free meanwhile. */
static void event_await(struct tasks *t, uint32_t seen)
{
	unsigned int i;

	if (t->spins && t->events == seen) {
		pthread_mutex_unlock(&t->lock);
		for (i = 0; i < t->spins; i++) {
			if (__atomic_load_n(&t->events, __ATOMIC_ACQUIRE) != seen)
				break;
			__builtin_ia32_pause();
		}
		pthread_mutex_lock(&t->lock);
	}
	while (t->events == seen)
		pthread_cond_wait(&t->came, &t->lock);
}

static uint32_t event_last(struct tasks *t)
{
	uint32_t last;

	pthread_mutex_lock(&t->lock);
	last = t->events;
	pthread_mutex_unlock(&t->lock);
	return last;
}

/* There are tasks in a bag, or some are done, that others wait for. */
static void bag_tell(struct tasks *t, unsigned int bag, uint64_t offers)
{
	pthread_mutex_lock(&t->lock);
	if (t->offers[bag] < offers)
		t->offers[bag] = offers;
	event_make(t);
	pthread_mutex_unlock(&t->lock);
}

static void bag_unlock(struct tasks *t, struct bag *b)
{
	const uint64_t offers = b->offered ? b->offers : 0;
	const bool news = b->news;

	b->news = false;
	pthread_mutex_unlock(&b->lock);
	if (news)
		bag_tell(t, bag_number(t, b), offers);
}

/* ---- the tasks in a bag: with its lock ------------------------------------------------------- */

static void bag_add(struct bag *b, struct task *k)
{
	k->newer = NULL;
	k->older = b->newest;
	if (b->newest)
		b->newest->newer = k;
	else
		b->oldest = k;
	b->newest = k;
	b->queued++;
	if (!b->offered) {
		b->offered = true;
		b->offers++;
		b->news = true;
	}
}

static void bag_remove(struct bag *b, struct task *k)
{
	if (k->older)
		k->older->newer = k->newer;
	else
		b->oldest = k->newer;
	if (k->newer)
		k->newer->older = k->older;
	else
		b->newest = k->older;
	b->queued--;
}

/* A child that waits for no sibling. */
static void child_add(void *bag, struct task *k)
{
	bag_add(bag, k);
	k->older_child = k->parent->newest;
	if (k->older_child)
		k->older_child->newer_child = k;
	k->parent->newest = k;
}

static void child_remove(struct bag *b, struct task *k)
{
	bag_remove(b, k);
	if (k->batch)
		return;
	if (k->older_child)
		k->older_child->newer_child = k->newer_child;
	if (k->newer_child)
		k->newer_child->older_child = k->older_child;
	else
		k->parent->newest = k->older_child;
}

/* It is executed later, and counted from now on. */
static void child_count(struct task *k)
{
	if (!k->parent->children)
		depend_forget(k->parent);
	k->parent->children++;
	k->parent->named++;
	k->group->left++;
}

/* A task that is done stays as long as children name it. With the lock of who has executed it. */
static void task_forget(struct task *k, unsigned long times)
{
	k->named -= times;
	if (k->named)
		return;
	depend_forget(k);
	free(k);
}

/* n children are done; k: the only one, and siblings may wait for it. */
static void children_done(struct bag *b, struct task *parent, struct task *k, unsigned int n)
{
	if (k)
		depend_done(k, child_add, b);
	parent->children -= n;
	if (!parent->children && b->awaited) {
		b->awaited = false;
		b->news = true;
	}
	task_forget(parent, n);
}

/* Returns a batch that must be reported: this was the last one of its group. */
static struct batch *group_done(struct bag *b, struct group *g, unsigned long n)
{
	g->left -= n;
	if (g->left)
		return NULL;
	if (!g->batch && b->awaited) {
		b->awaited = false;
		b->news = true;
	}
	return g->batch;
}

/* The next task in a bag to execute, or NULL. away: it is that of another node. */
typedef struct task *pick_fn(const struct bag *b, bool away);

static struct task *pick_any(const struct bag *b, bool away)
{
	struct task *k;

	for (k = b->oldest; k && away && k->batch; k = k->newer)
		;
	return k;
}

static bool group_has(const struct group *g, const struct group *inner)
{
	for (; inner; inner = inner->outer)
		if (inner == g)
			return true;
	return false;
}

static struct task *pick_of_group(const struct bag *b, bool away)
{
	struct task *k;

	for (k = b->oldest; k; k = k->newer)
		if (!(away && k->batch) && group_has(self.task->group, k->group))
			break;
	return k;
}

/* Those of another node are not here, but in a batch there, and wait for it only. */
static struct task *pick_child(const struct bag *b, bool away)
{
	(void)b;
	return away ? NULL : self.task->newest;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* The group of a batch is done. */
static void batch_end(struct tasks *t, struct batch *x)
{
	struct batch *next;

	for (; x; x = next) {
		pthread_mutex_lock(&x->home->lock);
		next = group_done(x->home, x->sub.outer, x->n);
		bag_unlock(t, x->home);
		free(x);
	}
}

/* Could it be in the batch that its next older sibling is in? */
static bool batch_fits(const struct batch *x, const struct task *k)
{
	return k && !k->batch && k->parent == x->parent && k->group == x->sub.outer &&
		!k->namings && !x->depends;
}

/* How many tasks a node takes from another bag: not so many that one of them waits long. */
static unsigned int batch_most(const struct tasks *t, const struct bag *from)
{
	const unsigned int part = from->queued / (2 * t->nodes);

	if (pace <= 0 || part <= 1)
		return 1;
	return (float)part * pace < BATCH_NS ? part : (unsigned int)(BATCH_NS / pace) + 1;
}

/* Move a task, and some that are like it, to this node's bag. */
static void batch_take(struct tasks *t, struct bag *from, struct bag *to, struct task *first)
{
	struct batch *x = must(malloc(sizeof(*x)));
	struct task *k = first, *next, *last = first;
	const unsigned int most = batch_most(t, from);

	*x = (struct batch){ .home = from,
			     .taker = to,
			     .parent = first->parent,
			     .depends = first->namings ? first : NULL,
			     .sub = { .outer = first->group, .batch = x } };
	do {
		next = k->newer;
		child_remove(from, k);
		k->batch = x;
		k->group = &x->sub;
		last->newer = k;
		last = k;
		k = next;
	} while (++x->n < most && batch_fits(x, k));
	last->newer = NULL;
	x->left = x->n;
	x->sub.left = x->n;
	bag_unlock(t, from);
	pthread_mutex_lock(&to->lock);
	for (k = first; k; k = next) {
		next = k->newer;
		bag_add(to, k);
	}
	bag_unlock(t, to);
}

/* All tasks of a batch are done. ends: and all that they have created. more: this node has no other
 * task, so take some if there are any. */
static void batch_report(struct tasks *t, struct batch *x, bool ends, bool more)
{
	struct batch *next = NULL;
	struct task *k;

	pthread_mutex_lock(&x->home->lock);
	children_done(x->home, x->parent, x->depends, x->n);
	if (ends)
		next = group_done(x->home, x->sub.outer, x->n);
	k = more ? pick_any(x->home, true) : NULL;
	if (k)
		batch_take(t, x->home, x->taker, k);
	else
		bag_unlock(t, x->home);
	if (ends) {
		free(x);
	} else {
		pthread_mutex_lock(&x->taker->lock);
		next = group_done(x->taker, &x->sub, x->n);
		bag_unlock(t, x->taker);
	}
	batch_end(t, next);
}

/* ---- executing tasks ------------------------------------------------------------------------- */

void task_execute(struct task *k)
{
	struct task *before = self.task;
	const struct loop loop = self.loop;

	self.task = k;
	k->fn(k->data);
	self.task = before;
	self.loop = loop;
}

/* A task of another node: with the lock, which is free meanwhile. pick: what this thread looks
 * for. */
static void task_run_away(struct tasks *t, struct bag *b, struct task *k, pick_fn *pick)
{
	struct batch *x = k->batch;
	const bool waited_for = x->depends;
	struct timespec from, to;
	bool ends, more;
	float ns;

	bag_unlock(t, b);
	clock_gettime(CLOCK_MONOTONIC, &from);
	task_execute(k);
	clock_gettime(CLOCK_MONOTONIC, &to);
	ns = (float)(to.tv_sec - from.tv_sec) * 1e9f + (float)(to.tv_nsec - from.tv_nsec);
	/* the first one may have missed what others find */
	pace = pace > 0 && pace < ns ? (pace * 7 + ns) / 8 : ns;
	pthread_mutex_lock(&b->lock);
	if (!waited_for)
		task_forget(k, 1);
	if (--x->left)
		return;
	ends = x->sub.left == x->n;
	more = pick == pick_any && !b->oldest;
	bag_unlock(t, b);
	batch_report(t, x, ends, more);
	pthread_mutex_lock(&b->lock);
	if (waited_for)
		task_forget(k, 1);
}

/* With the lock, which is free meanwhile. */
static void task_run(struct tasks *t, struct bag *b, struct task *k, pick_fn *pick)
{
	struct group *group = k->group;
	struct batch *ended;

	child_remove(b, k);
	if (k->batch) {
		task_run_away(t, b, k, pick);
		return;
	}
	bag_unlock(t, b);
	task_execute(k);
	pthread_mutex_lock(&b->lock);
	children_done(b, k->parent, k, 1);
	ended = group_done(b, group, 1);
	task_forget(k, 1);
	if (ended) {
		bag_unlock(t, b);
		batch_end(t, ended);
		pthread_mutex_lock(&b->lock);
	}
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Execute those of this node, or take some of another one. If there is none, who adds one tells. */
static bool bag_look(struct tasks *t, struct bag *b, struct bag *mine, pick_fn *pick)
{
	struct task *k;
	uint64_t offers;
	bool found = false;

	pthread_mutex_lock(&b->lock);
	k = pick(b, b != mine);
	if (k && b != mine) {
		batch_take(t, b, mine, k);
		return true;
	}
	for (; k; k = pick(b, false)) {
		task_run(t, b, k, pick);
		found = true;
	}
	b->offered = false;
	offers = b->oldest ? 0 : b->offers;
	bag_unlock(t, b);
	pthread_mutex_lock(&t->lock);
	if (t->offers[bag_number(t, b)] <= offers)
		t->offers[bag_number(t, b)] = 0;
	pthread_mutex_unlock(&t->lock);
	return found;
}

/* Is there a task to execute? With the lock of the team, which is free meanwhile. */
static bool tasks_look(struct tasks *t, struct bag *mine, pick_fn *pick)
{
	const unsigned int me = bag_number(t, mine);
	unsigned int i, bag;
	bool found = false;

	for (i = 0; i < t->nodes && !found; i++) {
		bag = (me + i) % t->nodes;
		if (!t->offers[bag])
			continue;
		pthread_mutex_unlock(&t->lock);
		found = bag_look(t, bag_of(t, bag), mine, pick);
		pthread_mutex_lock(&t->lock);
	}
	return found;
}

/*
 * Wait for a count under the lock of this node's bag. There was nothing to execute after event
 * `seen`: so what comes later makes another one.
 */
static void tasks_sleep(struct tasks *t, struct bag *b, pick_fn *pick, uint32_t seen)
{
	pthread_mutex_lock(&t->lock);
	if (pick == pick_child || !tasks_look(t, b, pick))
		event_await(t, seen);
	pthread_mutex_unlock(&t->lock);
}

static void tasks_await(struct tasks *t, const unsigned long *left, pick_fn *pick)
{
	struct bag *b = bag_mine(t);
	struct task *k;
	uint32_t seen = 0;
	bool looked = false;

	pthread_mutex_lock(&b->lock);
	/* what this thread has taken of other nodes, only this node can execute */
	while (*left || (pick == pick_any && b->oldest)) {
		k = pick(b, false);
		if (k) {
			task_run(t, b, k, pick);
			looked = false;
			continue;
		}
		b->awaited = b->awaited || looked;
		b->offered = b->offered && !looked;
		bag_unlock(t, b);
		if (looked)
			tasks_sleep(t, b, pick, seen);
		else
			seen = event_last(t);
		looked = !looked;
		pthread_mutex_lock(&b->lock);
	}
	bag_unlock(t, b);
}

void tasks_await_children(struct tasks *t)
{
	tasks_await(t, &self.task->children, pick_child);
}

void tasks_await_group(struct tasks *t)
{
	tasks_await(t, &self.task->group->left, pick_of_group);
}

void tasks_await_all(struct tasks *t)
{
	tasks_await(t, &bag_mine(t)->root.left, pick_any);
}

void tasks_note(struct tasks *t)
{
	pthread_mutex_lock(&t->lock);
	t->noted = true;
	pthread_mutex_unlock(&t->lock);
}

/*
 * Who arrives has seen that all tasks of its node are done after it had made its last one. Of a
 * node whose threads have all arrived there are none, and none comes, for a task is counted where
 * the thread that began it is. So at the last arrival there are none at all.
 */
bool tasks_barrier(struct tasks *t)
{
	struct bag *mine = bag_mine(t);
	uint64_t barrier;
	uint32_t seen;
	bool made;

	tasks_await_all(t);
	pthread_mutex_lock(&t->lock);
	barrier = t->barriers;
	if (++t->arrived == t->n) {
		t->arrived = 0;
		t->barriers++;
		t->made = t->noted;
		t->noted = false;
		event_make(t);
	}
	while (t->barriers == barrier) {
		seen = t->events;
		if (!tasks_look(t, mine, pick_any))
			event_await(t, seen);
	}
	made = t->made; /* until this thread arrives at the next one */
	pthread_mutex_unlock(&t->lock);
	return made;
}

/* ---- creating tasks -------------------------------------------------------------------------- */

bool task_later(struct tasks *t, struct task *k, void **depend)
{
	struct bag *b = bag_mine(t);
	bool later;

	pthread_mutex_lock(&b->lock);
	later = depend || b->queued < QUEUE_MOST * t->n;
	if (later) {
		k->parent = self.task;
		k->group = self.task->group;
		child_count(k);
		if (depend)
			depend_add(k, depend);
		if (!k->waits)
			child_add(b, k);
	}
	bag_unlock(t, b);
	return later;
}

void task_end(struct tasks *t, struct task *k)
{
	struct bag *b = bag_mine(t);

	pthread_mutex_lock(&b->lock);
	task_forget(k, 1);
	bag_unlock(t, b);
}
