// SPDX-License-Identifier: GPL-2.0
/*
 * map.c - views: the window of a process, its mapping, and the faults on it.
 *
 * The mapping is one of page frame numbers: no reverse map, no accounting by the memory manager,
 * and nobody but this module changes its table entries. They follow chunk->prot: whoever changes
 * that makes the entry follow under the page table lock (pte_apply(), batch_start()), always from
 * the newest value, so that the last to come gets it right:
 *
 *   fault reads prot (read)          message sets prot (none), clears the entry
 *   takes the page table lock, reads prot again under it (none), and leaves the entry clear
 *
 * If there is no page table yet, nobody takes its lock on both sides. Then two barriers in pte.c
 * order them, of which each side has one between its store and its load (store buffering):
 *
 *   fault                                message
 *   makes the page table                 sets prot (none), also txn_drop_now()
 *   takes its lock
 *   smp_mb__after_spinlock(), open_one() smp_mb(), want_first()
 *   reads prot                           looks for the page table, also of a view or mapping that
 *                                        is new
 *
 * One of them sees what the other has stored: the message finds the page table, or the fault leaves
 * the entry clear. Without both barriers, neither may: prot is still in a store buffer when the
 * message finds no table, and the fault makes a writable entry that nobody clears.
 * tests/unit/test_store_buffer.c shows this order of events.
 *
 * It is the mapping of one process at one address. It cannot be split, grown, copied by fork(2)
 * (VM_DONTCOPY, which VM_IO keeps madvise(2) from clearing) or moved; but that a move is refused is
 * seen only after the tables have been moved and before they are moved back:
 *
 *   mremap(2), mmap_lock for writing       message
 *   notifier: BUSY, no editor is inside
 *   entries go elsewhere, and live there
 *                                          closes a page: prot (none), BUSY, so a worker is to do
 *                                          it
 *   dsm_mremap() refuses, entries return   worker waits for mmap_lock
 *   drops mmap_lock
 *                                          worker: the mapping stands, OURS; clears the entry,
 *                                          flushes, goes on
 *
 * munmap(2) drops mmap_lock to a reader's before it unmaps. The worker finds no mapping then, and
 * waits until it is closed.
 */
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "map.h"
#include "../base/account.h"
#include "call.h"
#include "../base/compat.h"
#include "../base/debug.h"
#include "fault.h"
#include "main.h"
#include "park.h"
#include "../base/pte.h"
#include "rank.h"
#include "region.h"
#include "../base/secondary.h"

/* ---- page tables ---------------------------------------------------------------------------- */

/*
 * After this nobody changes an entry: code that has seen TABLES_OURS runs with interrupts off, or
 * holds mmap_lock.
 */
static void tables_busy(struct view *v)
{
	if (cmpxchg(&v->tables, TABLES_OURS, TABLES_BUSY) == TABLES_OURS)
		synchronize_rcu();
}

static void tables_gone(struct view *v)
{
	if (xchg(&v->tables, TABLES_NONE) == TABLES_OURS)
		synchronize_rcu();
	wake_up_all(&v->settled);
}

/*
 * The mapping exists, and the caller holds a lock that excludes its removal: nobody else changes
 * its tables.
 */
static void tables_back(struct view *v)
{
	if (READ_ONCE(v->tables) == TABLES_BUSY)
		cmpxchg(&v->tables, TABLES_BUSY, TABLES_OURS);
}

static int view_changes(struct view *v, const struct mmu_notifier_range *range)
{
	unsigned long base = READ_ONCE(v->base);

	if (!base || range->end <= base ||
	    range->start >= base + ((unsigned long)v->ctx->pages << PAGE_SHIFT))
		return 0;
	if (range->event == MMU_NOTIFY_CLEAR) /* secondary_tell() */
		debug_count(COUNT_ZAPPED, 1);
	if (range->event != MMU_NOTIFY_UNMAP)
		return 0;
	if (!mmu_notifier_range_blockable(range))
		return -EAGAIN;
	tables_busy(v);
	return 0;
}

/*
 * No thread runs in the address space any more. The view may be detached; it keeps the context
 * allocated. Other notifiers may be called after this one, and devices use the page tables until
 * then: all have been called when the mapping is closed.
 */
