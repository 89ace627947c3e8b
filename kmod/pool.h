/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pool.h - small objects that softirq must get: from the slab, or, when memory is short, from what each processor keeps of them.
 *
 * A message in the middle of a step cannot be put off. So whoever takes up a message, a timer, the end of a transaction looks
 * first whether its processor keeps as many objects of each kind as one of these can take at the most (pools_full()). If
 * not, softirq leaves it where it is, in the queue it came from, to a process, which sleeps until there is memory
 * (pool_begin()). Between, bottom halves stay off, so that nobody else takes them.
 */
#ifndef KMOD_POOL_H
#define KMOD_POOL_H

#include <linux/percpu.h>
#include <linux/slab.h>

struct stash;

struct pool {
	struct kmem_cache *cache;
	unsigned int keep;
	struct stash __percpu *stashes;
};

/* What a processor keeps. A message goes to 63 peers at the most, or is one of 64 that a queue of completions gives at a time. */
#define KEEP_MESSAGES 160u
#define KEEP_FEW 8u
#define KEEP_TXNS 2u /* they are large, and a step begins one */

int pool_create(struct pool *p, const char *name, size_t size, size_t align, unsigned int keep);
void pool_destroy(struct pool *p); /* also one that could not be created */
void *
pool_get(struct pool *p); /* bottom halves are off. NULL: more than `keep` without looking; a fault of this module's */
void pool_put(struct pool *p, void *element); /* any context but interrupts; NULL: nothing */
bool pools_full(void);                        /* bottom halves are off; fills what the slab has */
bool pool_test_refuses(gfp_t gfp);            /* tests say that this allocation fails */

/*
 * Bottom halves go off, and there is memory for whatever one event can take. Sleeps, mmap_lock may be held. Whoever does not
 * come from softirq enters by this, and leaves by local_bh_enable().
 */
void pool_begin(void);

#endif
