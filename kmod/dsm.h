/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dsm.h - inside dsm.ko: contexts, frames, and the protection of pages.
 *
 * Lock order, outermost first:
 *   ctx->lock (mutex)          setting a window up, its mapping; process context
 *   ctx->frames_sem            read: making frames, states and keys (in a fault only tried); write: freeing them
 *   mmap_lock of the process   read, by faults and deferred changes
 *   page table lock            faults and deferred changes by spin_lock(), softirq by spin_trylock() only
 * Everybody else finds chunks under RCU: they are freed a grace period after they are unlinked. Nobody waits for other ranks
 * with frames_sem held.
 * Nothing is taken inside a page table lock. ctx->gone is set before the process's page tables may go; whoever edits them
 * looks at it with interrupts off, which synchronize_rcu() waits for.
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
struct protect_call;
struct rank;

/* Frames and wanted protections of 2 MiB of the window. Protections are written before page tables follow. */
struct chunk {
	struct page *frames[CHUNK_PAGES]; /* made all at once: of one piece where memory allows */
	u8 prot[CHUNK_PAGES];
	DECLARE_BITMAP(used, CHUNK_PAGES); /* rank's frames that were open once: the others hold zeros */
	u32 n;                            /* frames: fewer than all at the end of a region */
	bool whole;                       /* one piece of 2 MiB */
	struct chunk_key *key;            /* key.c: by which peers write here; NULL: none yet */
};

struct ctx {
	struct kref ref;
	struct mutex lock;
	struct rw_semaphore frames_sem; /* read: chunks and states stay; in a fault only tried, mmap_lock is held there */
	struct mm_struct *mm;        /* mmgrab()bed */
	struct pid *owner;           /* the process that opened it */
	struct mmu_notifier notifier;
	bool watched;                /* notifier is registered */
	bool gone;                   /* no page table of the window may be touched any more */
	unsigned long base;          /* 0: not mapped */
	u32 pages;                   /* of the window; 0: no window yet */
	struct chunk **chunks;       /* made on demand, freed with the context */
	struct rank *rank;           /* NULL: has not joined a job */
	int node;                    /* NUMA node that frames come from */
	struct user_struct *user;    /* whose locked memory the frames are */
	unsigned long limit;         /* of it, in pages */
	atomic_long_t frames;
	struct protect_call *spare;  /* main.c: of the last call, for the next; NULL: in use, or none yet */
	struct work_struct free;
};

/* map.c */
struct ctx *ctx_create(void);
void ctx_put(struct ctx *c);
void ctx_close(struct ctx *c);   /* the file is closed: nothing of the process is touched any more */
int ctx_window(struct ctx *c, u64 size);
int ctx_mmap(struct ctx *c, struct vm_area_struct *vma);
/* See that the 2 MiB around a page have frames, the first n; may sleep. -ENOMEM; -EDQUOT: more than the user may lock. */
int ctx_frames(struct ctx *c, u32 page, u32 n);
struct chunk *ctx_unlink_chunk(struct ctx *c, u32 page); /* a grace period later: */
void ctx_free_chunk(struct ctx *c, u32 page, struct chunk *k); /* its frames, which nobody uses; sleeps */
pte_t frame_pte(const struct chunk *k, u32 page, u8 prot);

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

/* pte.c: see there */
struct batch_item {
	u32 page;
	u16 pages;                  /* of one chunk */
	u8 prot;
	u8 deferred;
};

struct batch {
	struct ctx *ctx;
	struct batch_item *items;
	unsigned int count;
	bool follow;                /* chunk->prot is written already: only follow it */
	unsigned int deferred;      /* items that page tables do not show yet */
	unsigned int flushed;       /* processors */
	unsigned int nflush;        /* pages with stale translations; more than FLUSH_PAGES: all */
	unsigned long flush[32];
	atomic_t acks;              /* processors that have yet to flush, and one for batch_start() itself */
	struct cpumask *cpus;
	call_single_data_t *csd;    /* for each processor */
	struct llist_node ended;
	struct work_struct work;
	void *arg;                  /* of whoever waits */
	void (*done)(struct batch *b); /* softirq or process context; everything is changed and flushed */
};
#define FLUSH_PAGES 32u

size_t batch_room(void);                        /* bytes that a batch needs beside itself */
void batch_init(struct batch *b, void *room);
int pte_start(void);
void pte_stop(void);
void batch_open(struct batch *b);  /* only more is allowed: done when it returns, as far as can be at once */
void batch_start(struct batch *b); /* softirq or process context; done() is called, once, maybe before it returns */
int pte_apply(struct ctx *c, u32 page); /* make a page's table entry; process context, mmap_lock held for reading */

extern unsigned int dsm_test_fail_alloc, dsm_test_send_room, dsm_test_runq, dsm_test_reserve;
extern int dsm_late_us;
extern unsigned int dsm_qp_timeout;
extern bool dsm_test_no_remote_flush, dsm_test_fail_trylock, dsm_test_no_inline;
extern struct workqueue_struct *dsm_wq;

/* debug.c */
enum counter {
	COUNT_FAULTS, COUNT_CHANGED, COUNT_BATCHES, COUNT_DEFERRED, COUNT_TRYLOCK, COUNT_NO_TABLE, COUNT_SHOOTDOWNS,
	COUNT_ACKS, COUNT_SOFTIRQ, COUNT_KSOFTIRQD, COUNT_PROCESS, COUNT_LATER, COUNT_SENT, COUNT_HELD, COUNT_RECEIVED, COUNT_QUEUED, COUNT_KEYS, COUNT_BAD,
	COUNT_LOST, COUNT_UNSENT, COUNT_NO_MEMORY, COUNT_USED_UP,
	GAUGE_CONTEXTS, GAUGE_RANKS, GAUGE_FRAMES, /* how many there are */
	COUNTERS
};
void debug_count(enum counter c, u64 n);
void debug_create(void);
void debug_remove(void);

#endif