static void view_ends(struct view *v)
{
	struct ctx *c = view_ctx(v);
	struct rank *r = c ? smp_load_acquire(&c->rank) : NULL;

	if (secondary_any(v))
		tables_busy(v);
	else
		tables_gone(v);
	if (r)
		park_leave(r, v->mm);
}

/* ---- mmu notifiers -------------------------------------------------------------------------- */

static struct watch *watch_with(struct mmu_notifier *n)
{
	return container_of(n, struct watch, notifier);
}

static int notify_start(struct mmu_notifier *n, const struct mmu_notifier_range *range)
{
	struct view *v;
	int err = 0;

	list_for_each_entry_srcu(v, &watch_with(n)->views, watched, true)
		err = view_changes(v, range) ?: err;
	return err;
}

static void notify_release(struct mmu_notifier *n, struct mm_struct *mm)
{
	struct view *v;

	list_for_each_entry_srcu(v, &watch_with(n)->views, watched, true)
		view_ends(v);
}

static struct mmu_notifier *watch_alloc(struct mm_struct *mm)
{
	struct watch *w = kzalloc(sizeof(*w), GFP_CTX);

	if (!w)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&w->lock);
	INIT_LIST_HEAD(&w->views);
	return &w->notifier;
}

static void watch_free(struct mmu_notifier *n)
{
	kfree(watch_with(n));
}

static const struct mmu_notifier_ops notifier_ops = {
	.invalidate_range_start = notify_start,
	.release = notify_release,
	.alloc_notifier = watch_alloc,
	.free_notifier = watch_free,
};

/*
 * The caller holds view->lock. mmap(2) cannot do this: registering takes the process's mmap_lock.
 */
static int watch_begin(struct view *v)
{
	struct mmu_notifier *n;
	struct watch *w;

	if (v->watch)
		return 0;
	if (mmap_write_lock_killable(v->mm))
		return -EINTR;
	n = mmu_notifier_get_locked(&notifier_ops, v->mm);
	if (!IS_ERR(n)) {
		w = watch_with(n);
		if (!w->head)
			w->head =
				/*
				 * new ones are at the head, and none is added while mmap_lock is
				 * held
				 */
				n->hlist.pprev;
		spin_lock(&w->lock);
		list_add_rcu(&v->watched, &w->views);
		spin_unlock(&w->lock);
		v->watch = w;
	}
	mmap_write_unlock(v->mm);
	return PTR_ERR_OR_ZERO(n);
}

static void watch_end(struct view *v)
{
	struct watch *w = v->watch;

	if (!w)
		return;
	view_ends(v);
	spin_lock(&w->lock);
	list_del_rcu(&v->watched);
	spin_unlock(&w->lock);
	mmu_notifier_synchronize();
	mmu_notifier_put(&w->notifier);
}

/* ---- faults --------------------------------------------------------------------------------- */

/* False for a child's copy, and for what a refused move may leave behind. */
static bool is_window(const struct view *v, const struct vm_area_struct *vma)
{
	return vma->vm_mm == v->mm && vma->vm_start == v->base;
}

/*
 * While a fault has dropped mmap_lock, the mapping may be removed and all files of the device
 * closed. So a fault holds the file, and with it the view and the module. If it puts the last
 * reference, the kernel closes the file when the thread returns to user space, outside the module.
 */
static vm_fault_t view_resolve(struct vm_fault *vmf, bool write)
{
	struct view *v = vmf->vma->vm_private_data;
	struct ctx *c = v->ctx;
	u32 page = page_at(v, vmf->address);
	vm_fault_t result = VM_FAULT_NOPAGE;
	struct file *file;
	int err;

	if (!is_window(v, vmf->vma))
		return VM_FAULT_SIGBUS;
	debug_count(COUNT_FAULTS, 1);
	tables_back(v);
	file = get_file(vmf->vma->vm_file);
	if (!view_sees(v, page)) {
		result = VM_FAULT_SIGBUS;
	} else if (!ctx_allows(c, page, write)) {
		result = c->rank ? fault_handle(c->rank, vmf, page, write) : VM_FAULT_SIGBUS;
		/*
		 * A thread repeats its access, and faults again if there is no entry yet. KVM looks
		 * at the entry once.
		 */
		if (result == VM_FAULT_NOPAGE && !(vmf->flags & FAULT_FLAG_USER) &&
		    pte_apply(v, page))
			result = VM_FAULT_OOM;
	} else {
		err = pte_apply(v, page);
		if (err)
			result = err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	}
	dsm_test_stay();
	fput(file);
	return result;
}

