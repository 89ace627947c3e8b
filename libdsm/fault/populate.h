/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * populate.h - map frames that other ranks of the node have fetched, before this process accesses
 * them.
 *
 * The first write of each rank to a page in the memory object is a minor fault (1.6 us on this
 * machine). Mapping the page for reading, in chunks, costs a seventh of that.
 */
#ifndef FAULT_POPULATE_H
#define FAULT_POPULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POPULATE_MAX (512ul << 20) /* bytes mapped per pass, at most */

struct populate_way {
	size_t growth;       /* bytes of new frames that start a pass, at least */
	void (*check)(void); /* called between passes; NULL: not needed */
	/* map the chunk of this page, which is in the object; false: nothing was mapped */
	bool (*map)(size_t off);
};

/* Call after frames_open(), before anything is mapped. NULL: disable mapping ahead. */
void populate_open(const struct populate_way *way);

/* If the node has many new frames, map a part of them. now: clock_ns(). Any thread that holds no
 * lock; one at a time maps, the others return at once. Returns the number of 64 KiB chunks that the
 * kernel was asked to map. */
size_t populate_step(uint64_t now);

#endif
