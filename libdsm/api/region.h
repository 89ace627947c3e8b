/* SPDX-License-Identifier: BSD-2-Clause */
/* region.h - region handles of the program, and functions for adopt.c. */
#ifndef API_REGION_H
#define API_REGION_H

#include "dsm.h"

struct region_record;

/*
 * Attach this rank to the heap. Called by dsm_init(), before other threads use the library. 0,
 * errors of region_call().
 */
int region_start(void);
/* Release this process's regions. Called by dsm_finalize(), and when dsm_init() fails. */
void region_stop(void);

/*
 * Return the handle of a region: a number, not an address, unique to each attachment of this
 * process. Any thread.
 */
dsm_region_t *region_handle(const struct dsm_region *r);
/* Return the region of a handle. NULL: invalid handle, or the attachment has ended. Any thread. */
struct dsm_region *region_of(const dsm_region_t *handle);

/* The consistency that an option asks for; not checked. Any thread, in a job. */
enum dsm_consistency region_consistency(const struct dsm_region_options *opt);

/* The others are for adopt.c. All block for round trips. */

/*
 * Create a region without attaching to it. Called by its creator. Errors as of dsm_region_create().
 */
int region_reserve(const char *name, size_t size, const struct dsm_region_options *opt,
		   struct region_record *rec);
/* Undo region_reserve(). */
void region_unreserve(const struct region_record *rec);
/* Attach this rank, the creator or another, to a region. Errors as of dsm_region_attach(). */
int region_take(const struct region_record *rec, struct dsm_region **out);
/* Detach; the creator also removes the name. Errors as of dsm_region_detach(). */
int region_drop(struct dsm_region *r);

/*
 * End adoption: no region is adopted afterwards. The only function of adopt.c; called by
 * dsm_finalize(). Collective; blocks.
 */
void adopt_end(void);

#endif
