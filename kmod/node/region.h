/* SPDX-License-Identifier: GPL-2.0 */
/*
 * region.h - the regions of a rank. Views add and remove them; a region exists as long as a view
 * has it.
 */
#ifndef KMOD_REGION_H
#define KMOD_REGION_H

#include "rank.h"

struct region {
	u32 page, pages; /* of whole blocks */
	/* pages, from the first, that threads may use; the rest of the last block is unused */
	u32 usable;
	u8 order;
	u8 home;     /* enum dsm_region_home */
	u8 priority; /* enum dsm_region_priority */
	u32 arg;
	u32 views;                /* number of views that have added it */
	u32 parts;                /* 0: one for each rank */
	struct dsm_owner *owners; /* one per part; NULL: part i belongs to rank i */
	struct dsm_ioc_stats stats;
	struct rcu_head rcu;
};

/* The usable pages in the 2 MiB from start on. */
static inline u32 region_usable(const struct region *g, u32 start)
{
	return g->page + g->usable > start ? min(g->page + g->usable - start, CHUNK_PAGES) : 0;
}

/*
 * The region of a page; NULL: none. Call inside rcu_read_lock() or in softirq; the region may be
 * freed afterwards.
 */
struct region *region_at(const struct rank *r, u32 page);
/* home of the block at a page of g */
u16 region_home(const struct rank *r, const struct region *g, u32 page);
/* A call of the device, as in rank.h: add or remove a region. */
long region_change(struct view *v, void *in, void __user *arg);
/* remove a view from its regions when it is closed; sleeps */
void region_detach_all(struct rank *r, struct view *v);
/*
 * Let a peer give back a block of 2 MiB that may be outside all regions, so that the rank allocates
 * frames for a region that it has not added. False: the peer has given back more of them than any
 * other, and all together more than the rank may take. If another peer has more, that one is given
 * up. Sleeps.
 */
bool region_foreign_take(struct rank *r, u32 page, u16 peer);
/* The 2 MiB no longer count: their frames are freed, or belong to a region. */
void region_foreign_end(struct rank *r, u32 unit);
void region_free(struct rank *r, struct region *g); /* g NULL: no effect */

#endif
