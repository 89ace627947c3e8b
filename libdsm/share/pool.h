/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool.h - buffers of the registered pool. The allocation state is outside the pool, in the
 * process's private memory.
 */
#ifndef SHARE_POOL_H
#define SHARE_POOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define RS_GRANULE 256u

struct rs_pool {
	pthread_mutex_t lock;
	char *base;
	size_t granules, hint;
	uint64_t *used; /* one bit per granule */
	uint32_t *len;  /* granules of the buffer that starts here; 0: none */
};

/* -ENOMEM */
int rs_pool_init(struct rs_pool *p, void *base, size_t bytes);
void rs_pool_exit(struct rs_pool *p);
/* Allocate a buffer. NULL: no contiguous room. */
void *rs_pool_get(struct rs_pool *p, size_t size);
/* Free a buffer. Ignores pointers that rs_pool_get() did not return. */
void rs_pool_put(struct rs_pool *p, void *buffer);

#endif
