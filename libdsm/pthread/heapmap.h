/* SPDX-License-Identifier: BSD-2-Clause */
/* heapmap.h - private, writable mappings of the program as shared memory. */
#ifndef PTHREAD_HEAPMAP_H
#define PTHREAD_HEAPMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Shared memory with the contents of the file from off on, and zeros behind them; fd -1: zeros.
 * NULL: there is not enough, or the file cannot be read. Any thread; blocks while it reads. */
void *heapmap_make(size_t length, int fd, off_t off);

/* As munmap(2), mremap(2) with MREMAP_MAYMOVE, and madvise(2) with MADV_DONTNEED for memory of
 * heapmap_make(). 0 or -errno; -EINVAL: the range is no such memory. */
int heapmap_unmap(void *addr, size_t length);
int heapmap_move(void *addr, size_t old, size_t length, void **out);
int heapmap_clear(void *addr, size_t length);

#endif
