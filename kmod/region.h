/* SPDX-License-Identifier: GPL-2.0 */
/* region.h - the regions of a rank. A view adds and removes them; a region is there as long as a view has it. */
#ifndef KMOD_REGION_H
#define KMOD_REGION_H

#include "rank.h"

struct region {
	u32 page, pages; /* of whole blocks */
	u32 usable;      /* pages, from the first; the rest of the last block is nobody's */
	u8 order;
	u8 home;     /* enum dsm_region_home */
	u8 priority; /* enum dsm_region_priority */
	u32 arg;
	u32 views;                /* that have added it */
	u32 parts;                /* 0: one for each rank */
	struct dsm_owner *owners; /* of parts; NULL: each rank's own */
	struct dsm_ioc_stats stats;
};

/* Of the 2 MiB from start on. */
static inline u32 region_usable(const struct region *g, u32 start)
{
	return g->page + g->usable > start ? min(g->page + g->usable - start, CHUNK_PAGES) : 0;
}

/* NULL: no region. Inside rcu_read_lock() or in softirq, after which the region may go. */
struct region *region_at(const struct rank *r, u32 page);
u16 region_home(const struct rank *r, const struct region *g, u32 page); /* of the block at a page of g */
/* A call of the device: add or remove one, as rank_join(). */
long region_change(struct view *v, void *in, void __user *arg);
void region_detach_all(struct rank *r, struct view *v); /* a view is closed, and others are left: its regions; sleeps */
void region_free(struct rank *r, struct region *g);     /* NULL: nothing */

#endif
