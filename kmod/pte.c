// SPDX-License-Identifier: GPL-2.0
/*
 * pte.c - the protection primitive: any list of pages to any list of protections in one go, in softirq or process context.
 *
 * A batch has three phases. The entries are changed by a walk without locks, as fast GUP does it: interrupts are off, so
 * page tables that are being freed stay until we are through, and the page table lock is only tried. Then every processor
 * that may have loaded a stale translation is asked to forget it; nobody waits. The last to acknowledge ends the batch
 * (a tasklet on its processor), or, where an entry could not be changed (the lock was taken, the table is not there),
 * hands it to a worker, which may sleep.
 *
 * A processor that begins to run the process meanwhile needs no asking: it sets its bit in mm_cpumask() before it reads
 * tlb_gen and loads the page tables, and we advance tlb_gen after the entries and before we read the mask.
 */
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <asm/tlbflush.h>

#include "dsm.h"
#include "trace.h"

/* ---- entries -------------------------------------------------------------------------------- */

/* The entry as chunk->prot has it now. Under the page table lock. True: an old translation may be about. */
static bool follow(struct ctx *c, u32 page, pte_t *pte)
{
	const struct chunk *k = chunk_with(c, page, 1);
	u8 prot = k ? READ_ONCE(k->prot[page % CHUNK_PAGES]) : DSM_PROT_NONE;
	pte_t old = ptep_get(pte);
	pte_t new = prot == DSM_PROT_NONE ? __pte(0) : frame_pte(k, page, prot);

	if (pte_same(old, new))
		return false;
	set_pte(pte, new); /* one store: no thread faults on a moment of nothing */
	return pte_present(old) && (prot == DSM_PROT_NONE || (pte_write(old) && prot == DSM_PROT_READ));
}

struct apply_arg {
	struct ctx *ctx;
	bool stale;
};

static int apply_one(pte_t *pte, unsigned long addr, void *data)
{
	struct apply_arg *a = data;

	a->stale |= follow(a->ctx, (u32)((addr - a->ctx->base) >> PAGE_SHIFT), pte);
	return 0;
}

int pte_apply(struct ctx *c, u32 page)
{
	struct apply_arg a = { .ctx = c };

	if (READ_ONCE(c->gone))
		return -EFAULT;
	return apply_to_page_range(c->mm, c->base + ((unsigned long)page << PAGE_SHIFT), PAGE_SIZE, apply_one, &a);
}

/* The page table of an address, or NULL. Interrupts are off. */
static pmd_t *table_of(struct mm_struct *mm, unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;

	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return NULL;
	pud = pud_offset(p4d, addr);
	if (pud_none(*pud) || pud_bad(*pud))
		return NULL;
	pmd = pmd_offset(pud, addr);
	if (pmd_none(*pmd) || pmd_bad(*pmd))
		return NULL;
	return pmd;
}

static void note_stale(struct batch *b, unsigned long addr)
{
	if (b->nflush < FLUSH_PAGES)
		b->flush[b->nflush] = addr;
	b->nflush++;
}

static void change_item(struct batch *b, const struct batch_item *it, const pmd_t *pmd)
{
	struct ctx *c = b->ctx;
	u32 page;

	for (page = it->page; page < it->page + it->pages; page++) {
		unsigned long addr = c->base + ((unsigned long)page << PAGE_SHIFT);

		if (follow(c, page, pte_offset_kernel((pmd_t *)pmd, addr)))
			note_stale(b, addr);
	}
}

static void defer_item(struct batch *b, struct batch_item *it)
{
	it->deferred = 1;
	b->deferred++;
}

/* Neighbours of one page table are changed under one taking of its lock. Returns how many items were dealt with. */
static unsigned int change_run(struct batch *b, unsigned int from)
{
	struct ctx *c = b->ctx;
	u32 chunk = b->items[from].page / CHUNK_PAGES;
	unsigned long start = c->base + (unsigned long)chunk * CHUNK_PAGES * PAGE_SIZE;
	unsigned int n = from;
	bool gone = READ_ONCE(c->gone) || !c->base;
	spinlock_t *lock = NULL;
	pmd_t *pmd, seen;

	pmd = gone ? NULL : table_of(c->mm, start);
	if (pmd) {
		seen = READ_ONCE(*pmd);
		lock = pte_lockptr(c->mm, &seen);
		if (dsm_test_fail_trylock || !spin_trylock(lock)) {
			debug_count(COUNT_TRYLOCK, 1);
			lock = NULL;
		}
	} else {
		debug_count(COUNT_NO_TABLE, 1);
	}
	for (; n < b->count && b->items[n].page / CHUNK_PAGES == chunk; n++) {
		struct batch_item *it = &b->items[n];

		if (lock)
			change_item(b, it, &seen);
		else if (pmd && it->prot != DSM_PROT_WRITE)
			defer_item(b, it);
		/* Else nothing is mapped, or only more is allowed than was: a fault will make the entry. */
	}
	if (lock)
		spin_unlock(lock);
	return n - from;
}

/* ---- translations --------------------------------------------------------------------------- */

static DEFINE_PER_CPU(struct llist_head, ended);
static DEFINE_PER_CPU(struct tasklet_struct, end_task);

static void forget(const struct batch *b)
{
	unsigned int i;

	if (b->nflush > FLUSH_PAGES) {
		__flush_tlb_local();
		return;
	}
	for (i = 0; i < b->nflush; i++)
		__flush_tlb_one_user(b->flush[i]);
}

