// SPDX-License-Identifier: GPL-2.0
/*
 * fault.c - page faults. A block needs frames, state and keys before it can arrive; then the fault
 * requests it, and waits.
 *
 * A fault polls for its answer for a while with mmap_lock held, unless another thread waits for
 * that lock, then drops the lock and sleeps. It also sleeps if no slot is
 * free. A signal ends the sleep; in a fault of the kernel, only a fatal one. Every function sleeps
 * unless its comment says otherwise.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "fault.h"
#include "../base/account.h"
#include "../base/compat.h"
#include "../net/conn.h"
#include "host.h"
#include "../net/key.h"
#include "../base/pool.h"
#include "rank.h"
#include "region.h"
#include "run.h"
#include "slot.h"
#include "step.h"
#include "table.h"
#include "../base/trace.h"

/* ---- blocks --------------------------------------------------------------------------------- */

static bool moves_to_first(const struct region *g)
{
	return g->home == DSM_REGION_FIRST_TOUCH || g->home == DSM_REGION_PARTS;
}

struct msg fault_request(const struct rank *r, const struct region *g, u32 page, u16 slot)
{
	return (struct msg){
		.version = WIRE_VERSION,
		.src = r->me,
		.dst = r->me,
		.object = block_id(page, 1u << g->order),
		.req_node = r->me,
		.req_slot = slot,
		.home = region_home(r, g, page),
		.flags = moves_to_first(g) ? MSGF_FIRST_TOUCH : 0,
	};
}

bool fault_request_at(struct rank *r, u32 page, struct msg *ask)
{
	const struct region *g;

	rcu_read_lock();
	g = region_at(r, page);
	if (g && page - g->page >= g->usable)
		g = NULL;
	if (g)
		*ask = fault_request(r, g, g->page + ((page - g->page) & ~((1u << g->order) - 1)),
				     0);
	rcu_read_unlock();
	return g;
}

u32 fault_frames(struct rank *r, u32 page)
{
	u32 start = page & ~(CHUNK_PAGES - 1), n = 0;
	struct region *g;

	rcu_read_lock();
	g = region_at(r, page);
	if (g)
		n = min(g->page + g->pages - start, CHUNK_PAGES);
	rcu_read_unlock();
	return n;
}

/* The number of frames that the region reaches in the 2 MiB around the page. */
static u32 frames_usable(struct rank *r, u32 page)
{
	u32 start = page & ~(CHUNK_PAGES - 1), n = 0;
	struct region *g;

	rcu_read_lock();
	g = region_at(r, page);
	if (g)
		n = region_usable(g, start);
	rcu_read_unlock();
	return n;
}

static bool prepared(struct rank *r, u32 page, u32 frames)
{
	struct chunk *k;
	bool is;

	rcu_read_lock();
	k = chunk_of(r->ctx, page);
	is = k && k->n >= frames && READ_ONCE(k->usable) == frames_usable(r, page) &&
		READ_ONCE(r->states[page / CHUNK_PAGES]) && (!r->conn || key_ready(r->conn, k));
	rcu_read_unlock();
	return is;
}

/*
 * The caller holds frames_sem. Frames may be older than the region: those of its home, made for
 * blocks that came back, or those of another region, which the process removed without FORGET.
 * Peers may know their key, so they stay. If there are too few, the process has made an error.
 */
static int fault_prepare_page(struct rank *r, u32 page, u32 frames)
{
	/* Whichever process of the node faults, its context pays. */
	struct mem_cgroup *before = account_memcg_begin(r->ctx);
	const unsigned int refused = account_refused(r->ctx);
	const u32 usable = frames_usable(r, page);
	int err = frames ? ctx_frames(r->ctx, page, frames, usable) : -EFAULT;
	struct chunk *k = chunk_of(r->ctx, page);

	if (!err && k->n < frames)
		err = -EFAULT;
	if (!err)
		WRITE_ONCE(k->usable, usable);
	if (!err && !table_state(r, page, GFP_CTX))
		err = account_refused(r->ctx) != refused ? -EDQUOT : -ENOMEM;
	if (!err && r->conn)
		err = key_make(r->conn, k, page / CHUNK_PAGES);
	account_memcg_end(before);
	return err;
}

