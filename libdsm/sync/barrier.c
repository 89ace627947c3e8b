// SPDX-License-Identifier: BSD-2-Clause
/* barrier.c - barriers (core/barrier.h: a combining tree). */
#include "sync/barrier.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "fault/fault.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/note.h"
#include "job/pool.h"
#include "miss/push.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/sharing.h"
#include "miss/step.h"
#include "miss/wait.h"
#include "miss/work.h"
#include "sync/handle.h"
#include "sync/host.h"
#include "sync/object.h"
#include "util/futex.h"
#include "util/hook.h"

/* State of a number in use, beside its generation in barrier_life[]. */
#define LIFE_USED (1u << 31)

/*
 * The handle of a barrier has kind SYNC_BARRIER and its maker as home. Generations are like those
 * of objects: the first barrier with a number has generation 1, each init counts one more, and a
 * number whose generations are used up stays taken. The maker's node knows the current generation;
 * all others learn it from threads with a handle, and from each other (core/barrier.h).
 */

/* A barrier's number: those with the same index at their makers are adjacent. */
static uint32_t barrier_number(uint16_t maker, uint32_t index)
{
	return index * job.size + maker;
}

static uint16_t barrier_maker(uint32_t object)
{
	return (uint16_t)(object % job.size);
}

/* Its generation, known to its maker, which is a rank of this node. */
static uint32_t *life_of(uint32_t object)
{
	return &rank_info(barrier_maker(object))->ctl->barrier_life[object / job.size];
}

void barrier_start(void)
{
	if (job.rank == 0) {
		job.mine->barrier_life[0] = LIFE_USED;
		job.mine->barrier_pool.fresh = 1;
	}
}

void about_barrier(uint32_t object, uint64_t mask, uint32_t threads)
{
	note_about(ABOUT_BARRIER, 0, object);
	wait_about.mask = mask;
	wait_about.threads = threads;
}

struct bar_group barrier_group(uint64_t mask)
{
	struct bar_group g = { .locals = mask ? 0 : job.locals };

	for (; mask; mask &= mask - 1) {
		uint16_t node = node_of((uint16_t)__builtin_ctzll(mask));

		g.mask |= 1ull << node;
		g.locals = (uint16_t)(g.locals + (node == job.node));
	}
	return g;
}

/*
 * Data written before a barrier is often read after it by another rank: push it. This runs inside
 * the runtime: otherwise a handler that misses would wait for a lock of the interrupted thread, and
 * a cancelled thread would never release it.
 */
static void populate(uint64_t now)
{
	size_t chunks;

	if (!job.fault->populate)
		return;
	engine_enter();
	chunks = job.fault->populate(now);
	if (chunks)
		count(&job.mine->stats.populated, chunks);
	engine_leave();
}

int barrier_meet(const struct barrier_name *name, uint64_t mask, uint32_t threads, uint8_t op,
		 uint64_t *value)
{
	struct msg m = barrier_arrival(name, threads, op, *value);
	const struct bar_group group = barrier_group(mask);
	struct bar *b = &job.mem.bars[name->object];
	uint64_t start = clock_ns(), now;
	uint32_t gen;
	int err;

	engine_enter();
	HOOK(barrier_begin);
	if (push_due() && step_bar_last(name->object, threads))
		push_all();
	wait_begin();
	err = run_arrive(&m, &group, &gen);
	HOOK(barrier_arrived);
	if (!err) {
		about_barrier(name->object, mask, threads);
		wait_word(&b->gen, gen, &b->sleepers);
		about_none();
		sharing_acquired();
		release_acquire();
		err = bar_ended(b, name->life, value);
	} else {
		err = -EINVAL;
	}
	wait_end();
	work_timers(true);
	now = clock_ns();
	count(&job.mine->stats.barriers, 1);
	sync_count_wait(DSM_LAT_BARRIER, now - start);
	populate(now);
	engine_leave();
	return err;
}

int barrier_end(const struct barrier_name *name)
{
	const struct bar *b = &job.mem.bars[name->object];

	return __atomic_load_n(&b->threads, __ATOMIC_RELAXED) &&
			__atomic_load_n(&b->life, __ATOMIC_RELAXED) == name->life
		? -EBUSY
		: 0;
}

int barrier_arrive(const struct barrier_name *b, uint64_t mask, uint32_t threads, uint8_t op,
		   uint64_t *value)
{
	return sync_host()->arrive(b, mask, threads, op, value);
}

static int make_mask(const int *ranks, int nranks, uint64_t *mask)
{
	int i;

	*mask = 0;
	if (!ranks)
		return 0;
	if (nranks < 1 || job.size > 64)
		return -EINVAL;
	for (i = 0; i < nranks; i++) {
		if (ranks[i] < 0 || ranks[i] >= job.size || (*mask >> ranks[i] & 1))
			return -EINVAL;
		*mask |= 1ull << ranks[i];
	}
	return 0;
}

