/* SPDX-License-Identifier: BSD-2-Clause */
/* maps.h - the program's mappings outside shared memory: their table, and files that several ranks
 * map. */
#ifndef PTHREAD_MAPS_H
#define PTHREAD_MAPS_H

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

#endif
