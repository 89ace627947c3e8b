// SPDX-License-Identifier: BSD-2-Clause
/* mem.c - memory of the library. The functions are set before there are threads. */
#include "share/mem.h"

#include <rshare.h>
#include <stdlib.h>

static void *from_c_library(size_t size)
{
	return calloc(1, size);
}

static struct {
	void *(*zalloc)(size_t size);
	void (*release)(void *p);
} heap = { from_c_library, free };

void rshare_set_allocator(void *(*zalloc)(size_t size), void (*release)(void *p))
{
	heap.zalloc = zalloc;
	heap.release = release;
}

void *rs_zalloc(size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : heap.zalloc(bytes);
}

void rs_free(void *p)
{
	if (p)
		heap.release(p);
}
