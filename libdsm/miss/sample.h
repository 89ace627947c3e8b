/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sample.h - learn which of the release blocks that were fetched ahead a node uses.
 *
 * In a chunk that is sampled (footprint.h), blocks that are fetched ahead are in no page table
 * until a thread touches them, which costs a minor fault. When one is dropped, the page table tells
 * whether it was touched.
 *
 * Only in a node of one rank, as a process knows its own page table. Any thread, also in the fault
 * handler; nothing blocks.
 */
#ifndef MISS_SAMPLE_H
#define MISS_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct footprint;

/* Can this node sample? */
bool sample_works(void);
/* The chunk of a release block, and which of its pages the block is. */
struct footprint *sample_chunk(size_t off, unsigned int *page);
/* What this thread has learned of the chunks of a region (footprint_missed()). */
int8_t *sample_trust(uint16_t region);
/* n release blocks from off on, which were fetched ahead, have been opened for reading. */
void sample_opened(size_t off, unsigned int n);
/* A release block is about to be dropped. */
void sample_drops(size_t off);

#endif