static vm_fault_t dsm_fault(struct vm_fault *vmf)
{
	return view_resolve(vmf, vmf->flags & FAULT_FLAG_WRITE);
}

static vm_fault_t dsm_pfn_mkwrite(struct vm_fault *vmf)
{
	return view_resolve(vmf, true);
}

/* ptrace and /proc/PID/mem. */
static int dsm_access(struct vm_area_struct *vma, unsigned long addr, void *buf, int len, int write)
{
	struct view *v = vma->vm_private_data;
	struct ctx *c = v->ctx;
	u32 page = page_at(v, addr), object;
	unsigned int in = offset_in_page(addr);
	struct rank *r = smp_load_acquire(&c->rank);
	struct chunk *k;
	char *at;

	if (!is_window(v, vma) || !view_sees(v, page))
		return -EFAULT;
	/* A rank without its device receives no blocks. */
	if (r && READ_ONCE(r->dead))
		r = NULL;
	if (r && call_access(r, page, write, &object))
		return -EFAULT;
	len = min_t(int, len, PAGE_SIZE - in);
	rcu_read_lock();
	k = r || ctx_allows(c, page, write) ? chunk_with(c, page, 1) : NULL;
	if (k) {
		at = kmap_local_page(k->frames[page % CHUNK_PAGES]);
		if (write)
			memcpy(at + in, buf, len);
		else
			memcpy(buf, at + in, len);
		kunmap_local(at);
	}
	rcu_read_unlock();
	if (r)
		call_access_end(r, object, write);
	return k ? len : -EFAULT;
}

static int dsm_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

static int dsm_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static int dsm_mprotect(struct vm_area_struct *vma, unsigned long start, unsigned long end,
			unsigned long flags)
{
	return -EACCES;
}

/* The tables are empty, and no processor has a translation of the mapping. */
static void dsm_vma_close(struct vm_area_struct *vma)
{
	struct view *v = vma->vm_private_data;

	if (is_window(v, vma))
		tables_gone(v);
}

static const struct vm_operations_struct dsm_vm_ops = {
	.close = dsm_vma_close,
	.fault = dsm_fault,
	.pfn_mkwrite = dsm_pfn_mkwrite,
	.access = dsm_access,
	.may_split = dsm_may_split,
	.mremap = dsm_mremap,
	.mprotect = dsm_mprotect,
};

static bool take_tables(struct view *v)
{
	struct vm_area_struct *vma = find_vma(v->mm, v->base);

	if (!vma || vma->vm_ops != &dsm_vm_ops || vma->vm_private_data != v || !is_window(v, vma))
		return false;
	tables_back(v);
	return true;
}

/* ---- views ---------------------------------------------------------------------------------- */

/* charged once the view has a context */
#define VIEW_CHARGE account_pages(sizeof(struct view) + sizeof(struct watch))

struct view *view_create(void)
{
	struct view *v;
	int err;

	if (!current->mm)
		return ERR_PTR(-EINVAL);
	v = kzalloc(sizeof(*v), GFP_CTX);
	if (!v)
		return ERR_PTR(-ENOMEM);
	err = account_open_view(v);
	if (err) {
		kfree(v);
		return ERR_PTR(err);
	}
	mutex_init(&v->lock);
	init_waitqueue_head(&v->settled);
	v->mm = current->mm;
	v->take_tables = take_tables;
	mmgrab(v->mm);
	v->owner = get_pid(task_tgid(current));
	debug_count(GAUGE_VIEWS, 1);
	return v;
}

/* The last view also ends the rank. After this no batch finds the view. */
static void view_detach(struct view *v)
{
	struct ctx *c = v->ctx;
	bool last;

	spin_lock(&c->views_lock);
	list_del_rcu(&v->list);
	last = !--c->nviews;
	spin_unlock(&c->views_lock);
	if (c->rank && last)
		rank_leave(c->rank);
	else if (c->rank)
		region_detach_all(c->rank, v);
	synchronize_srcu(&c->views_srcu);
	synchronize_rcu();
}

