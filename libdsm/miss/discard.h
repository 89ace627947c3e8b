/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * discard.h - memory of the heap whose contents nobody needs: under DSM_MEMORY, the node frees its
 * frames, and sends nothing.
 *
 * The allocator of a rank marks pages that were freed, in a bitmap of the node. Only the rank that
 * has a unit of the heap marks its pages, and it removes the marks before it returns memory to the
 * program, or gives the unit to others. So what is marked is not in use, on any node.
 *
 * A marked block of which this node has the only copy becomes *empty*: its frame is freed, and it
 * stays in PG_WRITE. The other nodes and the home need not know. An empty block gets a frame of
 * zeros, under its stripe, when a thread of the node touches or pins it, and before its contents
 * leave for another node.
 */
#ifndef MISS_DISCARD_H
#define MISS_DISCARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Any thread of the rank that has the memory, offsets into the window. Whole pages of [off, off +
 * len) are free: mark them. No lock is taken.
 */
void discard_mark(size_t off, size_t len);
/*
 * [off, off + len) is about to be used: remove the marks of its pages. Waits while another thread
 * of the node frees frames there, for about the time of a system call. Without a stripe.
 */
void discard_unmark(size_t off, size_t len);

/* The rest: any thread inside the runtime. */

/* Does the node have marked pages? */
bool discard_any(void);
/* Is the block at off empty? Without its stripe, that may change at any time. */
bool discard_is_empty(size_t off);
/* Under the stripe: give the block a frame if it is empty. 1: it was; 0; -errno. */
int discard_refill(size_t off, size_t block);

/* For empty.c. Whole pages. */

/* Are all pages marked? */
bool discard_is_marked(size_t off, size_t len);
/* Remove marks, and do not wait. */
void discard_forget(size_t off, size_t len);
/* The thread that holds reclaim.lock is about to look at the marks of a run, of at most BLOCK_MAX
 * bytes, and to free frames; len 0: it has done so. */
void discard_publish(size_t off, size_t len);
/* Under the stripe: the block has no frame any more. Its marks go. */
void discard_emptied(size_t off, size_t block);

#endif
