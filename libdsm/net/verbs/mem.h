/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h - registered memory of a device: areas, payload buffers and frames. Any thread; each function takes dev.mem itself
 * unless it says otherwise. None blocks for a peer; registering memory is a system call. A failed registration is logged, with
 * the limit that was hit.
 */
#ifndef NET_VERBS_MEM_H
#define NET_VERBS_MEM_H

#include "net/verbs/verbs.h"

enum { MEM_PRIVATE = 0, MEM_READ /* peers may read it */ };

/* Map zeroed pages that children do not inherit. huge: from huge pages if size is a multiple of 2 MiB and some are free.
 * Takes no lock. NULL: no memory. */
void *mem_map(size_t size, bool huge);
/* Register memory, on demand paging where the device has it, and count it in net.registered. what: names its use in the
 * message. Takes no lock. NULL: refused, and logged. */
struct ibv_mr *mem_register(struct dev *d, void *at, size_t size, int access, const char *what);

/* Cut size bytes, aligned to 64, from an area of a kind (MEM_*). They stay in use until mem_free(). NULL: no memory. */
void *mem_cut(struct dev *d, int kind, size_t size, struct ibv_mr **mr);
/* A buffer for a payload of size bytes, at most NET_PAYLOAD_MAX, that this rank or a peer reads. NULL: no memory. */
struct buf *buf_get(struct dev *d, size_t size);
/* Return a buffer. No read of it may be under way. */
void buf_put(struct dev *d, struct buf *b);
/* Unregister and free all areas and all buffers that were returned. No other thread uses the device. Takes no lock. */
void mem_free(struct dev *d);

/* A frame of `bytes` bytes, its header included, to be filled by the caller without a lock. NULL: no memory. */
struct out *mem_frame_get(struct dev *d, size_t bytes);
/* Return a frame. The device must be done with it. */
void mem_frame_put(struct dev *d, struct out *o);

#endif
