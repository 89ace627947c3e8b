// SPDX-License-Identifier: BSD-2-Clause
/* barrier.c - barriers (core/barrier.h: a combining tree). */
#include "sync/barrier.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "api/api.h"
#include "engine/host.h"
#include "engine/inside.h"
#include "engine/job.h"
#include "engine/pool.h"
#include "engine/run.h"
#include "engine/sharing.h"
#include "engine/stall.h"
#include "engine/wait.h"
#include "engine/work.h"
#include "fault/fault.h"
#include "sync/handle.h"
#include "sync/host.h"
#include "sync/object.h"
#include "util/futex.h"
#include "util/hook.h"

#define BARRIER_TAG (1ull << 63)

/* A barrier's number: those with the same index at their makers lie side by side. */
static uint32_t barrier_number(uint16_t maker, uint32_t index)
{
	return index * job.size + maker;
}

static uint16_t barrier_maker(uint32_t object)
{
	return (uint16_t)(object % job.size);
}

/* In use, as its maker knows: word and bit of the map. */
static uint64_t *used_word(uint32_t object, uint64_t *bit)
{
	uint32_t index = object / job.size;

	*bit = 1ull << (index % 64);
	return &peer_of(barrier_maker(object))->ctl->barrier_used[index / 64];
}

void barrier_start(void)
{
	if (job.rank == 0) {
		job.mine->barrier_used[0] |= 1;
		job.mine->barrier_pool.fresh = 1;
	}
}

void about_barrier(uint32_t object, uint64_t mask, uint32_t threads)
{
	about(ABOUT_BARRIER, 0, object);
	wait_about.mask = mask;
	wait_about.threads = threads;
}

uint64_t barrier_nodes(uint64_t mask, uint16_t *locals)
{
	uint64_t nodes = 0;

	*locals = mask ? 0 : job.locals;
	for (; mask; mask &= mask - 1) {
		uint16_t node = node_of((uint16_t)__builtin_ctzll(mask));

		nodes |= 1ull << node;
		*locals = (uint16_t)(*locals + (node == job.node));
	}
	return nodes;
}

/* What was written before a barrier is often read behind it, by another rank. Inside: a handler that misses would wait for a lock of
 * the thread that it has interrupted, and a cancelled thread would never release it. */
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

int barrier_meet(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value)
{
	struct msg m = barrier_arrival(object, threads, op, *value);
	struct bar *b = &job.mem.bars[object];
	uint16_t locals;
	uint64_t start = clock_ns(), now;
	uint32_t gen;
	int err;

	engine_enter();
	__atomic_store_n(&b->mask, barrier_nodes(mask, &locals), __ATOMIC_RELAXED);
	__atomic_store_n(&b->locals, locals, __ATOMIC_RELAXED);
	gen = __atomic_load_n(&b->gen, __ATOMIC_ACQUIRE);
	HOOK("barrier-begin");
	err = run_arrive(&m);
	HOOK("barrier-arrived");
	if (!err) {
		about_barrier(object, mask, threads);
		wait_word(&b->gen, gen, &b->sleepers);
		about_none();
		sharing_acquired();
		err = b->ended;
		*value = b->result;
	} else {
		err = -EINVAL;
	}
	work_timers(true);
	now = clock_ns();
	count(&job.mine->stats.barriers, 1);
	sync_count_wait(DSM_LAT_BARRIER, now - start);
	populate(now);
	engine_leave();
	return err;
}

int barrier_end(uint32_t object)
{
	return __atomic_load_n(&job.mem.bars[object].threads, __ATOMIC_RELAXED) ? -EBUSY : 0;
}

int barrier_arrive(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value)
{
	return sync_host()->arrive(object, mask, threads, op, value);
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

/* That this rank may have made. */
static uint32_t barriers(void)
{
	const uint32_t n = job.host->barriers;

	return job.host->shared ? (uint32_t)((uint64_t)n * job.nodes / job.size) : n;
}

DSM_API int dsm_barrier_init(dsm_barrier_t *b, const int *ranks, int nranks, unsigned threads)
{
	uint64_t mask;
	int err = api_ready();
	uint64_t bit, *word;
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
	*b = (dsm_barrier_t){ .id = BARRIER_TAG | barrier_number(job.rank, (uint32_t)index),
			      .ranks = mask,
			      .threads = threads };
	word = used_word((uint32_t)b->id, &bit);
	__atomic_fetch_or(word, bit, __ATOMIC_RELEASE);
	return 0;
}

static int check(const dsm_barrier_t *b, uint32_t *object)
{
	int err = api_ready();
	uint64_t bit, *word;

	if (err)
		return err;
	if (!(b->id & BARRIER_TAG) || (b->id & ~BARRIER_TAG) >= (uint64_t)job.size * CTL_BARRIERS || !b->threads)
		return -EINVAL;
	*object = (uint32_t)b->id;
	if (is_here(barrier_maker(*object))) {
		word = used_word(*object, &bit);
		if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit))
			return -EINVAL; /* destroyed */
	}
	return b->ranks && !(b->ranks >> job.rank & 1) ? -EINVAL : 0;
}

DSM_API int dsm_barrier_destroy(dsm_barrier_t *b)
{
	dsm_barrier_t was = *b;
	uint64_t bit, *word;
	uint32_t object;
	uint16_t r;
	int err = check(&was, &object);

	if (err && !(was.ranks && (was.id & BARRIER_TAG)))
		return err;
	object = (uint32_t)was.id;
	if (object == 0)
		return -EINVAL;
	err = sync_host()->end(object);
	if (err)
		return err;
	r = barrier_maker(object);
	if (is_here(r)) { /* a maker on another host keeps its number in use */
		word = used_word(object, &bit);
		if (__atomic_fetch_and(word, ~bit, __ATOMIC_RELEASE) & bit)
			pool_give(&peer_of(r)->ctl->barrier_pool, peer_of(r)->ctl->barrier_next, object / job.size);
	}
	b->id = HANDLE_GONE;
	return 0;
}

DSM_API int dsm_barrier_wait(dsm_barrier_t *b)
{
	dsm_barrier_t copy = *b;
	uint64_t value = 0;
	uint32_t object;
	int err = check(&copy, &object);

	return err ? err : barrier_arrive(object, copy.ranks, copy.threads, DSM_OR, &value);
}

/*
 * `id` counts the threads that have come, ever. Those of a round wait at one gate, those of the next round at the other: a thread that
 * comes again before the others have left does not take the place of one of them.
 */
static int meet(dsm_barrier_t *b, uint32_t n)
{
	dsm_atomic_t came;
	dsm_sem_t gate;
	uint64_t before;
	int err = sync_handle(&b->id, SYNC_ATOMIC, &came.id);

	if (!err)
		err = dsm_atomic_fetch_add(&came, 1, &before);
	if (!err)
		err = sync_handle(before / n % 2 ? &b->threads : &b->ranks, SYNC_SEM, &gate.id);
	if (err)
		return err;
	if (before % n != n - 1)
		return dsm_sem_wait(&gate);
	err = n > 1 ? dsm_sem_post(&gate, n - 1) : 0;
	return err ? err : 1;
}

DSM_API int dsm_barrier_meet(dsm_barrier_t *b, unsigned n)
{
	const uint64_t start = clock_ns();
	int err, cancel;
	bool labels;

	if (!n || n > 0x7fffffff)
		return -EINVAL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* nobody else could make up for it */
	labels = label_begin(DSM_WAIT_BARRIER, b);
	err = meet(b, n);
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
	int err = api_ready();

	return err ? err : barrier_arrive(0, 0, 1, DSM_OR, &value);
}
