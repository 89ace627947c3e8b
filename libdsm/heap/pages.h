/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pages.h - what the owner of a heap range knows about each 4 KiB page of it, in private memory: whether jemalloc has
 * it, whether a program has ever had it, and whether a large object that started before goes on in it.
 */
#ifndef HEAP_PAGES_H
#define HEAP_PAGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_BYTES ((size_t)4096)
#define CHUNK_BYTES ((size_t)2 << 20)
#define CHUNK_PAGES (CHUNK_BYTES / PAGE_BYTES)

struct pages {
	uintptr_t base;
	size_t count;

	/* Given to jemalloc or not. The lock is innermost: it is taken in extent hooks, under jemalloc's locks. */
	pthread_mutex_t lock;
	uint64_t *given;
	uint16_t *chunk; /* pages given in each 2 MiB */
	size_t first;    /* no page before it is free */
	size_t high;     /* no page from it on was ever given */

	/* Atomic, no lock: neighbours in one word may belong to different threads. */
	uint64_t *touched; /* handed to a program since the start, so perhaps not zero any more */
	uint64_t *inside;  /* of a live large object, and not its first page */
};

int pages_init(struct pages *x, void *base, size_t size);
void pages_fini(struct pages *x);

/* First fit. *fresh: never given before. NULL: no room. Any thread. */
void *pages_take(struct pages *x, size_t size, size_t align, bool *fresh);
/* Give back what pages_take() gave, or any part of it. false: it was not given. */
bool pages_put(struct pages *x, void *p, size_t size);

/* [p, p + size) goes to a program. zero: clear those pages of it that may be dirty; only p's own bytes are written. */
void pages_touch(struct pages *x, void *p, size_t size, bool zero);

/* A page-aligned object takes up or leaves its pages. */
void pages_large_set(struct pages *x, const void *p, size_t size);
void pages_large_clear(struct pages *x, const void *p, size_t size);
/* The first page of the large object in whose later pages p lies; NULL when p's page is not such. */
void *pages_large_start(struct pages *x, const void *p);

#endif
