// SPDX-License-Identifier: GPL-2.0
/*
 * pte.c - the protection primitive: any list of pages to any list of protections in one go, in
 * softirq or process context.
 *
 * A batch has three phases. The entries are changed by a walk without locks, as fast GUP does it,
 * and the page table lock is only tried. Interrupts are off, so page tables stay until we are
 * through: the notifier of map.c waits for a grace period of RCU before they are freed. A batch
 * that closes does so in every view of its context, one after the other; one that opens only in the
 * view whose thread has asked. Then every processor that may have loaded a stale translation of any
 * of them is asked to forget it, once; nobody waits. The last to acknowledge ends the batch (a
 * tasklet on its processor), or, where an entry could not be changed (the lock was taken), hands it
 * to a worker, which may sleep.
 *
 * A processor that begins to run a process meanwhile needs no asking: it sets its bit in
 * mm_cpumask() before it reads tlb_gen and loads the page tables, and we advance tlb_gen after the
 * entries and before we read the mask. All views have the window at the same address: a processor
 * that is asked may have gone from one of the processes to another, and forgets the page of the
 * one; of the other it reads tlb_gen when it comes back.
 *
 * Only a batch that may wait for its flushes lowers an entry: a fault, or a batch that opens,
 * leaves the entry to the batch that lowered chunk->prot, which visits the entry after that. Two
 * batches may close the same page:
 *
 *   one                                      another
 *   prot (none), clears the entry, counts
 *   itself in ctx->unflushed, drops the lock
 *   asks other processors                    prot (none), finds the entry clear: but a processor
 *                                            may have yet to forget it unflushed is not 0, so it
 *                                            flushes, too, before it goes on
 *   the last has acknowledged: no longer counts
 */
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <asm/tlbflush.h>

#include "pte.h"
#include "debug.h"
#include "flush.h"
#include "secondary.h"
#include "test.h"
#include "trace.h"

TEST_PARAM(bool, test_fail_trylock, false,
	   "no page table lock is ever free, so that workers change all entries");
TEST_PARAM(bool, test_lose_flush, false, "where two changes of a page cross, neither flushes");
TEST_PARAM(uint, test_slow_entry, 0,
	   "microseconds, by chance, before a fault or a worker changes table entries");
TEST_PARAM(
	uint, test_pause_fault, 0,
	"1: the next fault that makes a table entry waits before that, and sets this to 2, until this is 0");
TEST_PARAM(uint, test_pause_lower, 0, "so does the next worker before it lowers table entries");
TEST_PARAM(uint, test_pause_flush, 0, "so does the next worker between that and the flush");
TEST_PARAM(
	uint, test_pause_store, 0,
	"so does the next batch when it has walked the page tables, as if its stores were delayed until then");
TEST_PARAM(bool, test_lose_fence, false, "no barrier between the stores of a batch and its walk");

/* ---- entries -------------------------------------------------------------------------------- */

static u8 allowed_by(pte_t pte)
{
	return !pte_present(pte) ? DSM_PROT_NONE : pte_write(pte) ? DSM_PROT_WRITE : DSM_PROT_READ;
}

/* Does a translation of the old entry allow what the new one does not? */
static bool takes_away(pte_t old, pte_t new)
{
	return allowed_by(new) < allowed_by(old) ||
		(pte_present(old) && pte_pfn(old) != pte_pfn(new));
}

/*
 * Let the entry follow chunk->prot as it is now, to more only or to less, too. Under the page table
 * lock. True: to less.
 */
static bool view_follow(const struct view *v, u32 page, pte_t *pte, bool lower)
{
	const struct chunk *k = chunk_with(v->ctx, page, 1);
	u8 prot = k && view_sees(v, page) ? chunk_prot(k, page) : DSM_PROT_NONE;
	pte_t old = ptep_get(pte);
	pte_t new = prot == DSM_PROT_NONE ? __pte(0) : frame_pte(v, k, page, prot);
	const bool less = takes_away(old, new);

	if (pte_same(old, new) || (less && !lower))
		return false;
	set_pte(pte, new); /* one store: no thread faults on a moment of nothing */
	return less;
}

/* Count the batch among those that have not flushed the 2 MiB of the page. */
static void mark(struct batch *b, u32 page)
{
	u32 place = page / CHUNK_PAGES % UNFLUSHED;

	if (!(b->marks & BIT(place)))
		atomic_inc(&b->ctx->unflushed[place]);
	b->marks |= BIT(place);
}

/*
 * The same for a batch that may lower it: true when old translations may be about, its own or
 * another's.
 */