/* Barriers that this rank may have made. */
static uint32_t barriers(void)
{
	const uint32_t n = job.host->barriers;

	return job.host->shared ? (uint32_t)((uint64_t)n * job.nodes / job.size) : n;
}

DSM_API int dsm_barrier_init(dsm_barrier_t *b, const int *ranks, int nranks, unsigned threads)
{
	uint64_t mask;
	int err = job_ready();
	uint32_t *life, next;
	int64_t index;

	if (!err)
		err = make_mask(ranks, nranks, &mask);
	if (err)
		return err;
	if (!threads || threads > 0x7fffffff)
		return -EINVAL;
	index = pool_take(&job.mine->barrier_pool, job.mine->barrier_next, barriers());
	if (index < 0)
		return -ENOSPC;
	life = life_of(barrier_number(job.rank, (uint32_t)index));
	next = *life + 1;
	*b = (dsm_barrier_t){ .id = handle_make(SYNC_BARRIER, job.rank,
						object_name((uint32_t)index, next)),
			      .ranks = mask,
			      .threads = threads };
	__atomic_store_n(life, LIFE_USED | next, __ATOMIC_RELEASE);
	return 0;
}

/* Find the barrier of a handle, whether or not this rank is in its group. */
static int barrier_name_of(const dsm_barrier_t *b, struct barrier_name *name)
{
	const uint64_t index = handle_name(b->id) & SYNC_INDEX_MAX;
	int err = job_ready();

	if (err)
		return err;
	if (handle_kind(b->id) != SYNC_BARRIER || handle_home(b->id) >= job.size ||
	    index >= CTL_BARRIERS || !b->threads)
		return -EINVAL;
	name->object = barrier_number(handle_home(b->id), (uint32_t)index);
	name->life = (uint32_t)(handle_name(b->id) >> 24);
	if (!name->object || !name->life)
		return -EINVAL; /* the number of dsm_barrier(), which has no handle */
	if (is_here(handle_home(b->id)) &&
	    __atomic_load_n(life_of(name->object), __ATOMIC_RELAXED) != (LIFE_USED | name->life))
		return -EINVAL; /* destroyed */
	return 0;
}

static int barrier_check(const dsm_barrier_t *b, struct barrier_name *name)
{
	int err = barrier_name_of(b, name);

	return !err && b->ranks && !(b->ranks >> job.rank & 1) ? -EINVAL : err;
}

DSM_API int dsm_barrier_destroy(dsm_barrier_t *b)
{
	dsm_barrier_t was = *b;
	struct barrier_name name;
	int err = barrier_name_of(&was, &name);

	if (err)
		return err;
	err = sync_host()->end(&name);
	if (err)
		return err;
	if (is_here(handle_home(was.id))) {
		/* if the maker is on another host, it keeps the number in use */
		struct rank_ctl *maker = rank_info(handle_home(was.id))->ctl;
		uint32_t used = LIFE_USED | name.life;

		if (!__atomic_compare_exchange_n(life_of(name.object), &used, name.life, 0,
						 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return -EINVAL; /* another thread was faster */
		if (name.life < BAR_LIFE_MAX)
			pool_give(&maker->barrier_pool, maker->barrier_next,
				  name.object / job.size);
	}
	b->id = HANDLE_GONE;
	return 0;
}

DSM_API int dsm_barrier_wait(dsm_barrier_t *b)
{
	dsm_barrier_t copy = *b;
	struct barrier_name name;
	uint64_t value = 0;
	int err = barrier_check(&copy, &name);

	return err ? err : barrier_arrive(&name, copy.ranks, copy.threads, DSM_OR, &value);
}

static int barrier_meet_object(dsm_barrier_t *b, uint32_t n)
{
	struct sync_request q = { .value = n };
	uint64_t id;
	int err = sync_handle(&b->id, SYNC_COND, &id);

	if (!err)
		err = sync_ask(id, SOP_MEET, &q);
	return err ? err : q.old == SYNC_LAST;
}

DSM_API int dsm_barrier_meet(dsm_barrier_t *b, unsigned n)
{
	const uint64_t start = clock_ns();
	int err, cancel;
	bool labels;

	if (!n || n > 0x7fffffff)
		return -EINVAL;
	/* no other thread could replace it */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	labels = label_begin(DSM_WAIT_BARRIER, b);
	err = barrier_meet_object(b, n);
	label_end(labels);
	pthread_setcancelstate(cancel, NULL);
	if (err >= 0) {
		const uint64_t now = clock_ns();

		count(&job.mine->stats.barriers, 1);
		sync_count_wait(DSM_LAT_BARRIER, now - start);
		populate(now);
	}
	return err;
}

DSM_API int dsm_barrier(void)
{
	uint64_t value = 0;
	int err = job_ready();

	return err ? err : barrier_arrive(&barrier_0, 0, 1, DSM_OR, &value);
}
