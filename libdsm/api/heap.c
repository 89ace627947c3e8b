// SPDX-License-Identifier: BSD-2-Clause
/*
 * heap.c - the shared heap's public face: allocate from this rank's part, or from another's when it is full, and free
 * whoever's it is.
 *
 * Small objects are borrowed several at a time. Those that are not used yet wait in a stash, by size; they are taken before
 * this rank's own part is tried again, which is dear while it is full.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "api/api.h"
#include "engine/call.h"
#include "engine/job.h"
#include "engine/service.h"
#include "heap/heap.h"
#include "util/log.h"

#define ALIGN_MAX (2ul << 20)
#define STASH_GRAIN 16u
#define STASH_SIZES 64u /* up to 1 KiB; larger ones are borrowed one by one */

static struct stash {
	unsigned int n;
	void *v[LOAN_MOST];
} stash[STASH_SIZES];
static unsigned int stashed; /* objects in all of them; read without the lock */
static pthread_mutex_t stash_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t lender; /* who had room the last time */

static struct stash *stash_of(size_t size, size_t align)
{
	const size_t i = size ? (size - 1) / STASH_GRAIN : 0;

	return i < STASH_SIZES && align <= STASH_GRAIN ? &stash[i] : NULL;
}

static void *from_stash(struct stash *s)
{
	void *p = NULL;

	if (!s || !__atomic_load_n(&stashed, __ATOMIC_RELAXED))
		return NULL;
	pthread_mutex_lock(&stash_lock);
	if (s->n) {
		p = s->v[--s->n];
		__atomic_fetch_sub(&stashed, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&stash_lock);
	return p;
}

/* Keep what was borrowed together with the first; what another thread leaves no room for goes back. */
static void to_stash(struct stash *s, const uint64_t *objects, unsigned int n)
{
	unsigned int i;

	pthread_mutex_lock(&stash_lock);
	for (i = 1; i < n && objects[i] && s->n < LOAN_MOST; i++) {
		s->v[s->n++] = (void *)(uintptr_t)objects[i];
		__atomic_fetch_add(&stashed, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&stash_lock);
	for (; i < n && objects[i]; i++)
		dsm_free((void *)(uintptr_t)objects[i]);
}

/* What is borrowed has to be of the borrower's: a peer that answers anything else is not believed. */
static bool is_of(uint16_t rank, uint64_t object, size_t size)
{
	const uint64_t off = object - (uint64_t)(uintptr_t)job.base - (uint64_t)rank * job.heap_part;

	return off < job.heap_part && size <= job.heap_part - off && off % HEAP_GRAIN == 0;
}

/* Of the part of any other rank that has room, the last lender first. */
static void *borrow(size_t size, size_t align, struct stash *s)
{
	const unsigned int n = s ? LOAN_MOST / 2 : 1;
	const size_t whole =
		s ? (size_t)(s - stash + 1) * STASH_GRAIN : size; /* all of a stash are of its largest size */
	const uint64_t arg = loan_ask(whole, align, n);
	const uint32_t first = __atomic_load_n(&lender, __ATOMIC_RELAXED);
	uint64_t objects[LOAN_MOST];
	uint32_t i;
	int err;

	for (i = 0; i < job.size && whole <= job.heap_part; i++) {
		const uint16_t r = (uint16_t)((first + i) % job.size);

		if (r == job.rank)
			continue;
		while ((err = call_rank(r, CALL_ALLOC, &arg, sizeof(arg), objects, n * sizeof(objects[0]))) == -EAGAIN)
			sched_yield(); /* many ask it at once */
		if (err || !is_of(r, objects[0], whole))
			continue;
		__atomic_store_n(&lender, r, __ATOMIC_RELAXED);
		if (s)
			to_stash(s, objects, n);
		return (void *)(uintptr_t)objects[0];
	}
	return NULL;
}

int heap_begin(void)
{
	if (!job.heap_part)
		return 0;
	return heap_start(peer_of(job.rank)->heap, job.base + (size_t)job.rank * job.heap_part, job.heap_part,
			  strcmp(job.set.stats, "off") && strcmp(job.set.stats, "0"));
}

void heap_settle(void)
{
	if (job.heap_part)
		heap_drain(); /* shows what threads have counted on their own, too */
}

/* Once: a program may try for long, and go on without. */
static void say_full(size_t size)
{
	static uint32_t said;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		log_line(
			"the heap has no room for %zu bytes in any rank's part: DSM_HEAP is %zu MiB, of which each part is %zu (said once)",
			size, job.set.heap >> 20, job.heap_part >> 20);
	errno = ENOMEM;
}

static void *allocate(size_t size, size_t align, bool zero, const char *name, const void *site)
{
	struct stash *s;
	void *p;

	if (api_ready()) {
		errno = ENOMEM;
		return NULL;
	}
	if (!job.heap_part) {
		say_full(size);
		return NULL;
	}
	if (align > ALIGN_MAX || (align & (align - 1))) {
		errno = EINVAL;
		return NULL;
	}
	s = stash_of(size, align);
	p = from_stash(s);
	if (!p) {
		p = heap_alloc(size, align, zero, name, site);
		if (p || errno != ENOMEM)
			return p;
		p = borrow(size, align, s);
	}
	if (!p)
		say_full(size);
	else if (zero)
		memset(p, 0, size);
	return p;
}

DSM_API void *dsm_malloc(size_t size)
{
	return allocate(size, 0, false, NULL, __builtin_return_address(0));
}

DSM_API void *dsm_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return allocate(bytes, 0, true, NULL, __builtin_return_address(0));
}

DSM_API void *dsm_aligned_alloc(size_t alignment, size_t size)
{
	if (!alignment) {
		errno = EINVAL;
		return NULL;
	}
	return allocate(size, alignment, false, NULL, __builtin_return_address(0));
}

DSM_API void *dsm_malloc_named(size_t alignment, size_t size, const char *name)
{
	return allocate(size, alignment, false, name, __builtin_return_address(0));
}

DSM_API int dsm_free(void *p)
{
	uint64_t arg = (uint64_t)(uintptr_t)p;
	size_t off = (size_t)((char *)p - job.base);
	uint16_t owner;
	int err = api_ready();

	if (err || !p)
		return err;
	if ((char *)p < job.base || !job.heap_part || off >= job.heap_part * job.size)
		return -EINVAL;
	owner = (uint16_t)(off / job.heap_part);
	if (owner == job.rank)
		return heap_free(peer_of(owner)->heap, p);
	while ((err = call_rank(owner, CALL_FREE, &arg, sizeof(arg), NULL, 0)) == -EAGAIN) {
		/* The owner has not given back what it was told before: wake its service thread. */
		if (is_here(owner))
			service_ring(owner);
		sched_yield();
	}
	return err;
}
