/* SPDX-License-Identifier: BSD-2-Clause */
/* alloc.h - memory of the program, for the files of this library. */
#ifndef PTHREAD_ALLOC_H
#define PTHREAD_ALLOC_H

#include "shim.h"
#include "util/sizes.h"

/* True, with a message, if this is a rank other than 0 of a launcher's job and valgrind has
 * replaced malloc(). Before dsm_init(). */
bool alloc_is_replaced(void);

/* size, up to whole pages. */
static inline size_t whole_pages(size_t size)
{
	return (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

/* As malloc() of the program: in the shared heap, for free() by any thread of any rank. What is of
 * whole pages, or large, begins with a page. NULL: no memory, errno is set. May block for a round
 * trip. */
void *shared_alloc(size_t size);
/* The same, with zeros. */
void *shared_zalloc(size_t size);
/* Shared memory that is sequential, whatever the program's is: for readers that take no lock. It is
 * never freed. */
void *plain_alloc(size_t size);

/* Memory of this library, in the rank's own range; free() it. NULL: no memory, errno is set. */
void *private_alloc(size_t size);

/* While it is not 0, allocations of this thread in the C library count as the program's. */
extern __thread uint32_t lent __attribute__((tls_model("initial-exec")));

#endif
