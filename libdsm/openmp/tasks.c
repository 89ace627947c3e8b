// SPDX-License-Identifier: BSD-2-Clause
/* tasks.c - see task.h. */
#include "task.h"

#include <dsm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bag.h"
#include "depend.h"
#include "needs.h"
#include "team.h"

/* Absent without libdsm. */
#pragma weak dsm_node
#pragma weak dsm_nodes

/* What a task of another node takes this thread, and what it takes to get some: ns; 0: unknown. */
static __thread float pace __attribute__((tls_model("initial-exec")));
static __thread float fare __attribute__((tls_model("initial-exec")));

/* A few short tasks are left to the node that has made them, for a moment. */
static __thread struct {
	bool waits; /* this thread has left some, and takes them from `until` on */
	bool left;  /* by its last look: it must look again before it sleeps for long */
	struct timespec until;
} patience __attribute__((tls_model("initial-exec")));

#define MOMENT_NS 300000.0f /* of patience, or four times the fare */
#define BATCH_NS 250000.0f  /* a batch is to take so long at most, or as above */
#define LONG_NS 4000000.0f  /* of both, at most */
#define QUEUE_MOST 64u      /* tasks that wait, for each thread: more are executed at once */
#define SPARE 64u           /* tasks whose memory a thread keeps */
#define SPARE_BYTES 256u    /* of small ones, which have all that size */

/* A node's. */
struct store {
	pthread_mutex_t lock;
	struct bag bag; /* at home */
	/* batches that it has taken, in their order */
	struct task *taken, *newest;
	struct group root; /* around all that threads of this node create */
	uint64_t offers;   /* how often all threads were told that there are tasks here */
	bool offered;      /* nobody has found that there are none since */
	bool awaited;      /* a thread waits until tasks are done */
	bool news;         /* there is something for all: they are told after the lock */
	/* memory of tasks that are done, or that other nodes have copied: its threads take it */
	struct task **spare;
	unsigned int n_spare, most_spare;
	struct task roots[] __attribute__((aligned(64)));
};

struct tasks {
	unsigned int n, nodes, spins; /* constant */
	size_t size;                  /* constant: of a store */
	char *stores;                 /* constant */
	pthread_mutex_t lock __attribute__((aligned(TEAM_PAGE)));
	pthread_cond_t came;
	uint32_t events; /* that somebody may sleep for; atomic for those that spin */
	unsigned int arrived;
	uint64_t barriers;
	bool noted;        /* tasks, since the last barrier */
	bool made;         /* before that one */
	uint64_t offers[]; /* of each node. 0: it has no tasks */
};

static struct store *store_of(const struct tasks *t, unsigned int node)
{
	return (struct store *)(t->stores + node * t->size);
}

static struct store *store_mine(const struct tasks *t)
{
	return store_of(t, t->nodes > 1 ? (unsigned int)dsm_node() : 0);
}

static unsigned int store_number(const struct tasks *t, const struct store *s)
{
	return (unsigned int)((size_t)((const char *)s - t->stores) / t->size);
}

static size_t pages_of(size_t size)
{
	return (size + TEAM_PAGE - 1) / TEAM_PAGE * TEAM_PAGE;
}

static void store_init(struct store *s, unsigned int n)
{
	unsigned int i;

	pthread_mutex_init(&s->lock, NULL);
	s->most_spare = QUEUE_MOST * n;
	/* in pages of its own, as all that is the store's */
	s->spare = (struct task **)&s->roots[n];
	for (i = 0; i < n; i++) {
		s->roots[i].named = 1; /* they stay with the team */
		s->roots[i].group = &s->root;
	}
}

static void store_end(struct store *s, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		depend_forget(&s->roots[i]);
	bag_free(&s->bag);
	while (s->n_spare)
		free(s->spare[--s->n_spare]);
	pthread_mutex_destroy(&s->lock);
}

/* The end of a moment of patience is one of this clock. */
static void event_init(struct tasks *t)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->came, &attr);
	pthread_condattr_destroy(&attr);
}

struct tasks *tasks_make(unsigned int n)
{
	struct tasks *t;
	unsigned int i, nodes;
	size_t size;

