// SPDX-License-Identifier: BSD-2-Clause
/*
 * alloc.c - the malloc family: the program's memory comes from the shared heap, that of libraries
 * from the C library, in the rank's own range of addresses (space.c). Its address determines how
 * memory is freed, whoever frees it.
 *
 * Each shared object is preceded by 16 bytes: its size, and where it was allocated. So realloc()
 * needs no other rank. Objects of whole pages, and large ones, begin with a page all the same: rows
 * of a matrix that are pages do not share any then.
 */
#include "alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libraries.h"
#include "space.h"
#include "streams.h"
#include "util/sizes.h"
#include "util/valgrind.h"

#define GRAIN 16u
#define LARGE (64ul << 10) /* one more page is little */
#define BITE (100ul << 10) /* less than what the C library maps by itself */

EXPORT size_t malloc_usable_size(void *p);

/*
 * What the jemalloc of libdsm does with the first call of a thread. By default it makes a cache for
 * the thread, and maybe an arena, and ends the process if the kernel refuses the memory or one more
 * mapping. libdsm needs neither. The program's malloc() is that below, so this changes nothing for
 * it; settings of its own for jemalloc come first.
 */
EXPORT extern const char *malloc_conf;
const char *malloc_conf = "narenas:1,tcache:false";

struct head {
	size_t size;
	void *start;
};
_Static_assert(sizeof(struct head) == GRAIN, "objects stay aligned");

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *p);

/*
 * dsm_adopt_globals() refuses it as well, but after the start of the job, which takes valgrind
 * seconds. The launcher ends rank 0.
 */
bool alloc_is_replaced(void)
{
	const char *const rank = getenv("PMIX_RANK");

	if (!rank || !strcmp(rank, "0") || !under_valgrind())
		return false;
	fprintf(stderr,
		"libdsm-pthread: rank %s: valgrind runs it, with a malloc() of its own for each rank (start one rank)\n",
		rank);
	return true;
}

/* ---- private memory -------------------------------------------------------------------------- */

/*
 * The C library's arenas from before space_start() may have room outside the range. What comes from
 * there is never used, nor freed: so they have none left soon.
 */
static void *own_private(void *p, size_t align, size_t size)
{
	void *bite;

	while (p && !space_has(p)) {
		bite = __libc_malloc(BITE);
		if (space_has(bite))
			__libc_free(bite);
		p = align > GRAIN ? __libc_memalign(align, size) : __libc_malloc(size);
	}
	return p;
}

void *private_alloc(size_t size)
{
	return own_private(__libc_malloc(size), GRAIN, size);
}

static void *private_zalloc(size_t n, size_t size)
{
	void *p = __libc_calloc(n, size);

	if (!p || space_has(p))
		return p;
	p = own_private(p, GRAIN, n * size);
	return p ? memset(p, 0, n * size) : NULL;
}

/*
 * By its version it is the C library's: an allocator that the program is linked with may be the
 * next one, and knows nothing of private memory.
 */
static size_t private_size(void *p)
{
	return NEXT_BY(size_t(*)(void *), "malloc_usable_size", "GLIBC_2.2.5", next_find)(p);
}

static void *private_resize(void *p, size_t size)
{
	size_t was;
	void *more;

	if (!p)
		return private_alloc(size);
	if (space_has(p) || !size) {
		more = __libc_realloc(p, size);
		if (!more || space_has(more))
			return more;
		p = more;
	}
	was = private_size(p);
	more = private_alloc(size);
	if (more) {
		memcpy(more, p, was < size ? was : size);
		__libc_free(p);
	}
	return more;
}

/* ---- shared memory --------------------------------------------------------------------------- */

struct want {
	size_t align, size;
	bool zero, plain;
	void *got;
};

__thread uint32_t lent __attribute__((tls_model("initial-exec")));

static void alloc_allocate(void *arg)
{
	struct want *out = arg, w = *out;
	const uint32_t was = lent;

	lent = 0; /* the runtime's own allocations are not the program's */
	w.got = w.plain ? dsm_malloc(w.size)
			: dsm_malloc_program(w.align > GRAIN ? w.align : 0, w.size, w.zero);
	lent = was;
	out->got = w.got;
}

void *plain_alloc(size_t size)
{
	struct want w = { .size = size, .plain = true };

	dsm_call(alloc_allocate, &w);
	return w.got;
}

/* What precedes an object. The heap aligns what is a page or more to pages. */
static size_t front_of(size_t align, size_t size)
{
	const bool page = size >= LARGE || (size && whole_pages(size + GRAIN) > whole_pages(size));
	const size_t least = page ? PAGE_BYTES : GRAIN;

	return align > least ? align : least;
}

