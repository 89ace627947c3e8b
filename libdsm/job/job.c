// SPDX-License-Identifier: BSD-2-Clause
/* job.c - the job, and whether this process may use it. */
#include "job/job.h"

#include <errno.h>

#include "job/host_ops.h"
#include "util/futex.h"
#include "util/sys.h"

/* neighbouring blocks of a first-touch region share a manager, so that runs travel together */
#define MANAGER_RUN 16

struct job job = { .epoll = -1 };

void job_await_quit(void)
{
	while (__atomic_load_n(&job.quits, __ATOMIC_ACQUIRE))
		sys_pause();
}

void job_await_loss(void)
{
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_LOST)
		for (;;)
			/* another thread is ending the process */
			futex_wait(&job.state, CTL_LOST, 1000000000u);
}

int job_ready(void)
{
	if (__builtin_expect(job.forked, 0))
		return -ECHILD;
	if (__builtin_expect(__atomic_load_n(&job.state, __ATOMIC_RELAXED) == CTL_RUNNING, 1))
		return 0;
	job_await_quit();
	job_await_loss();
	return -ENOTCONN;
}

bool job_runs(void)
{
	return __atomic_load_n(&job.state, __ATOMIC_RELAXED) == CTL_RUNNING && !job.forked;
}

const char *job_no_release(void)
{
	if (one_node())
		return NULL;
	return job.host->kind == HOST_KERNEL
		? "not supported by the kernel helper; use DSM_BACKEND=user"
		: NULL;
}

void job_ring(uint16_t rank)
{
	uint64_t one = 1;

	if (sys_write(rank_info(rank)->doorbell, &one, sizeof(one)) < 0)
		one = 0; /* it is full: the thread is awake already */
}

/*
 * The program has not said where homes are to be. A part of the heap has no meaning: its
 * allocations are placed (api/heap.c).
 */
static size_t homes_run_set(const struct region_homes *h)
{
	const size_t blocks = (h->size + h->block_size - 1) / h->block_size;

	switch (job.set.homes) {
	case HOMES_CYCLIC:
		return job.set.home_run > h->block_size ? job.set.home_run : h->block_size;
	case HOMES_BLOCKED:
		return h->off >= job.heap ? (blocks + job.nodes - 1) / job.nodes * h->block_size
					  : 0;
	case HOMES_FIRST: break;
	}
	return 0;
}

static size_t homes_run(const struct region_homes *h)
{
	switch ((enum dsm_home)h->policy) {
	case DSM_HOME_FIXED: break;
	case DSM_HOME_CYCLIC: return h->block_size;
	case DSM_HOME_FIRST_TOUCH: return homes_run_set(h);
	}
	return 0;
}

static uint16_t homes_home(const struct region_homes *h, size_t off)
{
	const size_t run = homes_run(h);

	if (run)
		return (uint16_t)((off - h->off) / run % job.nodes);
	if (h->off < job.heap)
		return node_of((uint16_t)units_home(&job.heap_shape, (uint32_t)(off / UNIT_BYTES)));
	if (h->policy == DSM_HOME_FIXED)
		return node_of(h->rank);
	return (uint16_t)((off - h->off) / h->block_size / MANAGER_RUN % job.nodes);
}

size_t region_run(const struct dsm_region *r)
{
	const struct region_homes h = region_homes(r);

	return homes_run(&h);
}

bool region_first_touch(const struct dsm_region *r)
{
	return r->home_policy == DSM_HOME_FIRST_TOUCH && !region_run(r);
}

uint16_t region_home(const struct dsm_region *r, size_t off)
{
	const struct region_homes h = region_homes(r);

	return homes_home(&h, off);
}

const struct region_homes *region_known(size_t off)
{
	const uint16_t id = __atomic_load_n(&job.mem.regions[off / UNIT_BYTES], __ATOMIC_ACQUIRE);

	return id ? &job.me->homes[id - 1] : NULL;
}

uint16_t region_home_of(const struct region_homes *h, size_t off)
{
	return homes_home(h, off);
}

uint16_t region_manager(size_t off)
{
	const size_t unit = off / UNIT_BYTES;
	uint16_t id = 0;

	if (__atomic_load_n(&job.mem.mapped[unit], __ATOMIC_ACQUIRE))
		id = __atomic_load_n(&job.mem.regions[unit], __ATOMIC_ACQUIRE);
	return id ? homes_home(&job.me->homes[id - 1], off) : SET_NOBODY;
}
