/* SPDX-License-Identifier: BSD-2-Clause */
/* region.h - regions as the program has them: handles, and what adopt.c needs of them. */
#ifndef API_REGION_H
#define API_REGION_H

#include "dsm.h"

struct region_record;

/* Attach this rank to the heap. In dsm_init(), before other threads use the library. 0, errors of region_call(). */
int region_start(void);
/* Release what this process has of its regions. In dsm_finalize(), and where dsm_init() fails. */
void region_stop(void);

/* What the program has of a region: a number, not an address. No two attachments of this process have the same. Any thread. */
dsm_region_t *region_handle(const struct dsm_region *r);
/* The region of a handle. NULL: it is none, or of one that has ended. Any thread. */
struct dsm_region *region_of(const dsm_region_t *handle);

/* The others are for adopt.c. All block for round trips. */

/* Create a region before anybody is attached; by the rank that makes it. Errors as of dsm_region_create(). */
int region_reserve(const char *name, size_t size, const struct dsm_region_options *opt, struct region_record *rec);
/* Take back what region_reserve() made. */
void region_unreserve(const struct region_record *rec);
/* Attach this rank to it, its maker or another. Errors as of dsm_region_attach(). */
int region_take(const struct region_record *rec, struct dsm_region **out);
/* Detach; the maker takes the name away as well. Errors as of dsm_region_detach(). */
int region_drop(struct dsm_region *r);

/* The one function of adopt.c. In dsm_finalize(): no region is adopted afterwards. Collective; blocks. */
void adopt_end(void);

#endif
