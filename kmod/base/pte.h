/* SPDX-License-Identifier: GPL-2.0 */
/* pte.h - change the protections of pages in batches, in all views of a context. */
#ifndef KMOD_PTE_H
#define KMOD_PTE_H

#include "ctx.h"

struct batch_item {
	u32 page;
	u16 pages; /* in one chunk */
	u8 prot;
	u8 deferred;
};

struct flusher;

struct batch {
	struct ctx *ctx;
	struct batch_item *items;
	unsigned int count;
	bool follow;           /* chunk->prot is set already: only change the entries to it */
	unsigned int deferred; /* items that are not in all page tables yet */
	unsigned int flushed;  /* number of processors flushed */
	unsigned int nflush;   /* pages with stale translations; more than FLUSH_PAGES: all */
	unsigned int others;   /* entries of `flush` noted by earlier views */
	bool stale;            /* entries of the current view were lowered */
	/* secondary MMUs may have translations made from lowered entries (secondary.h) */
	bool tell;
	u32 marks; /* bitmap: counters of ctx->unflushed that include this batch */
	/*
	 * batch_open(): change only the view of this mm, which is never dereferenced; others fault.
	 * NULL: all views
	 */
	const struct mm_struct *only;
	unsigned long flush[32];
	atomic_t acks; /* processors that have not flushed yet, + 1 for batch_start() */
	/* processors that may have stale translations of any view, and have not flushed */
	struct cpumask *cpus;
	struct flusher *asker; /* in whose list this is; NULL: none */
	struct list_head flight;
	struct llist_node ended;
	struct work_struct work;
	void *arg;                     /* for done() */
	void (*done)(struct batch *b); /* all is changed and flushed; softirq or process */
};
#define FLUSH_PAGES 32u

size_t batch_room(void); /* bytes to allocate behind a struct batch */
void batch_init(struct batch *b, void *room);
/* raise protections, where possible without waiting; then the batch is over */
void batch_open(struct batch *b);
void batch_end(struct batch *b); /* for flush.c: all processors have flushed */
/* done() is called once, maybe before this returns; softirq or process */
void batch_start(struct batch *b);
/*
 * Set the protection of a page, which has a frame that stays. The caller runs in the process of the
 * view. When this returns, all entries have changed, and all translations are flushed. Sleeps,
 * unless no other processor and no other process is concerned.
 */
void page_protect(struct view *v, u32 page, u8 prot);
int pte_apply(struct view *v, u32 page); /* set a page's entry; process context, in a fault */

#endif
