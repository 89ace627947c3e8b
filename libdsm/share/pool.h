/* SPDX-License-Identifier: BSD-2-Clause */
/* pool.h - buffers out of the registered pool. What is in use is noted beside it, in the process's own memory. */
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
	uint64_t *used; /* a bit for each granule */
	uint32_t *len;  /* granules of the buffer that begins here, 0: none does */
};

/* -ENOMEM */
int rs_pool_init(struct rs_pool *p, void *base, size_t bytes);
void rs_pool_exit(struct rs_pool *p);
/* NULL: no room in one piece. */
void *rs_pool_get(struct rs_pool *p, size_t size);
/* What rs_pool_get() did not return is ignored. */
void rs_pool_put(struct rs_pool *p, void *buffer);

#endif