int fault_prepare(struct rank *r, u32 page, u32 frames)
{
	int err;

	if (prepared(r, page, frames))
		return 0;
	if (down_read_killable(&r->ctx->frames_sem))
		return -EINTR;
	err = fault_prepare_page(r, page, frames);
	up_read(&r->ctx->frames_sem);
	return err;
}

/* Bottom halves are off. Messages are queued, and not sent yet. */
void fault_prefetch(struct rank *r, u32 block, bool write, u8 flags, u16 manager, bool back)
{
	const int slot = slot_try(r, block, back);
	struct core_waiter t = { .wait = -1 };
	struct msg ask = { .version = WIRE_VERSION,
			   .src = r->me,
			   .dst = r->me,
			   .object = block,
			   .req_node = r->me,
			   .req_slot = (u16)slot,
			   .home = manager,
			   .flags = flags };

	if (slot < 0)
		return; /* this is only a hint: a caller that needs the block retries */
	/* The block is open, or another slot's request is in progress: this slot is not used. */
	if (host_page(r, write ? PE_WRITE : PE_READ, &ask, &t) || t.wait != slot)
		slot_put(r, slot);
}

/* ---- faults --------------------------------------------------------------------------------- */

static void note_latency(struct dsm_ioc_stats *s, unsigned int kind, u64 ns)
{
	unsigned int bucket = min_t(unsigned int, ns ? ilog2(ns) : 0, DSM_BUCKETS - 1);

	WRITE_ONCE(s->latency_count[kind], s->latency_count[kind] + 1);
	WRITE_ONCE(s->latency_sum[kind], s->latency_sum[kind] + ns);
	if (ns > s->latency_max[kind])
		WRITE_ONCE(s->latency_max[kind], ns);
	WRITE_ONCE(s->latency[kind][bucket], s->latency[kind][bucket] + 1);
}

static bool may_drop(const struct vm_fault *vmf)
{
	return fault_flag_allow_retry_first(vmf->flags) && !(vmf->flags & FAULT_FLAG_RETRY_NOWAIT);
}

/* fault_prepare() in a fault. -EAGAIN: other frames are being freed. */
int fault_prepare_now(struct rank *r, u32 page)
{
	const u32 frames = fault_frames(r, page);
	int err;

	if (prepared(r, page, frames))
		return 0;
	if (!down_read_trylock(&r->ctx->frames_sem))
		return -EAGAIN;
	err = fault_prepare_page(r, page, frames);
	up_read(&r->ctx->frames_sem);
	return err;
}

/*
 * Only an access from user space may be interrupted: on return the thread runs its signal handlers
 * and repeats the access. The kernel would repeat the access at once, with the signal still
 * pending.
 */
static bool may_interrupt(const struct vm_fault *vmf)
{
	return vmf->flags & FAULT_FLAG_USER && vmf->flags & FAULT_FLAG_INTERRUPTIBLE;
}

/*
 * The fault may wait long, so it drops mmap_lock for others if it may. *dropped: mmap_lock is no
 * longer held.
 */
static void drop_if_allowed(struct vm_fault *vmf, bool *dropped)
{
	if (!*dropped && may_drop(vmf)) {
		compat_fault_unlock(vmf);
		*dropped = true; /* vmf->vma must not be used from here on */
	}
}

static bool killable(const struct vm_fault *vmf, bool dropped)
{
	return !dropped || !may_interrupt(vmf);
}

/*
 * Wait for an answer. After a signal the request continues like a prefetch, without the thread; the
 * repeated access joins it.
 */
static int wait_in_fault(struct rank *r, struct vm_fault *vmf, unsigned int slot, u32 seq,
			 bool *dropped)
{
	if (slot_spin(r, slot, seq, 1, *dropped ? NULL : vmf->vma->vm_mm))
		return 0;
	drop_if_allowed(vmf, dropped);
	return slot_sleep(r, slot, seq, 1, 0, killable(vmf, *dropped));
}

/*
 * Waiting threads may use all slots while other ranks have pinned those blocks: then sleep until a
 * slot is free.
 */
static int slot_in_fault(struct rank *r, struct vm_fault *vmf, bool *dropped)
{
	int slot = slot_now(r);

	if (slot != -EAGAIN)
		return slot;
	drop_if_allowed(vmf, dropped);
	return slot_get(r, SLOT_BLOCK, killable(vmf, *dropped));
}

