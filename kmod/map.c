// SPDX-License-Identifier: GPL-2.0
/*
 * map.c - contexts and frames: the window of a process, the pages behind it, and the faults on it.
 *
 * The mapping is one of page frame numbers: no reverse map, no accounting by the memory manager, and nobody but this module
 * changes its table entries. They follow chunk->prot: whoever changes that makes the entry follow under the page table lock
 * (pte_apply(), batch_start()), always from the newest value, so that the last to come gets it right:
 *
 *   fault reads prot (read)          message sets prot (none), clears the entry
 *   takes the page table lock, reads prot again under it (none), and leaves the entry clear
 *
 * It is the mapping of one process at one address. It cannot be split, grown, copied by fork(2) (VM_DONTCOPY, which VM_IO
 * keeps madvise(2) from clearing) or moved; but that a move is refused is seen only after the tables have been moved and
 * before they are moved back:
 *
 *   mremap(2), mmap_lock for writing       message
 *   notifier: HELD, no editor is inside
 *   entries go elsewhere, and live there
 *                                          closes a page: prot (none), HELD, so a worker is to do it
 *   dsm_mremap() refuses, entries return   worker waits for mmap_lock
 *   drops mmap_lock
 *                                          worker: the mapping stands, OURS; clears the entry, flushes, goes on
 *
 * munmap(2) drops mmap_lock to a reader's before it unmaps. The worker finds no mapping then, and waits until it is closed.
 */
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include "dsm.h"
#include "rank.h"

/* ---- frames --------------------------------------------------------------------------------- */

static void free_chunk(struct chunk *k)
{
	unsigned int i;

	if (k->whole)
		__free_pages(k->frames[0], ilog2(CHUNK_PAGES));
	for (i = 0; !k->whole && i < k->n && k->frames[i]; i++)
		__free_page(k->frames[i]);
	kvfree(k);
}

/* Zeroed: whatever maps them first is not to see what others left. */
static struct chunk *new_chunk(struct ctx *c, u32 n)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN;
	struct chunk *k = kvzalloc(sizeof(*k), GFP_KERNEL_ACCOUNT);
	struct page *all = NULL;
	unsigned int i;

	if (!k)
		return NULL;
	if (n == CHUNK_PAGES)
		all = alloc_pages_node(c->node, gfp | __GFP_COMP | __GFP_NORETRY, ilog2(CHUNK_PAGES));
	k->whole = all;
	k->n = n;
	for (i = 0; i < n; i++) {
		k->frames[i] = all ? all + i : alloc_pages_node(c->node, gfp, 0);
		if (!k->frames[i]) {
			free_chunk(k);
			return NULL;
		}
	}
	return k;
}

int ctx_frames(struct ctx *c, u32 page, u32 n, u32 usable)
{
	struct chunk **at = &c->chunks[page / CHUNK_PAGES], *new;

	if (READ_ONCE(*at))
		return 0;
	if (!ctx_charge_frames(c, n))
		return -EDQUOT;
	new = new_chunk(c, n);
	if (new)
		new->usable = usable;
	if (new && !cmpxchg(at, NULL, new))
		return 0;
	if (new)
		free_chunk(new);
	ctx_uncharge_frames(c, n);
	return new ? 0 : -ENOMEM;
}

pte_t frame_pte(const struct chunk *k, u32 page, u8 prot)
{
	struct page *frame = k->frames[page % CHUNK_PAGES];

	pte_t pte = pte_mkspecial(pfn_pte(page_to_pfn(frame), prot == DSM_PROT_WRITE ? PAGE_SHARED : PAGE_READONLY));

	/* Accessed and dirty from the start: the processor has nothing to write back into the entry. */
	return prot == DSM_PROT_WRITE ? pte_mkdirty(pte) : pte;
}

static void free_chunks(struct ctx *c)
{
	u32 i;

	for (i = 0; i < c->pages / CHUNK_PAGES; i++) {
		if (!c->chunks[i])
			continue;
		ctx_uncharge_frames(c, c->chunks[i]->n);
		free_chunk(c->chunks[i]);
		cond_resched();
	}
	kvfree(c->chunks);
}