static bool close_entry(struct batch *b, const struct view *v, u32 page, pte_t *pte)
{
	u32 place = page / CHUNK_PAGES % UNFLUSHED;

	if (view_follow(v, page, pte, true)) {
		mark(b, page);
		return true;
	}
	return !pte_write(ptep_get(pte)) &&
		atomic_read(&b->ctx->unflushed[place]) > !!(b->marks & BIT(place)) &&
		!test_value(test_lose_flush);
}

static void unmark(struct batch *b)
{
	for (; b->marks; b->marks &= b->marks - 1)
		atomic_dec(&b->ctx->unflushed[__ffs(b->marks)]);
}

static int open_one(pte_t *pte, unsigned long addr, void *view)
{
	const struct view *v = view;

	/* between the page table, which may be new, and prot; pairs with want_first() */
	smp_mb__after_spinlock();
	view_follow(v, page_at(v, addr), pte, test_value(test_lose_flush));
	return 0;
}

/* So that changes of one page cross. */
static void be_slow(void)
{
	unsigned int most = test_value(test_slow_entry);

	if (most)
		usleep_range(0, get_random_u32() % most);
}

int pte_apply(struct view *v, u32 page)
{
	be_slow();
	test_pause(test_pause_fault);
	return apply_to_page_range(v->mm, v->base + ((unsigned long)page << PAGE_SHIFT), PAGE_SIZE,
				   open_one, v);
}

/*
 * The page table of an address of the mapping, or NULL. Interrupts are off, or the caller holds
 * mmap_lock.
 */
static pmd_t *pte_table(struct mm_struct *mm, unsigned long addr)
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

/* The same address of several views is forgotten once. */
static void note_stale(struct batch *b, unsigned long addr)
{
	unsigned int i;

	b->stale = true;
	for (i = 0; i < b->others; i++)
		if (b->flush[i] == addr)
			return;
	if (b->nflush < FLUSH_PAGES)
		b->flush[b->nflush] = addr;
	b->nflush++;
}

static void change_item(struct batch *b, const struct view *v, const struct batch_item *it,
			const pmd_t *pmd, bool lower)
{
	u32 page;

	for (page = it->page; page < it->page + it->pages; page++) {
		unsigned long addr = v->base + ((unsigned long)page << PAGE_SHIFT);
		pte_t *pte = pte_offset_kernel((pmd_t *)pmd, addr);

		if (!lower)
			view_follow(v, page, pte, false);
		else if (close_entry(b, v, page, pte))
			note_stale(b, addr);
	}
}

static void defer_item(struct batch *b, struct batch_item *it)
{
	b->deferred += !it->deferred;
	it->deferred = 1;
}

/*
 * Neighbours of one page table are changed under one taking of its lock. Returns how many items
 * were dealt with.
 */
static unsigned int change_run(struct batch *b, const struct view *v, unsigned int from, bool lower)
{
	u32 chunk = b->items[from].page / CHUNK_PAGES;
	unsigned long start = v->base + (unsigned long)chunk * CHUNK_PAGES * PAGE_SIZE;
	unsigned int n = from;
	enum tables tables = smp_load_acquire(&v->tables); /* pairs with view_mmap() */
	spinlock_t *lock = NULL;
	pmd_t *pmd, seen;

	pmd = tables == TABLES_OURS ? pte_table(v->mm, start) : NULL;
	if (pmd) {
		seen = READ_ONCE(*pmd);
		lock = pte_lockptr(v->mm, &seen);
		if (test_value(test_fail_trylock) || !spin_trylock(lock)) {
			debug_count(COUNT_TRYLOCK, 1);
			lock = NULL;
		}
	} else {
		debug_count(COUNT_NO_TABLE, 1);
	}
	for (; n < b->count && b->items[n].page / CHUNK_PAGES == chunk; n++) {
		struct batch_item *it = &b->items[n];

		if (lock)
			change_item(b, v, it, &seen, lower);
		else if (lower && (pmd || tables == TABLES_BUSY) && it->prot != DSM_PROT_WRITE)
			defer_item(b, it);
		/*
		 * Else nothing is mapped, or only more is allowed than was: a fault will make the
		 * entry.
		 */
	}
	if (lock)
		spin_unlock(lock);
	return n - from;
}

/* ---- batches -------------------------------------------------------------------------------- */

/*
 * An item, with the page table lock. The caller holds mmap_lock, and the mapping exists, so its
 * page tables stay. Entries that are empty are looked at, too (apply_to_existing_page_range()
 * leaves them out): another batch may have emptied them, and not flushed yet.
 */
