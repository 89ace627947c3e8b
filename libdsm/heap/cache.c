// SPDX-License-Identifier: BSD-2-Clause
/*
 * cache.c - a jemalloc cache for each thread of the owner, and its part of the statistics.
 *
 * A cache lives until its thread ends; cache_stop() leaves it dead. When memory runs out, the
 * caches of sleeping threads must be emptied, too: their contents keep whole units from other
 * ranks. A thread marks its cache as taken by plain stores, around each call of jemalloc. The
 * thread that empties the caches closes them first, and membarrier(2) orders the two: either the
 * owner sees that its cache is closed, or the other thread sees that it is taken.
 *
 * Locks: caches.lock, the list of caches and what they show of their statistics; around jemalloc's
 * locks.
 */
#include "heap/cache.h"

#include "heap/pages.h"

#include <jemalloc/jemalloc.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_CACHES 64 /* with more caches, pages are not cached */
#define COUNT_BATCH 64 /* calls of a thread between two updates of the shared statistics */

struct counts {
	uint64_t allocations, frees, bytes;
};

struct cache {
	struct cache *next, **link;
	int flags; /* for mallocx and dallocx */
	unsigned id;
	/* caches.flushes at its last flush; written by the thread that has taken or closed it */
	uint32_t flushed;
	bool taken;  /* written by the thread only */
	bool closed; /* under caches.lock */
	bool dead;
	/* written by the thread only, atomic; they only grow, bytes modulo 2^64 */
	struct counts counts;
	struct counts shown; /* the part that is in the shared statistics; under caches.lock */
};

static struct {
	struct heap_shared *s;
	bool prepared; /* the key exists */
	pthread_key_t key;
	bool fences;      /* membarrier(2) works */
	uint32_t flushes; /* how often memory ran out */
	pthread_mutex_t lock;
	struct cache *first;
	unsigned threads; /* in that list; also read without the lock */
} caches = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* For threads without a cache: ids ran out, or the thread is ending. */
static struct cache no_cache = { .flags = MALLOCX_TCACHE_NONE, .dead = true };

static __thread struct cache *mine;

/* Add the counts of c's thread since the last time to the shared statistics. Under caches.lock. */
static void cache_show_one(struct cache *c)
{
	struct counts now = {
		.allocations = __atomic_load_n(&c->counts.allocations, __ATOMIC_RELAXED),
		.frees = __atomic_load_n(&c->counts.frees, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&c->counts.bytes, __ATOMIC_RELAXED),
	};

	__atomic_fetch_add(&caches.s->allocations, now.allocations - c->shown.allocations,
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&caches.s->frees, now.frees - c->shown.frees, __ATOMIC_RELAXED);
	__atomic_fetch_add(&caches.s->live_bytes, now.bytes - c->shown.bytes, __ATOMIC_RELAXED);
	c->shown = now;
}

static void cache_end(void *arg)
{
	struct cache *c = arg;

	mine = &no_cache; /* later destructors may still allocate and free */
	pthread_mutex_lock(&caches.lock);
	if (!c->dead) {
		cache_show_one(c);
		__atomic_fetch_sub(&caches.threads, 1, __ATOMIC_RELAXED);
		*c->link = c->next;
		if (c->next)
			c->next->link = c->link;
		mallctl("tcache.destroy", NULL, NULL, &c->id, sizeof(c->id));
	}
	pthread_mutex_unlock(&caches.lock);
	free(c);
}

static struct cache *cache_new(void)
{
	struct cache *c = calloc(1, sizeof(*c));
	size_t len = sizeof(c->id);

	mine = &no_cache;
	if (!c)
		return mine;
	if (mallctl("tcache.create", &c->id, &len, NULL, 0)) {
		free(c);
		return mine;
	}
	if (pthread_setspecific(caches.key, c)) {
		mallctl("tcache.destroy", NULL, NULL, &c->id, sizeof(c->id));
		free(c);
		return mine;
	}
	c->flags = MALLOCX_TCACHE(c->id);
	c->flushed = __atomic_load_n(&caches.flushes, __ATOMIC_RELAXED);
	pthread_mutex_lock(&caches.lock);
	c->next = caches.first;
	c->link = &caches.first;
	if (c->next)
		c->next->link = &c->next;
	caches.first = c;
	__atomic_fetch_add(&caches.threads, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&caches.lock);
	mine = c;
	return c;
}

