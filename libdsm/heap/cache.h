/* SPDX-License-Identifier: BSD-2-Clause */
/* cache.h - what threads keep of the memory that they free: small objects by class, and caches in
 * jemalloc; and per-thread counts for the heap's statistics. Only threads of the owner call
 * these. */
#ifndef HEAP_CACHE_H
#define HEAP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/heap.h"

/* Call before cache_start(); may be repeated. 0, or -errno of pthread_key_create(). */
int cache_prepare(void);
/* Start, with the statistics in s. No other thread may use the heap. */
void cache_start(struct heap_shared *s);
/* Stop, and empty the caches of threads that still run. No other thread may use the heap. */
void cache_stop(void);

/* Take the calling thread's cache, as flags for one mallocx() or dallocx() of usable bytes; then
 * call cache_put() with them. The first call creates the cache; without memory, there is none.
 * Page-sized allocations use none if many threads have caches: jemalloc fills a cache with ten
 * pages when one is wanted, and the other nine fragment the heap when memory runs out. */
int cache_take(size_t usable);
void cache_put(int flags);

/* The class of small objects of which jemalloc allocates one for size bytes, more than 0; and what
 * each of them can hold. 0: it is not small. */
unsigned cache_class(size_t size);
size_t cache_usable(unsigned class);
/* Take an object that the calling thread has freed. NULL: it has none of this class. */
void *cache_pop(unsigned class);
/* Keep an object of a class for cache_pop(). False: class is 0, or the thread has no cache. */
bool cache_push(unsigned class, void *p);

/* Count allocations and frees of the calling thread; bytes modulo 2^64. */
void cache_count(unsigned allocations, unsigned frees, uint64_t bytes);
/* Empty the caches of all threads, when memory ran out. A thread that has taken its cache empties
 * it at its next call; without membarrier(2), every other thread does. */
void cache_flush(void);
/* In a child made by fork(), which does not use the heap: its thread ends without it. */
void cache_fork_child(void);
/* Update the shared statistics. Afterwards they are exact, except for calls in progress. */
void cache_show(void);

#endif