static void batch_close_slowly(struct batch *b, const struct view *v, const struct batch_item *it)
{
	pmd_t *pmd = pte_table(v->mm, v->base + ((unsigned long)it->page << PAGE_SHIFT));
	spinlock_t *lock;
	pmd_t seen;

	if (!pmd)
		return; /* a fault that makes the page table reads the new protections */
	seen = READ_ONCE(*pmd);
	lock = pte_lockptr(v->mm, &seen);
	spin_lock(lock);
	change_item(b, v, it, &seen, true);
	spin_unlock(lock);
}

/*
 * The entries of the view have been lowered, or another batch has lowered them and is not through.
 */
static void lowered(struct batch *b, struct view *v)
{
	flush_gather(b, v->mm);
	b->tell |= secondary_any(v);
}

/*
 * Of all items: the zap empties entries that this batch has not lowered, so they count as not
 * flushed until it has ended.
 */
static void tell_secondary(struct batch *b, struct view *v)
{
	unsigned int i;

	debug_count(COUNT_TOLD, 1);
	for (i = 0; i < b->count; i++) {
		mark(b, b->items[i].page);
		secondary_tell(v, b->items[i].page, b->items[i].pages);
	}
}

/* What is left in a view, with locks. False: the mapping is being taken away. */
static bool change_slowly(struct batch *b, struct view *v)
{
	unsigned int i;
	bool stands;

	if (!mmget_not_zero(v->mm))
		/* no thread runs in it any more; a device may, until the mapping is closed */
		return !secondary_any(v);
	mmap_read_lock(v->mm);
	stands = v->take_tables(v);
	be_slow();
	test_pause(test_pause_lower);
	b->stale = false;
	for (i = 0; i < b->count && stands; i++)
		if (b->items[i].deferred)
			batch_close_slowly(b, v, &b->items[i]);
	if (b->stale) {
		b->nflush = FLUSH_PAGES + 1;
		lowered(b, v);
	}
	if (stands && b->tell && secondary_any(v))
		tell_secondary(b, v);
	mmap_read_unlock(v->mm);
	mmput(v->mm);
	return stands;
}

static void finish_slowly(struct work_struct *work)
{
	struct batch *b = container_of(work, struct batch, work);
	struct ctx *c = b->ctx;
	struct view *v;
	int idx;

	b->nflush = 0;
	cpumask_clear(b->cpus);
	idx = srcu_read_lock(&c->views_srcu);
	list_for_each_entry_srcu(v, &c->views, list, srcu_read_lock_held(&c->views_srcu)) {
		if (READ_ONCE(v->tables) != TABLES_NONE && !change_slowly(b, v))
			wait_event(v->settled, READ_ONCE(v->tables) == TABLES_NONE);
	}
	srcu_read_unlock(&c->views_srcu, idx);
	if (b->nflush) { /* lowered, not flushed: others must see to that */
		be_slow();
		test_pause(test_pause_flush);
	}
	b->count = 0; /* the second round only flushes */
	batch_start(b);
}

void batch_end(struct batch *b)
{
	if (b->count && (b->deferred || b->tell)) {
		queue_work(b->ctx->entries_wq, &b->work);
		return;
	}
	unmark(b);
	b->done(b);
}

/*
 * What depends on the number of processors stands behind the batch, in one piece of memory with it:
 * its bitmap of processors.
 */
size_t batch_room(void)
{
	return cpumask_size() + sizeof(long);
}

void batch_init(struct batch *b, void *room)
{
	b->cpus = (struct cpumask *)PTR_ALIGN(room, sizeof(long));
	b->asker = NULL;
	INIT_WORK(&b->work, finish_slowly);
	b->marks = 0;
}

static void batch_want(struct batch *b)
{
	unsigned int i;

	for (i = 0; i < b->count && !b->follow; i++) {
		struct chunk *k = chunk_with(b->ctx, b->items[i].page, b->items[i].pages);

		if (k)
			memset(&k->prot[b->items[i].page % CHUNK_PAGES], b->items[i].prot,
			       b->items[i].pages);
	}
}

/*
 * As in a store buffer, protections become visible only when the walk is over, if nothing empties
 * the buffer before.
 */
static bool store_is_late(void)
{
	const unsigned int pause = test_value(test_pause_store);

	return test_value(test_lose_fence) && pause == TEST_PAUSE_NEXT;
}

static void prot_fence(void)
{
	if (!test_value(test_lose_fence))
		smp_mb(); /* between prot and the page tables; pairs with open_one() */
}

/*
 * Write the protections, and make them visible before the walk. A page table that the walk does not
 * find may exist a moment later, and the fault that makes it must read the new protections (map.c).
 * So must a view that the walk does not find. True, for test_pause_store: they are not visible yet.
 */
static bool want_first(struct batch *b)
{
	const bool late = b->count && store_is_late();

	if (!late)
		batch_want(b);
	prot_fence();
	return late;
}

