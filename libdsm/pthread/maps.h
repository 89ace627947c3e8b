/* SPDX-License-Identifier: BSD-2-Clause */
/* maps.h - mappings of the program: those outside shared memory, with their table and the files
 * that several ranks map. */
#ifndef PTHREAD_MAPS_H
#define PTHREAD_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* At the start: rank 0 makes the table, before the other ranks know team. 0 or -ENOMEM. */
int maps_start(void);

/* These functions are mmap(2), munmap(2), mprotect(2) and mremap(2) for the program, at an address
 * outside shared memory. They keep the table, and act on all ranks that have mapped the file. Any
 * thread; they block for calls of other ranks. */
void *maps_map(void *addr, size_t length, int prot, int flags, int fd, off_t off);
int maps_unmap(void *addr, size_t length);
int maps_protect(void *addr, size_t length, int prot);
void *maps_move(void *addr, size_t old, size_t length, int flags, void *to);

/* The hook of dsm_fault_hook(): map the file that another rank has mapped at addr, or say whose
 * memory that is. */
int maps_fault(void *addr, int write, int inside);

/* anon.c: mappings of the program that are regions. */

/*
 * A region of zeros, at one address on all ranks. MAP_FAILED with errno. Blocks for a call of each
 * rank.
 */
void *anon_map(size_t length);
/* Remove such a region. 0, or -EINVAL: addr and length are not those of a region. */
int anon_unmap(void *addr, size_t length);

/* heapmap.c: private, writable mappings of the program as shared memory. */

/* Shared memory with the contents of the file from off on, and zeros behind them; fd -1: zeros.
 * NULL: there is not enough, or the file cannot be read. Any thread; blocks while it reads. */
void *heapmap_make(size_t length, int fd, off_t off);

/* As munmap(2), mremap(2) with MREMAP_MAYMOVE, and madvise(2) with MADV_DONTNEED for memory of
 * heapmap_make(). 0 or -errno; -EINVAL: the range is no such memory. */
int heapmap_unmap(void *addr, size_t length);
int heapmap_move(void *addr, size_t old, size_t length, void **out);
int heapmap_clear(void *addr, size_t length);

#endif
