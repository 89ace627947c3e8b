/* SPDX-License-Identifier: BSD-2-Clause */
/* mem.h - memory of the library: of the C library, or of the functions that rshare_set_allocator() was given. */
#ifndef SHARE_MEM_H
#define SHARE_MEM_H

#include <stddef.h>

void *rs_zalloc(size_t n, size_t size); /* n elements, all zero; NULL: no memory */
void rs_free(void *p);                  /* NULL is allowed */

#endif