	if (!needs_tasks())
		return NULL;
	nodes = dsm_nodes && dsm_nodes() > 1 ? (unsigned int)dsm_nodes() : 1;
	size = sizeof(*t) + nodes * sizeof(t->offers[0]);
	t = openmp_must(aligned_alloc(TEAM_PAGE, pages_of(size)), "tasks");
	memset(t, 0, size);
	t->n = n;
	t->nodes = nodes;
	t->spins = meet_spins(n);
	t->size = pages_of(sizeof(struct store) + n * sizeof(struct task) +
			   (size_t)QUEUE_MOST * n * sizeof(struct task *));
	t->stores = openmp_must(aligned_alloc(TEAM_PAGE, t->nodes * t->size), "tasks");
	memset(t->stores, 0, t->nodes * t->size);
	event_init(t);
	for (i = 0; i < t->nodes; i++)
		store_init(store_of(t, i), n);
	return t;
}

/* All tasks are done. */
void tasks_free(struct tasks *t)
{
	unsigned int i;

	if (!t)
		return;
	for (i = 0; i < t->nodes; i++)
		store_end(store_of(t, i), t->n);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->came);
	free(t->stores);
	free(t);
}

struct task *tasks_root(struct tasks *t, unsigned int id)
{
	return &store_mine(t)->roots[id];
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

/* With the lock of the team, which is free meanwhile. No event is made of tasks that this thread
 * has left: then not for longer than its patience. */
static void event_await(struct tasks *t, uint32_t seen)
{
	unsigned int i;

	if (patience.left) {
		patience.left = false;
		if (t->events == seen)
			pthread_cond_timedwait(&t->came, &t->lock, &patience.until);
		patience.until.tv_sec = 0; /* also after an event: it leaves them once */
		return;
	}
	patience.waits = false;
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

/* There are tasks at a node, or some are done, that others wait for. */
static void store_tell(struct tasks *t, unsigned int node, uint64_t offers)
{
	pthread_mutex_lock(&t->lock);
	if (t->offers[node] < offers)
		t->offers[node] = offers;
	event_make(t);
	pthread_mutex_unlock(&t->lock);
}

static void store_unlock(struct tasks *t, struct store *s)
{
	const uint64_t offers = s->offered ? s->offers : 0;
	const bool news = s->news;

	s->news = false;
	pthread_mutex_unlock(&s->lock);
	if (news)
		store_tell(t, store_number(t, s), offers);
}

/* ---- memory of tasks ------------------------------------------------------------------------- */

/* Of this thread. */
static __thread struct {
	unsigned int n;
	struct task *v[SPARE];
} spare __attribute__((tls_model("initial-exec")));

struct task *task_alloc(size_t size)
{
	struct task *k;

	if (size > SPARE_BYTES)
		k = openmp_must(aligned_alloc(64, (size + 63) / 64 * 64), "tasks");
	else if (spare.n)
		k = spare.v[--spare.n];
	else
		k = openmp_must(aligned_alloc(64, SPARE_BYTES), "tasks");
	*k = (struct task){ .size = size, .named = 1 };
	return k;
}

/* With the lock. */
static void spare_give(struct store *s, struct task *k)
{
	if (k->size <= SPARE_BYTES && s->n_spare < s->most_spare)
		s->spare[s->n_spare++] = k;
	else
		free(k);
}

/* With the lock of this node. */
static void spare_take(struct store *s)
{
	if (spare.n)
		return;
	while (s->n_spare && spare.n < SPARE / 2)
		spare.v[spare.n++] = s->spare[--s->n_spare];
}

void tasks_thread_end(void)
{
	while (spare.n)
		free(spare.v[--spare.n]);
}

/* ---- the tasks of a node: with its lock ------------------------------------------------------ */

static void store_offer(struct store *s)
{
	if (s->offered)
		return;
	s->offered = true;
	s->offers++;
	s->news = true;
}

/* A child that waits for no sibling. */
static void child_add(void *store, struct task *k)
{
	struct store *s = store;

	bag_add(&s->bag, k);
	store_offer(s);
}

static void taken_add(struct store *s, struct task *k)
{
	k->newer = NULL;
	if (s->taken)
		s->newest->newer = k;
	else
		s->taken = k;
	s->newest = k;
	store_offer(s);
}

/* g: any, or a group. */
static struct task *taken_take(struct store *s, const struct group *g)
{
	struct task *k, *before = NULL;

	for (k = s->taken; k && g && !group_has(g, k->group); k = k->newer)
		before = k;
	if (!k)
		return NULL;
	if (before)
		before->newer = k->newer;
	else
		s->taken = k->newer;
	if (s->newest == k)
		s->newest = before;
	return k;
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
static void task_forget(struct store *s, struct task *k, unsigned long times)
{
	k->named -= times;
	if (k->named)
		return;
	depend_forget(k);
	spare_give(s, k);
}

/* n children are done; k: the only one, and siblings may wait for it. */
static void children_done(struct store *s, struct task *parent, struct task *k, unsigned int n)
{
	if (k)
		depend_done(k, child_add, s);
	parent->children -= n;
	if (!parent->children && s->awaited) {
		s->awaited = false;
		s->news = true;
	}
	task_forget(s, parent, n);
}

/* Returns a batch that must be reported: this was the last one of its group. */
static struct batch *group_done(struct store *s, struct group *g, unsigned long n)
{
	g->left -= n;
	if (g->left)
		return NULL;
	if (!g->batch && s->awaited) {
		s->awaited = false;
		s->news = true;
	}
	return g->batch;
}

/* Take the next task to execute, or none: from what other nodes have made, or of this node. */
typedef struct task *take_fn(struct store *s, bool away);

static struct task *take_any(struct store *s, bool away)
{
	struct task *k = away ? NULL : taken_take(s, NULL);

	return k ? k : bag_take_oldest(&s->bag);
}

static struct task *take_of_group(struct store *s, bool away)
{
	struct task *k = away ? NULL : taken_take(s, self.task->group);

	return k ? k : bag_take_of_group(&s->bag, self.task->group);
}

/* No child of this thread's task is in the bag of another node. */
static struct task *take_child(struct store *s, bool away)
{
	return away ? NULL : bag_take_child(&s->bag, self.task);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* The group of a batch is done. */
static void batch_end(struct tasks *t, struct batch *x)
{
	struct batch *next;

	for (; x; x = next) {
		pthread_mutex_lock(&x->home->lock);
		next = group_done(x->home, x->sub.outer, x->n);
		store_unlock(t, x->home);
		free(x);
	}
}

/* Could it be in the batch that its next older sibling is in? */
static bool batch_fits(const struct batch *x, const struct task *k)
{
	return k && k->parent == x->parent && k->group == x->sub.outer && !k->namings &&
		!x->depends;
}

/* The fair share of this node. */
static unsigned int batch_part(const struct tasks *t, const struct store *from)
{
	return (from->bag.n + t->nodes - 1) / t->nodes;
}

/* Is a batch worth what it costs to get? As long as that is not known, and also if there is none,
 * so that this is found out. */
static bool batch_is_worth(const struct tasks *t, const struct store *from)
{
	return !from->bag.n || pace <= 0 || (float)batch_part(t, from) * pace >= fare;
}

/* So many times the fare, within bounds. */
static float fares(float times, float least)
{
	const float ns = times * fare;

	return ns < least ? least : ns < LONG_NS ? ns : LONG_NS;
}

/* How many tasks a node takes from another one: not so many that one of them waits long. */
static unsigned int batch_most(const struct tasks *t, const struct store *from)
{
	const float longest = fares(4, BATCH_NS);
	const unsigned int part = batch_part(t, from);

	if (pace <= 0 || part <= 1)
		return 1;
	return (float)part * pace < longest ? part : (unsigned int)(longest / pace) + 1;
}

/* May this thread take tasks that are not worth it? Not before its patience ends. */
static bool patience_is_over(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!patience.waits) {
		patience.waits = true;
		patience.until = now;
		patience.until.tv_nsec += (long)fares(4, MOMENT_NS);
		patience.until.tv_sec += patience.until.tv_nsec / 1000000000;
		patience.until.tv_nsec %= 1000000000;
	}
	return now.tv_sec > patience.until.tv_sec ||
		(now.tv_sec == patience.until.tv_sec && now.tv_nsec >= patience.until.tv_nsec);
}

/* The memory of the original goes back to its home at once, so that the taker never writes it. */
static struct task *batch_copy(struct batch *x, struct task *k)
{
	const ptrdiff_t data = (char *)k->data - (char *)k;
	struct task *copy = k;

	if (k->plain && !k->namings) {
		copy = task_alloc(k->size);
		memcpy(copy, k, k->size);
		copy->data = (char *)copy + data;
		spare_give(x->home, k);
	}
	copy->batch = x;
	copy->group = &x->sub;
	return copy;
}

/* Move a task that has been taken, and some that are like it, to this node. With the lock of
 * `from`, which is free afterwards. */
static void batch_take(struct tasks *t, struct store *from, struct store *to, struct task *first)
{
	struct batch *x = openmp_must(malloc(sizeof(*x)), "tasks");
	const unsigned int most = batch_most(t, from);
	struct task *k, *next, *last = NULL, *all = NULL;

	*x = (struct batch){ .home = from,
			     .taker = to,
			     .parent = first->parent,
			     .depends = first->namings ? first : NULL,
			     .sub = { .outer = first->group, .batch = x } };
	for (k = first; k; k = next) {
		k = batch_copy(x, k);
		k->newer = NULL;
		if (last)
			last->newer = k;
		else
			all = k;
		last = k;
		next = ++x->n < most && batch_fits(x, bag_oldest(&from->bag))
			? bag_take_oldest(&from->bag)
			: NULL;
	}
	x->left = x->n;
	x->sub.left = x->n;
	store_unlock(t, from);
	pthread_mutex_lock(&to->lock);
	for (k = all; k; k = next) {
		next = k->newer;
		taken_add(to, k);
	}
	spare_take(to);
	store_unlock(t, to);
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
	k = more && batch_is_worth(t, x->home) ? take_any(x->home, true) : NULL;
	if (k)
		batch_take(t, x->home, x->taker, k);
	else
		store_unlock(t, x->home);
	if (ends) {
		free(x);
	} else {
		pthread_mutex_lock(&x->taker->lock);
		next = group_done(x->taker, &x->sub, x->n);
		store_unlock(t, x->taker);
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

static float ns_between(const struct timespec *from, const struct timespec *to)
{
	return (float)(to->tv_sec - from->tv_sec) * 1e9f + (float)(to->tv_nsec - from->tv_nsec);
}

/* A task of another node: with the lock, which is free meanwhile. take: what this thread looks
 * for. */
static void task_run_away(struct tasks *t, struct store *s, struct task *k, take_fn *take)
{
	struct batch *x = k->batch;
	const bool waited_for = x->depends;
	struct timespec from, to;
	bool ends, more;
	float ns;

	store_unlock(t, s);
	clock_gettime(CLOCK_MONOTONIC, &from);
	task_execute(k);
	clock_gettime(CLOCK_MONOTONIC, &to);
	ns = ns_between(&from, &to);
	/* the first one may have missed what others find */
	pace = pace > 0 && pace < ns ? (pace * 7 + ns) / 8 : ns;
	pthread_mutex_lock(&s->lock);
	if (!waited_for)
		task_forget(s, k, 1);
	if (--x->left)
		return;
	ends = x->sub.left == x->n;
	more = take == take_any && !s->taken && !s->bag.n;
	store_unlock(t, s);
	batch_report(t, x, ends, more);
	pthread_mutex_lock(&s->lock);
	if (waited_for)
		task_forget(s, k, 1);
}

/* With the lock, which is free meanwhile. */
static void task_run(struct tasks *t, struct store *s, struct task *k, take_fn *take)
{
	struct group *group = k->group;
	struct batch *ended;

	if (k->batch) {
		task_run_away(t, s, k, take);
		return;
	}
	store_unlock(t, s);
	task_execute(k);
	pthread_mutex_lock(&s->lock);
	children_done(s, k->parent, k, 1);
	ended = group_done(s, group, 1);
	task_forget(s, k, 1);
	if (ended) {
		store_unlock(t, s);
		batch_end(t, ended);
		pthread_mutex_lock(&s->lock);
	}
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* What it took to get a batch. One that took much longer says little of the next. */
static void fare_learn(const struct timespec *from)
{
	struct timespec to;
	float ns;

	clock_gettime(CLOCK_MONOTONIC, &to);
	ns = ns_between(from, &to);
	fare = (fare * 7 + (ns < 4 * fare + LONG_NS / 8 ? ns : 4 * fare + LONG_NS / 8)) / 8;
}

/*
 * Execute those of this node, or take some of another one. If there is none, who adds one tells;
 * if this thread leaves some, nobody does, and it looks again.
 */
static bool store_look(struct tasks *t, struct store *s, struct store *mine, take_fn *take)
{
	struct timespec from;
	struct task *k;
	uint64_t offers;
	bool found = false;

	clock_gettime(CLOCK_MONOTONIC, &from);
	pthread_mutex_lock(&s->lock);
	if (s != mine && !batch_is_worth(t, s) && !patience_is_over()) {
		patience.left = true;
		store_unlock(t, s);
		return false;
	}
	k = take(s, s != mine);
	if (k && s != mine) {
		patience.waits = patience.left = false;
		batch_take(t, s, mine, k);
		fare_learn(&from);
		return true;
	}
	for (; k; k = take(s, false)) {
		task_run(t, s, k, take);
		found = true;
	}
	s->offered = false;
	offers = s->bag.n || s->taken ? 0 : s->offers;
	store_unlock(t, s);
	pthread_mutex_lock(&t->lock);
	if (t->offers[store_number(t, s)] <= offers)
		t->offers[store_number(t, s)] = 0;
	pthread_mutex_unlock(&t->lock);
	return found;
}

/* Is there a task to execute? With the lock of the team, which is free meanwhile. */
static bool tasks_look(struct tasks *t, struct store *mine, take_fn *take)
{
	const unsigned int me = store_number(t, mine);
	unsigned int i, node;
	bool found = false;

	for (i = 0; i < t->nodes && !found; i++) {
		node = (me + i) % t->nodes;
		if (!t->offers[node])
			continue;
		pthread_mutex_unlock(&t->lock);
		found = store_look(t, store_of(t, node), mine, take);
		pthread_mutex_lock(&t->lock);
	}
	return found;
}

/*
 * Wait for a count under the lock of this node. There was nothing to execute after event
 * `seen`: so what comes later makes another one.
 */
static void tasks_sleep(struct tasks *t, struct store *s, take_fn *take, uint32_t seen)
{
	pthread_mutex_lock(&t->lock);
	if (take == take_child || !tasks_look(t, s, take))
		event_await(t, seen);
	pthread_mutex_unlock(&t->lock);
}

static void tasks_await(struct tasks *t, const unsigned long *left, take_fn *take)
{
	struct store *s = store_mine(t);
	struct task *k;
	uint32_t seen = 0;
	bool looked = false;

	patience.waits = false;
	pthread_mutex_lock(&s->lock);
	/* and for what this thread has taken of other nodes, which only this node can execute */
	while (*left || (take == take_any && (s->taken || s->bag.n))) {
		k = take(s, false);
		if (k) {
			task_run(t, s, k, take);
			looked = false;
			continue;
		}
		s->awaited = s->awaited || looked;
		s->offered = s->offered && !looked;
		store_unlock(t, s);
		if (looked)
			tasks_sleep(t, s, take, seen);
		else
			seen = event_last(t);
		looked = !looked;
		pthread_mutex_lock(&s->lock);
	}
	store_unlock(t, s);
}

void tasks_await_children(struct tasks *t)
{
	tasks_await(t, &self.task->children, take_child);
}

void tasks_await_group(struct tasks *t)
{
	tasks_await(t, &self.task->group->left, take_of_group);
}

void tasks_await_all(struct tasks *t)
{
	tasks_await(t, &store_mine(t)->root.left, take_any);
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
	struct store *mine = store_mine(t);
	uint64_t barrier;
	uint32_t seen;
	bool made;

	tasks_await_all(t);
	patience.waits = false;
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
		if (!tasks_look(t, mine, take_any))
			event_await(t, seen);
	}
	made = t->made; /* until this thread arrives at the next one */
	pthread_mutex_unlock(&t->lock);
	return made;
}

/* ---- creating tasks -------------------------------------------------------------------------- */

bool task_later(struct tasks *t, struct task *k, void **depend)
{
	struct store *s = store_mine(t);
	bool later;

	pthread_mutex_lock(&s->lock);
	later = depend || s->bag.n < QUEUE_MOST * t->n;
	if (later) {
		k->parent = self.task;
		k->group = self.task->group;
		child_count(k);
		if (depend)
			depend_add(k, depend);
		if (!k->waits)
			child_add(s, k);
		spare_take(s);
	}
	store_unlock(t, s);
	return later;
}

void task_end(struct tasks *t, struct task *k)
{
	struct store *s = store_mine(t);

	pthread_mutex_lock(&s->lock);
	task_forget(s, k, 1);
	store_unlock(t, s);
}