static u8 fault_allowed(const struct ctx *c, u32 page)
{
	struct chunk *k;
	u8 prot;

	rcu_read_lock();
	k = chunk_with(c, page, 1);
	prot = k ? READ_ONCE(k->prot[page % CHUNK_PAGES]) : DSM_PROT_NONE;
	rcu_read_unlock();
	return prot;
}

/* The number of blocks, of `step` pages each, to fetch behind the page that is read now. */
static u32 window_behind(struct rank *r, u32 page, u32 step)
{
	const u32 most = min(r->readahead, CHUNK_PAGES / step);
	u32 i, window;

	for (i = 0; i < STREAMS && READ_ONCE(r->streams[i].next) != page; i++)
		;
	if (i == STREAMS) {
		i = r->stream_turn++ % STREAMS;
		window = 0;
	} else {
		window = min(READ_ONCE(r->streams[i].window) * 2 + 1, most);
	}
	WRITE_ONCE(r->streams[i].window, window);
	WRITE_ONCE(r->streams[i].next, page + (1 + window) * step);
	return window;
}

/* The window planned up to `planned` was fetched only up to `page`: the stream continues there. */
static void window_ends(struct rank *r, u32 planned, u32 page)
{
	u32 i;

	for (i = 0; i < STREAMS; i++)
		if (READ_ONCE(r->streams[i].next) == planned)
			WRITE_ONCE(r->streams[i].next, page);
}

/* Bottom halves are off. Fetches only blocks that already have frames. */
static void fault_read_ahead(struct rank *r, u32 page)
{
	struct region *g;
	u32 step, n, asked = 0;

	rcu_read_lock();
	g = region_at(r, page);
	step = g ? 1u << g->order : 1;
	for (n = g && r->readahead ? window_behind(r, page, step) : 0; n; n--) {
		struct msg ask;

		page += step;
		if (page >= g->page + g->pages || !prepared(r, page, fault_frames(r, page)))
			break;
		if (fault_allowed(r->ctx, page) != DSM_PROT_NONE)
			continue;
		ask = fault_request(r, g, page, 0);
		fault_prefetch(r, ask.object, false, ask.flags, ask.home, false);
		asked++;
	}
	if (asked)
		WRITE_ONCE(g->stats.prefetched, g->stats.prefetched + asked);
	rcu_read_unlock();
}

/*
 * The number of blocks from `page` on, at most `most`, that have the same home and lie in the same
 * 2 MiB.
 */
static u32 neighbours(struct rank *r, const struct region *g, u32 page, u32 most)
{
	const u32 step = 1u << g->order,
		  end = min(g->page + g->pages, round_up(page + 1, CHUNK_PAGES));
	const u16 home = region_home(r, g, page);
	u32 n = 1;

	while (n < most && page + n * step < end && region_home(r, g, page + n * step) == home)
		n++;
	return n;
}

/*
 * A block that no rank has touched, at its home, needs no message; entering the kernel is most of
 * the cost. So a thread that touches blocks in order opens more and more of them in one fault.
 */
static bool fault_first(struct rank *r, const struct msg *ask, bool write)
{
	const u32 page = block_page(ask->object);
	struct region *g;
	u32 window = 0, most = 1, n;

	if (!step_is_first(r, ask))
		return false;
	rcu_read_lock();
	g = region_at(r, page);
	/*
	 * Check that the block size is the same: a process may break the rules and replace a region
	 * during a fault.
	 */
	if (g && r->readahead && block_id(page, 1u << g->order) == ask->object) {
		window = window_behind(r, page, 1u << g->order);
		most = neighbours(r, g, page, 1 + window);
	}
	rcu_read_unlock();
	n = host_first(r, ask, write, most);
	if (n && n <= window)
		window_ends(r, page + (1 + window) * block_pages(ask->object),
			    page + n * block_pages(ask->object));
	return n;
}

#define NO_SLOT 0xffffu

/* Try once to get a block. 0: try again; 1: open; -errno. */
static int ask_once(struct rank *r, struct vm_fault *vmf, struct msg *ask, bool write,
		    bool *dropped)
{
	struct core_waiter t = { .wait = -1 };
	bool open;
	int err;

	pool_begin();
	open = host_page(r, write ? PE_WRITE : PE_READ, ask, &t);
	if (!open && !write && t.wait == ask->req_slot)
		fault_read_ahead(r, block_page(ask->object));
	run_queued();
	local_bh_enable();
	if (open)
		return 1;
	if (t.wait < 0)
		return -EIO;
	err = wait_in_fault(r, vmf, t.wait, t.seq, dropped);
	if (t.wait != ask->req_slot) /* it is another thread's request: try again */
		return err;
	if (err && slot_abandon(r, t.wait, t.seq)) {
		ask->req_slot = NO_SLOT; /* the answer will free it */
		return err;
	}
	pool_begin();
	host_page(r, PE_USED, ask, &t);
	/* Wake the threads that joined after the answer. */
	slot_complete(r, ask->req_slot, 0, 0);
	run_queued();
	local_bh_enable();
	return 1;
}

