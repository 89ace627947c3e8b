// SPDX-License-Identifier: GPL-2.0
/* pool.c - see pool.h */
#include "pool.h"

#include "dsm.h"

#define RESERVE 256u /* as many requests as a rank has slots */

/* The slab, and what tests say of it: every dsm_test_fail_alloc'th allocation fails. */
static void *from_slab(gfp_t gfp, void *data)
{
	static atomic_t turn;
	unsigned int every = READ_ONCE(dsm_test_fail_alloc);
	void *element = NULL;

	if (!every || gfpflags_allow_blocking(gfp) || atomic_inc_return(&turn) % every)
		element = kmem_cache_alloc(data, gfp);
	if (!element)
		debug_count(COUNT_NO_MEMORY, 1);
	return element;
}

int pool_create(struct pool *p, const char *name, size_t size, size_t align)
{
	p->cache = kmem_cache_create(name, size, align, 0, NULL);
	p->reserve = p->cache ? mempool_create(dsm_test_reserve ? min(dsm_test_reserve, RESERVE) : RESERVE, from_slab, mempool_free_slab,
					       p->cache) : NULL;
	if (p->reserve)
		return 0;
	pool_destroy(p);
	return -ENOMEM;
}

void pool_destroy(struct pool *p)
{
	mempool_destroy(p->reserve);
	kmem_cache_destroy(p->cache);
	p->reserve = NULL;
	p->cache = NULL;
}

void *pool_get(struct pool *p)
{
	void *element = mempool_alloc(p->reserve, GFP_ATOMIC | __GFP_NOWARN);

	if (!element)
		debug_count(COUNT_USED_UP, 1);
	return element;
}

void pool_put(struct pool *p, void *element)
{
	if (element)
		mempool_free(element, p->reserve);
}
