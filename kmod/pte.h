/* SPDX-License-Identifier: GPL-2.0 */
/* pte.h - batches of changes of protections, over all views of a context. */
#ifndef KMOD_PTE_H
#define KMOD_PTE_H

#include "ctx.h"

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
	unsigned int deferred; /* items that some page table does not show yet */
	unsigned int flushed;  /* processors */
	unsigned int nflush;   /* pages with stale translations; more than FLUSH_PAGES: all */
	unsigned int others;   /* of flush, those that another view has noted */
	bool stale;            /* entries of the view at hand were lowered */
	u32 marks;             /* which of ctx->unflushed it counts in */
	/* batch_open(): only the view of this address space, compared and nothing else; others fault. NULL: all views */
	const struct mm_struct *only;
	unsigned long flush[32];
	atomic_t acks;           /* processors that have yet to flush, and one for batch_start() itself */
	struct cpumask *cpus;    /* that may have stale translations, of all views */
	call_single_data_t *csd; /* for each processor */
	struct llist_node ended;
	struct work_struct work;
	void *arg;                     /* of whoever waits */
	void (*done)(struct batch *b); /* softirq or process context; everything is changed and flushed */
};
#define FLUSH_PAGES 32u

size_t batch_room(void); /* bytes that a batch needs beside itself */
void batch_init(struct batch *b, void *room);
void pte_start(void);
void pte_stop(void);
void batch_open(struct batch *b);  /* only more is allowed: done when it returns, as far as can be at once */
void batch_start(struct batch *b); /* softirq or process context; done() is called, once, maybe before it returns */
/*
 * The kernel tells all that have translations of their own of a view's memory (its mmu notifiers: KVM, an IOMMU that has the
 * process's page tables) that theirs of these pages end. Their entries are clear already, and nobody makes others. Sleeps.
 */
void pte_zap(struct ctx *c, u32 page, u32 pages);
int pte_apply(struct view *v, u32 page); /* make a page's table entry; process context, in a fault */

#endif
