// SPDX-License-Identifier: BSD-2-Clause
/* team.c - see team.h: parallel regions, and barriers. */
#include "team.h"

#include <dsm.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "icv.h"
#include "needs.h"
#include "task.h"

/* Absent without libdsm. */
#pragma weak dsm_call
#pragma weak dsm_prefetch
#pragma weak dsm_size

__thread struct self self __attribute__((tls_model("initial-exec")));
/* Of the teams that this thread leads; the first one is of the team that it is a thread of. */
static __thread struct book books[TEAMS_MOST];

void openmp_die(const char *format, ...)
{
	va_list args;

	fputs("libdsm-openmp: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void *openmp_must(void *memory, const char *what)
{
	if (!memory)
		openmp_die("no memory for %s", what);
	return memory;
}

/* ---- barriers -------------------------------------------------------------------------------- */

/* Without tasks: so many barriers of a region, or so many regions of a function. */
#define PLAIN_BARRIERS 64u
#define PLAIN_REGIONS 4u

void team_makes_tasks(void)
{
	const uint64_t barrier = self.book->barriers;

	if (self.made || self.makes == MAKES_TASKS)
		return;
	self.made = true;
	if (self.makes == MAKES_UNKNOWN)
		tasks_note(self.team->tasks);
	else
		self.team->made[barrier % 2] = barrier + 1;
}

/* Wait where nobody makes tasks, or does for once. Where a thread has written that it does, none
 * does again before the next barrier is over. Returns that. */
static bool meet_plainly(struct team *t)
{
	const uint64_t barrier = self.book->barriers;

	if (self.made)
		tasks_await_all(t->tasks);
	meet_wait(&t->all);
	return t->tasks && t->made[barrier % 2] == barrier + 1;
}

/* All threads of a team agree on `made`, and so on the kind of the next barrier. */
static void makes_learn(bool made)
{
	self.book->barriers++;
	self.made = false;
	if (made)
		self.makes = MAKES_TASKS;
	else if (self.makes == MAKES_UNKNOWN && ++self.plain == PLAIN_BARRIERS)
		self.makes = MAKES_NONE;
}

void team_barrier(void)
{
	struct team *t = self.team;

	if (!t)
		return;
	makes_learn(t->tasks && self.makes != MAKES_NONE ? tasks_barrier(t->tasks)
							 : meet_plainly(t));
	self.book->met = self.book->constructs;
	tls_unshare(&self.passed);
}

ENTRY void GOMP_barrier(void)
{
	team_barrier();
}

/* Nothing is ever cancelled: OMP_CANCELLATION is false. */
ENTRY bool GOMP_barrier_cancel(void)
{
	team_barrier();
	return false;
}

ENTRY bool GOMP_cancel(int which, bool on)
{
	(void)which, (void)on;
	return false;
}

ENTRY bool GOMP_cancellation_point(int which)
{
	(void)which;
	return false;
}

/* ---- threads --------------------------------------------------------------------------------- */

struct birth {
	struct team *team;
	unsigned int id;
};

static void region_enter(struct team *t, struct book *b, unsigned int id)
{
	self = (struct self){ .team = t,
			      .book = b,
			      .id = id,
			      .level = t->orders.level,
			      .active = { t->n, t->orders.level, id },
			      .makes = t->orders.makes,
			      .task = t->tasks ? tasks_root(t->tasks, id) : NULL,
			      .led = self.led };
	*icv_mine() = t->orders.icv;
	if (t->orders.first.step)
		loop_begin(&t->orders.first);
}

/* This thread is where it was before a region. */
static void region_return(const struct self *before)
{
	struct team *led = self.led;

	self = *before;
	self.led = led;
}

/* A team ends: its barrier was the last one of this thread. */
static void team_leave(struct team *t)
{
	if (__atomic_sub_fetch(&t->leaving, 1, __ATOMIC_ACQ_REL))
		return;
	meet_destroy(&t->all);
	pthread_mutex_destroy(&t->turn_lock);
	pthread_cond_destroy(&t->turn_came);
	tasks_free(t->tasks);
	free(t);
}

/* The life of a thread of a team. */
static void *team_thread(void *arg)
{
	struct birth *birth = arg;
	struct team *t = birth->team;
	const struct self before = self;
	const unsigned int id = birth->id;

	free(birth);
	for (;;) {
		meet_wait(&t->all);
		if (t->ends) {
			tasks_thread_end();
			team_leave(t);
			return NULL;
		}
		region_enter(t, &books[0], id);
		t->orders.fn(t->orders.data);
		team_barrier();
		region_return(&before);
	}
}

static void team_spawn(struct team *t, unsigned int id)
{
	struct birth *birth = openmp_must(malloc(sizeof(*birth)), "a thread");
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	*birth = (struct birth){ t, id };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (icv_stack())
		pthread_attr_setstacksize(&attr, icv_stack());
	err = pthread_create(&thread, &attr, team_thread, birth);
	pthread_attr_destroy(&attr);
	if (err)
		openmp_die("thread %u cannot be created: %s", id, strerror(err));
}

static struct team *team_make(unsigned int n)
{
	struct team *t = openmp_must(
		aligned_alloc(TEAM_PAGE, sizeof(*t) + n * sizeof(t->shares[0])), "a team");
	unsigned int id;

	memset(t, 0, sizeof(*t));
	for (id = 0; id < n; id++)
		t->shares[id].left = share_of_none();
	t->n = n;
	meet_init(&t->all, n);
	pthread_mutex_init(&t->turn_lock, NULL);
	pthread_cond_init(&t->turn_came, NULL);
	t->tasks = tasks_make(n);
	for (id = 1; id < n; id++)
		team_spawn(t, id);
	return t;
}

static void team_end(struct team *t)
{
	t->ends = true;
	t->leaving = t->n;
	meet_wait(&t->all);
	team_leave(t);
}

/* A leader ends. */
static void teams_end(void *led)
{
	struct team *t = led, *next;

	self.led = NULL;
	tasks_thread_end();
	for (; t; t = next) {
		next = t->next;
		team_end(t);
	}
}

static pthread_key_t leaders; /* its value: self.led */
static pthread_once_t leaders_once = PTHREAD_ONCE_INIT;

static void leaders_begin(void)
{
	if (pthread_key_create(&leaders, teams_end))
		openmp_die("no key for thread-specific data is free");
}

/* One of this thread's books that none of its teams has. */
static unsigned int book_take(void)
{
	const struct team *t;
	unsigned int i, used = 0;

	for (t = self.led; t; t = t->next)
		used |= 1u << t->book;
	for (i = 0; used >> i & 1; i++)
		;
	books[i] = (struct book){ 0 };
	return i;
}

/* The team that was used last is the first one. One too many ends the last one. */
static struct team *team_get(unsigned int n)
{
	struct team **at = &self.led, *t;
	unsigned int i;

	for (i = 0; *at && (*at)->n != n && i < TEAMS_MOST - 1; i++)
		at = &(*at)->next;
	t = *at;
	if (t && i == 0 && t->n == n)
		return t;
	if (t)
		*at = t->next;
	if (!t || t->n != n) {
		if (t)
			team_end(t);
		t = team_make(n);
		t->book = book_take();
	}
	t->next = self.led;
	self.led = t;
	pthread_once(&leaders_once, leaders_begin);
	pthread_setspecific(leaders, t);
	return t;
}

/* ---- regions --------------------------------------------------------------------------------- */

/* A thread of a region is alone in those within it. */
static unsigned int region_size(unsigned int asked)
{
	const unsigned int n = asked ? asked : icv_mine()->threads, most = icv_limit();

	return self.active.n ? 1 : n < most ? n : most;
}

static void region_alone(void (*fn)(void *), void *data, const struct loop *first)
{
	const struct self before = self;

	self = (struct self){ .level = before.level + 1,
			      .active = before.active,
			      .led = before.led };
	if (first)
		loop_begin(first);
	fn(data);
	region_return(&before);
}

/* A page that is not written stays with all nodes: most regions come again and again. */
static void team_tell(struct team *t, const struct orders *o)
{
	if (memcmp(&t->orders, o, sizeof(*o)))
		t->orders = *o;
}

bool team_is_spread(void)
{
	return dsm_size && dsm_size() != 1;
}

struct question {
	const void *data;
	bool shared;
};

static void ask_shared(void *arg)
{
	struct question *q = arg;

	q->shared = !dsm_prefetch(q->data, 1, DSM_READ);
}

/* libdsm must not run on this thread's stack, which is shared. */
bool team_shares(const void *data)
{
	struct question q = { .data = data };

	dsm_call(ask_shared, &q);
	return q.shared;
}

/*
 * Can threads of other ranks use what this one passes to them, and what else is on its stack? Not
 * before the ranks have started, nor in constructors, destructors and functions of atexit(3).
 */
static bool region_can_spread(const void *data)
{
	return !team_is_spread() || (dsm_size() > 0 && team_shares(data ? data : &data));
}

/* By address of their function, what the regions of this thread made. */
static __thread struct known {
	void (*fn)(void *);
	unsigned int plain; /* that made none */
	bool tasks;
} known[64];

static struct known *known_of(void (*fn)(void *))
{
	struct known *k = &known[(uintptr_t)fn * 0x9e3779b97f4a7c15u >> 58];

	if (k->fn != fn)
		*k = (struct known){ .fn = fn };
	return k;
}

static enum makes region_makes(void (*fn)(void *))
{
	const struct known *k = known_of(fn);

	return k->tasks ? MAKES_TASKS : k->plain < PLAIN_REGIONS ? MAKES_UNKNOWN : MAKES_NONE;
}

/* A region is over. */
static void region_learn(void (*fn)(void *), enum makes made)
{
	struct known *k = known_of(fn);

	if (made == MAKES_TASKS)
		k->tasks = true;
	else
		k->plain += k->plain < PLAIN_REGIONS;
}

static void region_lead(struct team *t, void (*fn)(void *), void *data, const struct loop *first)
{
	const struct self before = self;
	const struct icv icv = *icv_mine();
	const enum makes makes = region_makes(fn);
	struct tls_copy passed = { 0 };

	if (data && team_is_spread())
		tls_share(&passed, data);
	team_tell(t,
		  &(struct orders){ fn, data, first ? *first : (struct loop){ 0 }, icv,
				    before.level + 1, makes });
	meet_wait(&t->all);
	region_enter(t, &books[t->book], 0);
	fn(data);
	team_barrier();
	region_learn(fn, self.makes);
	region_return(&before);
	tls_unshare(&passed);
	*icv_mine() = icv;
}

void team_region(void (*fn)(void *), void *data, unsigned int threads, const struct loop *first)
{
	static bool checked;
	const unsigned int n = region_size(threads);

	if (!checked) {
		needs_check();
		checked = true;
	}
	if (n == 1 || !region_can_spread(data))
		region_alone(fn, data, first);
	else
		region_lead(team_get(n), fn, data, first);
}

/* flags: where the threads run. libdsm places them. */
ENTRY void GOMP_parallel(void (*fn)(void *), void *data, unsigned int threads, unsigned int flags)
{
	(void)flags;
	team_region(fn, data, threads, NULL);
}

/* One team: this thread, which starts the regions. */
ENTRY void GOMP_teams_reg(void (*fn)(void *), void *data, unsigned int teams, unsigned int limit,
			  unsigned int flags)
{
	(void)teams, (void)limit, (void)flags;
	fn(data);
}
