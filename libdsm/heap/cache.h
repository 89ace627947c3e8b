/* SPDX-License-Identifier: BSD-2-Clause */
/* cache.h - per-thread caches in jemalloc, and per-thread counts for the heap's statistics. Only
 * threads of the owner call these. */
#ifndef HEAP_CACHE_H
#define HEAP_CACHE_H

#include <stdint.h>

#include "heap/heap.h"

/* Call before cache_start(); may be repeated. 0, or -errno of pthread_key_create(). */
int cache_prepare(void);
/* Start, with the statistics in s. No other thread may use the heap. */
void cache_start(struct heap_shared *s);
/* Stop, and empty the caches of threads that still run. No other thread may use the heap. */
void cache_stop(void);

/* Take the calling thread's cache, as flags for one mallocx() or dallocx() of usable bytes; then
 * call cache_put(). The first call creates the cache; without memory, there is none. Page-sized
 * allocations use none if many threads have caches: jemalloc fills a cache with ten pages when one
 * is wanted, and the other nine fragment the heap when memory runs out. */
int cache_take(size_t usable);
void cache_put(void);
/* Count allocations and frees of the calling thread; bytes modulo 2^64. */
void cache_count(unsigned allocations, unsigned frees, uint64_t bytes);
/* Empty the caches of all threads, when memory ran out. A thread that has taken its cache empties
 * it at its next call; without membarrier(2), every other thread does. */
void cache_flush(void);
/* Update the shared statistics. Afterwards they are exact, except for calls in progress. */
void cache_show(void);

#endif
