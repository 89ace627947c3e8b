// SPDX-License-Identifier: BSD-2-Clause
/* barrier.c - barriers and the collectives that ride on them (core/barrier.h: a combining tree). */
#include "sync/sync.h"

#include <errno.h>
#include <string.h>

#include "engine/reduce.h"
#include "util/futex.h"

#define BARRIER_TAG (1ull << 63)

/* Barrier 0 of rank 0 is everybody's. */
int sync_start(void)
{
	if (job.rank == 0)
		job.me->barrier_used[0] |= 1;
	return 0;
}

static int arrive_in_kernel(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value)
{
	struct dsm_ioc_call q = { .call = DSM_CALL_BARRIER, .object = object, .value = *value, .value2 = mask, .threads = threads,
				  .op = op };
	uint64_t start = clock_ns();
	int err = kernel_call(&q);

	*value = q.result;
	count(&job.me->stats.barriers, 1);
	sync_count_wait(DSM_LAT_BARRIER, clock_ns() - start);
	return err;
}

static int arrive(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value)
{
	struct msg m = { .version = WIRE_VERSION, .type = MSG_ARRIVE, .op = op, .src = job.rank, .dst = job.rank,
			 .req_rank = job.rank, .object = object, .aux = threads, .value = *value };
	struct bar *b = &peer_of(job.rank)->bars[object];
	uint64_t start = clock_ns();
	uint32_t gen;
	int err;

	if (job.kernel >= 0)
		return arrive_in_kernel(object, mask, threads, op, value);
	engine_depth++;
	__atomic_store_n(&b->mask, mask, __ATOMIC_RELAXED);
	gen = __atomic_load_n(&b->gen, __ATOMIC_ACQUIRE);
	err = run_arrive(&m);
	if (!err) {
		wait_word(&b->gen, gen, &b->sleepers);
		err = b->ended;
		*value = b->result;
	} else {
		err = -EINVAL;
	}
	run_timers(true);
	count(&job.me->stats.barriers, 1);
	sync_count_wait(DSM_LAT_BARRIER, clock_ns() - start);
	engine_depth--;
	return err;
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

DSM_API int dsm_barrier_init(dsm_barrier_t *b, const int *ranks, int nranks, unsigned threads)
{
	uint64_t mask;
	int err = api_ready(), index;

	if (!err)
		err = make_mask(ranks, nranks, &mask);
	if (err)
		return err;
	if (!threads || threads > 0x7fffffff)
		return -EINVAL;
	index = bits_take(job.me->barrier_used, 0, CTL_BARRIERS);
	if (index < 0)
		return -ENOSPC;
	*b = (dsm_barrier_t){ .id = BARRIER_TAG | ((uint64_t)job.rank * CTL_BARRIERS + (uint64_t)index), .ranks = mask,
			      .threads = threads };
	return 0;
}

static int check(const dsm_barrier_t *b, uint32_t *object)
{
	int err = api_ready();
	uint16_t maker;

	if (err)
		return err;
	if (!(b->id & BARRIER_TAG) || (b->id & ~BARRIER_TAG) >= (uint64_t)job.size * CTL_BARRIERS || !b->threads)
		return -EINVAL;
	*object = (uint32_t)b->id;
	maker = (uint16_t)(*object / CTL_BARRIERS);
	if (is_here(maker) && !(__atomic_load_n(&peer_of(maker)->ctl->barrier_used[*object % CTL_BARRIERS / 64], __ATOMIC_RELAXED) >>
				(*object % 64) & 1))
		return -EINVAL; /* destroyed */
	return b->ranks && !(b->ranks >> job.rank & 1) ? -EINVAL : 0;
}

DSM_API int dsm_barrier_destroy(dsm_barrier_t *b)
{
	dsm_barrier_t was = *b;
	uint32_t object;
	uint16_t r;
	int err = check(&was, &object);

	if (err && !(was.ranks && (was.id & BARRIER_TAG)))
		return err;
	object = (uint32_t)was.id;
	if (object / CTL_BARRIERS >= job.size || object == 0)
		return -EINVAL;
	for (r = 0; r < job.size; r++)
		if (is_here(r) && __atomic_load_n(&peer_of(r)->bars[object].arrived, __ATOMIC_RELAXED))
			return -EBUSY;
	if (job.kernel >= 0 && kernel_call(&(struct dsm_ioc_call){ .call = DSM_CALL_BARRIER, .object = object }))
		return -EBUSY;
	r = (uint16_t)(object / CTL_BARRIERS);
	if (is_here(r)) /* a maker on another host keeps its number in use */
		__atomic_fetch_and(&peer_of(r)->ctl->barrier_used[object % CTL_BARRIERS / 64], ~(1ull << (object % 64)),
				   __ATOMIC_RELEASE);
	b->id = 0;
	return 0;
}

DSM_API int dsm_barrier_wait(dsm_barrier_t *b)
{
	dsm_barrier_t copy = *b;
	uint64_t value = 0;
	uint32_t object;
	int err = check(&copy, &object);

	return err ? err : arrive(object, copy.ranks, copy.threads, DSM_OR, &value);
}

DSM_API int dsm_barrier(void)
{
	uint64_t value = 0;
	int err = api_ready();

	return err ? err : arrive(0, 0, 1, DSM_OR, &value);
}

/* The kernel has no floating point: each rank's value goes round, and everybody combines them in the same order. */
static int gather_doubles(uint8_t op, uint64_t *value)
{
	uint64_t mine = *value, v;
	uint16_t r;
	int err = 0;

	for (r = 0; r < job.size && !err; r++) {
		v = r == job.rank ? mine : 0;
		err = arrive(0, 0, 1, DSM_OR | DSM_UINT64 << 4, &v);
		*value = r ? reduce_combine(op, *value, v) : v;
	}
	return err;
}

DSM_API int dsm_reduce(void *value, enum dsm_type type, enum dsm_op op)
{
	uint64_t v;
	int err = api_ready();

	if (err)
		return err;
	if ((unsigned int)type > DSM_DOUBLE || (unsigned int)op > DSM_XOR || (type == DSM_DOUBLE && op > DSM_MAX))
		return -EINVAL;
	memcpy(&v, value, sizeof(v));
	if (job.kernel >= 0 && type == DSM_DOUBLE)
		err = gather_doubles((uint8_t)(op | type << 4), &v);
	else
		err = arrive(0, 0, 1, (uint8_t)(op | type << 4), &v);
	if (!err)
		memcpy(value, &v, sizeof(v));
	return err;
}

DSM_API int dsm_broadcast(void *buf, size_t size, int root)
{
	size_t at, n;
	int err = api_ready();

	if (err)
		return err;
	if (root < 0 || root >= job.size)
		return -EINVAL;
	if (size > DSM_SMALL_MAX)
		return -EMSGSIZE;
	for (at = 0; !err && (at < size || !at); at += sizeof(uint64_t)) {
		uint64_t v = 0;

		n = size - at < sizeof(v) ? size - at : sizeof(v);
		if (job.rank == root)
			memcpy(&v, (char *)buf + at, n);
		err = arrive(0, 0, 1, DSM_OR | DSM_UINT64 << 4, &v);
		if (!err && n)
			memcpy((char *)buf + at, &v, n);
	}
	return err;
}
