/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames.h - the node's memory object, and what its ranks know together about their mappings of it.
 *
 * With several ranks, the memory that they share has a word for each page (core/map.h), and locks. A lock covers a chunk of
 * 64 KiB, and is held over a change of the words together with the calls that carry it out, so that these come in one order:
 *
 *   again() of rank 1                lower() of rank 0
 *     the node may write: opens
 *     its own mapping
 *                                      write-protects the mappings that are loose: rank 1's is not yet noted
 *                                      contents leave
 *     notes it
 *   a store of rank 1 is lost
 *
 * A range takes the locks of its chunks in the order of their numbers; a piece never crosses a unit of 2 MiB, whose chunks
 * have consecutive locks. With one rank there is nothing to know, and no lock.
 */
#ifndef FAULT_FRAMES_H
#define FAULT_FRAMES_H

#include "core/map.h"
#include "fault/fault.h"

#define FRAMES_PAGE 4096ul
#define FRAMES_CHUNK (64ul << 10)
#define FRAMES_UNIT (2ul << 20)
#define FRAMES_LOCKS 1024u /* a page of them */

/* Whose window this process has; frames_open() fills it, frames_close() clears it. */
extern struct fault_node frames_node;

static inline bool frames_alone(void)
{
	return frames_node.ranks <= 1;
}

/* Bytes of shared memory for locks and words: a whole number of pages. */
size_t frames_shared(size_t size);
/* This process has the node's window from now on. By the open() of a backend. */
void frames_open(const struct fault_node *n);
/* It has it no more. By the close() of a backend. */
void frames_close(void);

/* The contents of the node's frames, whatever the access to them. Any thread, under any lock; none waits for other ranks. */

/* Copy contents out of the frames. 0 or -errno. */
int frames_read(size_t off, size_t len, void *to);
/* Copy contents into the frames. 0 or -errno. */
int frames_write(size_t off, size_t len, const void *from);
/* Free the memory behind a range, whatever its access. 0 or -errno. */
int frames_punch(size_t off, size_t len);

/* What `adopt` of every backend does first: map the object at range_at(off). 0 or -errno. */
int frames_adopt(size_t off, size_t len, int prot);

/* The end of the piece of [off, end) that one acquisition of the locks may cover. */
static inline size_t frames_piece(size_t off, size_t end)
{
	size_t next = (off / FRAMES_UNIT + 1) * FRAMES_UNIT;

	return next < end ? next : end;
}

/* Take the locks of the chunks of a piece: frames_piece(). May wait for another rank of the node that has one. With one rank,
 * nothing. */
void frames_lock(size_t off, size_t end);
/* Release them. */
void frames_unlock(size_t off, size_t end);

/* The rest with the locks held. */

/* The word of the page at off. */
struct map *frames_map(size_t off);
/* A step of every page of [off, end). The result: what they ask for together. */
struct map_todo frames_step(enum map_kind kind, size_t off, size_t end, enum map_event ev, unsigned int who);

#endif