/* With interrupts off, which keeps its views. */
static void batch_change(struct batch *b, bool lower)
{
	struct view *v;
	unsigned int i;

	list_for_each_entry_rcu(v, &b->ctx->views, list) {
		if (!lower && b->only && v->mm != b->only)
			continue;
		b->stale = false;
		b->others = min(b->nflush, FLUSH_PAGES);
		for (i = 0; i < b->count;)
			i += change_run(b, v, i, lower);
		if (b->stale)
			lowered(b, v);
	}
}

void batch_open(struct batch *b)
{
	unsigned long flags;

	debug_count(COUNT_CHANGED, b->count);
	local_irq_save(flags);
	batch_want(b);
	batch_change(b, false);
	local_irq_restore(flags);
}

void batch_start(struct batch *b)
{
	unsigned long flags;
	unsigned int i;
	bool delayed;

	atomic_set(&b->acks, 1);
	if (b->count) { /* else it goes on after a worker's part */
		b->deferred = b->nflush = b->flushed = 0;
		b->tell = false;
		cpumask_clear(b->cpus);
		for (i = 0; i < b->count; i++)
			b->items[i].deferred = 0;
		debug_count(COUNT_BATCHES, 1);
		debug_count(COUNT_CHANGED, b->count);
	}
	local_irq_save(flags);
	delayed = want_first(b);
	if (b->count)
		batch_change(b, true);
	test_pause_atomic(test_pause_store);
	if (delayed)
		batch_want(b);
	if (b->nflush)
		flush_ask(b);
	local_irq_restore(flags);
	if (b->count)
		trace_dsm_protect(b->items[0].page, b->count, b->items[0].prot, b->nflush,
				  b->deferred, b->flushed);
	debug_count(COUNT_DEFERRED, b->deferred);
	/*
	 * None but this processor, or all the others before it: the end is here, without a detour.
	 */
	if (atomic_dec_and_test(&b->acks)) {
		flush_unlist(b);
		batch_end(b);
	}
}

/* ---- one page ------------------------------------------------------------------------------- */

static void want_page(struct ctx *c, u32 page, u8 prot)
{
	WRITE_ONCE(chunk_of(c, page)->prot[page % CHUNK_PAGES], prot);
}

/*
 * The entry of the only view, as a batch changes and flushes it. False: a translation may be left,
 * so a batch must follow. If the entry has been lowered, *unflushed is incremented until that batch
 * is over: it tells the batch, and others, to flush.
 */
static bool entry_here(struct view *v, u32 page, u8 prot, atomic_t *unflushed, bool *lowered)
{
	const unsigned long addr = v->base + ((unsigned long)page << PAGE_SHIFT);
	pmd_t *pmd = pte_table(v->mm, addr), seen;
	spinlock_t *lock;
	pte_t *pte;
	bool done;

	if (!pmd)
		return true; /* a fault that makes the page table reads the new protection */
	seen = READ_ONCE(*pmd);
	lock = pte_lockptr(v->mm, &seen);
	if (test_value(test_fail_trylock) || !spin_trylock(lock))
		/* only more is allowed than was: a fault will make the entry */
		return prot == DSM_PROT_WRITE;
	pte = pte_offset_kernel(&seen, addr);
	*lowered = view_follow(v, page, pte, true);
	if (*lowered)
		done = flush_here(v->mm, addr) && !secondary_any(v);
	else
		done = pte_write(ptep_get(pte)) || !atomic_read(unflushed);
	*lowered &= !done;
	if (*lowered)
		atomic_inc(unflushed);
	spin_unlock(lock);
	return done;
}

/*
 * A batch of one page that is over before interrupts are on again. It needs no counter while it
 * flushes: others that close the page need the page table lock, which it holds.
 */
void page_protect(struct view *v, u32 page, u8 prot)
{
	atomic_t *unflushed = &v->ctx->unflushed[page / CHUNK_PAGES % UNFLUSHED];
	const bool late = store_is_late();
	bool lowered = false, done;
	unsigned long flags;

	local_irq_save(flags);
	if (!late)
		want_page(v->ctx, page, prot);
	prot_fence();
	done = READ_ONCE(v->ctx->nviews) == 1 && smp_load_acquire(&v->tables) == TABLES_OURS &&
		entry_here(v, page, prot, unflushed, &lowered);
	test_pause_atomic(test_pause_store);
	if (late)
		want_page(v->ctx, page, prot);
	local_irq_restore(flags);
	if (done) {
		debug_count(COUNT_ALONE, 1);
		trace_dsm_protect(page, 1, prot, 0, 0, 0);
	} else {
		ctx_follow(v->ctx, page, 1);
	}
	if (lowered)
		atomic_dec(unflushed);
}
