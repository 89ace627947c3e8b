/* SPDX-License-Identifier: BSD-2-Clause */
/* api.h - what the public functions share. */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>

#include "dsm.h"

/* May the library be used now? 0, -ENOTCONN, -ECHILD. */
int api_ready(void);
/* Is this process a rank of a job that runs? Never blocks. */
bool api_runs(void);

/* Whole blocks around [addr, addr + size) in one attached region. -EFAULT. */
int api_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len);
int region_start(void); /* the heap's record, and what init needs */
void region_stop(void);
/* What the program has of a region: a number, not an address. No two attachments of this process have the same. NULL: it is
 * none, or of one that has ended. */
dsm_region_t *region_handle(const struct dsm_region *r);
struct dsm_region *region_of(const dsm_region_t *handle);

/* For adopt.c: a region's range, before anybody is attached; by the rank that makes it. */
struct region_record;
int region_reserve(const char *name, size_t size, const struct dsm_region_options *opt, struct region_record *rec);
void region_unreserve(const struct region_record *rec);
/* Attach this rank to it, its maker or another. */
int region_take(const struct region_record *rec, struct dsm_region **out);
int region_drop(struct dsm_region *r); /* detach; the maker takes the name away */
void adopt_end(void);                  /* dsm_finalize(): no region is adopted afterwards. Collective */

void spawn_start(void); /* threads may be made here from now on */
/* No thread that was joined is in the runtime any more, once all ranks want to end. Waits for its last call only. */
void spawn_settle(void);
int heap_begin(void);
void heap_settle(void);  /* this rank's counts are complete afterwards */
void stats_report(void); /* at the end, as DSM_STATS says */
/* Whose memory the block at an offset into the window is. Blocks. */
void stats_name_block(struct dsm_hot_block *b, size_t off);

/* Misses of a region, or of allocations with the same name and site. */
struct sharing_row {
	struct dsm_hot_block of; /* of several, the first */
	unsigned int objects;
	uint64_t misses, repeated;
};
/* At most n rows, those with the most misses first. How many, or -errno. Blocks. */
int sharing_rows(struct sharing_row *rows, int n);
void pins_forget(void);
bool pins_any(size_t off, size_t len); /* is any of the range pinned? */

#endif
