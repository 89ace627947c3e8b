// SPDX-License-Identifier: GPL-2.0
/*
 * egress.c - messages and blocks that wait to be sent to a peer. The scheduler of librshare
 * (libdsm/share) chooses the next one; it is pure code.
 *
 * The lanes to a peer share one scheduler. Coherence and synchronisation are strict: while a
 * message of theirs waits, for a place in its send queue or for credit, no block is sent. Blocks
 * take turns by the priority of their region, and are cut into chunks. A window bounds the bytes of
 * blocks that are posted and have not completed: nothing can overtake posted work, neither in the
 * device's queue nor on the link. Messages are short, and do not count in the window.
 *
 * If nothing waits, a message or block is sent at once, without the scheduler (egress_is_free());
 * that costs one comparison with the window.
 *
 * A flow has one operation in the scheduler: the first of its waiting messages or blocks.
 */
#include <linux/moduleparam.h>
#include <linux/seq_file.h>

#include "egress.h"
#include "../base/account.h"
#include "../base/debug.h"
#include "../base/pool.h"

static unsigned int window = 128 << 10;
module_param_named(send_window, window, uint, 0600);
MODULE_PARM_DESC(
	send_window,
	"bytes of blocks on their way to a peer, of ranks that join; 0: any number (default: 128 KiB)");

static unsigned int chunk = 16 << 10;
module_param_named(send_chunk, chunk, uint, 0600);
MODULE_PARM_DESC(
	send_chunk,
	"bytes of a block that go in one piece, of ranks that join; 0: all (default: 16 KiB)");

/*
 * The priorities of librshare (libdsm/net/shared): messages and blocks that a thread waits for come
 * first. Urgent blocks count in the window of blocks.
 */
static const struct {
	u8 class, priority, weight;
} kinds[FLOWS] = {
	[FLOW_COHERENCE] = { CLASS_COHERENCE, RS_PRIORITIES - 1, 1 },
	[FLOW_SYNC] = { CLASS_SYNC, RS_PRIORITIES - 1, 1 },
	[FLOW_BULK] = { CLASS_BULK, 0, 1 },
	[FLOW_DATA + DSM_REGION_NORMAL] = { CLASS_DATA, 0, 4 },
	[FLOW_DATA + DSM_REGION_LOW] = { CLASS_DATA, 0, 1 },
	[FLOW_DATA + DSM_REGION_HIGH] = { CLASS_DATA, 0, 16 },
	[FLOW_DATA + DSM_REGION_URGENT] = { CLASS_DATA, RS_PRIORITIES - 2, 1 },
};

static struct pool waitings; /* messages that wait for a place in the queue, a turn or a key */

/* ---- waiting messages ------------------------------------------------------------------------ */

struct waiting *waiting_new(struct lane *l, unsigned int waiting, const struct msg *m, bool block,
			    const char *how)
{
	struct conn *c = l->conn;
	struct waiting *w = NULL;

	if (waiting < c->cfg.waiting_max) {
		how = "messages for it need more memory than its user may lock";
		if (account_charge_bytes(c->cfg.ctx, sizeof(*w))) {
			how = "no memory";
			w = pool_get(&waitings);
			if (!w)
				account_uncharge_bytes(c->cfg.ctx, sizeof(*w));
		}
	}
	if (!w) {
		lane_broken(l, how, -ENOBUFS);
		return NULL;
	}
	w->m = *m;
	w->block = block;
	w->own = false;
	return w;
}

void waiting_put(struct conn *c, struct waiting *w)
{
	if (w->own)
		return;
	pool_put(&waitings, w);
	account_uncharge_bytes(c->cfg.ctx, sizeof(*w));
}

unsigned int waiting_put_all(struct conn *c, struct list_head *list)
{
	struct waiting *w, *next;
	unsigned int n = 0;

	list_for_each_entry_safe(w, next, list, list) {
		waiting_put(c, w);
		n++;
		cond_resched();
	}
	return n;
}

/* ---- flows ---------------------------------------------------------------------------------- */

static struct flow *flow_of(struct lane *l, const struct msg *m, bool block)
{
	const struct conn_config *cfg = &l->conn->cfg;
	struct flow *flows = l->egress->flows;

