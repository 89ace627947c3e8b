/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dsm.h - inside dsm.ko: contexts, frames, and the protection of pages.
 *
 * Lock order, outermost first:
 *   ctx->lock (mutex)          setting a window up, its mapping; process context
 *   rank->region_lock (mutex)  regions come and go; process context
 *   ctx->frames_sem            read: making frames, states and keys (in a fault only tried); write: freeing them,
 *                              and adding a region
 *   mmap_lock of the process   read, by faults and deferred changes
 *   page table lock            faults and deferred changes by spin_lock(), softirq by spin_trylock() only
 * Everybody else finds chunks under RCU: they are freed a grace period after they are unlinked. Nobody waits for other ranks
 * with frames_sem held.
 * Nothing is taken inside a page table lock. ctx->tables says who may change entries; whoever does so looks at it with
 * interrupts off, which synchronize_rcu() waits for, or holds mmap_lock and has seen the mapping stand.
 */
#ifndef KMOD_DSM_H
#define KMOD_DSM_H

#include <linux/interrupt.h>
#include <linux/kref.h>
#include <linux/llist.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "dsm_uapi.h"

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
 * Who changes the table entries of the window.
 *
 *   ctx_mmap() -> OURS -- the memory manager begins to unmap or to move (its notifier) --> HELD
 *   HELD -- mmap_lock is had and the mapping stands: mremap(2) was refused, the entries are back --> OURS
 *   any -- the mapping is closed, all translations of it are flushed --> NONE
 *
 * In HELD what is to be closed waits (finish_slowly() in pte.c): its translations are live until they are unmapped, or come
 * back. Only in NONE a page is closed without being looked at.
 */
enum tables { TABLES_NONE, TABLES_OURS, TABLES_HELD };

#define UNFLUSHED 32u /* counts, by 2 MiB modulo */

struct ctx {
	struct kref ref;
	struct mutex lock;
	struct rw_semaphore
		frames_sem;   /* read: chunks and states stay; in a fault only tried, mmap_lock is held there */
	struct mm_struct *mm; /* mmgrab()bed */
	struct pid *owner;    /* the process that opened it */
	struct mmu_notifier notifier;
	bool watched; /* notifier is registered */
	enum tables tables;
	wait_queue_head_t settled;     /* for TABLES_NONE */
	atomic_t unflushed[UNFLUSHED]; /* batches that have lowered entries, and not yet flushed them everywhere */
	unsigned long base;            /* 0: not mapped */
	u32 pages;                     /* of the window; 0: no window yet */
	struct chunk **chunks;         /* made on demand, freed with the context */
	struct rank *rank;             /* NULL: has not joined a job */
	int node;                      /* NUMA node that frames come from */
	struct user_struct *user;      /* whose locked memory the frames are */
	kuid_t uid;                    /* who opened it */
	unsigned long limit;           /* of it, in pages; ULONG_MAX: none */
	atomic_long_t frames;
	spinlock_t charge_lock; /* of charged; nothing inside, interrupts are off */
	long charged;           /* pages of other memory */
	bool over;              /* there was to be more than the limit */
	unsigned int pollers;
	struct mem_cgroup *memcg;   /* of the process that opened it */
	struct protect_call *spare; /* main.c: of the last call, for the next; NULL: in use, or none yet */
	struct work_struct free;
};

/* map.c */
struct ctx *ctx_create(void);
void ctx_put(struct ctx *c);
void ctx_close(struct ctx *c); /* the file is closed: nothing of the process is touched any more */
int ctx_window(struct ctx *c, u64 size);
int ctx_mmap(struct ctx *c, struct vm_area_struct *vma);
/* See that the 2 MiB around a page have frames, the first n; may sleep. -ENOMEM; -EDQUOT: more than the user may lock. */
int ctx_frames(struct ctx *c, u32 page, u32 n, u32 usable);
bool ctx_take_tables(struct ctx *c); /* with mmap_lock: whether the mapping stands; then its tables are ours again */
struct chunk *ctx_unlink_chunk(struct ctx *c, u32 page);       /* a grace period later: */
void ctx_free_chunk(struct ctx *c, u32 page, struct chunk *k); /* its frames, which nobody uses; sleeps */
pte_t frame_pte(const struct chunk *k, u32 page, u8 prot);

