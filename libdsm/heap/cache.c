// SPDX-License-Identifier: BSD-2-Clause
/*
 * cache.c - a jemalloc cache for each thread of the owner, and its part of the statistics.
 *
 * In front of it are the small objects that the thread has freed last, by class: jemalloc looks up
 * the size of what it frees in its own tables, which takes longer than everything else. They are in
 * memory mapped for the thread, for malloc() may be the program's, and use this heap.
 *
 * A cache lives until its thread ends; cache_stop() leaves it dead. When memory runs out, the
 * caches of sleeping threads must be emptied, too: their contents keep whole units from other
 * ranks. A thread marks its cache as taken by plain stores, while it uses it. The thread that
 * empties the caches closes them first, and membarrier(2) orders the two: either the owner sees
 * that its cache is closed, or the other thread sees that it is taken.
 *
 * Locks: caches.lock, the list of caches and what they show of their statistics; around jemalloc's
 * locks.
 */
#include "heap/cache.h"

#include "heap/pages.h"

#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_CACHES 64 /* with more caches, pages are not cached */
#define COUNT_BATCH 64 /* calls of a thread between two updates of the shared statistics */

#define CLASSES 20u /* of jemalloc, up to BIN_MAX */
#define BIN_MAX 1024u
#define BIN_BYTES (64u << 10) /* that a thread keeps of a class */

struct bin {
	unsigned n, room;
	void **at; /* the last one freed is the last */
};

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
	struct counts shown;      /* the part that is in the shared statistics; under caches.lock */
	struct bin bins[CLASSES]; /* of the thread that has taken or closed it */
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
	/* by size in units of 16 bytes; 0: none. Constant after the start */
	uint8_t class_of[BIN_MAX / HEAP_GRAIN + 1];
	uint16_t usable[CLASSES + 1];
	size_t bytes; /* of a cache with its bins */
} caches = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* For threads without a cache: ids ran out, or the thread is ending. */
static struct cache no_cache = { .flags = MALLOCX_TCACHE_NONE, .dead = true };

static __thread struct cache *mine __attribute__((tls_model("initial-exec")));

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

static unsigned bin_room(unsigned class)
{
	return caches.usable[class] ? BIN_BYTES / caches.usable[class] : 0;
}

/* Give the n objects of a bin that were freed first to jemalloc. */
static void bin_flush(struct cache *c, struct bin *b, unsigned n)
{
	unsigned i;

	if (!n)
		return;
	for (i = 0; i < n; i++)
		dallocx(b->at[i], c->flags);
	b->n -= n;
	memmove(b->at, b->at + n, b->n * sizeof(*b->at));
}

static void bins_flush(struct cache *c)
{
	unsigned i;

	for (i = 0; i < CLASSES; i++)
		bin_flush(c, &c->bins[i], c->bins[i].n);
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
		bins_flush(c);
		mallctl("tcache.destroy", NULL, NULL, &c->id, sizeof(c->id));
	}
	pthread_mutex_unlock(&caches.lock);
	munmap(c, caches.bytes);
}

static struct cache *cache_map(void)
{
	struct cache *c = mmap(NULL, caches.bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned i;
	void **at;

	if (c == MAP_FAILED)
		return NULL;
	at = (void **)(c + 1);
	for (i = 0; i < CLASSES; i++) {
		c->bins[i].at = at;
		c->bins[i].room = bin_room(i + 1);
		at += c->bins[i].room;
	}
	return c;
}

static struct cache *cache_new(void)
{
	const int was = errno;
	struct cache *c;
	size_t len = sizeof(c->id);

	mine = &no_cache;
	c = cache_map();
	errno = was; /* free() keeps it */
	if (!c)
		return mine;
	if (mallctl("tcache.create", &c->id, &len, NULL, 0)) {
		munmap(c, caches.bytes);
		return mine;
	}
	if (pthread_setspecific(caches.key, c)) {
		mallctl("tcache.destroy", NULL, NULL, &c->id, sizeof(c->id));
		munmap(c, caches.bytes);
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
	bins_flush(c);
	mallctl("tcache.flush", NULL, NULL, &c->id, sizeof(c->id));
}

/* Afterwards no other thread flushes c, until cache_leave(). */
static void cache_enter(struct cache *c)
{
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
}

static void cache_leave(struct cache *c)
{
	__atomic_store_n(&c->taken, false, __ATOMIC_RELEASE);
}

int cache_take(size_t usable)
{
	struct cache *c = cache_get();

	if (c->dead ||
	    (usable >= PAGE_BYTES &&
	     __atomic_load_n(&caches.threads, __ATOMIC_RELAXED) > PAGE_CACHES))
		return MALLOCX_TCACHE_NONE;
	cache_enter(c);
	return c->flags;
}

void cache_put(int flags)
{
	if (flags != MALLOCX_TCACHE_NONE)
		cache_leave(mine);
}

unsigned cache_class(size_t size)
{
	return size > BIN_MAX ? 0 : caches.class_of[(size + HEAP_GRAIN - 1) / HEAP_GRAIN];
}

size_t cache_usable(unsigned class)
{
	return caches.usable[class];
}

void *cache_pop(unsigned class)
{
	struct cache *c = cache_get();
	struct bin *b;
	void *p = NULL;

	if (!class || c->dead)
		return NULL;
	cache_enter(c);
	b = &c->bins[class - 1];
	if (b->n)
		p = b->at[--b->n];
	cache_leave(c);
	return p;
}

bool cache_push(unsigned class, void *p)
{
	struct cache *c = cache_get();
	struct bin *b;

	if (!class || c->dead)
		return false;
	cache_enter(c);
	b = &c->bins[class - 1];
	if (b->n == b->room)
		bin_flush(c, b, b->room / 2);
	b->at[b->n++] = p;
	cache_leave(c);
	return true;
}

/*
 * In the shared statistics only from time to time: their cache line would move at every call, which
 * takes longer than everything else. cache_show() makes them exact.
 */
void cache_count(unsigned allocations, unsigned frees, uint64_t bytes)
{
	struct cache *c = cache_get();
	struct counts *n = &c->counts;

	if (c->dead) {
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
	if ((allocations || frees) && (n->allocations + n->frees) % COUNT_BATCH == 0 &&
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

/* Which sizes jemalloc has is its own affair. */
static void classes_learn(void)
{
	unsigned i, last = 0;

	for (i = 1; i <= BIN_MAX / HEAP_GRAIN; i++) {
		const size_t usable = nallocx((size_t)i * HEAP_GRAIN, 0);

		if (!last || usable != caches.usable[last]) {
			if (last == CLASSES || usable > BIN_MAX)
				break;
			caches.usable[++last] = (uint16_t)usable;
		}
		caches.class_of[i] = (uint8_t)last;
	}
	caches.bytes = sizeof(struct cache);
	for (i = 1; i <= CLASSES; i++)
		caches.bytes += bin_room(i) * sizeof(void *);
}

void cache_fork_child(void)
{
	mine = &no_cache;
	pthread_setspecific(caches.key, NULL);
}

void cache_start(struct heap_shared *s)
{
	caches.s = s;
	classes_learn();
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
