/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ctx.h - contexts and views: the frames of a node's memory, and the protection of each page.
 *
 * A context (struct ctx) is the memory of a node: frames, the protection of each page, and the
 * core's state (struct rank). A view (struct view) is an open file of the device: the address space
 * of one process, whose page table entries follow the context's protections. A context has one view
 * per process of the node, and is freed after the last view is closed.
 *
 * Lock order, outermost first:
 *   view->lock (mutex)         the view's context; process context
 *   ctx->lock (mutex)          joining a job; process context
 *   rank->region_lock (mutex)  adding and removing regions, also of a view; process context. The
 *                              holder may wait for a worker that takes mmap_lock
 *   ctx->frames_sem            read: allocating frames, states and keys (a fault only tries it);
 *                              write: freeing them, adding a region, and publishing ctx->rank while
 *                              there are no frames
 *   mmap_lock of the process   read, by faults and deferred changes
 *   page table lock            faults and deferred changes by spin_lock(), softirq by
 *                              spin_trylock() only
 * All other code finds chunks under RCU: they are freed a grace period after they are unlinked. No
 * thread waits for other ranks while it holds frames_sem.
 * No lock is taken inside a page table lock. view->tables says who may change entries. Code that
 * changes them reads it with interrupts off, which synchronize_rcu() waits for, or holds mmap_lock
 * and has checked that the mapping exists. ctx->views changes under views_lock, inside which no
 * lock is taken. Batches walk it with interrupts off, under RCU. Their workers, which wait for
 * mmap_lock, walk it under views_srcu. view_close() waits for both before it frees the view.
 */
#ifndef KMOD_CTX_H
#define KMOD_CTX_H

#include <linux/interrupt.h>
#include <linux/kref.h>
#include <linux/llist.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/smp.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#include "dsm_uapi.h"

/*
 * For allocations of a context, charged to its memory cgroup. A failure is returned to the caller,
 * and not logged.
 */
#define GFP_CTX (GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

#define CHUNK_PAGES 512u /* 2 MiB: the range of one page table */

struct chunk_key;
struct mem_cgroup;
struct protect_call;
struct rank;

/*
 * Frames and protections of 2 MiB of the window. A protection is written here before the page table
 * entries change.
 */
struct chunk {
	struct page *frames[CHUNK_PAGES]; /* allocated together; contiguous if possible */
	u8 prot[CHUNK_PAGES];
	/* of a rank: frames that were opened before; the others hold zeros */
	DECLARE_BITMAP(used, CHUNK_PAGES);
	u32 n; /* number of frames; smaller at the end of a region */
	/*
	 * frames that threads may use. The rest is behind the region's end: it fills up the last
	 * block
	 */
	u32 usable;
	bool whole; /* frames are 2 MiB of contiguous memory */
	bool kept;  /* the device may write to the frames for ever: they are never freed */
	struct chunk_key *key; /* key.c: the key for peers' writes; NULL: none yet */
};

/*
 * Who may change the page table entries of the window in a process.
 *
 *   view_mmap() -> OURS -- the memory manager begins to unmap or move them (MMU notifier) --> BUSY
 *   BUSY -- mmap_lock is held and the mapping exists: mremap(2) was refused, the entries are back
 *       --> OURS
 *   OURS -- the process ends, and secondary MMUs have yet to be told (secondary.h) --> BUSY
 *   any -- the mapping is closed, or the process ends, and all its translations are flushed -->
 *       NONE
 *
 * In BUSY, closing a page waits (finish_slowly() in pte.c): its translations are valid until it is
 * unmapped or the entries are back. Only in NONE is a page closed without checking its entry.
 */
enum tables { TABLES_NONE, TABLES_OURS, TABLES_BUSY };

#define UNFLUSHED 32u /* counters, indexed by 2 MiB unit modulo this */

struct ctx {
	struct kref ref;
	struct mutex lock;
	/* read: keeps chunks and states; a fault holds mmap_lock, so it only tries */
	struct rw_semaphore frames_sem;
	spinlock_t views_lock;
	struct list_head views;
	struct srcu_struct views_srcu;
	unsigned int nviews;
	/* batches that have lowered entries and have not flushed all processors yet */
	atomic_t unflushed[UNFLUSHED];
	unsigned long base; /* address of the window in all views; 0: not mapped yet */
	u32 pages;          /* size of the window */
	/* allocated on demand, freed with the context at the latest */
	struct chunk **chunks;
	struct rank *rank; /* NULL: has not joined a job */
	void (*free_rank)(struct rank *r);
	/* of the rank: region + 1 of each 2 MiB of the window; NULL: has not joined */
	const u16 *units;
	int node;         /* NUMA node of the device; NUMA_NO_NODE: none */
	nodemask_t nodes; /* that the creator may use; workers take frames there */
	/* created the window and is charged; the fields below are also of this user */
	struct user_struct *user;
	kuid_t uid;
	kuid_t payer;        /* whose contexts and pollers are counted: account.c */
	unsigned long limit; /* of locked memory, in pages; ULONG_MAX: none */
	atomic_long_t frames;
	spinlock_t charge_lock; /* protects charged; no lock is taken inside, interrupts are off */
	long charged;           /* pages of memory other than frames */
	atomic_long_t bytes;    /* of small objects: waiting messages */
	long bytes_charged;     /* the pages in `charged` for `bytes`; written under charge_lock */
	bool over;              /* a charge has exceeded the limit */
	atomic_t refused;       /* number of such charges */
	/* counts among the user's contexts, in place of the view that created it */
	bool counted;
	unsigned int pollers;
	struct mem_cgroup *memcg;
	/* batches that wait for mmap_lock or for an unmap; pte.c */
	struct workqueue_struct *entries_wq;
	struct work_struct free;
};

