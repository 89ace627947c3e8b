/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * populate.h - map frames that other ranks of the node have brought, before this process touches them.
 *
 * The first write to a page that is in the memory object is a minor fault, for each rank and each page (1.6 us here). Mapped for
 * reading, a chunk at a time, the same page costs a seventh of that.
 */
#ifndef FAULT_POPULATE_H
#define FAULT_POPULATE_H

#include <stddef.h>
#include <stdint.h>

/* After frames_open(): nothing is mapped yet. */
void populate_open(void);

/* If the node has many new frames, map those, a part at a time. now: clock_ns(). Any thread that holds no lock; one at a time does
 * it, for the others there is nothing to do. Returns the chunks of 64 KiB that the kernel was asked to map. */
size_t populate_step(uint64_t now);

#endif
