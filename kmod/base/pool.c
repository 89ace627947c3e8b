// SPDX-License-Identifier: GPL-2.0
/*
 * pool.c - see pool.h
 *
 * A processor's stash is its own: it is looked at and changed with bottom halves off, on that
 * processor. `missing` says how many objects all its stashes lack.
 */
#include <linux/cpu.h>

#include "pool.h"
#include "debug.h"
#include "test.h"

TEST_PARAM(uint, test_fail_alloc, 0, "so many allocations of softirq, one of them fails");
TEST_PARAM(
	uint, test_fail_sleeping, 0,
	"so many allocations of processes and workers for frames, keys, tables and connections, one of them fails");

struct stash {
	unsigned int n;
	void *of[];
};

#define POOLS 4u
static struct pool *pools[POOLS];
static DEFINE_PER_CPU(unsigned int, missing);

#ifdef DSM_TEST
bool pool_test_refuses(gfp_t gfp)
{
	static atomic_t turn;
	const unsigned int every = gfpflags_allow_blocking(gfp) ? test_value(test_fail_sleeping)
								: test_value(test_fail_alloc);

	return every && atomic_inc_return(&turn) % every == 0;
}
#endif

static bool pool_keep(struct pool *p, void *element)
{
	struct stash *s = this_cpu_ptr(p->stashes);

	if (s->n == p->keep)
		return false;
	s->of[s->n++] = element;
	this_cpu_dec(missing);
	return true;
}

static void *from_slab(struct pool *p)
{
	return pool_test_refuses(GFP_ATOMIC)
		? NULL
		: kmem_cache_alloc(p->cache, GFP_ATOMIC | __GFP_NOWARN);
}

bool pools_full(void)
{
	void *element;
	unsigned int i;

	for (i = 0; unlikely(this_cpu_read(missing)) && i < POOLS; i++)
		while (pools[i] && this_cpu_ptr(pools[i]->stashes)->n < pools[i]->keep) {
			element = from_slab(pools[i]);
			if (!element)
				return false;
			pool_keep(pools[i], element);
		}
	return !this_cpu_read(missing);
}

void *pool_get(struct pool *p)
{
	void *element = from_slab(p);
	struct stash *s;

	if (likely(element))
		return element;
	debug_count(COUNT_NO_MEMORY, 1);
	s = this_cpu_ptr(p->stashes);
	if (WARN_ON_ONCE(!s->n))
		return NULL;
	this_cpu_inc(missing);
	return s->of[--s->n];
}

void pool_put(struct pool *p, void *element)
{
	if (!element)
		return;
	local_bh_disable();
	if (!pool_keep(p, element))
		kmem_cache_free(p->cache, element);
	local_bh_enable();
}

/*
 * Fill the stash of this processor. If the thread migrates meanwhile, the object goes to the other
 * stash, or back to the slab.
 */
static void pool_fill(struct pool *p)
{
	unsigned int lacks = p->keep - READ_ONCE(raw_cpu_ptr(p->stashes)->n);

	while (lacks--)
		pool_put(p, kmem_cache_alloc(p->cache, GFP_KERNEL | __GFP_NOFAIL));
}

void pool_begin(void)
{
	unsigned int i;

	for (;;) {
		local_bh_disable();
		if (pools_full())
			return;
		local_bh_enable();
		for (i = 0; i < POOLS; i++)
			if (pools[i])
				pool_fill(pools[i]);
	}
}

/* Fill a processor's stash before the first use. */
static int fill_first(struct pool *p, struct stash *s)
{
	while (s->n < p->keep) {
		s->of[s->n] = kmem_cache_alloc(p->cache, GFP_KERNEL);
		if (!s->of[s->n])
			return -ENOMEM;
		s->n++;
	}
	return 0;
}

/*
 * Those of the processors that are online. The others fill their own when they first need it: until
 * then, objects are missing.
 */
static int fill_all(struct pool *p)
{
	int cpu, err = 0;

	cpus_read_lock();
	for_each_online_cpu(cpu) if (!err) err = fill_first(p, per_cpu_ptr(p->stashes, cpu));
	for_each_possible_cpu(cpu)
		per_cpu(missing, cpu) += p->keep - per_cpu_ptr(p->stashes, cpu)->n;
	cpus_read_unlock();
	return err;
}

int pool_create(struct pool *p, const char *name, size_t size, size_t align, unsigned int keep)
{
	unsigned int i;

	p->keep = keep;
	p->cache = kmem_cache_create(name, size, align, 0, NULL);
	p->stashes = __alloc_percpu(struct_size_t(struct stash, of, keep), sizeof(void *));
	if (!p->cache || !p->stashes || fill_all(p)) {
		pool_destroy(p);
		return -ENOMEM;
	}
	for (i = 0; pools[i]; i++)
		;
	pools[i] = p;
	return 0;
}

void pool_destroy(struct pool *p)
{
	unsigned int i;
	int cpu;

	for (i = 0; i < POOLS; i++)
		if (pools[i] == p)
			pools[i] = NULL;
	for_each_possible_cpu(cpu) {
		struct stash *s = p->stashes ? per_cpu_ptr(p->stashes, cpu) : NULL;

		while (s && s->n)
			kmem_cache_free(p->cache, s->of[--s->n]);
	}
	free_percpu(p->stashes);
	kmem_cache_destroy(p->cache);
	p->stashes = NULL;
	p->cache = NULL;
}
