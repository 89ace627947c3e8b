// SPDX-License-Identifier: GPL-2.0
/*
 * txn.c - changes of access. Access ends only when other processors have acknowledged that, and
 * nobody waits for them. The message that tells another rank, with the block or without, is a
 * transaction (struct txn), which the last acknowledgement continues.
 */
#include <linux/highmem.h>
#include <linux/slab.h>

#include "txn.h"
#include "../base/account.h"
#include "../net/conn.h"
#include "../base/debug.h"
#include "host.h"
#include "inject.h"
#include "../net/key.h"
#include "../base/pool.h"
#include "../base/pte.h"
#include "rank.h"
#include "run.h"
#include "table.h"
#include "../base/trace.h"
#include "../base/work.h"

struct txn {
	struct batch b;
	struct batch_item item;
	struct rank *rank;
	struct work_struct work; /* memory was short when access had ended */
	/* core_lowered() sends it when access has ended; MSG_NONE: nothing */
	struct msg m;
};

static struct pool txns;

#define TXN_BYTES (sizeof(struct txn) + batch_room())

/* ---- blocks that move ----------------------------------------------------------------------- */

/* Copy a block to the frames of a rank in this kernel. */
static bool copy_block(struct rank *from, struct rank *to, u32 object)
{
	u32 page = block_page(object), i;
	struct chunk *src = chunk_with(from->ctx, page, block_pages(object));
	struct chunk *dst = chunk_with(to->ctx, page, block_pages(object));

	if (!src || !dst)
		return false;
	for (i = page % CHUNK_PAGES; i < page % CHUNK_PAGES + block_pages(object); i++)
		copy_highpage(dst->frames[i], src->frames[i]);
	return true;
}

void txn_send_block(struct rank *r, const struct msg *m)
{
	struct dsm_ioc_stats *s = stats_of(r, m->object);
	struct rank *to = READ_ONCE(r->here[m->dst]);

	if (READ_ONCE(r->dead))
		return;
	count(s->blocks_out, 1);
	count(s->bytes_out, (u64)block_pages(m->object) << PAGE_SHIFT);
	if (to) {
		/*
		 * The requester has made frames before it asked, unless its process has forgotten
		 * the range, against the rules.
		 */
		if (copy_block(r, to, m->object)) {
			run_route(r, m);
		} else {
			debug_count(COUNT_BAD, 1);
			rank_peer_lost(r, r->me, -EFAULT);
		}
	} else if (r->conn) {
		count(r->messages_out, 1);
		trace_dsm_message_out(r->me, m);
		key_send_block(r->conn, m->dst, m);
	} else {
		inject_sent(r, m);
	}
}

static void clear_used(struct chunk *k, u32 from, u32 n)
{
	u32 i;

	for (i = from; i < from + n; i++)
		if (test_bit(i, k->used))
			clear_highpage(k->frames[i]);
}

/* ---- transactions --------------------------------------------------------------------------- */

static void txn_go_on(struct txn *t)
{
	struct rank *r = t->rank;

	if (!READ_ONCE(r->dead) && t->m.type != MSG_NONE)
		core_lowered(&r->core, &t->m, NULL);
	run_queued();
}

static void txn_end(struct txn *t)
{
	struct rank *r = t->rank;

	txn_go_on(t);
	pool_put(&txns, t);
	account_uncharge_bytes(r->ctx, TXN_BYTES);
	rank_exit(r);
}

static void txn_later(struct work_struct *work)
{
	pool_begin();
	txn_end(container_of(work, struct txn, work));
	local_bh_enable();
}

static void txn_done(struct batch *b)
{
	struct txn *t = container_of(b, struct txn, b);

	local_bh_disable();
	if (pools_full()) {
		txn_end(t);
	} else {
		debug_count(COUNT_USED_UP, 1);
		INIT_WORK(&t->work, txn_later);
		queue_work(dsm_wq, &t->work);
	}
	local_bh_enable();
}

/* NULL: no memory, and the rank is lost, or it has stopped. */
static struct txn *txn_get(struct rank *r, u32 object, u8 prot)
{
	struct txn *t;

