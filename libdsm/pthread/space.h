/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space.h - each rank's own range of addresses. What the kernel maps for a rank after space_start()
 * lies in its range, so that an access by another rank faults: it never reads what that rank has at
 * the same address.
 */
#ifndef PTHREAD_SPACE_H
#define PTHREAD_SPACE_H

#include <stdbool.h>
#include <stddef.h>

/* Reserve all addresses but the rank's range. At the start of a job of several ranks, by the
 * initialising thread. 0, or a negative errno value after a message. */
int space_start(void);

/* The rank in whose range p is; -1: in none. Any thread; never blocks. */
int space_owner(const void *p);

/* True if p is in this rank's range, or if there are no ranges yet. Any thread; never blocks. */
bool space_has(const void *p);

/* mmap(2) of private memory, which lies in the rank's range whatever is free elsewhere, except with
 * MAP_FIXED. */
void *space_map(void *addr, size_t length, int prot, int flags, int fd, long off);
/* munmap(2) of private memory. Outside the range, the addresses stay reserved. 0 or -errno. */
int space_unmap(void *at, size_t length);
/* Reserve whole pages without access, in place of what is there. 0 or -errno. */
int space_close(void *at, size_t length);

#endif
