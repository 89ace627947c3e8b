// SPDX-License-Identifier: BSD-2-Clause
/*
 * heap.c - the public functions of the shared heap: allocate in units that this rank has or takes,
 * and free any rank's allocation.
 *
 * If no unit is free, the ranks are asked in turn to give back those that are empty, until there is
 * room.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "api/init.h"
#include "calls/call.h"
#include "calls/owner.h"
#include "heap/heap.h"
#include "heap/site.h"
#include "job/job.h"
#include "util/hook.h"
#include "util/log.h"
#include "util/sizes.h"
#include "util/sys.h"

#define ALIGN_MAX UNIT_BYTES
#define OTHERS_US 100 /* pause, in which another rank may finish reclaiming */
#define FULL_US 20u   /* the first pause, and */
/* the longest one, while an owner has no room for frees of others */
#define FULL_MOST_US 10000u

static pthread_mutex_t reclaim_lock =
	/* held for round trips; nothing called under it takes it again */
	PTHREAD_MUTEX_INITIALIZER;

int heap_begin(void)
{
	const bool sites = strcmp(job.set.stats, "off") && strcmp(job.set.stats, "0");

	if (!job.heap)
		return 0;
	if (sites)
		heap_skip(job.set.stats_skip);
	return heap_start(rank_info(job.rank)->heap, job.mem.live, job.base, job.heap,
			  job.heap - heap_upper(), &owner_source, sites);
}

void heap_settle(void)
{
	if (job.heap)
		heap_drain(); /* includes the counts that threads keep on their own */
}

/*
 * Print this once: a program may try for long, and continue without. part: bytes of the heap for
 * such memory.
 */
static void log_full(size_t size, size_t part)
{
	const char *of = part < job.heap ? ", and half of it is for such memory" : "";
	static uint32_t said;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		log_line(
			"the heap has no room for %zu bytes in a row: DSM_HEAP is %zu MiB%s (said once)",
			size, job.heap >> 20, of);
	errno = ENOMEM;
}

/* This rank is out of memory of a part: reclaim what other ranks can give back. */
static void *reclaim(bool upper, size_t size, size_t align, bool zero, const char *name,
		     const void *site)
{
	void *p = NULL;
	int i;

	pthread_mutex_lock(&reclaim_lock);
	while (!p && owner_reclaim_begin() == -EBUSY) {
		sys_sleep_us(OTHERS_US);
		p = heap_alloc(upper, size, align, zero, name, site);
	}
	if (!p) {
		/* another thread has reclaimed meanwhile */
		p = heap_alloc(upper, size, align, zero, name, site);
		HOOK(heap_asks);
		for (i = 1; !p && i < job.size; i++)
			if (owner_reclaim((uint16_t)((job.rank + i) % job.size)))
				p = heap_alloc(upper, size, align, zero, name, site);
		owner_reclaim_end();
	}
	pthread_mutex_unlock(&reclaim_lock);
	return p;
}

static void *heap_allocate(bool upper, size_t size, size_t align, bool zero, const char *name,
			   const void *site)
{
	void *p;

	if (job_ready()) {
		errno = ENOMEM;
		return NULL;
	}
	if (align > ALIGN_MAX || (align & (align - 1))) {
		errno = EINVAL;
		return NULL;
	}
	p = heap_alloc(upper, size, align, zero, name, site);
	if (!p && size <= job.heap && job.size > 1)
		p = reclaim(upper, size, align, zero, name, site);
	if (!p)
		log_full(size, upper ? heap_upper() : job.heap - heap_upper());
	return p;
}

#define PART_LEAST (64ul << 10) /* smaller parts are not worth a step for each block */

/* The first rank of a node of the job; -1: there is no such node. */
static int first_rank(int node)
{
	int rank = 0;

	while (rank < job.size && node_of((uint16_t)rank) != node)
		rank++;
	return rank < job.size ? rank : -1;
}

