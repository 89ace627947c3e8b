/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunk.h - pieces of collectives, of up to CTL_CHUNK_BYTES, along a tree of nodes: down from a root, or up to one and
 * down again with the result.
 *
 * All ranks number the chunks alike. A number n may be used once all ranks have got the chunk n - CTL_CHUNKS; the callers
 * see to that by a barrier (sync/collective.c). All functions are called in the runtime, with memory that does not fault.
 */
#ifndef ENGINE_CHUNK_H
#define ENGINE_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

/* The root's: it comes to all nodes. */
void chunk_send(uint64_t number, const void *data, size_t size);
/* This rank's part. When all are in, the result comes to all nodes. code: engine/reduce.h. */
void chunk_add(uint64_t number, uint8_t code, const void *data, size_t size);
/* Blocks until it is here; the contents stay until the barrier. */
const void *chunk_wait(uint64_t number);
/* MSG_CHUNK has come: 0, -EBADMSG, or -ESTALE (core/dispatch.h). */
int chunk_arrived(const struct msg *m, const void *payload, size_t size);

#endif
