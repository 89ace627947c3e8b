// SPDX-License-Identifier: GPL-2.0
/* region.c - regions of a rank: their ranges, the homes of their blocks, and the views that have added them. */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "account.h"
#include "check.h"
#include "region.h"

struct region *region_at(const struct rank *r, u32 page)
{
	u16 id = READ_ONCE(r->units[page / CHUNK_PAGES]);
	struct region *g = id ? READ_ONCE(r->regions[id - 1]) : NULL;

	return g && page - g->page < g->pages ? g : NULL;
}

#define MANAGER_RUN 16 /* as in the library: neighbouring blocks of a first-touch region share a manager */

u16 region_home(const struct rank *r, const struct region *g, u32 page)
{
	u32 index = (page - g->page) >> g->order;

	switch (g->home) {
	case DSM_REGION_FIXED: return (u16)g->arg;
	case DSM_REGION_PARTS:
		index = (page - g->page) / g->arg % (g->parts ?: r->size);
		return g->owners ? g->owners[index].rank : (u16)index;
	case DSM_REGION_CYCLIC: return (u16)(index % r->size);
	default: return (u16)(index / MANAGER_RUN % r->size);
	}
}

static void region_units(struct rank *r, const struct region *g, u16 value)
{
	u32 u;

	for (u = g->page / CHUNK_PAGES; u <= (g->page + g->pages - 1) / CHUNK_PAGES; u++)
		WRITE_ONCE(r->units[u], value);
}

static bool same_region(const struct region *g, const struct dsm_ioc_region *in, const struct dsm_owner *owners)
{
	return g->page == in->page && g->usable == in->pages && g->order == in->order && g->home == in->home &&
		g->arg == in->arg && g->parts == in->parts && g->priority == in->priority &&
		(!in->parts || !memcmp(g->owners, owners, in->parts * sizeof(*owners)));
}

/* Bytes of slab memory for a region and its owners. */
static size_t region_bytes(u32 parts)
{
	return kmalloc_size_roundup(sizeof(struct region)) +
		(parts ? kmalloc_size_roundup(parts * sizeof(struct dsm_owner)) : 0);
}

/* On success, takes over owners. */
static int region_add(struct rank *r, const struct dsm_ioc_region *in, struct dsm_owner *owners)
{
	struct region *g;
	u32 u;

	for (u = in->page / CHUNK_PAGES; u <= (in->page + in->pages - 1) / CHUNK_PAGES; u++)
		if (r->units[u])
			return -EEXIST;
	if (!account_charge_bytes(r->ctx, region_bytes(in->parts)))
		return -EDQUOT;
	g = kzalloc(sizeof(*g), GFP_CTX);
	if (!g) {
		account_uncharge_bytes(r->ctx, region_bytes(in->parts));
		return -ENOMEM;
	}
	g->page = in->page;
	g->pages = round_up(in->pages, 1u << in->order);
	g->usable = in->pages;
	g->order = (u8)in->order;
	g->home = (u8)in->home;
	g->priority = (u8)in->priority;
	g->arg = in->arg;
	g->parts = in->parts;
	g->owners = owners;
	smp_store_release(&r->regions[in->id], g);
	/*
	 * Peers may have sent blocks here before, so frames may exist. Frames made later are made under frames_sem, and see the
	 * region.
	 */
	down_write(&r->ctx->frames_sem);
	region_units(r, g, in->id + 1);
	for (u = g->page / CHUNK_PAGES; u <= (g->page + g->pages - 1) / CHUNK_PAGES; u++)
		if (r->ctx->chunks[u])
			WRITE_ONCE(r->ctx->chunks[u]->usable, region_usable(g, u * CHUNK_PAGES));
	up_write(&r->ctx->frames_sem);
	return 0;
}

void region_free(struct rank *r, struct region *g)
{
	if (!g)
		return;
	account_uncharge_bytes(r->ctx, region_bytes(g->parts));
	kfree(g->owners);
	kfree(g);
}

static void region_remove(struct rank *r, u16 id)
{
	struct region *g = r->regions[id];

	region_units(r, g, 0);
	WRITE_ONCE(r->regions[id], NULL);
	synchronize_rcu_expedited(); /* wait for softirqs that use its counters */
	region_free(r, g);
}

/* Copy the owners of a region's parts; NULL: the region names none. */
static struct dsm_owner *take_owners(const struct rank *r, const struct dsm_ioc_region *in)
{
	const struct limits limits = { .ranks = r->size };
	struct dsm_owner *owners;
	u32 i;

	if (!in->parts)
		return NULL;
	owners = kmalloc_array(in->parts, sizeof(*owners), GFP_CTX);
	if (!owners)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(owners, u64_to_user_ptr(in->owners), in->parts * sizeof(*owners))) {
		kfree(owners);
		return ERR_PTR(-EFAULT);
	}
	for (i = 0; i < in->parts; i++) {
		if (!check_owner(&limits, &owners[i])) {
			kfree(owners);
			return ERR_PTR(-EINVAL);
		}
	}
	return owners;
}

/* Add a region to a view; the first view creates it. */
static int view_add(struct view *v, const struct dsm_ioc_region *in)
{
	struct rank *r = v->ctx->rank;
	struct dsm_owner *owners = take_owners(r, in);
	struct region *g;
	int err = PTR_ERR_OR_ZERO(owners);

	if (err)
		return err;
	mutex_lock(&r->region_lock);
	g = r->regions[in->id];
	if (!g) {
		err = region_add(r, in, owners);
		if (!err)
			owners = NULL;
	} else if (test_bit(in->id, v->regions) || !same_region(g, in, owners)) {
		err = -EEXIST;
	}
	if (!err) {
		r->regions[in->id]->views++;
		set_bit(in->id, v->regions);
	}
	mutex_unlock(&r->region_lock);
	kfree(owners);
	return err;
}

/*
 * A process has removed a region: clear its entries. Other processes keep theirs, and the blocks. The caller holds region_lock.
 */
static void hide(struct rank *r, u32 page, u32 pages)
{
	const struct chunk *k;
	u32 u, n;

	for (u = page / CHUNK_PAGES; u <= (page + pages - 1) / CHUNK_PAGES; u++) {
		rcu_read_lock();
		k = chunk_of(r->ctx, u * CHUNK_PAGES);
		n = k ? k->n : 0;
		rcu_read_unlock();
		if (n)
			ctx_follow(r->ctx, u * CHUNK_PAGES, n);
		cond_resched();
	}
}

static int view_remove(struct view *v, u16 id)
{
	struct rank *r = v->ctx->rank;
	u32 page, pages;
	struct region *g;
	int err = -ENOENT;

	mutex_lock(&r->region_lock);
	g = r->regions[id];
	if (g && test_and_clear_bit(id, v->regions)) {
		err = 0;
		page = g->page;
		pages = g->pages;
		if (!--g->views)
			region_remove(r, id);
		hide(r, page, pages);
	}
	mutex_unlock(&r->region_lock);
	return err;
}

void region_detach_all(struct rank *r, struct view *v)
{
	unsigned long id;

	mutex_lock(&r->region_lock);
	for_each_set_bit(id, v->regions, DSM_REGIONS_MAX)
		if (!--r->regions[id]->views)
			region_remove(r, (u16)id);
	mutex_unlock(&r->region_lock);
}

long region_change(struct view *v, void *in, void __user *arg)
{
	const struct dsm_ioc_region *g = in;

	return g->op == DSM_REGION_ADD ? view_add(v, g) : view_remove(v, g->id);
}
