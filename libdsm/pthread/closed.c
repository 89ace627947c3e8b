// SPDX-License-Identifier: BSD-2-Clause
/*
 * closed.c - mprotect(2) of shared memory: pages that no thread of the program may write, or touch.
 * Each rank limits its own access (dsm_guard()); they do so one after the other, before the call
 * returns. One call at a time, so that all ranks have the limits of the latest.
 */
#include "closed.h"

#include "shim.h"

#include <sys/mman.h>

#include "alloc.h"
#include "everywhere.h"
#include "masks.h"
#include "util/sizes.h"

struct closing {
	char *at;
	size_t length; /* whole pages */
	enum dsm_access access;
};

static void *close_here(void *arg)
{
	const struct closing c = *(const struct closing *)arg;

	const int err = dsm_guard(c.at, c.length, c.access);

	return (void *)(intptr_t)(err < 0 ? err : 0);
}

/* If a rank fails, the limit is lifted on all of them. */
static int close_others(struct closing *c)
{
	int err = everywhere_call(EVERYWHERE, close_here, c, sizeof(*c));

	if (!err || c->access == (DSM_READ | DSM_WRITE))
		return err;
	c->access = DSM_READ | DSM_WRITE;
	close_here(c);
	everywhere_call(EVERYWHERE, close_here, c, sizeof(*c));
	return err;
}

/* A handler of the program may make the same call. 0 or -errno. */
static int closed_change(struct closing *c)
{
	const uint64_t before = block_signals();
	int err;

	pthread_mutex_lock(&team->closed_lock);
	if (c->access != (DSM_READ | DSM_WRITE))
		__atomic_store_n(&team->closed, 1, __ATOMIC_SEQ_CST);
	err = dsm_guard(c->at, c->length, c->access);
	if (err > 0)
		err = close_others(c);
	pthread_mutex_unlock(&team->closed_lock);
	masks_let_signals(before);
	return err < 0 ? err : 0;
}

bool closed_has(const void *addr, size_t length)
{
	const char *at = (const char *)((uintptr_t)addr & ~(PAGE_BYTES - 1)),
		   *end = (const char *)addr + length;

	if (!__atomic_load_n(&team->closed, __ATOMIC_SEQ_CST))
		return false;
	while (at < end && dsm_guard_get(at) == (DSM_READ | DSM_WRITE))
		at += PAGE_BYTES;
	return at < end;
}

int closed_protect(void *addr, size_t length, int prot)
{
	struct closing c = { addr, whole_pages(length),
			     prot & PROT_WRITE          ? DSM_READ | DSM_WRITE
				     : prot & PROT_READ ? DSM_READ
							: DSM_NO_ACCESS };
	int err;

	if ((uintptr_t)addr % PAGE_BYTES || c.length < length)
		return -EINVAL;
	if (prot & ~(PROT_READ | PROT_WRITE))
		return -start_cannot(
			"mprotect() of shared memory with more than PROT_READ | PROT_WRITE");
	if (!length || (c.access == (DSM_READ | DSM_WRITE) && !closed_has(addr, length)))
		return 0;
	err = closed_change(&c);
	if (err == -ENOTSUP)
		return -start_cannot("mprotect() of shared memory with the kernel helper");
	return err == -EFAULT ? -ENOMEM : err; /* as mprotect(2) of what is not mapped */
}