/* The mmu notifier of the module in a process, for all views of it. */
struct watch {
	struct mmu_notifier notifier;
	/* where the list of all notifiers of the process begins; only compared */
	struct hlist_node **head;
	spinlock_t lock;
	/* changes under lock; notifiers walk it under their SRCU (mmu_notifier_synchronize()) */
	struct list_head views;
};

struct view {
	struct mutex lock;
	struct ctx *ctx;          /* set once; NULL: no window yet */
	struct list_head list;    /* in ctx->views */
	struct mm_struct *mm;     /* holds an mmgrab() reference */
	struct pid *owner;        /* the process that opened it */
	struct watch *watch;      /* NULL: it has never had a context */
	struct list_head watched; /* in watch->views */
	enum tables tables;
	/*
	 * Set TABLES_OURS if the mapping exists; return whether it does. The caller holds
	 * mmap_lock.
	 */
	bool (*take_tables)(struct view *v);
	wait_queue_head_t settled;   /* waits for TABLES_NONE */
	unsigned long base;          /* 0: not mapped */
	pgprot_t readable, writable; /* of its entries; set before TABLES_OURS */
	unsigned int lost_told;      /* entries of rank->lost reported to this view */
	/* added by this view; written under rank->region_lock */
	DECLARE_BITMAP(regions, DSM_REGIONS_MAX);
	struct user_struct *user; /* that opened it */
	kuid_t uid;
	kuid_t payer; /* as of the context */
	/* of locked memory when it was opened, in pages; ULONG_MAX: none */
	unsigned long limit;
	bool counted; /* counts among its user's contexts */
	/* main.c: left by the last call, reused by the next; NULL: in use, or none yet */
	struct protect_call *spare;
};

/* ctx.c */
/* charged to the view's user. ERR_PTR: -ENOMEM, -EDQUOT */
struct ctx *ctx_create(struct view *v, u64 size);
void ctx_put(struct ctx *c); /* any context */
/* its only view belongs to the caller's process */
bool ctx_dies_with_caller(struct ctx *c);
/*
 * Allocate the first n frames of the 2 MiB around a page, if missing. May sleep. -ENOMEM; -EDQUOT:
 * above the user's limit.
 */
int ctx_frames(struct ctx *c, u32 page, u32 n, u32 usable);
/* call ctx_free_chunk() a grace period later */
struct chunk *ctx_unlink_chunk(struct ctx *c, u32 page);
/*
 * Instead of ctx_free_chunk(): close it, and put it back. The caller has held frames_sem for
 * writing since ctx_unlink_chunk(). Sleeps.
 */
void ctx_keep_chunk(struct ctx *c, u32 page, struct chunk *k);
/* free it; nobody uses its frames. Sleeps */
void ctx_free_chunk(struct ctx *c, u32 page, struct chunk *k);
/* lower entries in one chunk to chunk->prot, and flush; sleeps */
void ctx_follow(struct ctx *c, u32 page, u32 pages);
/* prot: READ or WRITE */
pte_t frame_pte(const struct view *v, const struct chunk *k, u32 page, u8 prot);
/* has a frame, whose protection allows it; any context */
bool ctx_allows(const struct ctx *c, u32 page, bool write);

/* The id of a block encodes its first page and its number of pages, a power of two. */
static inline u32 block_page(u32 id)
{
	return (id & (id - 1)) >> 1;
}

static inline u32 block_pages(u32 id)
{
	return id & -id;
}

static inline u32 block_id(u32 page, u32 pages)
{
	return page << 1 | pages;
}

static inline struct ctx *view_ctx(const struct view *v)
{
	return smp_load_acquire(&v->ctx);
}

static inline u32 page_at(const struct view *v, unsigned long addr)
{
	return (u32)((addr - v->base) >> PAGE_SHIFT);
}

static inline struct chunk *chunk_of(const struct ctx *c, u32 page)
{
	return READ_ONCE(c->chunks[page / CHUNK_PAGES]);
}

/* The chunk with these pages; NULL: they have no frames. */
static inline struct chunk *chunk_with(const struct ctx *c, u32 page, u32 pages)
{
	struct chunk *k = chunk_of(c, page);

	return k && page % CHUNK_PAGES + pages <= k->n ? k : NULL;
}

/* The protection of a page of the chunk. */
static inline u8 chunk_prot(const struct chunk *k, u32 page)
{
	return page % CHUNK_PAGES < READ_ONCE(k->usable) ? READ_ONCE(k->prot[page % CHUNK_PAGES])
							 : DSM_PROT_NONE;
}

/*
 * Has the view's process added the region of this page? True for every page as long as there is no
 * rank. Any context.
 */
static inline bool view_sees(const struct view *v, u32 page)
{
	const u16 *units = smp_load_acquire(&v->ctx->units);
	const u16 id = units ? READ_ONCE(units[page / CHUNK_PAGES]) : 0;

	return !units || (id && test_bit(id - 1, v->regions));
}

#endif
