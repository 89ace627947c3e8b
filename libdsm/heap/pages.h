/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pages.h - what a rank knows about each 4 KiB page of the heap, in private memory: whether the rank has it to give to
 * jemalloc, whether a program may have had it, and whether a large object that started before goes on in it.
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

	/* This rank's, and not given to jemalloc. The lock is innermost: it is taken in extent hooks, under jemalloc's locks. */
	pthread_mutex_t lock;
	uint64_t *free;
	uint16_t *chunk; /* free pages in each 2 MiB */
	uint64_t *owned; /* chunks that this rank has; atomic */
	size_t first;    /* no page before it is free */
	size_t end;      /* nor from it on */

	/* Atomic, no lock: neighbours in one word may belong to different threads. */
	uint64_t *
		touched; /* handed to a program since the start, by this rank or before it had the chunk: perhaps not zero */
	uint64_t *inside; /* of a live large object, and not its first page */
};

int pages_init(struct pages *x, void *base, size_t size);
void pages_fini(struct pages *x);

/* n chunks from number `at` on are this rank's now, and taken. used: a bit for each that may not be zero; NULL: none. */
void pages_own(struct pages *x, size_t at, size_t n, const uint64_t *used);
bool pages_owned(const struct pages *x, size_t at);
/* Chunks in a row that are free as a whole are not this rank's any more: so many, from *at on; 0: there are none. */
size_t pages_disown(struct pages *x, size_t *at);

/* Take the free pages just before chunk `at`, to so many bytes: how many bytes. */
size_t pages_take_before(struct pages *x, size_t at, size_t most);
/* First fit. NULL: no room. Any thread. */
void *pages_take(struct pages *x, size_t size, size_t align);
/* Give back what was taken, or any part of it. false: it was not. */
bool pages_put(struct pages *x, void *p, size_t size);

/* [p, p + size) goes to a program. zero: clear those pages of it that may be dirty; only p's own bytes are written. */
void pages_touch(struct pages *x, void *p, size_t size, bool zero);

/* A page-aligned object takes up or leaves its pages. */
void pages_large_set(struct pages *x, const void *p, size_t size);
void pages_large_clear(struct pages *x, const void *p, size_t size);
/* Of an object that starts at p: the bytes of its pages, if it is live and large; else a page. */
size_t pages_large_size(const struct pages *x, const void *p);
/* The first page of the large object in whose later pages p lies; NULL when p's page is not such. */
void *pages_large_start(struct pages *x, const void *p);

#endif