/* ---- page tables ---------------------------------------------------------------------------- */

/* After this nobody changes an entry: those who find TABLES_OURS do so with interrupts off, or with mmap_lock. */
static void tables_held(struct ctx *c)
{
	if (cmpxchg(&c->tables, TABLES_OURS, TABLES_HELD) == TABLES_OURS)
		synchronize_rcu_expedited();
}

static void tables_gone(struct ctx *c)
{
	if (xchg(&c->tables, TABLES_NONE) == TABLES_OURS)
		synchronize_rcu_expedited();
	wake_up_all(&c->settled);
}

/* The mapping stands, and whoever would take it away needs a lock that we have: nobody else is at its tables. */
static void tables_back(struct ctx *c)
{
	if (READ_ONCE(c->tables) == TABLES_HELD)
		cmpxchg(&c->tables, TABLES_HELD, TABLES_OURS);
}

static int notify_start(struct mmu_notifier *n, const struct mmu_notifier_range *range)
{
	struct ctx *c = container_of(n, struct ctx, notifier);
	unsigned long base = READ_ONCE(c->base);

	if (!base || range->event != MMU_NOTIFY_UNMAP || range->end <= base ||
	    range->start >= base + ((unsigned long)c->pages << PAGE_SHIFT))
		return 0;
	if (!mmu_notifier_range_blockable(range))
		return -EAGAIN;
	tables_held(c);
	return 0;
}

/* Nobody runs in this memory any more. */
static void notify_release(struct mmu_notifier *n, struct mm_struct *mm)
{
	tables_gone(container_of(n, struct ctx, notifier));
}

static const struct mmu_notifier_ops notifier_ops = {
	.invalidate_range_start = notify_start,
	.release = notify_release,
};

/* ---- faults --------------------------------------------------------------------------------- */

static bool allows(const struct ctx *c, u32 page, bool write)
{
	struct chunk *k;
	bool ok;

	rcu_read_lock();
	k = chunk_with(c, page, 1);
	ok = k && chunk_prot(k, page) >= (write ? DSM_PROT_WRITE : DSM_PROT_READ);
	rcu_read_unlock();
	return ok;
}

