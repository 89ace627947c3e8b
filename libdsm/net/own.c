// SPDX-License-Identifier: BSD-2-Clause
/*
 * own.c - a small heap: blocks of powers of two, cut from segments of 4 MiB, which are kept. A
 * block larger than a quarter of a segment has segments of its own.
 *
 * The lock is a word, held for a few instructions or one mmap(2), by threads of this process only.
 * A child made by fork() finds it free.
 */
#include "net/own.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "util/futex.h"

#define SEGMENT_SHIFT 22
#define SEGMENT (1ul << SEGMENT_SHIFT)
#define ADDRESS_BITS 47
#define CLASS_MIN 6 /* 64 bytes */
#define CLASS_LAST 20
#define LARGE 255

/* Header before the caller's memory. */
struct head {
	uint32_t class;
	uint32_t skip; /* from the start of the block to the caller's memory */
	uint64_t size; /* usable bytes; LARGE: the block consists of whole segments */
};

struct gap {
	struct gap *next;
};

static uint32_t lock;
static struct gap *gaps[CLASS_LAST + 1];
static char *fresh; /* the rest of the current segment */
static size_t fresh_left;
static uint64_t *segments; /* a bit for each segment of the address space */

static void before_fork(void)
{
	word_lock(&lock);
}

static void after_fork(void)
{
	word_unlock(&lock);
}

static bool own_begin(void)
{
	void *at = mmap(NULL, 1ul << (ADDRESS_BITS - SEGMENT_SHIFT - 3), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	__atomic_store_n(&segments, at, __ATOMIC_RELEASE);
	return true;
}

/* Calls that allocate themselves are made before the lock is taken for the first time. */
static void __attribute__((constructor)) own_prepare(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

static void mark(const char *at, size_t bytes, bool on)
{
	uint64_t i, first = (uintptr_t)at >> SEGMENT_SHIFT,
		    end = ((uintptr_t)at + bytes) >> SEGMENT_SHIFT;

	for (i = first; i < end; i++)
		if (on)
			__atomic_fetch_or(&segments[i / 64], 1ull << (i % 64), __ATOMIC_RELEASE);
		else
			__atomic_fetch_and(&segments[i / 64], ~(1ull << (i % 64)),
					   __ATOMIC_RELEASE);
}

/* Map whole segments, aligned to their size. */
static char *map_segments(size_t bytes)
{
	char *at, *from;

	if (!segments && !own_begin())
		return NULL;
	at = mmap(NULL, bytes + SEGMENT, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	from = (char *)(((uintptr_t)at + SEGMENT - 1) & ~(SEGMENT - 1));
	if (from > at)
		munmap(at, (size_t)(from - at));
	munmap(from + bytes, (size_t)(at + SEGMENT - from));
	mark(from, bytes, true);
	return from;
}

static char *own_take(unsigned int class)
{
	size_t bytes = 1ul << class;
	char *at = (char *)gaps[class];

	if (at) {
		gaps[class] = gaps[class]->next;
		return at;
	}
	/*
	 * The rest of a segment, up to 1 MiB, is abandoned: it is only address space, as it was
	 * never touched.
	 */
	if (fresh_left < bytes) {
		fresh = map_segments(SEGMENT);
		fresh_left = fresh ? SEGMENT : 0;
	}
	if (!fresh)
		return NULL;
	at = fresh;
	fresh += bytes;
	fresh_left -= bytes;
	return at;
}

static void *dress(char *at, unsigned int class, size_t bytes, size_t align)
{
	char *p = (char *)(((uintptr_t)at + sizeof(struct head) + align - 1) & ~(align - 1));
	struct head *h = (struct head *)p - 1;

	*h = (struct head){ .class = class,
			    .skip = (uint32_t)(p - at),
			    .size = bytes - (size_t)(p - at) };
	return p;
}

void *own_alloc(size_t size, size_t align)
{
	unsigned int class = CLASS_MIN;
	size_t bytes;
	char *at;

	if (align < 16)
		align = 16;
	if (align > SEGMENT / 4 || size > 1ul << 40)
		return NULL;
	bytes = size + align + sizeof(struct head);
	while (class <= CLASS_LAST && 1ul << class < bytes)
		class ++;
	word_lock(&lock);
	if (class > CLASS_LAST) {
		class = LARGE;
		bytes = (bytes + SEGMENT - 1) & ~(SEGMENT - 1);
		at = map_segments(bytes);
	} else {
		bytes = 1ul << class;
		at = own_take(class);
	}
	word_unlock(&lock);
	return at ? dress(at, class, bytes, align) : NULL;
}

void *own_zalloc(size_t size)
{
	void *p = own_alloc(size, 0);

	if (p)
		memset(p, 0, size);
	return p;
}

void own_free(void *p)
{
	struct head *h;
	unsigned int class;
	size_t bytes;
	char *at;

	if (!p)
		return;
	h = (struct head *)p - 1;
	class = h->class;
	at = (char *)p - h->skip;
	bytes = h->size + h->skip;
	word_lock(&lock);
	if (class == LARGE) {
		mark(at, bytes, false);
		munmap(at, bytes);
	} else {
		((struct gap *)at)->next = gaps[class];
		gaps[class] = (struct gap *)at;
	}
	word_unlock(&lock);
}

void *own_realloc(void *was, size_t size)
{
	void *p = own_alloc(size, 0);
	size_t old;

	if (p && was) {
		old = own_size(was);
		memcpy(p, was, old < size ? old : size);
		own_free(was);
	}
	return p;
}

bool own_is(const void *p)
{
	const uint64_t *map = __atomic_load_n(&segments, __ATOMIC_ACQUIRE);
	uint64_t i = (uintptr_t)p >> SEGMENT_SHIFT;

	return map && !((uintptr_t)p >> ADDRESS_BITS) &&
		(__atomic_load_n(&map[i / 64], __ATOMIC_ACQUIRE) >> (i % 64) & 1);
}

size_t own_size(const void *p)
{
	return ((const struct head *)p - 1)->size;
}
