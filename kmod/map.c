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
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include "dsm.h"
#include "rank.h"

#define WINDOW_MAX (16ull << 40)

/* ---- frames --------------------------------------------------------------------------------- */

static bool charge(struct ctx *c, long n)
{
	long now;

	do {
		now = atomic_long_read(&c->user->locked_vm);
		if (c->limit != ULONG_MAX && (unsigned long)now + n > c->limit)
			return false;
	} while (atomic_long_cmpxchg(&c->user->locked_vm, now, now + n) != now);
	atomic_long_add(n, &c->frames);
	debug_count(GAUGE_FRAMES, n);
	return true;
}

static void uncharge(struct ctx *c, long n)
{
	debug_count(GAUGE_FRAMES, -n);
	atomic_long_sub(n, &c->frames);
	atomic_long_sub(n, &c->user->locked_vm);
}

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
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;
	struct chunk *k = kvzalloc(sizeof(*k), GFP_KERNEL);
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

int ctx_frames(struct ctx *c, u32 page, u32 n)
{
	struct chunk **at = &c->chunks[page / CHUNK_PAGES], *new;

	if (READ_ONCE(*at))
		return 0;
	if (!charge(c, n)) {
		pr_info_ratelimited("dsm: user %u may not lock more than %lu pages (RLIMIT_MEMLOCK)\n",
				    from_kuid_munged(&init_user_ns, c->user->uid), c->limit);
		return -EDQUOT;
	}
	new = new_chunk(c, n);
	if (new && !cmpxchg(at, NULL, new))
		return 0;
	if (new)
		free_chunk(new);
	uncharge(c, n);
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
		uncharge(c, c->chunks[i]->n);
		free_chunk(c->chunks[i]);
		cond_resched();
	}
	kvfree(c->chunks);
}

/* ---- faults --------------------------------------------------------------------------------- */

static u32 page_at(const struct ctx *c, unsigned long addr)
{
	return (u32)((addr - c->base) >> PAGE_SHIFT);
}

static bool allows(const struct ctx *c, u32 page, bool write)
{
	struct chunk *k;
	bool ok;

	rcu_read_lock();
	k = chunk_with(c, page, 1);
	ok = k && READ_ONCE(k->prot[page % CHUNK_PAGES]) >= (write ? DSM_PROT_WRITE : DSM_PROT_READ);
	rcu_read_unlock();
	return ok;
}

static vm_fault_t resolve(struct vm_fault *vmf, bool write)
{
	struct ctx *c = vmf->vma->vm_private_data;
	u32 page = page_at(c, vmf->address);
	vm_fault_t result = VM_FAULT_NOPAGE;
	int err;

	debug_count(COUNT_FAULTS, 1);
	kref_get(&c->ref); /* the mapping may go while a fault has dropped mmap_lock */
	if (!allows(c, page, write)) {
		result = c->rank ? host_fault(c->rank, vmf, page, write) : VM_FAULT_SIGBUS;
	} else {
		err = pte_apply(c, page);
		if (err)
			result = err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	}
	ctx_put(c);
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

static void dsm_vma_open(struct vm_area_struct *vma)
{
	kref_get(&((struct ctx *)vma->vm_private_data)->ref);
}

static void dsm_vma_close(struct vm_area_struct *vma)
{
	ctx_put(vma->vm_private_data);
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
	uncharge(c, k->n);
	free_chunk(k);
}

/* ---- the end of page tables ----------------------------------------------------------------- */

/* After this nobody changes a table entry of the window: those who look at gone do so with interrupts off. */
static void leave_tables(struct ctx *c)
{
	if (!xchg(&c->gone, true))
		synchronize_rcu_expedited();
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
	leave_tables(c);
	return 0;
}

static void notify_release(struct mmu_notifier *n, struct mm_struct *mm)
{
	leave_tables(container_of(n, struct ctx, notifier));
}

static const struct mmu_notifier_ops notifier_ops = {
	.invalidate_range_start = notify_start,
	.release = notify_release,
};

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
	free_uid(c->user);
	mmdrop(c->mm);
	kfree(c);
	debug_count(GAUGE_CONTEXTS, -1);
}

struct ctx *ctx_create(void)
{
	struct ctx *c;

	if (!current->mm)
		return ERR_PTR(-EINVAL);
	c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);
	if (!c)
		return ERR_PTR(-ENOMEM);
	kref_init(&c->ref);
	mutex_init(&c->lock);
	init_rwsem(&c->frames_sem);
	INIT_WORK(&c->free, ctx_free);
	c->node = NUMA_NO_NODE;
	c->mm = current->mm;
	mmgrab(c->mm);
	c->owner = get_pid(task_tgid(current));
	c->user = get_uid(current_user());
	c->limit = capable(CAP_IPC_LOCK) ? ULONG_MAX : rlimit(RLIMIT_MEMLOCK);
	if (c->limit != ULONG_MAX)
		c->limit >>= PAGE_SHIFT;
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
	leave_tables(c);
	if (c->rank)
		rank_leave(c->rank);
	if (c->watched)
		mmu_notifier_unregister(&c->notifier, c->mm);
	ctx_put(c);
}

int ctx_window(struct ctx *c, u64 size)
{
	int err = 0;

	if (!size || size % (CHUNK_PAGES * PAGE_SIZE) || size > WINDOW_MAX)
		return -EINVAL;
	if (current->mm != c->mm)
		return -ENXIO;
	mutex_lock(&c->lock);
	if (c->chunks) {
		err = -EBUSY;
	} else {
		c->chunks = kvcalloc(size / (CHUNK_PAGES * PAGE_SIZE), sizeof(*c->chunks), GFP_KERNEL_ACCOUNT);
		if (c->chunks)
			WRITE_ONCE(c->pages, (u32)(size >> PAGE_SHIFT));
		else
			err = -ENOMEM;
	}
	/* Here, and not in mmap(2): registering takes the process's mmap_lock. */
	if (!err) {
		c->notifier.ops = &notifier_ops;
		err = mmu_notifier_register(&c->notifier, c->mm);
		if (err) {
			WRITE_ONCE(c->pages, 0);
			kvfree(c->chunks);
			c->chunks = NULL;
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
	if (c->base || c->gone)
		return -EBUSY;
	if (vma->vm_pgoff || vma_pages(vma) != c->pages || !(vma->vm_flags & VM_SHARED) || !(vma->vm_flags & VM_WRITE) ||
	    vma->vm_start % (CHUNK_PAGES * PAGE_SIZE))
		return -EINVAL;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTCOPY | VM_DONTDUMP, VM_MAYEXEC);
#else
	vma->vm_flags |= VM_PFNMAP | VM_DONTEXPAND | VM_DONTCOPY | VM_DONTDUMP;
	vma->vm_flags &= ~VM_MAYEXEC;
#endif
	vma->vm_ops = &dsm_vm_ops;
	vma->vm_private_data = c;
	kref_get(&c->ref);
	WRITE_ONCE(c->base, vma->vm_start);
	return 0;
}
