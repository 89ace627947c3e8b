// SPDX-License-Identifier: BSD-2-Clause
/*
 * guard.c - dsm_guard(): access of this process that the program limits.
 *
 * One thread at a time changes limits, so that what a page is marked with and what the kernel
 * allows are of the same call.
 */
#include <errno.h>
#include <pthread.h>

#include "api/guard.h"
#include "api/hints.h"
#include "fault/fault.h"
#include "fault/range.h"
#include "job/job.h"
#include "util/sizes.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static enum guard of_access(enum dsm_access access)
{
	return access & DSM_WRITE ? GUARD_NONE : access & DSM_READ ? GUARD_STORES : GUARD_PROGRAM;
}

/* With the lock. Positive: the limit of a page has changed. */
static int guard_set(size_t off, size_t len, enum guard guard)
{
	bool differs = false;
	size_t at;
	int err;

	for (at = off; at < off + len && (guard || guard_any()); at += PAGE_BYTES) {
		if (guard_of(at) == GUARD_STACK)
			return -EBUSY;
		differs |= guard_of(at) != guard;
	}
	err = differs ? job.fault->guard(off, len, guard) : 0;
	return err ? err : differs;
}

DSM_API int dsm_guard(void *addr, size_t size, enum dsm_access access)
{
	struct dsm_region *r;
	size_t off, len;
	int err = hints_range(addr, size, &r, &off, &len);

	if (err)
		return err;
	if (access & ~(DSM_READ | DSM_WRITE) || ((uintptr_t)addr | size) % PAGE_BYTES)
		return -EINVAL;
	if (!job.fault->guard)
		return -ENOTSUP;
	range_off(addr, &off);
	pthread_mutex_lock(&lock);
	err = guard_set(off, size, of_access(access));
	pthread_mutex_unlock(&lock);
	return err;
}

DSM_API enum dsm_access dsm_guard_get(const void *addr)
{
	enum guard guard = GUARD_NONE;
	size_t off;

	if (!job_ready() && guard_any() && range_off(addr, &off))
		guard = guard_of(off);
	return guard == GUARD_NONE      ? DSM_READ | DSM_WRITE
		: guard == GUARD_STORES ? DSM_READ
					: DSM_NO_ACCESS;
}

void guard_forget(size_t off, size_t len)
{
	pthread_mutex_lock(&lock);
	if (guard_any())
		guard_mark(off, len, GUARD_NONE);
	pthread_mutex_unlock(&lock);
}
