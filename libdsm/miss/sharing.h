/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sharing.h - repeated misses: misses on blocks that the node has lost since its last acquire
 * (docs/memory-model.md).
 *
 * The node counts its acquires. A block stores the count at which it was last lost to another node,
 * and whether it was writable. A miss is repeated if the stored count is the current one: release
 * consistency would not have taken the copy away.
 *
 * Any thread, also in the fault handler; nothing blocks. Fields are read and written without a
 * lock: a race miscounts one miss.
 */
#ifndef MISS_SHARING_H
#define MISS_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of the answer of CALL_SHARING: a block with misses. */
struct sharing_sum {
	uint64_t off, bytes;
	uint64_t misses, repeated;
};

/* Count an acquire of a thread of this node: later reads must see earlier writes of other nodes. */
void sharing_acquired(void);
/* Record that the node loses its copy of a block, or its write permission, to another node. */
void sharing_lost(uint32_t block, bool writable);
/* Would a miss at this offset be repeated? upgrade: the node has a read copy. */
bool sharing_is_repeated(size_t off, bool upgrade);
void sharing_missed(size_t off, bool repeated);

/*
 * Return this node's blocks with misses, from offset off on and in the order of their offsets.
 * Returns their number, at most n.
 */
unsigned int sharing_serve(size_t off, struct sharing_sum *out, unsigned int n);

#endif
