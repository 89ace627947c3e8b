/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * twin.h - the release blocks of this node: their frames, mappings and twins (core/release.h).
 * Blocks of one page.
 *
 * The state of struct copy, which the core does not use for a release block, is what the mappings
 * of the node may have: PG_INVALID: the page is not in the memory object; PG_READ: it is, and no
 * mapping is writable; PG_WRITE: mappings may be writable. It never allows more than rel_prot().
 * Frames are read and written through memory_alias(), twins through memory_twin().
 *
 * All functions are called with the block's stripe held. None blocks for other ranks, except that a
 * rank of this node may have to lower its own mapping (fault/ask.h). Without memory they end the
 * process.
 */
#ifndef MISS_TWIN_H
#define MISS_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/host_release.h"
#include "miss/diff.h"
#include "miss/span.h"

/* Operations of core_rel_ops. */
void twin_make(struct core_host *h, uint32_t object);
void twin_end(struct core_host *h, uint32_t object);
void twin_lower(struct core_host *h, uint32_t object, uint8_t prot);
void twin_merge(struct core_host *h, uint32_t object, const void *diff, size_t size);
bool twin_fresh(struct core_host *h, uint32_t object);

/* Give the memory of up to `want` bytes of free twins back. Returns how much. Without a stripe. */
uint64_t twin_trim(uint64_t want);

/*
 * A run: n neighbouring blocks, 1 <= n <= SPAN_MOST, the first at off, whose stripes this thread
 * holds from twin_run_begin() to twin_run_end(). Blocks of the run that are stepped in between are
 * closed or opened by the latter, neighbours by one call of the fault backend. run_host_of_run()
 * steps them.
 */
void twin_run_begin(size_t off, unsigned int n);
void twin_run_end(void);
/*
 * Lower the mappings of those blocks of the run whose bits are set. The core need not know: a store
 * raises them again, as long as it may.
 */
void twin_run_lower(uint64_t set);

/* Has this node stored to the block while it had its last twin, or was exclusive? A hint, without
 * the stripe. */
bool twin_was_written(size_t off);

/* OPEN_AGAIN. True: this process's mapping has followed. */
bool twin_follow(uint32_t object, uint8_t prot);
/*
 * A copy leaves this home: if no store may be missed from now on, no mapping is writable
 * afterwards.
 */
void twin_share(uint32_t object);
/* Would twin_compare() find a difference now? */
bool twin_differs(uint32_t object);
/*
 * The contents for a node that fetches the block from its home: those of the twin, if there is one,
 * as what the home has stored since its last close is in no diff if it stores the old value again.
 * `to` has what the frame had before. Without its stripe.
 */
void twin_read(uint32_t object, void *to);
/*
 * Compare the block with its twin, and make the twin equal. Returns the size of their diff, in out;
 * out NULL: 1 if they differ.
 */
size_t twin_compare(uint32_t object, uint8_t *out);
/*
 * Contents have come, and are mapped as prot says. Without the stripe: nobody else opens or closes
 * the block.
 */
void twin_filled(uint32_t object, uint8_t prot);

#endif
