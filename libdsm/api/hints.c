// SPDX-License-Identifier: BSD-2-Clause
/* hints.c - hints of the program about ranges: fetch, give back, pin, place, bind. */
#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <stdlib.h>

#include "api/hints.h"
#include "fault/range.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"
#include "util/sys.h"

/* Pins by range, so that unpinning needs no access mode and an unknown range is an error. */
struct pin {
	struct pin *next;
	size_t off, len;
	uint8_t access;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards pins */
static struct pin *pins;

int hints_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len)
{
	size_t from, to, block;
	int err = job_ready();

	if (err)
		return err;
	if (!range_off(addr, &from) || !size || from + size < from || from + size > job.set.space)
		return -EFAULT;
	to = from + size;
	*r = region_at(from);
	if (!*r || to > (*r)->off + region_usable(*r))
		return -EFAULT;
	block = (*r)->block_size;
	from = (*r)->off + (from - (*r)->off) / block * block;
	to = (*r)->off + (to - (*r)->off + block - 1) / block * block;
	*off = from;
	*len = to - from;
	return 0;
}

static int hint_fetch(const void *addr, size_t size, enum dsm_access access, bool wait)
{
	struct dsm_region *r;
	size_t off, len;
	int err = hints_range(addr, size, &r, &off, &len);

	if (err)
		return err;
	if (access != DSM_READ && access != DSM_WRITE && access != (DSM_READ | DSM_WRITE))
		return -EINVAL;
	return one_node() ? 0 : job.host->fetch(r, off, len, (uint8_t)access, wait);
}

DSM_API int dsm_prefetch(const void *addr, size_t size, enum dsm_access access)
{
	return hint_fetch(addr, size, access, false);
}

DSM_API int dsm_acquire(const void *addr, size_t size, enum dsm_access access)
{
	return hint_fetch(addr, size, access, true);
}

DSM_API int dsm_release(const void *addr, size_t size)
{
	struct dsm_region *r;
	size_t off, len;
	int err = hints_range(addr, size, &r, &off, &len);

	if (!err && !one_node())
		job.host->release(r, off, len, false);
	return err;
}

/*
 * Copies of release blocks are dropped whenever a thread of the node synchronises, and their homes
 * follow their first writer alone. A program that places all it allocates is told once.
 */
static bool hint_is_refused(const struct dsm_region *r, const char *what)
{
	static bool told[CTL_REGIONS];

	if (one_node() || r->consistency == DSM_CONSISTENCY_SEQUENTIAL)
		return false;
	if (!__atomic_exchange_n(&told[r->id], true, __ATOMIC_RELAXED))
		log_line("%s: region \"%s\" has release consistency", what, r->name);
	return true;
}

DSM_API int dsm_pin(const void *addr, size_t size, enum dsm_access access)
{
	struct dsm_region *r;
	struct pin *p;
	size_t off, len;
	int err = hints_range(addr, size, &r, &off, &len);

	if (err)
		return err;
	if (access != DSM_READ && access != DSM_WRITE && access != (DSM_READ | DSM_WRITE))
		return -EINVAL;
	if (hint_is_refused(r, "dsm_pin()"))
		return -ENOTSUP;
	p = malloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	*p = (struct pin){ .off = off, .len = len, .access = (uint8_t)access };
	if (!one_node())
		err = job.host->pin(r, off, len, (uint8_t)access);
	if (err) {
		free(p);
		return err;
	}
	pthread_mutex_lock(&lock);
	p->next = pins;
	pins = p;
	pthread_mutex_unlock(&lock);
	return 0;
}

DSM_API int dsm_unpin(const void *addr, size_t size)
{
	struct dsm_region *r;
	struct pin **at, *p;
	size_t off, len;
	int err = hints_range(addr, size, &r, &off, &len);

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	for (at = &pins; *at && ((*at)->off != off || (*at)->len != len); at = &(*at)->next)
		;
	p = *at;
	if (p)
		*at = p->next;
	pthread_mutex_unlock(&lock);
	if (!p)
		return -EINVAL;
	if (!one_node())
		err = job.host->unpin(r, off, len, p->access);
	free(p);
	return err;
}

