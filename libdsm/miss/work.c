// SPDX-License-Identifier: BSD-2-Clause
/*
 * work.c - each thread's queue and timers. Their memory comes from mmap(2): the fault handler must
 * not call malloc.
 *
 * Neither has a fixed size. The work that one step causes depends on the number of ranks of the
 * node and on what its thread requests at once, so only the memory of the machine is a safe bound.
 */
#include "miss/work.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "job/inside.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/threads.h"
#include "miss/block.h"
#include "miss/run.h"
#include "util/ends.h"
#include "util/futex.h"
#include "util/log.h"

static __thread struct work *mine __attribute__((tls_model("initial-exec")));

/*
 * Timers of threads that returned to the application; the service thread fires them. Their number
 * is read without the lock, too.
 */
static struct {
	uint32_t lock;
	struct timers timers;
} late;

/* The item at an index in [head, tail). */
static struct item *work_at(const struct work *w, uint32_t i)
{
	return &w->items[i & (w->room - 1)];
}

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static bool timers_grow(struct timers *t)
{
	uint32_t room = t->room ? t->room * 2 : (uint32_t)(PAGE_BYTES / sizeof(t->v[0]));
	void *at = t->v
		? mremap(t->v, t->room * sizeof(t->v[0]), room * sizeof(t->v[0]), MREMAP_MAYMOVE)
		: map(room * sizeof(t->v[0]));

	if (!at || at == MAP_FAILED)
		return false;
	t->v = at;
	t->room = room;
	return true;
}

static bool timers_add(struct timers *t, const struct timer *one)
{
	if (t->n == t->room && !timers_grow(t))
		return false;
	t->v[t->n] = *one;
	__atomic_store_n(&t->n, t->n + 1, __ATOMIC_RELAXED);
	return true;
}

static void timers_free(struct timers *t)
{
	if (t->v)
		munmap(t->v, t->room * sizeof(t->v[0]));
	*t = (struct timers){ 0 };
}

/* Move as many as there is memory for. */
static void timers_move(struct timers *to, struct timers *from)
{
	while (from->n && timers_add(to, &from->v[from->n - 1]))
		__atomic_store_n(&from->n, from->n - 1, __ATOMIC_RELAXED);
}

static void replay(const struct timer *t)
{
	run_page(PE_REPLAY, &(struct msg){ .object = t->object, .src = job.node, .dst = job.node },
		 NULL, NULL);
}

void work_use(void)
{
	struct work *w = work_mine();

	w->used_at = clock_us();
	w->uses = true;
}

void work_used(void)
{
	work_mine()->uses = false;
}

uint32_t work_now(void)
{
	const struct work *w = work_mine();

	return w->uses ? w->used_at : clock_us();
}

uint32_t work_hold(void)
{
	return job.set.hold_us ? job.set.hold_us : work_mine()->uses;
}

bool work_timer(uint32_t object, uint32_t at)
{
	struct timer t = { at, object, work_mine()->uses };

	return timers_add(&work_mine()->timers, &t);
}

enum fired { FIRE_DUE, FIRE_DUE_BUT_FRESH, FIRE_ALL };

static bool fires(const struct timer *t, enum fired which, uint32_t now)
{
	if (which == FIRE_ALL)
		return true;
	return !us_before(now, t->at) && (which == FIRE_DUE || !t->fresh);
}

/* Fire timers together. That may add timers, and so move the list. */
static void fire(struct work *w, enum fired which)
{
	bool any;

	do {
		uint32_t now = clock_us(), i = 0;

		any = false;
		while (i < w->timers.n) {
			struct timer t = w->timers.v[i];

			if (!fires(&t, which, now)) {
				i++;
				continue;
			}
			w->timers.v[i] = w->timers.v[--w->timers.n];
			replay(&t);
			any = true;
		}
		if (any)
			run_work();
	} while (any && which == FIRE_ALL);
}

/* The thread is about to return to the access for which it has got a block. */
static void begin_again(struct timers *t)
{
	const uint32_t at = clock_us() + job.set.hold_us;
	uint32_t i;

	for (i = 0; i < t->n; i++)
		if (t->v[i].fresh)
			t->v[i] = (struct timer){ at, t->v[i].object, false };
}

bool work_timers(bool hand_over)
{
	struct work *w = work_mine();

	if (!w->timers.n)
		return false;
	fire(w, hand_over ? FIRE_DUE_BUT_FRESH : FIRE_DUE);
	if (!hand_over || !w->timers.n)
		return w->timers.n;
	begin_again(&w->timers);
	word_lock(&late.lock);
	timers_move(&late.timers, &w->timers);
	word_unlock(&late.lock);
	job_ring(job.rank);
	fire(w, FIRE_ALL); /* no memory to hand them over, and this thread may not come back */
	return w->timers.n;
}

bool work_late_waits(void)
{
	return __atomic_load_n(&late.timers.n, __ATOMIC_RELAXED);
}

bool work_late(void)
{
	struct work *w = work_mine();

	word_lock(&late.lock);
	timers_move(&w->timers, &late.timers);
	word_unlock(&late.lock);
	return work_timers(false) || work_late_waits();
}

/* ---- pipes ----------------------------------------------------------------------------------- */

/*
 * One for all threads: two descriptors for each of thousands of waiting threads would exceed the
 * process's limit.
 */
