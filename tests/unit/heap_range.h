/* SPDX-License-Identifier: BSD-2-Clause */
/* heap_range.h - a heap over a shared memory file, for the tests of heap/. */
#ifndef HEAP_RANGE_H
#define HEAP_RANGE_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/heap.h"
#include "heap/units.h"
#include "suite.h"

#define MB ((size_t)1 << 20)
#define SIZE (64 * MB)

static struct heap_shared *shared;
static char *range;

static inline void *map_file(void *at, size_t size)
{
	int fd = memfd_create("test_heap", MFD_CLOEXEC),
	    flags = MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0);
	void *p;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	p = mmap(at, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	close(fd);
	return p;
}

/*
 * The units of a job whose rank RANK is this process. Tests use one rank; others may take and give
 * units.
 */
#define RANK 0

static struct units *units;
static struct units_shape shape;

static pthread_mutex_t units_lock = PTHREAD_MUTEX_INITIALIZER; /* like the first node's */

static unsigned int round_trip; /* of a request for units, in microseconds */

static int64_t units_take_here(bool upper, uint32_t n, uint32_t *used)
{
	int64_t at;

	usleep(round_trip);
	pthread_mutex_lock(&units_lock);
	at = units_take(&shape, units, upper, n, RANK, used);
	pthread_mutex_unlock(&units_lock);
	return at;
}

static int units_used_here(uint32_t at, uint32_t n, uint64_t *bits)
{
	memset(bits, 0, (n + 63) / 64 * sizeof(*bits));
	for (uint32_t i = 0; i < n; i++)
		if (units->owner[at + i] & UNIT_USED)
			bits[i / 64] |= 1ull << i % 64;
	return 0;
}

static void units_give_here(uint32_t at, uint32_t n)
{
	int err;

	pthread_mutex_lock(&units_lock);
	err = units_give(&shape, units, at, n, RANK);
	pthread_mutex_unlock(&units_lock);
	ck_assert_int_eq(err, 0);
}

static unsigned int settled;

static void settle_here(void)
{
	settled++;
}

/* Pages that nobody uses, as far as the heap has said; bytes are atomic. */
static uint8_t unused[SIZE / 4096];
static uint64_t left; /* units that were disowned */

static void freed_here(size_t off, size_t len)
{
	size_t page;

	for (page = (off + 4095) / 4096; page < (off + len) / 4096; page++)
		__atomic_store_n(&unused[page], 1, __ATOMIC_RELAXED);
}

static void used_again_here(size_t off, size_t len)
{
	size_t page;

	for (page = off / 4096; page <= (off + len - 1) / 4096; page++)
		__atomic_store_n(&unused[page], 0, __ATOMIC_RELAXED);
}

static void disowned_here(uint32_t at, uint32_t n)
{
	(void)at;
	__atomic_fetch_add(&left, n, __ATOMIC_RELAXED);
}

static const struct heap_source units_here = { .take = units_take_here,
					       .used = units_used_here,
					       .give = units_give_here,
					       .drained = settle_here,
					       .freed = freed_here,
					       .used_again = used_again_here,
					       .disowned = disowned_here };

/* split: where the upper part begins; SIZE: there is none. */
static inline void start_split(size_t split, bool keep_sites)
{
	const size_t records = (sizeof(struct heap_shared) + 4095) / 4096 * 4096;
	char *p = mmap(NULL, SIZE + 2 * MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	range = map_file((void *)(((uintptr_t)p + 2 * MB - 1) / (2 * MB) * (2 * MB)), SIZE);
	shared = map_file(NULL, records + heap_live_size(SIZE));
	units = calloc(1, units_size(SIZE));
	shape = units_shape(SIZE, 2);
	shape.split = (uint32_t)(split / UNIT_BYTES);
	ck_assert_int_eq(heap_start(shared, (uint64_t *)((char *)shared + records), range, SIZE,
				    split, &units_here, keep_sites),
			 0);
}

static inline void start_with(bool keep_sites)
{
	start_split(SIZE, keep_sites);
}

static inline void start(void)
{
	start_with(false);
}

static inline void *take(size_t size)
{
	return heap_alloc(false, size, 0, false, NULL, NULL);
}

static inline void give(void *p)
{
	ck_assert_int_eq(heap_free(shared, p), 0);
}

static inline uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Many small sizes, some pages, few large ones. */
static inline size_t random_size(uint64_t *x, size_t max)
{
	uint64_t r = next_random(x);
	size_t limit = r % 100 < 80 ? 512 : r % 100 < 97 ? 20000 : max;

	return (r >> 8) % limit;
}

static inline bool all(const void *p, unsigned char c, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (((const unsigned char *)p)[i] != c)
			return false;
	return true;
}

static inline void protect(int prot)
{
	ck_assert_int_eq(mprotect(range, SIZE, prot), 0);
}

#endif
