/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * populate.h - map frames that other ranks of the node have brought, before this process touches them.
 *
 * The first write to a page that is in the memory object is a minor fault, for each rank and each page (1.6 us here). Mapped for
 * reading, a chunk at a time, the same page costs a seventh of that.
 */
#ifndef FAULT_POPULATE_H
#define FAULT_POPULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POPULATE_MAX (512ul << 20) /* bytes that a pass maps */

struct populate_way {
	size_t growth;           /* bytes; what is less is not worth a pass */
	void (*check)(void);     /* between passes; NULL: nothing */
	bool (*map)(size_t off); /* the chunk of this page, which is in the memory object; false: nothing was mapped */
};

/* After frames_open(): nothing is mapped yet. NULL: nothing ever is. */
void populate_open(const struct populate_way *way);

/* If the node has many new frames, map those, a part at a time. now: clock_ns(). Any thread that holds no lock; one at a time does
 * it, for the others there is nothing to do. Returns the chunks of 64 KiB that the kernel was asked to map. */
size_t populate_step(uint64_t now);

#endif
