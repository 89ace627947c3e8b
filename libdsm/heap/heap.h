/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap.h - one rank's allocator in the shared heap: a jemalloc arena over the units of the heap
 * that this rank owns (units.h).
 *
 * If the heap has two parts, each has an arena of its own: memory of the upper part is another
 * region, with release consistency.
 *
 * jemalloc's metadata is in private memory of the owning process. The control segment has what
 * other ranks of the node access: a map of the heap with one bit per 16 bytes, set where a live
 * allocation of a rank of the node starts, and in struct heap_shared a ring of addresses that they
 * freed and that the owner must still return to jemalloc.
 */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_GRAIN 16
#define HEAP_RING 1024

struct heap_shared {
	uint64_t base, size; /* the heap; set by heap_start() */
	int64_t live;        /* the map, from here on, in bytes; set by heap_start() */
	uint32_t lock;       /* of the ring: a futex word, 0 free, 1 held, 2 held with waiters */
	uint32_t head, tail;
	uint32_t pad;
	uint64_t allocations, frees, remote_frees, live_bytes; /* statistics, atomic */
	uint64_t ring[HEAP_RING];
};

static inline size_t heap_live_size(size_t heap)
{
	return heap / HEAP_GRAIN / 8;
}

/* Source of units. Called by any thread of the owner, maybe with the lock that makes others
 * wait for the units (heap.c); may block for a round trip. */
struct heap_source {
	/* Take n contiguous units of a part; return the first, or -ENOMEM. *used: number of units
	 * that may not be zero. */
	int64_t (*take)(bool upper, uint32_t n, uint32_t *used);
	/* Of units just taken, find which may not be zero, one bit each. -errno: unknown. */
	int (*used)(uint32_t at, uint32_t n, uint64_t *bits);
	void (*give)(uint32_t at, uint32_t n);
	/* Memory of the upper part that another process has freed may be about to be used again.
	 * NULL: nobody needs to know. */
	void (*drained)(void);
	/* The next three may be NULL: nobody needs to know. Offsets and sizes in bytes.
	 * freed: nobody uses the whole pages of this any more. Takes no lock. */
	void (*freed)(size_t off, size_t len);
	/* This is about to be returned to the program. */
	void (*used_again)(size_t off, size_t len);
	/* Units that were just disowned, and that are returned to the source next. */
	void (*disowned)(uint32_t at, uint32_t n);
};

/* Owner: start, allocating in units of [base, base + size), both multiples of 2 MiB, zero-filled on
 * first touch; split: where the upper part begins, as base; size: there is none. live: the node's
 * map, in the same memory as s. Once per process. -ENOMEM. */
int heap_start(struct heap_shared *s, uint64_t *live, void *base, size_t size, size_t split,
	       const struct heap_source *source, bool keep_sites);
/* Stop. No other thread may use the heap. */
void heap_stop(void);

/* Owner, any thread, also concurrently: allocate, in the upper part if there is one and `upper`
 * says so. align: a power of two (0: natural). NULL: errno ENOMEM or EINVAL. site: return address
 * of the caller; name may be NULL. */
void *heap_alloc(bool upper, size_t size, size_t align, bool zero, const char *name,
		 const void *site);

/* Any rank of the host, with the owner's heap_shared mapped: free p. 0: freed (the owner takes it
 * back later, at its next heap_alloc() or heap_drain()); -EINVAL: not the start of a live
 * allocation; -EAGAIN: ring full. */
int heap_free(struct heap_shared *s, const void *p);
/* Owner: memory that another node has freed is about to come back by heap_free(). The next
 * allocation calls drained() of the source, as after a drain. Any thread. */
void heap_comes_back(void);
/* Owner: return units without live objects to the source. Any thread, with no lock held; may block
 * for round trips. */
void heap_give_units(void);
/* Owner: return the addresses in the ring to jemalloc. Return their number. Not from a signal
 * handler. */
int heap_drain(void);

/* Owner: collect all freed memory, before heap_trim(). The next two: any thread, with no lock
 * held. */
void heap_trim_begin(void);
/* Owner: disown contiguous empty units of a part, without returning them to the source. Return
 * their number, from *at on. 0: there are none. */
uint32_t heap_trim(bool upper, uint32_t *at);

#define HEAP_SITES 6

struct heap_object {
	void *start;
	size_t size;
	char name[48];
	/* Code addresses: the allocating call, then its callers. NULL: end. */
	const void *sites[HEAP_SITES];
};
/* Owner: find the live allocation that contains address p. -ENOENT. */
int heap_find(const void *p, struct heap_object *out);

#endif
