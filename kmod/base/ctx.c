// SPDX-License-Identifier: GPL-2.0
/*
 * ctx.c - contexts: the memory of a node. Frames are allocated on demand and freed with the window;
 * a context records what threads may do with each.
 *
 * References are held by each view, by ranks of this kernel that send to the context's rank, and by
 * each operation in progress inside that rank. The last reference may be put in softirq, so a
 * worker frees the context.
 */
#include <linux/cpuset.h>
#include <linux/highmem.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "ctx.h"
#include "account.h"
#include "debug.h"
#include "pool.h"
#include "pte.h"
#include "secondary.h"
#include "test.h"
#include "work.h"

TEST_PARAM(bool, test_lose_hardwall, false,
	   "frames come from nodes outside the cpuset, if those inside are full");

/* ---- frames --------------------------------------------------------------------------------- */

static void free_chunk(struct chunk *k)
{
	unsigned int i;

	if (k->whole && !k->kept)
		__free_pages(k->frames[0], ilog2(CHUNK_PAGES));
	for (i = 0; !k->whole && !k->kept && i < k->n && k->frames[i]; i++)
		__free_page(k->frames[i]);
	kvfree(k);
}

/*
 * Frames come from the memory nodes that the process may use (cpuset), as its policy says. The
 * frames of a rank are by default near its device. A worker has no policy: it takes memory where
 * the process that created the context was allowed to.
 */
static struct page *frames_alloc(const struct ctx *c, gfp_t gfp, unsigned int order)
{
	const int near = c->node == NUMA_NO_NODE ? numa_mem_id() : c->node;

	if (current->flags & PF_KTHREAD)
		return __alloc_pages(gfp, order, near, (nodemask_t *)&c->nodes);
#ifdef CONFIG_NUMA
	if (current->mempolicy)
		return alloc_pages(gfp, order);
#endif
	return alloc_pages_node(near, gfp, order);
}

/*
 * The lock: the kernel changes the nodes of a task and of its policy word by word when its cpuset
 * changes.
 */
static void note_nodes(struct ctx *c)
{
	task_lock(current);
	c->nodes = cpuset_current_mems_allowed;
#ifdef CONFIG_NUMA
	if (current->mempolicy && current->mempolicy->mode == MPOL_BIND)
		nodes_and(c->nodes, c->nodes, current->mempolicy->nodes);
#endif
	task_unlock(current);
	if (nodes_empty(c->nodes))
		c->nodes = node_states[N_MEMORY];
}

/* Frames are zeroed, so that the next user of the memory cannot read the last one's data. */
static struct chunk *new_chunk(struct ctx *c, u32 n)
{
	const gfp_t gfp =
		GFP_CTX | __GFP_ZERO | (test_value(test_lose_hardwall) ? 0 : __GFP_HARDWALL);
	struct chunk *k = pool_test_refuses(gfp) ? NULL : kvzalloc(sizeof(*k), GFP_CTX);
	struct page *all = NULL;
	unsigned int i;

