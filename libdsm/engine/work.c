// SPDX-License-Identifier: BSD-2-Clause
/*
 * work.c - each thread's queue and timers. Their memory is an arena that a thread maps once: malloc is out of reach inside
 * the fault handler.
 */
#include "engine/work.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "util/futex.h"

static __thread struct work *mine __attribute__((tls_model("initial-exec")));
__thread int engine_depth __attribute__((tls_model("initial-exec")));

/* Timers of threads that went back to the application; the service thread fires them. */
static struct {
	uint32_t lock;
	uint32_t n;
	struct timer v[WORK_TIMERS * 4];
} late;

/* The key is made before any thread comes here, so it is one of the first 32, which setting never allocates for. */
static pthread_key_t thread_key;

static void thread_end(void *w)
{
	struct work *old = w;

	if (old->pipe[0] >= 0) {
		close(old->pipe[0]);
		close(old->pipe[1]);
	}
	mine = NULL;
	munmap(old, sizeof(*old));
}

static struct work *work_begin(void)
{
	mine = mmap(NULL, sizeof(*mine), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mine == MAP_FAILED)
		lost_abort(70, "no memory for a thread's protocol queue");
	if (pipe2(mine->pipe, O_CLOEXEC | O_NONBLOCK))
		mine->pipe[0] = mine->pipe[1] = -1; /* take() does without */
	pthread_setspecific(thread_key, mine);
	return mine;
}

struct work *work_mine(void)
{
	return mine ? mine : work_begin();
}

int run_start(void)
{
	return -pthread_key_create(&thread_key, thread_end);
}

void run_stop(void)
{
	if (mine)
		thread_end(mine);
	pthread_key_delete(thread_key);
}

struct item *work_push(const struct msg *m)
{
	struct work *w = work_mine();
	struct item *it = &w->items[w->tail % WORK_ITEMS];

	if (w->tail - w->head == WORK_ITEMS)
		lost_abort(70, "a thread's protocol queue is full");
	w->tail++;
	it->m = *m;
	it->data = 0;
	return it;
}

void work_timer(uint16_t rank, uint32_t object, uint32_t at)
{
	struct work *w = work_mine();

	if (w->ntimers == WORK_TIMERS)
		run_timers(true);
	w->timers[w->ntimers++] = (struct timer){ at, object, rank };
}

static bool fire(struct timer *v, uint32_t *n)
{
	uint32_t now = clock_us(), i = 0;

	while (i < *n) {
		struct timer t = v[i];

		if (us_before(now, t.at)) {
			i++;
			continue;
		}
		v[i] = v[--*n];
		run_page(t.rank, PE_UNHOLD, &(struct msg){ .object = t.object, .src = t.rank, .dst = t.rank }, NULL, NULL);
		run_work();
	}
	return *n;
}

bool run_timers(bool hand_over)
{
	struct work *w = work_mine();
	uint32_t i;

	if (!w->ntimers || !fire(w->timers, &w->ntimers))
		return false;
	if (!hand_over)
		return true;
	word_lock(&late.lock);
	for (i = 0; i < w->ntimers && late.n < sizeof(late.v) / sizeof(late.v[0]); i++)
		late.v[late.n++] = w->timers[i];
	word_unlock(&late.lock);
	/* What did not fit stays here; this thread fires it at its next step. */
	memmove(w->timers, w->timers + i, (w->ntimers - i) * sizeof(w->timers[0]));
	w->ntimers -= i;
	service_ring(job.rank);
	return w->ntimers;
}

bool run_late(void)
{
	struct work *w = work_mine();

	word_lock(&late.lock);
	while (late.n && w->ntimers < WORK_TIMERS)
		w->timers[w->ntimers++] = late.v[--late.n];
	word_unlock(&late.lock);
	return run_timers(false) || late.n;
}
