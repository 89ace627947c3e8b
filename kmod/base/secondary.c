// SPDX-License-Identifier: GPL-2.0
/*
 * secondary.c - secondary MMUs. KVM, and an IOMMU that uses the page tables of a process (SVA),
 * have translations of their own, which no flush of a processor reaches. They register an mmu
 * notifier, and drop translations when it is called. The memory manager exports no function that
 * only calls it: zap_vma_ptes() calls it, and empties the entries, which a fault makes again.
 *
 * A batch that has lowered an entry therefore looks whether anybody else has a notifier in that
 * process. If so, it goes to a worker, which may sleep, and is over only when the translations are
 * dropped: so is the answer to a peer, or the call.
 *
 *   batch                                        secondary MMU
 *                                                registers its notifier
 *                                                n = number of invalidations so far
 *                                                reads the entry (may write)
 *   prot (none), lowers the entry
 *   full barrier (flush_gather())
 *   sees the notifier: the batch goes to a worker
 *                                                takes its lock, n is as it was: makes its
 *                                                translation
 *   worker: zap_vma_ptes()
 *     invalidate_range_start()                   takes its lock, begins an invalidation, drops the
 *                                                translation
 *     invalidate_range_end()                     takes its lock, counts it: n + 1
 *   the batch is over
 *
 * If it makes its translation after the start, it sees under its lock that an invalidation is in
 * progress, or that n has grown, and reads the entry again. If it reads n after the end, it reads
 * the lowered entry. So start and end may both come after the lowering.
 *
 * If it registers later, it reads the lowered entry. Either reads or writes the one after the
 * other, with a full barrier between them: mmap_lock is dropped in mmu_notifier_register(), after
 * the store to the list and before the entry is read.
 *
 * Another batch that closes the same page meanwhile finds the entry lowered, but ctx->unflushed not
 * 0 (pte.c): it goes the same way.
 *
 * An entry that zap_vma_ptes() finds empty is none that it flushes. Since Linux 6.6 only the flush
 * tells an IOMMU (arch_invalidate_secondary_tlbs()). The entries count as changed and not flushed
 * (tlb_flush_pending), so the zap flushes all.
 *
 * Who uses interval notifiers (on-demand paging of RDMA, HMM) cannot have translations of the
 * window: these find pages by hmm_range_fault() or get_user_pages(), which refuse a mapping with
 * VM_PFNMAP and VM_IO.
 */
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>

#include "secondary.h"
#include "test.h"

TEST_PARAM(bool, test_lose_notify, false, "leave stale translations in secondary MMUs");
TEST_PARAM(bool, test_lose_pending, false, "the kernel does not know that a change is not flushed");

/*
 * The notifiers of a process are in one list. The module has one (struct watch), however many views
 * there are. It is alone if nothing follows it, and nothing precedes it. It has left the list (no
 * pprev) when all have been told of the end of the process.
 */
bool secondary_any(const struct view *v)
{
	const struct hlist_node *ours = &v->watch->notifier.hlist;
	struct hlist_node **before = READ_ONCE(ours->pprev);

	return before && (before != v->watch->head || READ_ONCE(ours->next)) &&
		!test_value(test_lose_notify);
}

void secondary_tell(struct view *v, u32 page, u32 pages)
{
	const unsigned long at = v->base + ((unsigned long)page << PAGE_SHIFT);
	const bool any = secondary_any(v) && !test_value(test_lose_pending);

	if (any)
		inc_tlb_flush_pending(v->mm);
	zap_vma_ptes(find_vma(v->mm, v->base), at, (unsigned long)pages << PAGE_SHIFT);
	if (any)
		dec_tlb_flush_pending(v->mm);
}

/* False: the mapping is being taken away, and its secondary translations with it. */
static bool zap_view(struct view *v, u32 page, u32 pages)
{
	bool stands;

	if (!mmget_not_zero(v->mm))
		/* no thread runs in it any more; a device may, until the mapping is closed */
		return !secondary_any(v);
	mmap_read_lock(v->mm);
	stands = v->take_tables(v);
	if (stands)
		secondary_tell(v, page, pages);
	mmap_read_unlock(v->mm);
	mmput(v->mm);
	return stands;
}

void secondary_zap(struct ctx *c, u32 page, u32 pages)
{
	struct view *v;
	int idx = srcu_read_lock(&c->views_srcu);

	list_for_each_entry_srcu(v, &c->views, list, srcu_read_lock_held(&c->views_srcu))
		if (READ_ONCE(v->tables) != TABLES_NONE && !zap_view(v, page, pages))
			wait_event(v->settled, READ_ONCE(v->tables) == TABLES_NONE);
	srcu_read_unlock(&c->views_srcu, idx);
}
