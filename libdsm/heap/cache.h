/* SPDX-License-Identifier: BSD-2-Clause */
/* cache.h - threads' caches in jemalloc, and what threads have counted for the heap's statistics. By the owner's threads. */
#ifndef HEAP_CACHE_H
#define HEAP_CACHE_H

#include <stdint.h>

#include "heap/heap.h"

/* Before cache_start(); may be repeated. 0, or -errno of pthread_key_create(). */
int cache_prepare(void);
/* The statistics are those of s. No other thread is in the heap. */
void cache_start(struct heap_shared *s);
/* No other thread is in the heap any more. The caches of threads that live on are emptied here, in their stead. */
void cache_stop(void);

/* The calling thread's cache, as flags for one mallocx() or dallocx() of so many bytes, after which it is put back. Made at the first
 * call; without memory, there is none. Nor is there one for pages where many threads have caches: jemalloc fills each with ten
 * pages for one that is wanted, and what nine leave when memory runs out is room for nothing larger. */
int cache_take(size_t usable);
void cache_put(void);
/* The calling thread has allocated or freed so often; bytes modulo 2^64. */
void cache_count(unsigned allocations, unsigned frees, uint64_t bytes);
/* Memory ran out: empty the caches of all threads. A thread that has taken its own empties it at its next call; without
 * membarrier(2), each other thread does. */
void cache_flush(void);
/* The shared statistics are exact afterwards, but for calls under way. */
void cache_show(void);

#endif