/* In the interrupt of another processor. */
static void forget_there(void *arg)
{
	struct batch *b = arg;

	forget(b);
	debug_count(COUNT_ACKS, 1);
	if (atomic_dec_and_test(&b->acks)) {
		llist_add(&b->ended, this_cpu_ptr(&ended));
		tasklet_schedule(this_cpu_ptr(&end_task));
	}
}

/* Ask every processor that may have stale translations. Interrupts are off. */
static void shoot_down(struct batch *b)
{
	struct mm_struct *mm = b->ctx->mm;
	int cpu, here = smp_processor_id();

	atomic64_inc_return(&mm->context.tlb_gen); /* a full barrier, too */
	debug_count(COUNT_SHOOTDOWNS, 1);
	cpumask_and(b->cpus, mm_cpumask(mm), cpu_online_mask);
	if (cpumask_test_and_clear_cpu(here, b->cpus)) {
		forget(b);
		b->flushed++;
	}
	if (dsm_test_no_remote_flush)
		return;
	for_each_cpu(cpu, b->cpus) {
		atomic_inc(&b->acks);
		b->flushed++;
		if (smp_call_function_single_async(cpu, &b->csd[cpu])) {
			/* Offline since; it flushes everything when it comes back. */
			atomic_dec(&b->acks);
		}
	}
}

/* ---- batches -------------------------------------------------------------------------------- */

static void finish_slowly(struct work_struct *work)
{
	struct batch *b = container_of(work, struct batch, work);
	struct ctx *c = b->ctx;
	unsigned int i;

	b->nflush = 0;
	if (mmget_not_zero(c->mm)) {
		mmap_read_lock(c->mm);
		/* Not gone, and nobody can unmap while we hold mmap_lock. */
		for (i = 0; i < b->count && !READ_ONCE(c->gone); i++) {
			struct apply_arg a = { .ctx = c };
			unsigned long addr = c->base + ((unsigned long)b->items[i].page << PAGE_SHIFT);

			if (!b->items[i].deferred)
				continue;
			apply_to_existing_page_range(c->mm, addr, b->items[i].pages * PAGE_SIZE, apply_one, &a);
			if (a.stale)
				b->nflush = FLUSH_PAGES + 1;
		}
		mmap_read_unlock(c->mm);
		mmput(c->mm);
	}
	b->count = 0; /* the second round only flushes */
	batch_start(b);
}

static void end(struct batch *b)
{
	if (b->count && b->deferred)
		queue_work(dsm_wq, &b->work);
	else
		b->done(b);
}

/* Batches whose last acknowledgement came on this processor. They may free themselves. */
static void end_all(struct tasklet_struct *t)
{
	struct batch *b, *next;

	llist_for_each_entry_safe(b, next, llist_reverse_order(llist_del_all(this_cpu_ptr(&ended))), ended)
		end(b);
}

int pte_start(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		init_llist_head(per_cpu_ptr(&ended, cpu));
		tasklet_setup(per_cpu_ptr(&end_task, cpu), end_all);
	}
	return 0;
}

void pte_stop(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(per_cpu_ptr(&end_task, cpu));
}

/* What depends on the number of processors stands behind the batch, in one piece of memory with it. */
size_t batch_room(void)
{
	return nr_cpu_ids * sizeof(call_single_data_t) + cpumask_size() + __alignof__(call_single_data_t);
}

void batch_init(struct batch *b, void *room)
{
	unsigned int cpu;

	b->csd = PTR_ALIGN(room, __alignof__(call_single_data_t));
	b->cpus = (struct cpumask *)(b->csd + nr_cpu_ids);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		INIT_CSD(&b->csd[cpu], forget_there, b);
	INIT_WORK(&b->work, finish_slowly);
}

static void want(struct batch *b)
{
	unsigned int i;

	for (i = 0; i < b->count && !b->follow; i++) {
		struct chunk *k = chunk_with(b->ctx, b->items[i].page, b->items[i].pages);

		if (k)
			memset(&k->prot[b->items[i].page % CHUNK_PAGES], b->items[i].prot, b->items[i].pages);
	}
}

void batch_open(struct batch *b)
{
	unsigned long flags;
	unsigned int i;

	debug_count(COUNT_CHANGED, b->count);
	local_irq_save(flags);
	want(b);
	for (i = 0; i < b->count;)
		i += change_run(b, i);
	local_irq_restore(flags);
}

void batch_start(struct batch *b)
{
	unsigned long flags;
	unsigned int i;

	atomic_set(&b->acks, 1);
	if (b->count) { /* else it goes on after a worker's part */
		b->deferred = b->nflush = b->flushed = 0;
		debug_count(COUNT_BATCHES, 1);
		debug_count(COUNT_CHANGED, b->count);
	}
	local_irq_save(flags);
	want(b);
	for (i = 0; i < b->count;)
		i += change_run(b, i);
	if (b->nflush)
		shoot_down(b);
	local_irq_restore(flags);
	if (b->count)
		trace_dsm_protect(b->items[0].page, b->count, b->items[0].prot, b->nflush, b->deferred, b->flushed);
	debug_count(COUNT_DEFERRED, b->deferred);
	/* None but this processor, or all the others before it: the end is here, without a detour. */
	if (atomic_dec_and_test(&b->acks))
		end(b);
}