static vm_fault_t fault_result(int err, bool dropped)
{
	/*
	 * RETRY repeats the access, which faults again if necessary. pfn_mkwrite() needs NOPAGE:
	 * its caller does not know RETRY.
	 */
	if (dropped)
		return VM_FAULT_RETRY | VM_FAULT_NOPAGE;
	if (err < 0)
		return err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	return VM_FAULT_NOPAGE;
}

static vm_fault_t fault(struct rank *r, struct vm_fault *vmf, u32 page, bool write)
{
	struct ctx *c = r->ctx;
	struct dsm_ioc_stats *s;
	struct region *g;
	bool dropped = false, upgrade;
	struct msg ask;
	u64 start;
	int slot, err;

	/* The kernel repeats an access without a check for signals, maybe without end. */
	cond_resched();
	if (READ_ONCE(r->dead) || fatal_signal_pending(current))
		return VM_FAULT_SIGBUS;
	/*
	 * The block was here when this fault dropped mmap_lock, and was taken away before the fault
	 * had the lock again. Do not sleep with the lock held: return, so that the access faults
	 * anew, and that fault may drop the lock.
	 */
	if (vmf->flags & FAULT_FLAG_ALLOW_RETRY && vmf->flags & FAULT_FLAG_TRIED)
		return VM_FAULT_NOPAGE;
	/*
	 * A library removes a region only when no thread uses it. A process that breaks this rule
	 * harms only itself.
	 */
	if (!fault_request_at(r, page, &ask))
		return VM_FAULT_SIGBUS;
	page = block_page(ask.object);
	err = fault_prepare_now(r, page);
	if (err == -EAGAIN) {
		if (!may_drop(vmf))
			return VM_FAULT_NOPAGE;
		compat_fault_unlock(vmf);
		/* a killed thread does not repeat the access */
		if (!down_read_killable(&c->frames_sem))
			up_read(&c->frames_sem);
		return VM_FAULT_RETRY | VM_FAULT_NOPAGE;
	}
	if (err)
		return err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	slot = slot_in_fault(r, vmf, &dropped);
	if (slot < 0)
		return fault_result(slot, dropped);
	ask.req_slot = (u16)slot;
	WRITE_ONCE(slot_at(r, slot)->object, ask.object);
	if (fault_first(r, &ask, write)) {
		slot_complete(r, slot, 0, 0); /* other threads may have come to wait for it */
		slot_put(r, slot);
		return fault_result(1, dropped);
	}
	start = ktime_get_ns();
	upgrade = write && fault_allowed(c, page) == DSM_PROT_READ;
	do {
		err = ask_once(r, vmf, &ask, write, &dropped);
	} while (!err && !dropped);
	if (ask.req_slot != NO_SLOT)
		slot_put(r, slot);
	if (trace_dsm_fault_enabled())
		trace_dsm_fault(r->me, page, write, ktime_get_ns() - start, err);
	if (err == 1) {
		unsigned int kind = upgrade ? 2 : write ? 1 : 0;

		rcu_read_lock();
		g = region_at(r, page);
		s = g ? &g->stats : &r->none;
		if (upgrade)
			WRITE_ONCE(s->upgrades, s->upgrades + 1);
		else if (write)
			WRITE_ONCE(s->write_faults, s->write_faults + 1);
		else
			WRITE_ONCE(s->read_faults, s->read_faults + 1);
		note_latency(s, kind, ktime_get_ns() - start);
		rcu_read_unlock();
	}
	return fault_result(err, dropped);
}

vm_fault_t fault_handle(struct rank *r, struct vm_fault *vmf, u32 page, bool write)
{
	vm_fault_t result;

	if (!rank_enter(r))
		return VM_FAULT_SIGBUS;
	result = fault(r, vmf, page, write);
	rank_exit(r);
	return result;
}
