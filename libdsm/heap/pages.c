// SPDX-License-Identifier: BSD-2-Clause
/*
 * pages.c - three bits and a class for each page of the heap, and a bit for each 2 MiB.
 *
 * Threads: any of the rank. The map of free pages has a lock; the others are changed with atomic
 * operations. A bitmap is used rather than a list of free extents: neighbours coalesce by
 * themselves, nothing is ever allocated (the callers are extent hooks, where jemalloc must not be
 * entered), and giving back a million extents is not quadratic.
 */
#include "heap/pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "util/bits.h"

static size_t map_bytes(size_t bits)
{
	return (bits + 63) / 64 * 8;
}

static void *map_new(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int pages_init(struct pages *x, void *base, size_t size)
{
	memset(x, 0, sizeof(*x));
	x->base = (uintptr_t)base;
	x->count = size / PAGE_BYTES;
	pthread_mutex_init(&x->lock, NULL);
	x->free = map_new(map_bytes(x->count));
	x->touched = map_new(map_bytes(x->count));
	x->inside = map_new(map_bytes(x->count));
	x->class = map_new(x->count);
	x->owned = map_new(map_bytes(x->count / UNIT_PAGES));
	x->free_of = map_new(x->count / UNIT_PAGES * sizeof(*x->free_of));
	x->first = x->split = x->count;
	if (x->free && x->touched && x->inside && x->class && x->owned && x->free_of)
		return 0;
	pages_fini(x);
	return -ENOMEM;
}

void pages_fini(struct pages *x)
{
	if (x->free)
		munmap(x->free, map_bytes(x->count));
	if (x->touched)
		munmap(x->touched, map_bytes(x->count));
	if (x->inside)
		munmap(x->inside, map_bytes(x->count));
	if (x->class)
		munmap(x->class, x->count);
	if (x->owned)
		munmap(x->owned, map_bytes(x->count / UNIT_PAGES));
	if (x->free_of)
		munmap(x->free_of, x->count / UNIT_PAGES * sizeof(*x->free_of));
	pthread_mutex_destroy(&x->lock);
	memset(x, 0, sizeof(*x));
}

static void set_bits(uint64_t *map, size_t first, size_t end)
{
	for (size_t w = first / 64; first < end && w <= (end - 1) / 64; w++) {
		uint64_t mask = word_mask(w, first, end);

		if ((__atomic_load_n(&map[w], __ATOMIC_RELAXED) & mask) != mask)
			__atomic_fetch_or(&map[w], mask, __ATOMIC_RELAXED);
	}
}

static void clear_bits(uint64_t *map, size_t first, size_t end)
{
	for (size_t w = first / 64; first < end && w <= (end - 1) / 64; w++)
		__atomic_fetch_and(&map[w], ~word_mask(w, first, end), __ATOMIC_RELAXED);
}

static bool test_bit(const uint64_t *map, size_t i)
{
	return __atomic_load_n(&map[i / 64], __ATOMIC_RELAXED) >> i % 64 & 1;
}

/* ---- free pages ----------------------------------------------------------------------------- */

/* The first page in [i, end) that is free (or is not, as asked); end if there is none. */
static size_t next_page(const struct pages *x, size_t i, size_t end, bool is_free)
{
	unsigned uniform = is_free ? 0 : UNIT_PAGES;

	while (i < end) {
		uint64_t word;

		if (i % UNIT_PAGES == 0 && x->free_of[i / UNIT_PAGES] == uniform) {
			i += UNIT_PAGES;
			continue;
		}
		word = is_free ? x->free[i / 64] : ~x->free[i / 64];
		word &= ~0ull << i % 64;
		if (word) {
			i = i / 64 * 64 + (size_t)__builtin_ctzll(word);
			return i < end ? i : end;
		}
		i = (i / 64 + 1) * 64;
	}
	return end;
}

/*
 * Invert the state of pages [first, end), which are all in the other state. A word lies within one
 * unit.
 */
static void set_free(struct pages *x, size_t first, size_t end, bool is_free)
{
	for (size_t w = first / 64; w <= (end - 1) / 64; w++) {
		uint64_t mask = word_mask(w, first, end);

		if (is_free) {
			x->free[w] |= mask;
			x->free_of[w * 64 / UNIT_PAGES] += (uint16_t)__builtin_popcountll(mask);
		} else {
			x->free[w] &= ~mask;
			x->free_of[w * 64 / UNIT_PAGES] -= (uint16_t)__builtin_popcountll(mask);
		}
	}
}

static size_t first_fit(const struct pages *x, bool upper, size_t n, size_t align)
{
	const size_t end = upper || x->end < x->split ? x->end : x->split;
	size_t i = upper && x->first < x->split ? x->split : x->first, used;

	for (;;) {
		i = next_page(x, i, end, true);
		/*
		 * The base is a multiple of 2 MiB, the greatest alignment: page numbers align like
		 * addresses.
		 */
		i = (i + align - 1) / align * align;
		if (i >= end || end - i < n)
			return x->count;
		used = next_page(x, i, i + n, false);
		if (used == i + n)
			return i;
		i = used + 1;
	}
}

void pages_own(struct pages *x, size_t at, size_t n, const uint64_t *used)
{
	size_t i;

	for (i = 0; used && i < n; i++)
		if (test_bit(used, i))
			set_bits(x->touched, (at + i) * UNIT_PAGES, (at + i + 1) * UNIT_PAGES);
	set_bits(x->owned, at, at + n);
}

bool pages_owned(const struct pages *x, size_t at)
{
	return test_bit(x->owned, at);
}

size_t pages_disown(struct pages *x, size_t from, size_t end, size_t *at)
{
	size_t i, n = 0;

	pthread_mutex_lock(&x->lock);
	i = x->first / UNIT_PAGES;
	for (i = i < from ? from : i;
	     i < end && i * UNIT_PAGES < x->end && x->free_of[i] != UNIT_PAGES; i++)
		;
	while (i + n < end && x->free_of[i + n] == UNIT_PAGES)
		n++;
	if (n) {
		set_free(x, i * UNIT_PAGES, (i + n) * UNIT_PAGES, false);
		clear_bits(x->owned, i, i + n);
		*at = i;
	}
	pthread_mutex_unlock(&x->lock);
	return n;
}

size_t pages_take_before(struct pages *x, size_t at, size_t most)
{
	size_t end = at * UNIT_PAGES, i = end;

	pthread_mutex_lock(&x->lock);
	while (i && i != x->split && end - i < most / PAGE_BYTES && test_bit(x->free, i - 1))
		i--;
	if (i < end)
		set_free(x, i, end, false);
	pthread_mutex_unlock(&x->lock);
	return (end - i) * PAGE_BYTES;
}

void *pages_take(struct pages *x, bool upper, size_t size, size_t align)
{
	size_t n = size / PAGE_BYTES, a = align > PAGE_BYTES ? align / PAGE_BYTES : 1, i;

	if (n == 0 || n > x->count || align > UNIT_BYTES)
		return NULL;
	pthread_mutex_lock(&x->lock);
	i = first_fit(x, upper, n, a);
	if (i == x->count) {
		pthread_mutex_unlock(&x->lock);
		return NULL;
	}
	set_free(x, i, i + n, false);
	x->first = next_page(x, x->first, x->end, true);
	pthread_mutex_unlock(&x->lock);
	return (void *)(x->base + i * PAGE_BYTES);
}

bool pages_put(struct pages *x, void *p, size_t size)
{
	size_t i = ((uintptr_t)p - x->base) / PAGE_BYTES, n = size / PAGE_BYTES;
	bool ours;

	if ((uintptr_t)p < x->base || n == 0 || i >= x->count || n > x->count - i)
		return false;
	pthread_mutex_lock(&x->lock);
	ours = pages_owned(x, i / UNIT_PAGES) && next_page(x, i, i + n, true) == i + n;
	if (ours) {
		set_free(x, i, i + n, true);
		if (x->first > i)
			x->first = i;
		if (x->end < i + n)
			x->end = i + n;
	}
	pthread_mutex_unlock(&x->lock);
	return ours;
}

/* ---- touched, class, and inside a large object ---------------------------------------------- */

void pages_touch(struct pages *x, void *p, size_t size, bool zero)
{
	uintptr_t start = (uintptr_t)p, end = start + size;
	size_t first = (start - x->base) / PAGE_BYTES, last = (end - 1 - x->base) / PAGE_BYTES;

	if (zero && size < PAGE_BYTES) {
		memset(p, 0, size);
	} else if (zero) {
		/*
		 * The object is page-aligned and has its pages alone: nobody else changes their
		 * bits now. A page that the program never had is zero, and is not touched: touching
		 * would fetch it and use memory for nothing.
		 */
		for (size_t i = first; i <= last; i++) {
			uintptr_t page = x->base + i * PAGE_BYTES;

			if (test_bit(x->touched, i))
				memset((void *)page, 0,
				       end - page < PAGE_BYTES ? end - page : PAGE_BYTES);
		}
	}
	set_bits(x->touched, first, last + 1);
}

void pages_class_set(struct pages *x, const void *p, unsigned class)
{
	uint8_t *of = &x->class[((uintptr_t)p - x->base) / PAGE_BYTES];

	if (__atomic_load_n(of, __ATOMIC_RELAXED) != class)
		__atomic_store_n(of, (uint8_t) class, __ATOMIC_RELAXED);
}

unsigned pages_class(const struct pages *x, const void *p)
{
	return __atomic_load_n(&x->class[((uintptr_t)p - x->base) / PAGE_BYTES], __ATOMIC_RELAXED);
}

void pages_large_set(struct pages *x, const void *p, size_t size)
{
	size_t first = ((uintptr_t)p - x->base) / PAGE_BYTES;

	set_bits(x->inside, first + 1, first + size / PAGE_BYTES);
}

void pages_large_clear(struct pages *x, const void *p, size_t size)
{
	size_t first = ((uintptr_t)p - x->base) / PAGE_BYTES;

	clear_bits(x->inside, first + 1, first + size / PAGE_BYTES);
}

size_t pages_large_size(const struct pages *x, const void *p)
{
	size_t first = ((uintptr_t)p - x->base) / PAGE_BYTES, i = first + 1;

	while (i < x->count) {
		uint64_t outside =
			~__atomic_load_n(&x->inside[i / 64], __ATOMIC_RELAXED) & ~0ull << i % 64;

		if (outside) {
			i = i / 64 * 64 + (size_t)__builtin_ctzll(outside);
			break;
		}
		i = (i / 64 + 1) * 64;
	}
	return (i - first) * PAGE_BYTES;
}

void *pages_large_start(struct pages *x, const void *p)
{
	size_t i = ((uintptr_t)p - x->base) / PAGE_BYTES;

	if (!test_bit(x->inside, i))
		return NULL;
	for (;;) {
		size_t w = i / 64;
		uint64_t outside =
			~__atomic_load_n(&x->inside[w], __ATOMIC_RELAXED) & word_mask(w, 0, i + 1);

		if (outside)
			return (void *)(x->base +
					(w * 64 + 63 - (size_t)__builtin_clzll(outside)) *
						PAGE_BYTES);
		if (w == 0)
			return NULL;
		i = w * 64 - 1;
	}
}