	switch (l->class) {
	case CLASS_COHERENCE: return &flows[FLOW_COHERENCE];
	case CLASS_SYNC: return &flows[FLOW_SYNC];
	case CLASS_BULK: return &flows[FLOW_BULK];
	default:
		return &flows[FLOW_DATA +
			      (block ? cfg->ops->priority(cfg->arg, m->object)
				     : DSM_REGION_NORMAL)];
	}
}

static u32 waiting_bytes(const struct waiting *w)
{
	return w->block ? block_pages(w->m.object) << PAGE_SHIFT : 0;
}

static void first_waits(struct flow *f)
{
	const struct waiting *w = list_first_entry(&f->waiting, struct waiting, list);

	WARN_ON_ONCE(!rs_sched_push(&f->lane->egress->sched, &f->turns, waiting_bytes(w)));
}

static void flow_enter(struct flow *f, struct waiting *w)
{
	struct lane *l = f->lane;

	list_add_tail(&w->list, &f->waiting);
	l->nwaiting++;
	l->egress->nwaiting++;
	l->egress->nstrict += l->strict;
	debug_count(GAUGE_WAITING, 1);
	if (list_is_singular(&f->waiting))
		first_waits(f);
}

static void flow_leave(struct flow *f, struct waiting *w)
{
	struct lane *l = f->lane;

	list_del(&w->list);
	l->nwaiting--;
	l->egress->nwaiting--;
	l->egress->nstrict -= l->strict;
	debug_count(GAUGE_WAITING, -1);
	waiting_put(l->conn, w);
}

/* Send the next chunk of the flow's first waiting message. */
static void send_next(struct egress *e, struct flow *f)
{
	struct waiting *w = list_first_entry(&f->waiting, struct waiting, list);
	struct rs_chunk c;

	rs_sched_take(&e->sched, &f->turns, &c);
	/* no limit here: lane->room counts places in the queue */
	rs_sched_placed(&e->sched, &f->turns);
	if (w->block) {
		debug_count(COUNT_CHUNKS, 1);
		egress_note(e);
		lane_post_block(f->lane, &w->m, c.offset, c.len);
	} else {
		rs_sched_landed(&e->sched, c.lane, rs_cost(c.len));
		lane_post_message(f->lane, &w->m);
	}
	if (!c.last)
		return;
	flow_leave(f, w);
	if (!list_empty(&f->waiting))
		first_waits(f);
}

static void egress_flush(struct egress *e)
{
	struct rs_flow *next;

	while (e->nwaiting && (next = rs_sched_next(&e->sched))) {
		struct flow *f = container_of(next, struct flow, turns);

		if (READ_ONCE(f->lane->broken))
			return; /* everything that waits for this peer is about to be freed */
		if (lane_may_send(f->lane)) {
			send_next(e, f);
		} else {
			f->lane->paused = true;
			rs_sched_hold(&e->sched, next);
		}
	}
}

void egress_go_on(struct lane *l)
{
	struct egress *e = l->egress;
	struct flow *f;

	if (l->paused && lane_may_send(l)) {
		l->paused = false;
		for (f = e->flows; f < e->flows + FLOWS; f++)
			if (f->lane == l)
				rs_sched_resume(&e->sched, &f->turns);
	}
	egress_flush(e);
}

/* The reason why a message waits, as a counter. */
static enum counter reason(const struct lane *l)
{
	if (l->room <= 1)
		return COUNT_QUEUED;
	if (l->credit <= 1)
		return COUNT_NO_CREDIT;
	return l->strict             ? COUNT_QUEUED
		: l->egress->nstrict ? COUNT_STRICT_FIRST
				     : COUNT_WINDOW_FULL;
}

void egress_wait(struct lane *l, const struct msg *m, bool block)
{
	struct flow *f = flow_of(l, m, block);
	struct waiting *w = &f->own;

	debug_count(reason(l), 1);
	if (!block || !list_empty(&f->waiting)) {
		w = waiting_new(l, l->nwaiting, m, block, "it takes no messages");
		if (!w)
			return;
	} else {
		*w = (struct waiting){ .m = *m, .block = true, .own = true };
	}
	flow_enter(f, w);
	egress_flush(l->egress);
}

void egress_add(struct lane *l, struct waiting *w)
{
	if (!egress_is_free(l, waiting_bytes(w)))
		debug_count(reason(l), 1);
	flow_enter(flow_of(l, &w->m, w->block), w);
	egress_flush(l->egress);
}

