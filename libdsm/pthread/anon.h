/* SPDX-License-Identifier: BSD-2-Clause */
/* anon.h - mappings of the program that are regions. */
#ifndef PTHREAD_ANON_H
#define PTHREAD_ANON_H

#include <stddef.h>

/*
 * A region of zeros, at one address on all ranks. MAP_FAILED with errno. Blocks for a call of each
 * rank.
 */
void *anon_map(size_t length);
/* Remove such a region. 0, or -EINVAL: addr and length are not those of a region. */
int anon_unmap(void *addr, size_t length);

#endif