	if (!k)
		return NULL;
	if (n == CHUNK_PAGES && !pool_test_refuses(gfp))
		all = frames_alloc(c, gfp | __GFP_COMP | __GFP_NORETRY, ilog2(CHUNK_PAGES));
	k->whole = all;
	k->n = n;
	for (i = 0; i < n; i++) {
		if (all)
			k->frames[i] = all + i;
		else if (!pool_test_refuses(gfp))
			k->frames[i] = frames_alloc(c, gfp, 0);
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
	if (!account_charge_frames(c, n))
		return -EDQUOT;
	new = new_chunk(c, n);
	if (new)
		new->usable = usable;
	if (new && !cmpxchg(at, NULL, new))
		return 0;
	if (new)
		free_chunk(new);
	account_uncharge_frames(c, n);
	return new ? 0 : -ENOMEM;
}

pte_t frame_pte(const struct view *v, const struct chunk *k, u32 page, u8 prot)
{
	struct page *frame = k->frames[page % CHUNK_PAGES];
	pte_t pte = pte_mkspecial(
		pfn_pte(page_to_pfn(frame), prot == DSM_PROT_WRITE ? v->writable : v->readable));

	/*
	 * Set accessed and dirty from the start, so that the processor never writes to the entry.
	 */
	return prot == DSM_PROT_WRITE ? pte_mkdirty(pte) : pte;
}

static void ctx_free_chunks(struct ctx *c)
{
	u32 i;

	for (i = 0; i < c->pages / CHUNK_PAGES; i++) {
		if (!c->chunks[i])
			continue;
		account_uncharge_frames(c, c->chunks[i]->n);
		if (c->chunks[i]->kept)
			debug_count(GAUGE_FRAMES, c->chunks[i]->n);
		free_chunk(c->chunks[i]);
		cond_resched();
	}
	kvfree(c->chunks);
}

bool ctx_allows(const struct ctx *c, u32 page, bool write)
{
	struct chunk *k;
	bool ok;

	rcu_read_lock();
	k = chunk_with(c, page, 1);
	ok = k && chunk_prot(k, page) >= (write ? DSM_PROT_WRITE : DSM_PROT_READ);
	rcu_read_unlock();
	return ok;
}

static void closed(struct batch *b)
{
	complete(b->arg);
}

struct chunk *ctx_unlink_chunk(struct ctx *c, u32 page)
{
	return xchg(&c->chunks[page / CHUNK_PAGES], NULL);
}

void ctx_follow(struct ctx *c, u32 page, u32 pages)
{
	struct batch_item it = { .page = page, .pages = (u16)pages, .prot = DSM_PROT_NONE };
	struct batch *b = kmalloc(sizeof(*b) + batch_room(), GFP_KERNEL | __GFP_NOFAIL);
	DECLARE_COMPLETION_ONSTACK(done);

	/* allocated, not on the stack: it contains a work item */
	*b = (struct batch){
		.ctx = c, .items = &it, .count = 1, .follow = true, .done = closed, .arg = &done
	};
	batch_init(b, b + 1);
	batch_start(b);
	wait_for_completion(&done);
	kfree(b);
}

/*
 * From here on nobody makes an entry for these frames: follow() in pte.c finds no chunk. Remove the
 * existing entries, then the translations made from them.
 */
void ctx_free_chunk(struct ctx *c, u32 page, struct chunk *k)
{
	ctx_follow(c, page & ~(CHUNK_PAGES - 1), k->n);
	secondary_zap(c, page & ~(CHUNK_PAGES - 1), k->n);
	account_uncharge_frames(c, k->n);
	free_chunk(k);
}

void ctx_keep_chunk(struct ctx *c, u32 page, struct chunk *k)
{
	ctx_follow(c, page & ~(CHUNK_PAGES - 1), k->n);
	secondary_zap(c, page & ~(CHUNK_PAGES - 1), k->n);
	memset(k->prot, DSM_PROT_NONE, sizeof(k->prot));
	smp_store_release(&c->chunks[page / CHUNK_PAGES], k);
}

/* ---- contexts ------------------------------------------------------------------------------- */

static void ctx_free(struct work_struct *work)
{
	struct ctx *c = container_of(work, struct ctx, free);

	if (c->rank)
		c->free_rank(c->rank);
	if (c->chunks)
		ctx_free_chunks(c);
	if (c->entries_wq)
		destroy_workqueue(c->entries_wq);
	cleanup_srcu_struct(&c->views_srcu);
	account_close_ctx(c);
	kfree(c);
	debug_count(GAUGE_CONTEXTS, -1);
}

static int make_chunks(struct ctx *c, u64 size)
{
	const size_t n = size / (CHUNK_PAGES * PAGE_SIZE);

	if (!account_charge(c, account_pages(n * sizeof(*c->chunks))))
		return -EDQUOT;
	c->chunks = kvcalloc(n, sizeof(*c->chunks), GFP_CTX);
	c->pages = (u32)(size >> PAGE_SHIFT);
	return c->chunks ? 0 : -ENOMEM; /* the caller frees the account, and with it the charge */
}

/*
 * Workers of a context wait for the same locks, so a few suffice. Two changes of one page can meet
 * in two workers (crossing).
 */
#define ENTRIES_WORKERS 4
/* The queue has a rescuer thread: charge its stack, and about as much again. */
#define ENTRIES_CHARGE account_pages(2 * THREAD_SIZE)
/* The context itself; SRCU has a part for each processor that the kernel has room for. */
#define CTX_CHARGE \
	account_pages(sizeof(struct ctx) + num_possible_cpus() * sizeof(struct srcu_data))

static int make_queue(struct ctx *c)
{
	if (!account_charge(c, ENTRIES_CHARGE + CTX_CHARGE))
		return -EDQUOT;
	c->entries_wq = alloc_workqueue("dsm-entries", WQ_HIGHPRI | WQ_UNBOUND | WQ_MEM_RECLAIM,
					ENTRIES_WORKERS);
	return c->entries_wq ? 0 : -ENOMEM;
}

struct ctx *ctx_create(struct view *v, u64 size)
{
	struct ctx *c = kzalloc(sizeof(*c), GFP_CTX);
	int err;

	if (!c)
		return ERR_PTR(-ENOMEM);
	if (init_srcu_struct(&c->views_srcu)) {
		kfree(c);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&c->ref);
	mutex_init(&c->lock);
	init_rwsem(&c->frames_sem);
	spin_lock_init(&c->views_lock);
	spin_lock_init(&c->charge_lock);
	INIT_LIST_HEAD(&c->views);
	INIT_WORK(&c->free, ctx_free);
	c->node = NUMA_NO_NODE;
	note_nodes(c);
	account_open_ctx(c, v);
	debug_count(GAUGE_CONTEXTS, 1);
	err = make_chunks(c, size);
	if (!err)
		err = make_queue(c);
	if (!err)
		return c;
	ctx_put(c);
	return ERR_PTR(err);
}

static void ctx_last(struct kref *ref)
{
	/* The last reference may be a message's, put in softirq. */
	queue_work(dsm_waiting_wq, &container_of(ref, struct ctx, ref)->free);
}

void ctx_put(struct ctx *c)
{
	kref_put(&c->ref, ctx_last);
}

bool ctx_dies_with_caller(struct ctx *c)
{
	bool is;

	spin_lock(&c->views_lock);
	is = c->nviews == 1 &&
		list_first_entry(&c->views, struct view, list)->owner == task_tgid(current);
	spin_unlock(&c->views_lock);
	return is;
}