	if (!account_charge_bytes(r->ctx, TXN_BYTES))
		goto fail;
	if (!rank_enter(r))
		goto uncharge;
	t = pool_get(&txns);
	if (!t)
		goto leave;
	batch_init(&t->b, t + 1);
	t->rank = r;
	t->b.ctx = r->ctx;
	t->b.items = &t->item;
	t->b.count = 1;
	t->b.done = txn_done;
	t->b.follow = false;
	t->item = (struct batch_item){ .page = block_page(object),
				       .pages = (u16)block_pages(object),
				       .prot = prot };
	t->m.type = MSG_NONE;
	return t;

leave:
	rank_exit(r);
uncharge:
	account_uncharge_bytes(r->ctx, TXN_BYTES);
fail:
	host_no_memory(r);
	return NULL;
}

static const u8 uapi_prot[] = {
	[PROT_CLOSED] = DSM_PROT_NONE, [PROT_RO] = DSM_PROT_READ, [PROT_RW] = DSM_PROT_WRITE
};

/*
 * The rank drops a copy unasked. Write the protection while the stripe is held: the answer to a new
 * request may come before the table entry is changed. txn_follow_drop() is next on this processor,
 * and its batch begins with the barrier between this store and the walk of the page tables
 * (want_first() in pte.c).
 */
void txn_drop_now(struct rank *r, u32 object)
{
	struct chunk *k = chunk_with(r->ctx, block_page(object), block_pages(object));

	if (k)
		memset(&k->prot[block_page(object) % CHUNK_PAGES], DSM_PROT_NONE,
		       block_pages(object));
}

void txn_follow_drop(struct rank *r, u32 object)
{
	struct txn *t = txn_get(r, object, DSM_PROT_NONE);

	if (!t)
		return;
	t->b.follow = true;
	batch_start(&t->b);
}

bool txn_lower(struct rank *r, const struct core_leave *l)
{
	struct dsm_ioc_stats *s = stats_of(r, l->m->object);
	struct txn *t;

	if (l->to == PROT_CLOSED)
		count(s->invalidations, 1);
	else if (l->from == PROT_RW)
		count(s->downgrades, 1);
	if (l->from == l->to)
		return true;
	t = txn_get(r, l->m->object, uapi_prot[l->to]);
	if (t) {
		t->m = *l->m;
		batch_start(&t->b);
	}
	return false;
}

/*
 * The address space of the thread that waits for a block. NULL: unknown, or the request is of no
 * process.
 */
static const struct mm_struct *asker(struct rank *r, const struct msg *m)
{
	const struct slot *s = m->req_node == r->me ? slot_at(r, m->req_slot) : NULL;

	return s ? READ_ONCE(s->mm) : NULL;
}

/*
 * Access grows, so no translation is stale. A fault later changes each entry that cannot be changed
 * now.
 */
void txn_open(struct rank *r, const struct action *a, const struct msg *m, u32 blocks)
{
	struct batch_item it = { .page = block_page(m->object),
				 .pages = (u16)(blocks * block_pages(m->object)),
				 .prot = uapi_prot[a->prot] };
	struct dsm_ioc_stats *s = stats_of(r, m->object);
	struct batch b __uninitialized;
	struct chunk *k = chunk_with(r->ctx, it.page, it.pages);
	u32 i;

	if (!k) {
		host_bad(r, m); /* the peer invented it: this rank asked for nothing */
		return;
	}
	if (a->from == OPEN_ZERO) {
		clear_used(k, it.page % CHUNK_PAGES, it.pages);
		count(s->local_faults, 1);
		count(s->prefetched, blocks - 1);
	} else if (a->from == OPEN_DATA || a->from == OPEN_LANDED) {
		count(s->blocks_in, 1);
		count(s->bytes_in, (u64)block_pages(m->object) << PAGE_SHIFT);
	}
	for (i = it.page % CHUNK_PAGES; i < it.page % CHUNK_PAGES + it.pages; i++)
		set_bit(i, k->used);
	b.ctx = r->ctx;
	b.items = &it;
	b.count = 1;
	b.follow = false;
	b.only = asker(r, m);
	b.deferred = b.nflush = 0;
	batch_open(&b);
}

int txn_start(void)
{
	return pool_create(&txns, "dsm_txn", TXN_BYTES, __alignof__(struct txn), KEEP_TXNS);
}

void txn_stop(void)
{
	pool_destroy(&txns);
}
