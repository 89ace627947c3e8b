/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames.h - the node's memory object, and the shared state of its ranks' mappings of it.
 *
 * With several ranks, their shared memory has a word for each page (core/map.h), and locks. A lock
 * covers a chunk of 64 KiB. It is held while words change and while system calls apply the change,
 * so that both happen in the same order. Without the lock:
 *
 *   again() of rank 1                lower() of rank 0
 *     the node may write: opens
 *     its own mapping
 *                                      write-protects the loose mappings: rank 1's is not recorded
 *                                      yet sends the contents
 *     records it
 *   a store of rank 1 is lost
 *
 * The locks of a range are taken in the order of its chunks. A piece never crosses a unit of 2 MiB,
 * whose chunks have consecutive locks. With one rank there are no words and no locks.
 */
#ifndef FAULT_FRAMES_H
#define FAULT_FRAMES_H

#include "core/map.h"
#include "fault/fault.h"
#include "util/sizes.h"

#define FRAMES_CHUNK (64ul << 10)
#define FRAMES_LOCKS 1024u /* a page of them */

/* The node whose window this process has open. frames_open() sets it, frames_close() clears it. */
extern struct fault_node frames_node;

static inline bool frames_alone(void)
{
	return frames_node.ranks <= 1;
}

/* Bytes of shared memory for locks and words: a whole number of pages. */
size_t frames_shared(size_t size);
/* Called by the open() of a backend: set frames_node. */
void frames_open(const struct fault_node *n);
/* Called by the close() of a backend: clear frames_node. */
void frames_close(void);

/*
 * The contents of the node's frames, independent of protections. Any thread, under any lock; no
 * call waits for other ranks.
 */

/* Copy contents out of the frames. 0 or -errno. */
int frames_read(size_t off, size_t len, void *to);
/* Copy contents into the frames. 0 or -errno. */
int frames_write(size_t off, size_t len, const void *from);
/* Free the memory behind a range, whatever its access. 0 or -errno. */
int frames_punch(size_t off, size_t len);

/* Map the object at range_at(off), as the first step of every backend's `adopt`. 0 or -errno. */
int frames_adopt(size_t off, size_t len, int prot);

/* The end of the piece of [off, end) that one acquisition of the locks may cover. */
static inline size_t frames_piece(size_t off, size_t end)
{
	size_t next = (off / UNIT_BYTES + 1) * UNIT_BYTES;

	return next < end ? next : end;
}

/*
 * Take the locks of the chunks of a piece (frames_piece()). May wait for another rank of the node.
 * Only with several ranks.
 */
void frames_lock(size_t off, size_t end);
/* Release them. */
void frames_unlock(size_t off, size_t end);

/* The caller holds the locks in the functions below. */

/* The word of the page at off. */
struct map *frames_map(size_t off);
/* Step every page of [off, end). Returns their combined actions. */
struct map_todo frames_step(enum map_kind kind, size_t off, size_t end, enum map_event ev,
			    unsigned int who);

#endif