/*
 * DSM_HOME=blocked: each node is the home of an equal part of a large allocation. In memory that
 * has not been used yet this sends no message if it is in this rank's stripes. A block that cannot
 * be placed now stays where it is; that is only slower.
 */
static void *heap_spread(void *p, size_t size)
{
	size_t part, at;
	int node = 0;

	/* NULL also where there is no job */
	if (job.set.homes != HOMES_BLOCKED || !p || one_node())
		return p;
	part = (size / job.nodes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	if (part < PART_LEAST)
		return p;
	for (at = 0; at < size; at += part, node++)
		dsm_place((char *)p + at, size - at < part ? size - at : part, first_rank(node));
	return p;
}

DSM_API void *dsm_malloc(size_t size)
{
	return heap_spread(heap_allocate(false, size, 0, false, NULL, __builtin_return_address(0)),
			   size);
}

DSM_API void *dsm_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return heap_spread(heap_allocate(false, bytes, 0, true, NULL, __builtin_return_address(0)),
			   bytes);
}

DSM_API void *dsm_aligned_alloc(size_t alignment, size_t size)
{
	if (!alignment) {
		errno = EINVAL;
		return NULL;
	}
	return heap_spread(
		heap_allocate(false, size, alignment, false, NULL, __builtin_return_address(0)),
		size);
}

DSM_API void *dsm_malloc_named(size_t alignment, size_t size, const char *name)
{
	return heap_spread(
		heap_allocate(false, size, alignment, false, name, __builtin_return_address(0)),
		size);
}

DSM_API void *dsm_malloc_program(size_t alignment, size_t size, int zero)
{
	const bool upper = heap_upper();
	void *p = heap_allocate(upper, size, alignment, zero, NULL, __builtin_return_address(0));

	return upper ? p : heap_spread(p, size);
}

DSM_API void *dsm_malloc_on(int node, size_t size)
{
	/* At least one page, rounded up to whole pages; too large sizes remain so. */
	const size_t bytes =
		size <= job.heap ? (size + !size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1) : size;
	int rank = job_ready() ? 0 : first_rank(node), err;
	void *p;

	if (rank < 0) {
		errno = EINVAL;
		return NULL;
	}
	p = heap_allocate(false, bytes, PAGE_BYTES, false, NULL, __builtin_return_address(0));
	err = p ? dsm_place(p, bytes, rank) : 0;
	if (!err)
		return p;
	dsm_free(p);
	errno = -err;
	return NULL;
}

/*
 * An existing allocation keeps its owner, so the owner is looked up again only if this node's table
 * was out of date.
 */
DSM_API int dsm_free(void *p)
{
	const uint64_t arg = (uint64_t)(uintptr_t)p;
	const size_t off = (size_t)((char *)p - job.base);
	int err = job_ready(), owner, tries = 0;
	unsigned int us = FULL_US;

	if (err || !p)
		return err;
	if ((char *)p < job.base || off >= job.heap)
		return -EINVAL;
	do {
		owner = unit_owner(off);
		if (owner < 0)
			return owner;
		if (owner == job.rank) {
			err = heap_free(rank_info(job.rank)->heap, p);
			heap_give_units();
			return err;
		}
		if (off / UNIT_BYTES >= job.heap_shape.split && !is_here((uint16_t)owner))
			owner_let_memory();
		/* -EAGAIN: the owner has not handled earlier frees yet. */
		while ((err = call_rank((uint16_t)owner, CALL_FREE, &arg, sizeof(arg), NULL, 0)) ==
		       -EAGAIN) {
			sys_sleep_us(us);
			us = 2 * us < FULL_MOST_US ? 2 * us : FULL_MOST_US;
		}
		if (err == -ESTALE)
			owner_forget(off, (uint16_t)owner);
	} while (err == -ESTALE && !tries++);
	return err == -ESTALE ? -EINVAL : err;
}