DSM_API size_t dsm_needs_pin(const void *addr, size_t size)
{
	const struct dsm_region *r;
	size_t off, end;

	if (!job_runs() || one_node() || job.host->kind == HOST_KERNEL)
		return 0;
	if (!addr)
		return size;
	if (!range_off(addr, &off))
		return 0;
	r = region_at(off);
	if (!r || off >= r->off + region_usable(r))
		return 0;
	end = range_run(off, r->off + region_usable(r));
	return size < end - off ? size : end - off;
}

bool pins_any(size_t off, size_t len)
{
	const struct pin *p;

	pthread_mutex_lock(&lock);
	for (p = pins; p && (p->off >= off + len || off >= p->off + p->len); p = p->next)
		;
	pthread_mutex_unlock(&lock);
	return p;
}

void pins_forget(void)
{
	while (pins) {
		struct pin *p = pins;

		pins = p->next;
		free(p);
	}
}

/* placing gives up after so long if ranks do not release the block */
#define PLACE_NS 2000000000ull
#define PAUSE_US 20u       /* the first pause, and */
#define PAUSE_MAX_US 1000u /* the longest one, before a block is asked about again */

/* Place a block, until a time limit: it comes as soon as its users release it. */
static int hint_place(struct dsm_region *r, size_t off, uint16_t rank, uint64_t until)
{
	unsigned int pause = PAUSE_US;
	int err;

	HOOK(place_asks);
	while ((err = job.host->place(r, off, rank)) == -EBUSY && clock_ns() < until) {
		sys_sleep_us(pause);
		pause = pause * 2 < PAUSE_MAX_US ? pause * 2 : PAUSE_MAX_US;
	}
	return err;
}

DSM_API int dsm_place(const void *addr, size_t size, int rank)
{
	struct dsm_region *r;
	size_t off, len, at;
	uint64_t until;
	int err = hints_range(addr, size, &r, &off, &len), one;

	if (err)
		return err;
	if (rank < 0 || rank >= job.size)
		return -EINVAL;
	if (one_node())
		return 0;
	if (hint_is_refused(r, "dsm_place()"))
		return -ENOTSUP;
	if (node_of((uint16_t)rank) != job.node && pins_any(off, len))
		return -EBUSY; /* the thread would wait for itself */
	until = clock_ns() + PLACE_NS;
	for (at = off; at < off + len; at += r->block_size) {
		one = hint_place(r, at, (uint16_t)rank, until);
		if (one)
			err = one;
		else
			until = clock_ns() + PLACE_NS;
	}
	return err;
}

/* libnuma reads files, and reading is a cancellation point. */
static int run_on(int node)
{
	const int before = engine_keep();
	const int err = numa_run_on_node(node) ? -errno : 0;

	engine_let(before);
	return err;
}

DSM_API int dsm_bind_thread(int node)
{
	int err = job_ready();

	if (err)
		return err;
	if (numa_available() < 0)
		return node == 0 || node == -1 ? 0 : -EINVAL; /* one node is all there is */
	if (node < -1 || node > numa_max_node())
		return -EINVAL;
	return run_on(node);
}

DSM_API int dsm_bind_memory(void *addr, size_t size, int node)
{
	struct dsm_region *r;
	unsigned long mask;
	size_t off, len;
	int err = hints_range(addr, size, &r, &off, &len);

	if (err)
		return err;
	if (node < 0 || node >= 64)
		return -EINVAL;
	if (numa_available() < 0)
		return node == 0 ? 0 : -EINVAL;
	if (node > numa_max_node())
		return -EINVAL;
	if (job.host->kind == HOST_KERNEL && job.nodes > 1)
		return -EOPNOTSUPP; /* its frames are not memory that mbind(2) can move */
	mask = 1ul << node;
	return mbind(range_at(off), len, MPOL_PREFERRED, &mask, 64, 0) ? -errno : 0;
}
