/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recent.h - which blocks of this node came lately: the marks of the clock of miss/reclaim.c.
 *
 * Each block has one byte, at its first page. It is a number of passes of the hand that the block
 * survives: 1 when it comes, more if the node gave it up a short time ago, so that a block in
 * frequent use stays among those that are read once. When the node gives it up, the byte is the
 * time, counted in blocks that came. Nothing depends on a mark but which block goes first: no lock,
 * and nothing blocks. Only with DSM_MEMORY.
 */
#ifndef MISS_RECENT_H
#define MISS_RECENT_H

#include <stdbool.h>
#include <stddef.h>

#define RECENT_PASSES 1u /* of the hand that a block survives */
#define RECENT_OFTEN 3u  /* the same for one that comes back soon */

/* A block has come. Inside the fault handler, too. */
void recent_came(size_t off, size_t len);
/* The node uses more memory, and no block has come. Inside the fault handler, too. */
void recent_grew(size_t len);
/* The node gives up a block, or asks its home to take it. */
void recent_gone(size_t off);
/* The hand passes a block that may go. True: it goes. */
bool recent_passed(size_t off);

#endif
