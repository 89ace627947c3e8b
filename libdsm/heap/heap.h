/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap.h - one rank's part of the shared heap: a jemalloc arena over a range of shared addresses.
 *
 * jemalloc's own records stay in private memory of the owning process. What other ranks of the host may touch is in
 * struct heap_shared (in the owner's control segment): a bit for each 16 bytes, set where a live allocation starts, and a
 * ring of addresses that they have freed and the owner has still to give back to jemalloc.
 */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_GRAIN 16
#define HEAP_RING 1024

struct heap_shared {
	uint64_t base, size; /* the range; set by heap_start() */
	uint32_t lock;       /* of the ring: a futex word, 0 free, 1 held, 2 held and awaited */
	uint32_t head, tail;
	uint32_t pad;
	uint64_t allocations, frees, remote_frees, live_bytes; /* statistics, atomic */
	uint64_t ring[HEAP_RING];
	uint64_t bits[]; /* size / HEAP_GRAIN / 64 words; zero at the start, sparse */
};

static inline size_t heap_shared_size(size_t size)
{
	return sizeof(struct heap_shared) + size / HEAP_GRAIN / 8;
}

/* Owner: take [base, base + size), both multiples of 2 MiB, zero-filled on first touch. Once per process. -ENOMEM. */
int heap_start(struct heap_shared *s, void *base, size_t size, bool keep_sites);
void heap_stop(void);

/* Owner, any thread, also several at once. align a power of two (0: natural). NULL: errno ENOMEM or EINVAL.
 * site: return address of the caller; name may be NULL. */
void *heap_alloc(size_t size, size_t align, bool zero, const char *name, const void *site);

/* Any rank of the host, with the owner's heap_shared mapped: p is no longer live. 0: ended (the owner gives it back later,
 * at its next heap_alloc, or when told to by heap_drain); -EINVAL: not the start of a live allocation; -EAGAIN: ring full. */
int heap_free(struct heap_shared *s, const void *p);
/* Owner: give back what is in the ring. Returns how many. Not from a signal handler. */
int heap_drain(void);
bool heap_wants_drain(const struct heap_shared *s); /* more than half full */

/*
 * A rank whose part is full asks another for objects of its part, which stay that rank's: it keeps their records, and frees
 * come back to it. One word says how many, of what size and alignment.
 */
#define LOAN_MOST 64u

static inline uint64_t loan_ask(size_t size, size_t align, unsigned int count)
{
	return (uint64_t)size << 12 | (uint64_t)(align ? __builtin_ctzll(align) : 0) << 6 | (count - 1);
}

static inline unsigned int loan_count(uint64_t ask)
{
	return (unsigned int)(ask & 63) + 1;
}

static inline size_t loan_align(uint64_t ask)
{
	return (size_t)1 << (ask >> 6 & 63);
}

static inline size_t loan_size(uint64_t ask)
{
	return (size_t)(ask >> 12);
}

struct heap_object {
	void *start;
	size_t size;
	char name[48];
	const void *site; /* NULL when not kept */
};
/* Owner: the live allocation that holds address p. -ENOENT. */
int heap_find(const void *p, struct heap_object *out);
/* "file:line" or "function+0x12" for a code address of this process; empty string when unknown. May run a helper program. */
void heap_site_name(const void *site, char *buf, size_t size);

#endif