/* zero: alignment GRAIN only */
static void *shared(size_t align, size_t size, bool zero)
{
	const size_t front = front_of(align, size);
	struct want w = { .align = align, .size = size + front, .zero = zero };
	struct head *h;

	if (w.size < size) {
		errno = ENOMEM;
		return NULL;
	}
	dsm_call(alloc_allocate, &w);
	if (!w.got)
		return NULL;
	h = (struct head *)((char *)w.got + front) - 1;
	*h = (struct head){ .size = size, .start = w.got };
	return h + 1;
}

void *shared_alloc(size_t size)
{
	return shared(GRAIN, size, false);
}

void *shared_zalloc(size_t size)
{
	return shared(GRAIN, size, true);
}

static struct head *head_of(void *p)
{
	return (struct head *)p - 1;
}

static void alloc_release(void *arg)
{
	void *p = *(void **)arg;
	const uint32_t was = lent;

	lent = 0; /* as in alloc_allocate() */
	if (dsm_free(p) == -EINVAL)
		dsm_abort(134, "free(): invalid pointer, or freed twice");
	lent = was;
}

EXPORT void free(void *p)
{
	void *start;

	if (!is_shared(p)) {
		if (libraries_is_early(p))
			libraries_early_free(p);
		else if (!streams_give(p))
			__libc_free(p);
		return;
	}
	start = head_of(p)->start;
	if (!start) /* of a library's constructor */
		return;
	dsm_call(alloc_release, &start);
}

/* Does the program call it, rather than a library? */
static bool is_wanted(const void *caller)
{
	return caller_is_ours(caller) || (shim.active && (lent || is_library_of_program(caller)));
}

EXPORT void *malloc(size_t size)
{
	void *place = streams_take(size);

	if (!place && !shim.active)
		place = libraries_early(GRAIN, size, CALLER);
	if (place)
		return place;
	return is_wanted(CALLER) ? shared(GRAIN, size, false) : private_alloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	void *early;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	early = shim.active ? NULL : libraries_early(GRAIN, bytes, CALLER);
	if (early)
		return memset(early, 0, bytes);
	return is_wanted(CALLER) ? shared(GRAIN, bytes, true) : private_zalloc(n, size);
}

static void *resize(void *p, size_t size)
{
	const size_t was = head_of(p)->size;
	void *more;

	if (size <= was && size >= was / 2) {
		head_of(p)->size = size;
		return p;
	}
	more = shared(GRAIN, size, false);
	if (!more)
		return NULL;
	memcpy(more, p, was < size ? was : size);
	free(p);
	return more;
}

/*
 * NULL: the job runs, or p is not of libraries_early(), or the caller of realloc(NULL) is no
 * library.
 */
static void *resize_early(void *p, size_t size, const void *caller)
{
	void *more;

	if (shim.active || (p && !libraries_is_early(p)))
		return NULL;
	more = libraries_early(GRAIN, size, caller);

	if (p && !more)
		more = private_alloc(size);
	if (p && more) {
		memcpy(more, p, head_of(p)->size < size ? head_of(p)->size : size);
		libraries_early_free(p);
	}
	return more;
}

/* Shared memory stays shared, even if a library resizes it. */
EXPORT void *realloc(void *p, size_t size)
{
	void *early = resize_early(p, size, CALLER);

	if (early)
		return early;
	if (!is_shared(p))
		return !p && is_wanted(CALLER) ? shared(GRAIN, size, false)
					       : private_resize(p, size);
	if (size)
		return resize(p, size);
	free(p);
	return NULL;
}

EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;
	void *early;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	early = resize_early(p, bytes, CALLER);
	if (early)
		return early;
	if (!p && is_wanted(CALLER))
		return shared(GRAIN, bytes, false);
	return is_shared(p) ? resize(p, bytes) : private_resize(p, bytes);
}

static void *aligned(size_t align, size_t size, const void *caller)
{
	void *early = shim.active ? NULL : libraries_early(align, size, caller);

	if (early)
		return early;
	return caller_is_ours(caller) ? shared(align, size, false)
				      : own_private(__libc_memalign(align, size), align, size);
}

EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
	int saved = errno;
	void *p;

	if (align < sizeof(void *) || (align & (align - 1)))
		return EINVAL;
	p = aligned(align, size, CALLER);
	errno = saved;
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return aligned(align, size, CALLER);
}

EXPORT void *memalign(size_t align, size_t size);
EXPORT void *memalign(size_t align, size_t size)
{
	return aligned(align, size, CALLER);
}

EXPORT void *valloc(size_t size)
{
	return aligned(PAGE_BYTES, size, CALLER);
}

EXPORT void *pvalloc(size_t size);
EXPORT void *pvalloc(size_t size)
{
	const size_t pages = whole_pages(size);

	if (pages >= size)
		return aligned(PAGE_BYTES, pages, CALLER);
	errno = ENOMEM;
	return NULL;
}

EXPORT size_t malloc_usable_size(void *p)
{
	return is_shared(p) || libraries_is_early(p) ? head_of(p)->size : private_size(p);
}
