// SPDX-License-Identifier: BSD-2-Clause
/* heap.c - the shared heap's public face: allocate from this rank's part, free whoever's it is. */
#include "api/api.h"

#include <errno.h>
#include <string.h>

#define ALIGN_MAX (2ul << 20)

int heap_begin(void)
{
	if (!job.heap_part)
		return 0;
	return heap_start(peer_of(job.rank)->heap, job.base + (size_t)job.rank * job.heap_part, job.heap_part,
			  strcmp(job.set.stats, "off") && strcmp(job.set.stats, "0"));
}

void heap_settle(void)
{
	if (job.heap_part)
		heap_drain(); /* shows what threads have counted on their own, too */
}

static void *allocate(size_t size, size_t align, bool zero, const char *name, const void *site)
{
	if (api_ready() || !job.heap_part) {
		errno = ENOMEM;
		return NULL;
	}
	if (align > ALIGN_MAX || (align & (align - 1))) {
		errno = EINVAL;
		return NULL;
	}
	return heap_alloc(size, align, zero, name, site);
}

DSM_API void *dsm_malloc(size_t size)
{
	return allocate(size, 0, false, NULL, __builtin_return_address(0));
}

DSM_API void *dsm_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return allocate(bytes, 0, true, NULL, __builtin_return_address(0));
}

DSM_API void *dsm_aligned_alloc(size_t alignment, size_t size)
{
	if (!alignment) {
		errno = EINVAL;
		return NULL;
	}
	return allocate(size, alignment, false, NULL, __builtin_return_address(0));
}

DSM_API void *dsm_malloc_named(size_t alignment, size_t size, const char *name)
{
	return allocate(size, alignment, false, name, __builtin_return_address(0));
}

DSM_API int dsm_free(void *p)
{
	uint64_t arg = (uint64_t)(uintptr_t)p;
	size_t off = (size_t)((char *)p - job.base);
	uint16_t owner;
	int err = api_ready();

	if (err || !p)
		return err;
	if ((char *)p < job.base || !job.heap_part || off >= job.heap_part * job.size)
		return -EINVAL;
	owner = (uint16_t)(off / job.heap_part);
	if (owner == job.rank)
		return heap_free(peer_of(owner)->heap, p);
	while ((err = call_rank(owner, CALL_FREE, &arg, sizeof(arg), NULL, 0)) == -EAGAIN) {
		/* The owner has not given back what it was told before: wake its service thread. */
		if (is_here(owner))
			service_ring(owner);
		sched_yield();
	}
	return err;
}
