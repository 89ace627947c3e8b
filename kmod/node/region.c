// SPDX-License-Identifier: GPL-2.0
/*
 * region.c - regions of a rank: their ranges, the homes of their blocks, and the views that have
 * added them.
 */
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../base/account.h"
#include "../base/check.h"
#include "host.h"
#include "region.h"

static unsigned int foreign_mib = 256;
module_param(foreign_mib, uint, 0600);
MODULE_PARM_DESC(foreign_mib,
		 "MiB of frames for blocks of regions that a rank has not added, at least (256)");

struct region *region_at(const struct rank *r, u32 page)
{
	u16 id = READ_ONCE(r->units[page / CHUNK_PAGES]);
	struct region *g = id ? READ_ONCE(r->regions[id - 1]) : NULL;

	return g && page - g->page < g->pages ? g : NULL;
}

/* as in the library: neighbouring blocks of a first-touch region share a manager */
#define MANAGER_RUN 16

u16 region_home(const struct rank *r, const struct region *g, u32 page)
{
	u32 index = (page - g->page) >> g->order;

	switch (g->home) {
	case DSM_REGION_FIXED: return (u16)g->arg;
	case DSM_REGION_PARTS:
		index = (page - g->page) / g->arg % (g->parts ?: r->size);
		return g->owners ? g->owners[index].rank : (u16)index;
	case DSM_REGION_CYCLIC:
		return (u16)((g->arg ? (page - g->page) / g->arg : index) % r->size);
	default: return (u16)(index / MANAGER_RUN % r->size);
	}
}

static void region_units(struct rank *r, const struct region *g, u16 value)
{
	u32 u;

	for (u = g->page / CHUNK_PAGES; u <= (g->page + g->pages - 1) / CHUNK_PAGES; u++) {
		r->added += value ? 1 : -1;
		WRITE_ONCE(r->units[u], value);
		if (value)
			region_foreign_end(r, u);
	}
	WRITE_ONCE(r->added_most, max(r->added, r->added_most));
}

/* ---- blocks of regions that the rank has not added ------------------------------------------ */

/*
 * A rank is the home of blocks of regions that it never adds: other ranks have created them, and
 * give the blocks back when they leave. No message of the protocol says which these are. So the
 * frames for them are bounded: by as many as the rank has in regions of its own, or foreign_mib.
 * Above that, the peer that has taken most of it is given up.
 */
static u32 foreign_most(const struct rank *r)
{
	return max(READ_ONCE(foreign_mib) / (CHUNK_PAGES >> (20 - PAGE_SHIFT)),
		   READ_ONCE(r->added_most));
}

/*
 * The caller holds foreign_lock. SET_NOBODY: there is room for another unit. Else the peer with
 * most of them, at best not `peer`.
 */
static u16 foreign_excess(const struct rank *r, u16 peer)
{
	u32 total = 0;
	u16 p, most = peer;

	for (p = 0; p < r->size; p++) {
		if (test_bit(p, r->gone))
			continue; /* its units stay, and are freed with their region */
		total += r->foreign_n[p];
		if (r->foreign_n[p] > r->foreign_n[most])
			most = p;
	}
	return total < foreign_most(r) ? SET_NOBODY : most;
}

static void foreign_refuse(struct rank *r, u16 peer)
{
	pr_warn_ratelimited(
		"dsm: rank %u: rank %u gives back blocks of regions that this rank has not added, in more than %u MiB: raise foreign_mib\n",
		r->me, peer, foreign_most(r) * (CHUNK_PAGES >> (20 - PAGE_SHIFT)));
	host_blame(r, peer);
}

bool region_foreign_take(struct rank *r, u32 page, u16 peer)
{
	const u32 unit = page / CHUNK_PAGES;
	u16 excess = SET_NOBODY;
	bool refused = false;

	spin_lock(&r->foreign_lock);
	/*
	 * region_units() sets the first before it takes the lock. Frames that exist cost nothing.
	 */
	if (!READ_ONCE(r->units[unit]) && !r->foreign[unit] && !READ_ONCE(r->ctx->chunks[unit])) {
		excess = foreign_excess(r, peer);
		if (excess != SET_NOBODY)
			/* here: other workers have messages of the peer */
			set_bit(excess, r->gone);
		refused = test_bit(peer, r->gone);
		if (!refused) {
			r->foreign[unit] = peer + 1;
			r->foreign_n[peer]++;
		}
	}
	spin_unlock(&r->foreign_lock);
	if (excess != SET_NOBODY)
		foreign_refuse(r, excess);
	return !refused;
}

void region_foreign_end(struct rank *r, u32 unit)
{
	u16 peer;

	spin_lock(&r->foreign_lock);
	peer = r->foreign[unit];
	r->foreign[unit] = 0;
	if (peer)
		r->foreign_n[peer - 1]--;
	spin_unlock(&r->foreign_lock);
}

static bool same_region(const struct region *g, const struct dsm_ioc_region *in,
			const struct dsm_owner *owners)
{
	return g->page == in->page && g->usable == in->pages && g->order == in->order &&
		g->home == in->home && g->arg == in->arg && g->parts == in->parts &&
		g->priority == in->priority &&
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
	 * Peers may have sent blocks here before, so frames may exist. Frames made later are made
	 * under frames_sem, and see the region.
	 */
	down_write(&r->ctx->frames_sem);
	region_units(r, g, in->id + 1);
	for (u = g->page / CHUNK_PAGES; u <= (g->page + g->pages - 1) / CHUNK_PAGES; u++)
		if (r->ctx->chunks[u])
			WRITE_ONCE(r->ctx->chunks[u]->usable, region_usable(g, u * CHUNK_PAGES));
	up_write(&r->ctx->frames_sem);
	return 0;
}

static void free_late(struct rcu_head *rcu)
{
	struct region *g = container_of(rcu, struct region, rcu);

	kfree(g->owners);
	kfree(g);
}

/* Softirqs may still use its counters. */
void region_free(struct rank *r, struct region *g)
{
	if (!g)
		return;
	account_uncharge_bytes(r->ctx, region_bytes(g->parts));
	call_rcu(&g->rcu, free_late);
}

static void region_remove(struct rank *r, u16 id)
{
	struct region *g = r->regions[id];

	region_units(r, g, 0);
	WRITE_ONCE(r->regions[id], NULL);
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
 * A process has removed a region: clear its entries. Other processes keep theirs, and the blocks.
 * The caller holds region_lock.
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
