/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pool.h - small objects for softirq, from the slab or, when memory is short, from a reserve of
 * each processor.
 *
 * A message cannot be deferred in the middle of a step. So before code handles a message, a timer
 * or the end of a transaction, it checks that its processor's reserve has the maximum number of
 * objects of each kind that one of these takes (pools_full()). If not, softirq leaves the event in
 * its queue to a process, which sleeps until there is memory (pool_begin()). Bottom halves stay off
 * until the event is handled, so that no other code takes the objects.
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

/*
 * The reserve of a processor. A message goes to at most 63 peers, or is one of up to 64 that are
 * taken from a CQ at a time.
 */
#define KEEP_MESSAGES 160u
#define KEEP_FEW 8u
#define KEEP_TXNS 2u /* they are large, and a step begins only one */

int pool_create(struct pool *p, const char *name, size_t size, size_t align, unsigned int keep);
void pool_destroy(struct pool *p); /* also after pool_create() has failed */
/*
 * Bottom halves are off. NULL: more than `keep` objects without pools_full(), a bug of this module.
 */
void *pool_get(struct pool *p);
void pool_put(struct pool *p, void *element); /* any context but hardirq; NULL: no effect */
/* refills from the slab if it can; bottom halves are off */
bool pools_full(void);
#ifdef DSM_TEST
bool pool_test_refuses(gfp_t gfp); /* a test makes this allocation fail */
#else
static inline bool pool_test_refuses(gfp_t gfp)
{
	return false;
}
#endif

/*
 * Disable bottom halves, with the reserve filled for one event. Sleeps; mmap_lock may be held. Code
 * outside softirq calls this first, and local_bh_enable() at the end.
 */
void pool_begin(void);

#endif