static struct cache *cache_get(void)
{
	return mine ? mine : cache_new();
}

static void cache_flush_one(struct cache *c)
{
	c->flushed = __atomic_load_n(&caches.flushes, __ATOMIC_RELAXED);
	mallctl("tcache.flush", NULL, NULL, &c->id, sizeof(c->id));
}

int cache_take(size_t usable)
{
	struct cache *c = cache_get();

	if (c->dead)
		return c->flags;
	for (;;) {
		__atomic_store_n(&c->taken, true, __ATOMIC_RELAXED);
		/* partner: the membarrier(2) in cache_close_all() */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&c->closed, __ATOMIC_ACQUIRE))
			break;
		__atomic_store_n(&c->taken, false, __ATOMIC_RELEASE);
		pthread_mutex_lock(&caches.lock); /* until it is open again */
		pthread_mutex_unlock(&caches.lock);
	}
	if (c->flushed != __atomic_load_n(&caches.flushes, __ATOMIC_RELAXED))
		cache_flush_one(c);
	if (usable >= PAGE_BYTES &&
	    __atomic_load_n(&caches.threads, __ATOMIC_RELAXED) > PAGE_CACHES)
		return MALLOCX_TCACHE_NONE;
	return c->flags;
}

void cache_put(void)
{
	if (!mine->dead)
		__atomic_store_n(&mine->taken, false, __ATOMIC_RELEASE);
}

/*
 * A single thread counts directly in the shared statistics. With several, that cache line would
 * move at every call, which takes longer than everything else: they count separately, and show it
 * from time to time. cache_show() makes it exact.
 */
void cache_count(unsigned allocations, unsigned frees, uint64_t bytes)
{
	struct cache *c = cache_get();
	struct counts *n = &c->counts;

	if (c->dead || __atomic_load_n(&caches.threads, __ATOMIC_RELAXED) < 2) {
		if (allocations)
			__atomic_fetch_add(&caches.s->allocations, allocations, __ATOMIC_RELAXED);
		if (frees)
			__atomic_fetch_add(&caches.s->frees, frees, __ATOMIC_RELAXED);
		__atomic_fetch_add(&caches.s->live_bytes, bytes, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&n->allocations, n->allocations + allocations, __ATOMIC_RELAXED);
	__atomic_store_n(&n->frees, n->frees + frees, __ATOMIC_RELAXED);
	__atomic_store_n(&n->bytes, n->bytes + bytes, __ATOMIC_RELAXED);
	if ((n->allocations + n->frees) % COUNT_BATCH == 0 &&
	    !pthread_mutex_trylock(&caches.lock)) {
		cache_show_one(c);
		pthread_mutex_unlock(&caches.lock);
	}
}

/* Afterwards no thread takes a cache, and the taken ones are marked. */
static void cache_close_all(void)
{
	struct cache *c;

	for (c = caches.first; c; c = c->next)
		__atomic_store_n(&c->closed, true, __ATOMIC_RELAXED);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void cache_flush(void)
{
	struct cache *c, *own = cache_get();

	pthread_mutex_lock(&caches.lock);
	__atomic_fetch_add(&caches.flushes, 1, __ATOMIC_RELAXED);
	if (caches.fences)
		cache_close_all();
	for (c = caches.first; c; c = c->next) {
		if (c == own || (caches.fences && !__atomic_load_n(&c->taken, __ATOMIC_ACQUIRE)))
			cache_flush_one(c);
		__atomic_store_n(&c->closed, false, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&caches.lock);
}

void cache_show(void)
{
	struct cache *c;

	pthread_mutex_lock(&caches.lock);
	for (c = caches.first; c; c = c->next)
		cache_show_one(c);
	pthread_mutex_unlock(&caches.lock);
}

int cache_prepare(void)
{
	int err = caches.prepared ? 0 : -pthread_key_create(&caches.key, cache_end);

	caches.prepared = !err;
	return err;
}

void cache_start(struct heap_shared *s)
{
	caches.s = s;
	caches.fences = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

void cache_stop(void)
{
	struct cache *c;

	pthread_mutex_lock(&caches.lock);
	for (c = caches.first; c; c = c->next) {
		cache_show_one(c);
		mallctl("tcache.destroy", NULL, NULL, &c->id, sizeof(c->id));
		c->dead = true;
	}
	caches.first = NULL;
	caches.threads = 0;
	pthread_mutex_unlock(&caches.lock);
	caches.s = NULL;
}