void view_close(struct view *v)
{
	/* The mapping holds the file, so there is none any more. */
	if (v->ctx)
		view_detach(v);
	watch_end(v);
	if (v->ctx) {
		account_uncharge(v->ctx, VIEW_CHARGE);
		ctx_put(v->ctx);
	}
	put_pid(v->owner);
	account_close_view(v);
	mmdrop(v->mm);
	kfree(v);
	debug_count(GAUGE_VIEWS, -1);
}

/* The caller holds view->lock and a reference to c, which the view takes over. */
static int view_attach_ctx(struct view *v, struct ctx *c)
{
	int err = -EUSERS;

	if (!account_charge(c, VIEW_CHARGE))
		return -EDQUOT;
	spin_lock(&c->views_lock);
	if (c->nviews < DSM_VIEWS_MAX) {
		list_add_tail_rcu(&v->list, &c->views);
		c->nviews++;
		err = 0;
	}
	spin_unlock(&c->views_lock);
	if (!err)
		smp_store_release(&v->ctx, c);
	else
		account_uncharge(c, VIEW_CHARGE);
	return err;
}

int view_window(struct view *v, u64 size)
{
	struct ctx *c;
	int err;

	if (mutex_lock_killable(&v->lock))
		return -EINTR;
	err = v->ctx ? -EBUSY : watch_begin(v);
	if (!err) {
		c = ctx_create(v, size);
		err = IS_ERR(c) ? PTR_ERR(c) : view_attach_ctx(v, c);
		if (!err)
			account_move(v, c);
		else if (!IS_ERR(c))
			ctx_put(c);
	}
	mutex_unlock(&v->lock);
	return err;
}

int view_attach(struct view *v, struct ctx *c)
{
	int err;

	if (!uid_eq(v->uid, c->uid) && !capable(CAP_SYS_ADMIN))
		return -EACCES;
	if (mutex_lock_killable(&v->lock))
		return -EINTR;
	err = v->ctx ? -EBUSY : watch_begin(v);
	if (!err) {
		kref_get(&c->ref);
		err = view_attach_ctx(v, c);
		if (err)
			ctx_put(c);
	}
	mutex_unlock(&v->lock);
	return err;
}

/* The caller holds mmap_lock for writing, which serialises calls of one process. */
int view_mmap(struct view *v, struct vm_area_struct *vma)
{
	struct ctx *c = view_ctx(v);
	unsigned long other;

	if (current->mm != v->mm || !c)
		return -ENXIO;
	if (v->base)
		return -EBUSY;
	if (vma->vm_pgoff || vma_pages(vma) != c->pages || !(vma->vm_flags & VM_SHARED) ||
	    !(vma->vm_flags & VM_WRITE) || vma->vm_start % (CHUNK_PAGES * PAGE_SIZE))
		return -EINVAL;
	/*
	 * All processes map the window at one address, so a flush needs no process: the address
	 * suffices on every processor.
	 */
	other = cmpxchg(&c->base, 0, vma->vm_start);
	if (other && other != vma->vm_start)
		return -EINVAL;
	/* VM_IO keeps VM_DONTCOPY set. No child may have a copy: fork(2) would make its entries. */
	compat_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTCOPY | VM_DONTDUMP);
	compat_flags_clear(vma, VM_MAYEXEC);
	vma->vm_ops = &dsm_vm_ops;
	vma->vm_private_data = v;
	/*
	 * With the encryption bit of AMD SME and SEV, which the kernel's constants lack.
	 * vma->vm_page_prot is not writable in a mapping with pfn_mkwrite().
	 */
	v->readable = vm_get_page_prot(VM_SHARED | VM_READ);
	v->writable = vm_get_page_prot(VM_SHARED | VM_READ | VM_WRITE);
	WRITE_ONCE(v->base, vma->vm_start);
	smp_store_release(&v->tables, TABLES_OURS); /* pairs with change_run() in pte.c */
	return 0;
}
