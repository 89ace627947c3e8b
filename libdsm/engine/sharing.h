/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sharing.h - repeated misses: those of blocks that the node has lost since it last acquired anything (docs/memory-model.md).
 *
 * The node counts its acquires. A block remembers at which count it was last lost to another node, and whether it was writable. A
 * miss is repeated if that is the present count: release consistency would not have taken the copy away.
 *
 * Any thread, also in the fault handler; nothing blocks. Fields are read and written without a lock: a race miscounts one miss.
 */
#ifndef ENGINE_SHARING_H
#define ENGINE_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one block of a node, at its first page. */
struct sharing_page {
	uint32_t lost; /* twice the count of acquires, + 1: it was writable; 0: never */
	uint32_t misses, repeated;
};

/* What CALL_SHARING answers: sums over a range of the window. */
struct sharing_sum {
	uint64_t off, bytes;
	uint64_t misses, repeated;
};

/* A thread of this node has acquired something: what others have written before is to be seen. */
void sharing_acquired(void);
/* The node loses its copy of a block, or the permission to write it, to another node. */
void sharing_lost(uint32_t block, bool writable);
/* Would a miss at this offset be repeated? upgrade: the node has a copy to read. */
bool sharing_is_repeated(size_t off, bool upgrade);
void sharing_missed(size_t off, bool repeated);

/* At this node, of a range; bytes 0: of the single blocks with the most misses, the first one's first. How many, at most n. */
unsigned int sharing_serve(size_t off, size_t bytes, struct sharing_sum *out, unsigned int n);

#endif
