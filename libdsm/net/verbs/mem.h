/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h - registered memory of a device: areas, payload buffers and frames. Any thread; each
 * function takes dev.mem itself unless it says otherwise. None blocks for a peer; registering
 * memory is a system call. A failed registration is logged, with the limit that was hit.
 */
#ifndef NET_VERBS_MEM_H
#define NET_VERBS_MEM_H

#include "net/verbs/verbs.h"

enum { MEM_PRIVATE = 0, MEM_READ /* peers may read it */ };

/* Map zeroed pages that children do not inherit. huge: from huge pages if size is a multiple of 2
 * MiB and some are free. Takes no lock. NULL: no memory. */
void *mem_map(size_t size, bool huge);
/* Register memory, on demand paging where the device has it, and count it in net.registered. what:
 * its use, for the log message. Takes no lock. NULL: refused, and logged. */
struct ibv_mr *mem_register(struct dev *d, void *at, size_t size, int access, const char *what);

/* Allocate size bytes, aligned to 64, from an area of a kind (MEM_*), until mem_free(). NULL: no
 * memory. */
void *mem_cut(struct dev *d, int kind, size_t size, struct ibv_mr **mr);
/* Get a buffer for a payload of size bytes, at most NET_PAYLOAD_MAX, that this rank or a peer
 * reads. NULL: no memory. */
struct buf *buf_get(struct dev *d, size_t size);
/* Return a buffer. No read of it may be outstanding. */
void buf_put(struct dev *d, struct buf *b);
/* Unregister and free all areas and all buffers that were returned. No other thread may use the
 * device. Takes no lock. */
void mem_free(struct dev *d);

/* Get a frame of `bytes` bytes, including its header. The caller fills it without a lock. NULL: no
 * memory. */
struct out *mem_frame_get(struct dev *d, size_t bytes);
/* Return a frame that the device no longer uses. */
void mem_frame_put(struct dev *d, struct out *o);

#endif
