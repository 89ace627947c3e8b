/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunk.h - pieces of collectives, of up to CTL_CHUNK_BYTES, along a tree of nodes: down from a
 * root, or up to one and down again with the result.
 *
 * All ranks number the chunks alike. Number n may be used once all ranks have received chunk n -
 * CTL_CHUNKS; callers ensure this by a barrier (sync/collective.c). All functions are called inside
 * the runtime, with memory that does not fault.
 */
#ifndef CALLS_CHUNK_H
#define CALLS_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

/* Send a chunk from this rank, the root, to all nodes. */
void chunk_send(uint64_t number, const void *data, size_t size);
/*
 * Add this rank's part. After the last part, the result is sent to all nodes. code: miss/reduce.h.
 */
void chunk_add(uint64_t number, uint8_t code, const void *data, size_t size);
/* Wait for a chunk. Its contents are valid until the barrier. */
const void *chunk_wait(uint64_t number);
/* Handle MSG_CHUNK. 0, -EBADMSG, or -ESTALE (core/dispatch.h). */
int chunk_arrived(const struct msg *m, const void *payload, size_t size);

#endif
