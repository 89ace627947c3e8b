/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ctx.h - contexts and views: the frames of a node's memory, and what threads may do with each page.
 *
 * A context (struct ctx) is the memory of a node: frames, what may be done with each page, and the core's state (struct rank).
 * A view (struct view) is an open file of the device: the address space of one process, whose table entries follow the
 * context's protections. A context has a view for each process of the node, and goes when the last of them is closed.
 *
 * Lock order, outermost first:
 *   view->lock (mutex)         which context the view is of; process context
 *   ctx->lock (mutex)          joining a job; process context
 *   rank->region_lock (mutex)  regions come and go, also of a view; process context. A worker may be waited for that takes
 *                              mmap_lock
 *   ctx->frames_sem            read: making frames, states and keys (in a fault only tried); write: freeing them,
 *                              adding a region, and publishing ctx->rank where there are no frames yet
 *   mmap_lock of the process   read, by faults and deferred changes
 *   page table lock            faults and deferred changes by spin_lock(), softirq by spin_trylock() only
 * Everybody else finds chunks under RCU: they are freed a grace period after they are unlinked. Nobody waits for other ranks
 * with frames_sem held.
 * Nothing is taken inside a page table lock. view->tables says who may change entries; whoever does so looks at it with
 * interrupts off, which synchronize_rcu() waits for, or holds mmap_lock and has seen the mapping stand.
 * ctx->views changes under views_lock, with nothing else inside. Batches walk it with interrupts off, under RCU; their workers,
 * which wait for mmap_lock, under views_srcu. view_close() waits for both before the view is freed.
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

/* For a context, and of its memory cgroup. Whoever asked is told that there is no memory; the kernel's log is not. */
#define GFP_CTX (GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

#define CHUNK_PAGES 512u /* 2 MiB: what one page table covers */

struct chunk_key;
struct mem_cgroup;
struct protect_call;
struct rank;

/* Frames and wanted protections of 2 MiB of the window. Protections are written before page tables follow. */
struct chunk {
	struct page *frames[CHUNK_PAGES]; /* made all at once: of one piece where memory allows */
	u8 prot[CHUNK_PAGES];
	DECLARE_BITMAP(used, CHUNK_PAGES); /* rank's frames that were open once: the others hold zeros */
	u32 n;                             /* frames: fewer than all at the end of a region */
	u32 usable;            /* of them; those behind a region's end fill its last block, and nobody sees them */
	bool whole;            /* one piece of 2 MiB */
	struct chunk_key *key; /* key.c: by which peers write here; NULL: none yet */
};

/*
 * Who changes the table entries of the window in a process.
 *
 *   view_mmap() -> OURS -- the memory manager begins to unmap or to move them (its notifier) --> BUSY
 *   BUSY -- mmap_lock is taken and the mapping exists: mremap(2) was refused, the entries are back --> OURS
 *   any -- the mapping is closed, all translations of it are flushed --> NONE
 *
 * In BUSY, pages that are to be closed wait (finish_slowly() in pte.c): their translations are live until they are unmapped, or
 * the entries come back. Only in NONE is a page closed without a look at its entry.
 */
enum tables { TABLES_NONE, TABLES_OURS, TABLES_BUSY };

#define UNFLUSHED 32u /* counts, by 2 MiB modulo */

