/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pages.h - a rank's state of each 4 KiB page of the heap, in private memory: whether it is free
 * for jemalloc, whether the program may have written it, whether a large object that starts before
 * it extends into it, and the class of small objects in it.
 */
#ifndef HEAP_PAGES_H
#define HEAP_PAGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/sizes.h"

#define UNIT_PAGES (UNIT_BYTES / PAGE_BYTES)

struct pages {
	uintptr_t base;
	size_t count;

	/* Owned by this rank and free. The lock is innermost: it is taken in extent hooks, under
	 * jemalloc's locks. */
	pthread_mutex_t lock;
	uint64_t *free;
	uint16_t *free_of; /* free pages of each unit */
	uint64_t *owned;   /* units that this rank owns; atomic */
	size_t first;      /* no page before it is free */
	size_t end;        /* no page from it on is free */
	/* pages from it on are the upper part of the heap; count: there is none. A unit is in one
	 * part */
	size_t split;

	/* Atomic, no lock: neighbours in one word may belong to different threads. */
	/* handed to a program since the start, by this rank or before it had the unit: perhaps not
	 * zero */
	uint64_t *touched;
	uint64_t *inside; /* in a live large object, but not its first page */
	uint8_t *class;   /* of the live objects that start in it; atomic */
};

int pages_init(struct pages *x, void *base, size_t size);
void pages_fini(struct pages *x);

/* Own n units from number `at` on, as taken. used: one bit per unit that may not be zero; NULL:
 * none. */
void pages_own(struct pages *x, size_t at, size_t n, const uint64_t *used);
bool pages_owned(const struct pages *x, size_t at);
/* Disown contiguous units that are entirely free, from number `from` on and before `end`. Return
 * their number, from *at on; 0: there are none. */
size_t pages_disown(struct pages *x, size_t from, size_t end, size_t *at);

/* Take the free pages of the same part just before unit `at`, at most `most` bytes. Return the
 * number of bytes. */
size_t pages_take_before(struct pages *x, size_t at, size_t most);
/* Take pages of a part, first fit. NULL: no room. Any thread. */
void *pages_take(struct pages *x, bool upper, size_t size, size_t align);
/* Return taken pages, or any part of them. False: they were not taken. */
bool pages_put(struct pages *x, void *p, size_t size);

/* Mark [p, p + size) as used by a program. zero: clear its pages that may be dirty; writes only
 * within the range. */
void pages_touch(struct pages *x, void *p, size_t size, bool zero);

/* The class (cache.h) of the object that starts at p. Set before the object is returned to a
 * program, and constant while any object lives that starts in that page. */
void pages_class_set(struct pages *x, const void *p, unsigned class);
unsigned pages_class(const struct pages *x, const void *p);

/* Mark, or unmark, the pages of a page-aligned large object. */
void pages_large_set(struct pages *x, const void *p, size_t size);
void pages_large_clear(struct pages *x, const void *p, size_t size);
/* Return the size of the pages of an object that starts at p, if it is live and large; otherwise
 * one page. */
size_t pages_large_size(const struct pages *x, const void *p);
/* Return the first page of the large object that contains p after its first page; NULL: there is
 * none. */
void *pages_large_start(struct pages *x, const void *p);

#endif