static void add_flags(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static void clear_flags(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_clear(vma, flags);
#else
	vma->vm_flags &= ~flags;
#endif
}

/* Not a child's copy, nor what a move that was refused may leave behind. */
static bool is_window(const struct ctx *c, const struct vm_area_struct *vma)
{
	return vma->vm_mm == c->mm && vma->vm_start == c->base;
}

/*
 * The mapping may go while a fault has dropped mmap_lock, and all files of the device may be closed. So a fault keeps the file,
 * with it the context, and the module: if it is the last to put the file, the kernel closes it on this thread's way back to
 * its program, when nothing of the module is on its stack.
 */
static vm_fault_t resolve(struct vm_fault *vmf, bool write)
{
	struct ctx *c = vmf->vma->vm_private_data;
	u32 page = page_at(c, vmf->address);
	vm_fault_t result = VM_FAULT_NOPAGE;
	struct file *file;
	int err;

	if (!is_window(c, vmf->vma))
		return VM_FAULT_SIGBUS;
	debug_count(COUNT_FAULTS, 1);
	tables_back(c);
	file = get_file(vmf->vma->vm_file);
	if (!allows(c, page, write)) {
		result = c->rank ? host_fault(c->rank, vmf, page, write) : VM_FAULT_SIGBUS;
	} else {
		err = pte_apply(c, page);
		if (err)
			result = err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	}
	if (dsm_test_linger)
		msleep(dsm_test_linger);
	fput(file);
	return result;
}

static vm_fault_t dsm_fault(struct vm_fault *vmf)
{
	return resolve(vmf, vmf->flags & FAULT_FLAG_WRITE);
}

static vm_fault_t dsm_pfn_mkwrite(struct vm_fault *vmf)
{
	return resolve(vmf, true);
}

/* ptrace and /proc/PID/mem. */
static int dsm_access(struct vm_area_struct *vma, unsigned long addr, void *buf, int len, int write)
{
	struct ctx *c = vma->vm_private_data;
	u32 page = page_at(c, addr), object;
	unsigned int in = offset_in_page(addr);
	struct rank *r = smp_load_acquire(&c->rank);
	struct chunk *k;
	char *at;

	if (!is_window(c, vma))
		return -EFAULT;
	/* A rank that has lost its device gets no blocks any more. */
	if (r && READ_ONCE(r->dead))
		r = NULL;
	if (r && call_access(r, page, write, &object))
		return -EFAULT;
	len = min_t(int, len, PAGE_SIZE - in);
	rcu_read_lock();
	k = r || allows(c, page, write) ? chunk_with(c, page, 1) : NULL;
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

static int dsm_mprotect(struct vm_area_struct *vma, unsigned long start, unsigned long end, unsigned long flags)
{
	return -EACCES;
}

/* A copy, which mremap(2) makes for a while. A child's would be made without entries, if there were a way to have it. */
static void dsm_vma_open(struct vm_area_struct *vma)
{
	struct ctx *c = vma->vm_private_data;

	kref_get(&c->ref);
	if (vma->vm_mm != c->mm)
		add_flags(vma, VM_WIPEONFORK);
}

/* Its tables are empty, and no processor has a translation of it. */
static void dsm_vma_close(struct vm_area_struct *vma)
{
	struct ctx *c = vma->vm_private_data;

	if (is_window(c, vma))
		tables_gone(c);
	ctx_put(c);
}

static const struct vm_operations_struct dsm_vm_ops = {
	.open = dsm_vma_open,
	.close = dsm_vma_close,
	.fault = dsm_fault,
	.pfn_mkwrite = dsm_pfn_mkwrite,
	.access = dsm_access,
	.may_split = dsm_may_split,
	.mremap = dsm_mremap,
	.mprotect = dsm_mprotect,
};

bool ctx_take_tables(struct ctx *c)
{
	struct vm_area_struct *vma = find_vma(c->mm, c->base);

	if (!vma || vma->vm_ops != &dsm_vm_ops || vma->vm_private_data != c || !is_window(c, vma))
		return false;
	tables_back(c);
	return true;
}

static void closed(struct batch *b)
{
	complete(b->arg);
}

struct chunk *ctx_unlink_chunk(struct ctx *c, u32 page)
{
	return xchg(&c->chunks[page / CHUNK_PAGES], NULL);
}

/* From here on nobody makes an entry for these frames (follow() in pte.c finds no chunk), and those that are go. */
void ctx_free_chunk(struct ctx *c, u32 page, struct chunk *k)
{
	struct batch_item it = { .page = page & ~(CHUNK_PAGES - 1), .pages = (u16)k->n, .prot = DSM_PROT_NONE };
	struct batch *b = kmalloc(sizeof(*b) + batch_room(), GFP_KERNEL | __GFP_NOFAIL);
	DECLARE_COMPLETION_ONSTACK(done);

	/* Not on the stack: there is work in it. */
	*b = (struct batch){ .ctx = c, .items = &it, .count = 1, .follow = true, .done = closed, .arg = &done };
	batch_init(b, b + 1);
	batch_start(b);
	wait_for_completion(&done);
	kfree(b);
	conn_free_key(k);
	ctx_uncharge_frames(c, k->n);
	free_chunk(k);
}

/* ---- contexts ------------------------------------------------------------------------------- */

static void ctx_free(struct work_struct *work)
{
	struct ctx *c = container_of(work, struct ctx, free);

	if (c->rank)
		rank_free(c->rank);
	if (c->chunks)
		free_chunks(c);
	kvfree(c->spare);
	put_pid(c->owner);
	ctx_close_account(c);
	mmdrop(c->mm);
	kfree(c);
	debug_count(GAUGE_CONTEXTS, -1);
}

struct ctx *ctx_create(void)
{
	struct ctx *c;
	int err;

	if (!current->mm)
		return ERR_PTR(-EINVAL);
	c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);
	if (!c)
		return ERR_PTR(-ENOMEM);
	err = ctx_open_account(c);
	if (err) {
		kfree(c);
		return ERR_PTR(err);
	}
	kref_init(&c->ref);
	mutex_init(&c->lock);
	init_rwsem(&c->frames_sem);
	init_waitqueue_head(&c->settled);
	INIT_WORK(&c->free, ctx_free);
	c->node = NUMA_NO_NODE;
	c->mm = current->mm;
	mmgrab(c->mm);
	c->owner = get_pid(task_tgid(current));
	debug_count(GAUGE_CONTEXTS, 1);
	return c;
}

static void ctx_last(struct kref *ref)
{
	/* It may be a message's reference, in softirq. */
	queue_work(dsm_wq, &container_of(ref, struct ctx, ref)->free);
}

void ctx_put(struct ctx *c)
{
	kref_put(&c->ref, ctx_last);
}

void ctx_close(struct ctx *c)
{
	/* The mapping holds the file: it is gone, or never was. */
	if (c->rank)
		rank_leave(c->rank);
	if (c->watched)
		mmu_notifier_unregister(&c->notifier, c->mm);
	ctx_put(c);
}

static int make_chunks(struct ctx *c, u64 size)
{
	const size_t n = size / (CHUNK_PAGES * PAGE_SIZE);
	const long pages = charge_of(n * sizeof(*c->chunks));

	if (!ctx_charge(c, pages))
		return -EDQUOT;
	c->chunks = kvcalloc(n, sizeof(*c->chunks), GFP_KERNEL_ACCOUNT);
	if (!c->chunks) {
		ctx_uncharge(c, pages);
		return -ENOMEM;
	}
	WRITE_ONCE(c->pages, (u32)(size >> PAGE_SHIFT));
	return 0;
}

int ctx_window(struct ctx *c, u64 size)
{
	int err = 0;

	mutex_lock(&c->lock);
	if (c->chunks) {
		err = -EBUSY;
	} else {
		err = make_chunks(c, size);
	}
	/* Here, and not in mmap(2): registering takes the process's mmap_lock. */
	if (!err) {
		c->notifier.ops = &notifier_ops;
		err = mmu_notifier_register(&c->notifier, c->mm);
		if (err) {
			WRITE_ONCE(c->pages, 0);
			kvfree(c->chunks);
			c->chunks = NULL;
			ctx_uncharge(c, charge_of(size / (CHUNK_PAGES * PAGE_SIZE) * sizeof(*c->chunks)));
		}
		c->watched = !err;
	}
	mutex_unlock(&c->lock);
	return err;
}

/* Under mmap_lock for writing, which keeps two of these from each other. */
int ctx_mmap(struct ctx *c, struct vm_area_struct *vma)
{
	if (current->mm != c->mm || !READ_ONCE(c->watched))
		return -ENXIO;
	if (c->base)
		return -EBUSY;
	if (vma->vm_pgoff || vma_pages(vma) != c->pages || !(vma->vm_flags & VM_SHARED) ||
	    !(vma->vm_flags & VM_WRITE) || vma->vm_start % (CHUNK_PAGES * PAGE_SIZE))
		return -EINVAL;
	/* VM_IO: so that VM_DONTCOPY stays. */
	add_flags(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTCOPY | VM_DONTDUMP);
	clear_flags(vma, VM_MAYEXEC);
	vma->vm_ops = &dsm_vm_ops;
	vma->vm_private_data = c;
	kref_get(&c->ref);
	WRITE_ONCE(c->base, vma->vm_start);
	WRITE_ONCE(c->tables, TABLES_OURS);
	return 0;
}