struct ctx {
	struct kref ref;
	struct mutex lock;
	struct rw_semaphore
		frames_sem; /* read: chunks and states stay; in a fault only tried, mmap_lock is held there */
	spinlock_t views_lock;
	struct list_head views;
	struct srcu_struct views_srcu;
	unsigned int nviews;
	atomic_t unflushed[UNFLUSHED]; /* batches that have lowered entries, and not yet flushed them everywhere */
	unsigned long base;            /* where all views map the window; 0: none has yet */
	u32 pages;                     /* of the window */
	struct chunk **chunks;         /* made on demand, freed with the context */
	struct rank *rank;             /* NULL: has not joined a job */
	void (*free_rank)(struct rank *r);
	const u16 *units; /* of the rank: 2 MiB of the window -> region + 1; NULL: it has not joined */
	int node;         /* NUMA node that frames come from */
	struct user_struct
		*user; /* whose locked memory the frames are: of whoever made the window, as all that follows */
	kuid_t uid;
	unsigned long limit; /* of it, in pages; ULONG_MAX: none */
	atomic_long_t frames;
	spinlock_t charge_lock; /* of charged; nothing inside, interrupts are off */
	long charged;           /* pages of other memory */
	atomic_long_t bytes;    /* of small objects: messages that wait */
	long bytes_charged;     /* pages of `charged` that are for them; written under charge_lock */
	bool over;              /* there was to be more than the limit, */
	atomic_t refused;       /* so often */
	bool counted;           /* among its user's contexts, instead of the view that has made it */
	unsigned int pollers;
	struct mem_cgroup *memcg;
	struct workqueue_struct *entries_wq; /* batches that wait for mmap_lock, or for a mapping to go; pte.c */
	struct work_struct free;
};

struct view {
	struct mutex lock;
	struct ctx *ctx;       /* set once; NULL: no window yet */
	struct list_head list; /* of ctx->views */
	struct mm_struct *mm;  /* mmgrab()bed */
	struct pid *owner;     /* the process that opened it */
	struct mmu_notifier notifier;
	bool watched; /* notifier is registered */
	enum tables tables;
	/* With mmap_lock: whether the mapping stands; then its tables are ours again. */
	bool (*take_tables)(struct view *v);
	wait_queue_head_t settled;                /* for TABLES_NONE */
	unsigned long base;                       /* 0: not mapped */
	unsigned int lost_told;                   /* of rank->lost */
	DECLARE_BITMAP(regions, DSM_REGIONS_MAX); /* that it has added; under rank->region_lock, looked at without */
	struct user_struct *user;                 /* who opened it */
	kuid_t uid;
	unsigned long limit;        /* pages that its user may lock, when it was opened; ULONG_MAX: any number */
	bool counted;               /* among its user's contexts */
	struct protect_call *spare; /* main.c: of the last call, for the next; NULL: in use, or none yet */
};

/* ctx.c */
struct ctx *ctx_create(struct view *v, u64 size); /* whose memory is the view's user's. -ENOMEM, -EDQUOT */
void ctx_put(struct ctx *c);                      /* any context */
bool ctx_dies_with_caller(struct ctx *c);         /* its only view is of the caller's process */
/* See that the 2 MiB around a page have frames, the first n; may sleep. -ENOMEM; -EDQUOT: more than the user may lock. */
int ctx_frames(struct ctx *c, u32 page, u32 n, u32 usable);
struct chunk *ctx_unlink_chunk(struct ctx *c, u32 page);       /* a grace period later: */
void ctx_free_chunk(struct ctx *c, u32 page, struct chunk *k); /* its frames, which nobody uses; sleeps */
void ctx_follow(struct ctx *c, u32 page, u32 pages); /* of one chunk: entries follow what has been taken away; sleeps */
pte_t frame_pte(const struct chunk *k, u32 page, u8 prot);
bool ctx_allows(const struct ctx *c, u32 page, bool write); /* has a frame that threads may use so; any context */

/* A block is named by its first page and how many it has, a power of two. */
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

/* The chunk of some pages of it, or NULL where they have no frames. */
static inline struct chunk *chunk_with(const struct ctx *c, u32 page, u32 pages)
{
	struct chunk *k = chunk_of(c, page);

	return k && page % CHUNK_PAGES + pages <= k->n ? k : NULL;
}

/* What threads may do with one of its pages. */
static inline u8 chunk_prot(const struct chunk *k, u32 page)
{
	return page % CHUNK_PAGES < READ_ONCE(k->usable) ? READ_ONCE(k->prot[page % CHUNK_PAGES]) : DSM_PROT_NONE;
}

/* Has the view's process added the region that a page is of? Where there are no regions yet, all is open to it. Any context. */
static inline bool view_sees(const struct view *v, u32 page)
{
	const u16 *units = smp_load_acquire(&v->ctx->units);
	const u16 id = units ? READ_ONCE(units[page / CHUNK_PAGES]) : 0;

	return !units || (id && test_bit(id - 1, v->regions));
}

#endif