static inline u32 page_at(const struct ctx *c, unsigned long addr)
{
	return (u32)((addr - c->base) >> PAGE_SHIFT);
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

/* charge.c. Of `charged`, any context: false, more than the user may lock. */
bool ctx_charge(struct ctx *c, long pages);
void ctx_uncharge(struct ctx *c, long pages);
bool ctx_charge_frames(struct ctx *c, long n); /* of 2 MiB */
void ctx_uncharge_frames(struct ctx *c, long n);
int ctx_open_account(struct ctx *c); /* -EUSERS: the user has too many */
void ctx_close_account(struct ctx *c);
int ctx_take_pollers(struct ctx *c, unsigned int n);
struct mem_cgroup *ctx_memory(struct ctx *c); /* what this worker allocates is of its memory cgroup, until */
void ctx_memory_end(struct mem_cgroup *before);

#define CHUNK_CHARGE 2l /* pages of a struct chunk */
static inline long charge_of(size_t bytes)
{
	return (long)DIV_ROUND_UP(bytes, PAGE_SIZE);
}

/* pte.c: see there */
struct batch_item {
	u32 page;
	u16 pages; /* of one chunk */
	u8 prot;
	u8 deferred;
};

struct batch {
	struct ctx *ctx;
	struct batch_item *items;
	unsigned int count;
	bool follow;           /* chunk->prot is written already: only follow it */
	unsigned int deferred; /* items that page tables do not show yet */
	unsigned int flushed;  /* processors */
	unsigned int nflush;   /* pages with stale translations; more than FLUSH_PAGES: all */
	u32 marks;             /* which of ctx->unflushed it counts in */
	unsigned long flush[32];
	atomic_t acks; /* processors that have yet to flush, and one for batch_start() itself */
	struct cpumask *cpus;
	call_single_data_t *csd; /* for each processor */
	struct llist_node ended;
	struct work_struct work;
	void *arg;                     /* of whoever waits */
	void (*done)(struct batch *b); /* softirq or process context; everything is changed and flushed */
};
#define FLUSH_PAGES 32u

size_t batch_room(void); /* bytes that a batch needs beside itself */
void batch_init(struct batch *b, void *room);
int pte_start(void);
void pte_stop(void);
void batch_open(struct batch *b);  /* only more is allowed: done when it returns, as far as can be at once */
void batch_start(struct batch *b); /* softirq or process context; done() is called, once, maybe before it returns */
int pte_apply(struct ctx *c, u32 page); /* make a page's table entry; process context, in a fault */

extern unsigned int dsm_test_fail_alloc, dsm_test_send_room, dsm_test_runq, dsm_test_cqe, dsm_test_max_cqe;
extern unsigned int dsm_test_slow_entry, dsm_test_linger;
extern int dsm_late_us, dsm_test_hold_cpu;
extern unsigned int dsm_qp_timeout;
extern bool dsm_test_no_remote_flush, dsm_test_fail_trylock, dsm_test_no_inline;
extern struct workqueue_struct *dsm_wq;

/* debug.c */
enum counter {
	COUNT_FAULTS,
	COUNT_CHANGED,
	COUNT_BATCHES,
	COUNT_DEFERRED,
	COUNT_TRYLOCK,
	COUNT_NO_TABLE,
	COUNT_SHOOTDOWNS,
	COUNT_ACKS,
	COUNT_SOFTIRQ,
	COUNT_KSOFTIRQD,
	COUNT_PROCESS,
	COUNT_LATER,
	COUNT_SENT,
	COUNT_HELD,
	COUNT_RECEIVED,
	COUNT_QUEUED,
	COUNT_KEYS,
	COUNT_BAD,
	COUNT_STRAY,
	COUNT_LOST,
	COUNT_UNSENT,
	COUNT_NO_MEMORY,
	COUNT_USED_UP,
	COUNT_OVER,
	GAUGE_CONTEXTS,
	GAUGE_RANKS,
	GAUGE_FRAMES,
	GAUGE_CHARGED, /* how many there are */
	COUNTERS
};
void debug_count(enum counter c, u64 n);
void debug_create(void);
void debug_remove(void);

#endif