unsigned int egress_forget(struct lane *l)
{
	struct egress *e = l->egress;
	struct flow *f;
	LIST_HEAD(all);

	spin_lock_bh(&e->lock);
	for (f = e->flows; f < e->flows + FLOWS; f++)
		if (f->lane == l) {
			list_splice_tail_init(&f->waiting, &all);
			rs_sched_drop(&e->sched, &f->turns);
		}
	debug_count(GAUGE_WAITING, -(u64)l->nwaiting);
	e->nwaiting -= l->nwaiting;
	e->nstrict -= l->strict ? l->nwaiting : 0;
	l->nwaiting = 0;
	spin_unlock_bh(&e->lock);
	return waiting_put_all(l->conn, &all);
}

/* ---- peers ---------------------------------------------------------------------------------- */

/*
 * A block is cut at page boundaries. The window has room for two chunks: if the next chunk does not
 * fit, more than half of the window is in flight. Then a signalled request is in flight
 * (lane->signal_bytes), and its completion makes room.
 */
void egress_start(struct conn *c, u16 peer)
{
	const u32 most = CHUNK_PAGES << PAGE_SHIFT, wanted = READ_ONCE(chunk),
		  bytes = READ_ONCE(window);
	const u32 piece =
		wanted ? clamp_t(u32, round_down(wanted, PAGE_SIZE), PAGE_SIZE, most) : most;
	const u32 max_bytes[RS_LANES] = { U32_MAX, bytes ? max(bytes, 2 * piece) : U32_MAX };
	const u32 max_chunks[RS_LANES] = { U32_MAX, U32_MAX };
	struct egress *e = &c->egress[peer];
	unsigned int i;

	BUILD_BUG_ON(FLOW_DATA + DSM_REGION_PRIORITIES != FLOWS);
	spin_lock_init(&e->lock);
	rs_sched_init(&e->sched, piece, max_bytes, max_chunks);
	for (i = 0; i < FLOWS; i++) {
		struct flow *f = &e->flows[i];

		f->lane = lane_of(c, peer, kinds[i].class);
		f->lane->egress = e;
		f->lane->strict = kinds[i].class == CLASS_COHERENCE || kinds[i].class == CLASS_SYNC;
		f->lane->signal_bytes = max_bytes[RS_WEIGHTED] / 2;
		INIT_LIST_HEAD(&f->waiting);
		rs_flow_init_on(&f->turns, kinds[i].priority, kinds[i].weight,
				f->lane->strict ? RS_STRICT : RS_WEIGHTED);
	}
}

void egress_show(struct seq_file *f, struct conn *c)
{
	u64 bytes = 0, waiting = 0, chunk_bytes = 0, window_bytes = 0;
	u32 most = 0;
	u16 p;

	for (p = 0; p < c->cfg.size; p++) {
		struct egress *e = &c->egress[p];

		if (p == c->cfg.me)
			continue;
		spin_lock_bh(&e->lock);
		bytes += e->sched.lane[RS_WEIGHTED].bytes;
		waiting += e->nwaiting;
		most = max(most, e->most);
		chunk_bytes = e->sched.chunk;
		window_bytes = e->sched.lane[RS_WEIGHTED].max_bytes;
		spin_unlock_bh(&e->lock);
	}
	seq_printf(
		f,
		"  blocks on their way: %llu bytes, to a peer at most %u of %llu, chunks of %llu; %llu sends wait\n",
		bytes, most, window_bytes, chunk_bytes, waiting);
}

void egress_list(struct seq_file *f, struct conn *c)
{
	u16 p;

	for (p = 0; p < c->cfg.size; p++) {
		struct egress *e = &c->egress[p];
		bool waits;

		spin_lock_bh(&e->lock);
		waits = e->nwaiting || rs_sched_backlog(&e->sched);
		spin_unlock_bh(&e->lock);
		if (waits)
			seq_printf(f, "  sends to %u wait\n", p);
	}
}

int egress_init(void)
{
	return pool_create(&waitings, "dsm_waiting", sizeof(struct waiting),
			   __alignof__(struct waiting), KEEP_MESSAGES);
}

void egress_exit(void)
{
	pool_destroy(&waitings);
}
