/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h - memory of the library, from the C library or from the functions passed to
 * rshare_set_allocator().
 */
#ifndef SHARE_MEM_H
#define SHARE_MEM_H

#include <stddef.h>

void *rs_zalloc(size_t n, size_t size); /* n elements, all zero; NULL: no memory */
void rs_free(void *p);                  /* NULL is allowed */

#endif