#define PIPES 16

enum { PIPE_NONE = 0, PIPE_FREE, PIPE_USED };

static struct {
	int fd[2];
	uint32_t state;
} pipes[PIPES];

static const int no_pipe[2] = { -1, -1 };

const int *pipe_get(void)
{
	unsigned int i;

	for (i = 0; i < PIPES; i++) {
		uint32_t state = __atomic_load_n(&pipes[i].state, __ATOMIC_RELAXED);

		if (state == PIPE_USED ||
		    !__atomic_compare_exchange_n(&pipes[i].state, &state, PIPE_USED, 0,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		if (state == PIPE_FREE || !pipe2(pipes[i].fd, O_CLOEXEC | O_NONBLOCK))
			return pipes[i].fd;
		__atomic_store_n(&pipes[i].state, PIPE_NONE, __ATOMIC_RELEASE);
		break;
	}
	return no_pipe;
}

void pipe_put(const int *pipe)
{
	unsigned int i;

	for (i = 0; i < PIPES; i++)
		if (pipe == pipes[i].fd)
			__atomic_store_n(&pipes[i].state, PIPE_FREE, __ATOMIC_RELEASE);
}

static void pipes_close(void)
{
	unsigned int i;

	for (i = 0; i < PIPES; i++)
		if (pipes[i].state == PIPE_FREE) {
			close(pipes[i].fd[0]);
			close(pipes[i].fd[1]);
			pipes[i].state = PIPE_NONE;
		}
}

/* ---- the queue ------------------------------------------------------------------------------- */

static void thread_end(void)
{
	struct work *old = mine;
	int before;

	if (!old)
		return;
	/* close() is a cancellation point, also for a thread that is exiting */
	before = engine_keep();
	mine = NULL;
	if (old->items != old->first)
		munmap(old->items, old->room * sizeof(old->items[0]));
	timers_free(&old->timers);
	work_release(old);
	threads_end();
	engine_let(before);
}

struct work *work_reserve(void)
{
	return map(sizeof(struct work));
}

void work_release(struct work *w)
{
	munmap(w, sizeof(*w));
}

void work_take(struct work *w)
{
	w->items = w->first;
	w->room = WORK_ITEMS;
	mine = w;
	ends_note();
}

static struct work *work_begin(void)
{
	struct work *w = work_reserve();

	if (!w)
		lost_abort(70, "no memory for a thread's protocol queue");
	work_take(w);
	return w;
}

struct work *work_mine(void)
{
	return mine ? mine : work_begin();
}

int work_start(void)
{
	if (ends_allocate())
		log_line(
			"loaded after the program has made 32 thread-specific keys: the first access of a thread that has "
			"interrupted malloc() may hang; link libdsm instead of loading it");
	return ends_call(ENDS_WORK, thread_end);
}

void work_stop(void)
{
	thread_end();
	timers_free(&late.timers);
	pipes_close();
}

static void replace_items(struct work *w, struct item *items, uint32_t room)
{
	uint32_t i;

	for (i = w->head; i != w->tail; i++)
		items[i & (room - 1)] = *work_at(w, i);
	if (w->items != w->first)
		munmap(w->items, w->room * sizeof(w->items[0]));
	w->items = items;
	w->room = room;
}

void work_push(enum work_kind kind, const struct msg *m)
{
	struct work *w = work_mine();
	struct item *more;

	if (w->tail - w->head == w->room) {
		more = map(2ul * w->room * sizeof(*more));
		if (!more)
			lost_abort(70, "no memory for a thread's protocol queue");
		replace_items(w, more, 2 * w->room);
	}
	*work_at(w, w->tail++) = (struct item){ .m = *m, .kind = kind };
}

bool work_pop(struct item *out)
{
	struct work *w = work_mine();

	if (w->head == w->tail) {
		if (w->items != w->first)
			replace_items(w, w->first, WORK_ITEMS);
		return false;
	}
	*out = *work_at(w, w->head++);
	return true;
}

/* ---- closings -------------------------------------------------------------------------------- */

static bool comes_before(const struct item *a, const struct item *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind;
	/* Several nodes may want copies of one run. */
	if (a->kind == WORK_COPY && a->m.dst != b->m.dst)
		return a->m.dst < b->m.dst;
	return block_off(a->m.object) < block_off(b->m.object);
}

void work_closing(const struct item *it)
{
	struct work *w = work_mine();
	struct item *at = &w->closing[w->closings++];

	for (; at > w->closing && comes_before(it, at - 1); at--)
		*at = at[-1];
	*at = *it;
}

/*
 * Does block b follow block a? A region ends with its unit, so both belong to one region, and have
 * its block size, unless a peer lies: what they have together fits into a unit in any case.
 */
static bool adjoins(const struct item *a, const struct item *b)
{
	const size_t bytes = block_bytes(a->m.object), end = block_off(a->m.object) + bytes;

	return a->kind == b->kind && block_bytes(b->m.object) == bytes &&
		block_off(b->m.object) == end && end % UNIT_BYTES;
}

unsigned int work_run(const struct item *it, unsigned int n)
{
	unsigned int i;

	for (i = 1; i < n && adjoins(&it[i - 1], &it[i]); i++)
		;
	return i;
}
