/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pool.h - small objects that softirq must get: from the slab, or, when memory is short, from a reserve which fills again as objects
 * come back. A message in the middle of a step cannot be put off; NULL means that the reserve is used up, too.
 */
#ifndef KMOD_POOL_H
#define KMOD_POOL_H

#include <linux/mempool.h>
#include <linux/slab.h>

struct pool {
	struct kmem_cache *cache;
	mempool_t *reserve;
};

int pool_create(struct pool *p, const char *name, size_t size, size_t align);
void pool_destroy(struct pool *p); /* also one that could not be created */
void *pool_get(struct pool *p);    /* any context */
void pool_put(struct pool *p, void *element); /* NULL: nothing */

#endif
