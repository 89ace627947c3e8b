// SPDX-License-Identifier: GPL-2.0
/*
 * host.c - hosts the core in the kernel: messages to machines, and actions to what they mean here.
 *
 * As libdsm/engine/run.c does in a process, but for what ends somebody's access: that takes a round of acknowledgements from
 * other processors, and nobody waits for it. The rest of the actions, or the message that carries the block, is a transaction
 * (struct txn) which the last acknowledgement goes on with.
 */
#include <linux/highmem.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "rank.h"

struct txn {
	struct batch b;
	struct batch_item item;
	struct rank *rank;
	struct msg event;      /* what the actions follow from */
	struct msg data;       /* type MSG_DATA: send it with the block when access has ended */
	struct actions acts;   /* else: go on with these */
	unsigned int at;
};

struct hold_timer {
	struct hrtimer timer;
	struct rank *rank;
	u32 object;
};

struct later {
	struct work_struct work;
	struct rank *rank;
	struct msg m;
};

/* Messages for ranks of this kernel, by processor. A thread of a prefetch of 128 blocks causes some 500. */
#define RUNQ 4096u
struct runq {
	u32 head, tail;
	bool running;
	struct {
		struct rank *to;
		struct msg m;
	} items[RUNQ];
};

static struct runq **runqs; /* by processor */
static struct kmem_cache *txns, *timers;

static void carry_out(struct rank *r, const struct actions *acts, unsigned int from, const struct msg *m);

/* ---- small things --------------------------------------------------------------------------- */

static spinlock_t *stripe_of(struct rank *r, u32 object)
{
	return &r->stripes[(object * 0x9e3779b1u) >> 22];
}

static struct page_ctx page_ctx(const struct rank *r)
{
	return (struct page_ctx){ .me = r->me, .now = now_us(), .hold_us = r->hold_us };
}

static struct dsm_ioc_stats *stats_of(struct rank *r, u32 object)
{
	struct region *g = rank_region_at(r, block_page(object));

	return g ? &g->stats : &r->none;
}

/* Counters are near enough: two processors may lose one. */
#define count(field, n) WRITE_ONCE(field, READ_ONCE(field) + (n))

static bool block_ok(const struct rank *r, u32 object)
{
	u32 pages = block_pages(object), page = block_page(object);

	return object && pages <= CHUNK_PAGES && !(page % pages) && page < r->ctx->pages && pages <= r->ctx->pages - page;
}

static void bad(struct rank *r, const struct msg *m)
{
	debug_count(COUNT_BAD, 1);
	pr_info_ratelimited("dsm: rank %u: rank %u sent %s for object %#x, which no correct rank could\n", r->me, m->src,
			    wire_name(m->type), m->object);
	if (m->src != r->me)
		rank_peer_lost(r, m->src, -EBADMSG);
}

/* ---- routing -------------------------------------------------------------------------------- */

static void route(struct rank *r, const struct msg *m)
{
	struct rank *to = READ_ONCE(r->here[m->dst]);
	struct runq *q;

	if (READ_ONCE(r->dead))
		return;
	if (!to) {
		count(r->messages_out, 1);
		if (r->conn)
			conn_send(r->conn, m->dst, m);
		return;
	}
	q = runqs[smp_processor_id()];
	if (WARN_ON_ONCE(q->tail - q->head == RUNQ))
		return;
	q->items[q->tail % RUNQ].to = to;
	q->items[q->tail++ % RUNQ].m = *m;
}

void host_send(struct rank *r, const struct msg *m)
{
	struct msg copy = *m;

	copy.version = WIRE_VERSION;
	route(r, &copy);
	host_run();
}

/*
 * A block comes back to its home, this rank, which may have left the region, or never been there: then the message says how
 * many frames to make (aux).
 */
static void take_back(struct rank *r, const struct msg *m)
{
	u32 page = block_page(m->object), frames = frames_wanted(r, page);
	int err;

	if (!frames)
		frames = m->aux;
	if (frames > CHUNK_PAGES || page % CHUNK_PAGES + block_pages(m->object) > frames) {
		bad(r, m);
		return;
	}
	err = prepare_block(r, page, frames);
	if (err) {
		pr_warn_ratelimited("dsm: rank %u: no frames for a block that comes back (%d)\n", r->me, err);
		rank_peer_lost(r, r->me, err);
		return;
	}
	local_bh_disable();
	start_prefetch(r, m->object, m->op == RELEASE_EVICT, 0, r->me);
	host_run();
	local_bh_enable();
}

static void later_work(struct work_struct *work)
{
	struct later *l = container_of(work, struct later, work);
	struct msg *m = &l->m;
	u32 page = block_page(m->object);

	debug_count(COUNT_PROCESS, 1);
	down_read(&l->rank->ctx->frames_sem);
	if (m->type == MSG_RELEASE) {
		take_back(l->rank, m);
	} else if (rank_state(l->rank, page, GFP_KERNEL)) {
		local_bh_disable();
		host_message(l->rank, m);
		local_bh_enable();
	} else {
		pr_warn_ratelimited("dsm: rank %u: no memory for a message\n", l->rank->me);
	}
	up_read(&l->rank->ctx->frames_sem);
	rank_exit(l->rank);
	kfree(l);
}

void host_later(struct rank *r, const struct msg *m)
{
	struct later *l = kmalloc(sizeof(*l), GFP_ATOMIC | __GFP_HIGH | __GFP_NOWARN);

	debug_count(COUNT_LATER, 1);
	if (!l || !rank_enter(r)) {
		kfree(l);
		return;
	}
	INIT_WORK(&l->work, later_work);
	l->rank = r;
	l->m = *m;
	queue_work(dsm_wq, &l->work);
}

/* ---- blocks that move ----------------------------------------------------------------------- */

/* To a rank of this kernel: from frame to frame. */
static void copy_block(struct rank *from, struct rank *to, u32 object)
{
	u32 page = block_page(object), i;
	struct chunk *src = chunk_with(from->ctx, page, block_pages(object));
	struct chunk *dst = chunk_with(to->ctx, page, block_pages(object));

	if (!src || !dst)
		return;
	for (i = page % CHUNK_PAGES; i < page % CHUNK_PAGES + block_pages(object); i++)
		copy_highpage(dst->frames[i], src->frames[i]);
}

static void send_block(struct rank *r, const struct msg *m)
{
	struct dsm_ioc_stats *s = stats_of(r, m->object);
	struct rank *to = READ_ONCE(r->here[m->dst]);

	if (READ_ONCE(r->dead))
		return;
	count(s->blocks_out, 1);
	count(s->bytes_out, (u64)block_pages(m->object) << PAGE_SHIFT);
	if (to) {
		copy_block(r, to, m->object);
		route(r, m);
	} else if (r->conn) {
		count(r->messages_out, 1);
		conn_send_block(r->conn, m->dst, m);
	}
}

static void clear_block(struct rank *r, u32 object)
{
	u32 page = block_page(object), i;
	struct chunk *k = chunk_with(r->ctx, page, block_pages(object));

	if (!k)
		return;
	for (i = page % CHUNK_PAGES; i < page % CHUNK_PAGES + block_pages(object); i++)
		clear_highpage(k->frames[i]);
}

/* ---- transactions --------------------------------------------------------------------------- */

static void txn_go_on(struct txn *t)
{
	struct rank *r = t->rank;

	if (!READ_ONCE(r->dead)) {
		if (t->data.type == MSG_DATA)
			send_block(r, &t->data);
		else
			carry_out(r, &t->acts, t->at, &t->event);
	}
	host_run();
}

static void txn_free(struct txn *t)
{
	free_cpumask_var(t->b.cpus);
	kfree(t->b.csd);
	kmem_cache_free(txns, t);
}

static void txn_done(struct batch *b)
{
	struct txn *t = container_of(b, struct txn, b);
	struct rank *r = t->rank;

	local_bh_disable();
	txn_go_on(t);
	local_bh_enable();
	txn_free(t);
	rank_exit(r);
}

static struct txn *txn_get(struct rank *r, const struct msg *m, u8 prot)
{
	const gfp_t gfp = GFP_ATOMIC | __GFP_HIGH | __GFP_NOWARN;
	struct txn *t = kmem_cache_alloc(txns, gfp);

	if (!t)
		return NULL;
	if (batch_init(&t->b, gfp)) {
		kmem_cache_free(txns, t);
		return NULL;
	}
	if (!rank_enter(r)) {
		txn_free(t);
		return NULL;
	}
	t->rank = r;
	t->b.ctx = r->ctx;
	t->b.items = &t->item;
	t->b.count = 1;
	t->b.done = txn_done;
	t->b.follow = false;
	t->acts.n = t->at = 0;
	t->item = (struct batch_item){ .page = block_page(m->object), .pages = (u16)block_pages(m->object), .prot = prot };
	t->event = *m;
	t->data.type = MSG_NONE;
	return t;
}

static const u8 uapi_prot[] = { [PROT_CLOSED] = DSM_PROT_NONE, [PROT_RO] = DSM_PROT_READ, [PROT_RW] = DSM_PROT_WRITE };

/* Out of memory in the middle of a step: the rank cannot go on as if nothing were. */
static void no_memory(struct rank *r)
{
	pr_warn_ratelimited("dsm: rank %u: no memory for a transaction\n", r->me);
	rank_peer_lost(r, r->me, -ENOMEM);
}

static void close_then(struct rank *r, const struct actions *acts, unsigned int at, const struct msg *m)
{
	struct txn *t = txn_get(r, m, DSM_PROT_NONE);

	if (!t) {
		no_memory(r);
		return;
	}
	t->acts = *acts;
	t->at = at;
	batch_start(&t->b);
}

/*
 * A copy that is dropped without anybody's asking: its protection is written while the stripe is held, for the answer to a
 * new request may come before the table entry has followed.
 */
static void drop_now(struct rank *r, const struct msg *m)
{
	struct chunk *k = chunk_with(r->ctx, block_page(m->object), block_pages(m->object));

	if (k)
		memset(&k->prot[block_page(m->object) % CHUNK_PAGES], DSM_PROT_NONE, block_pages(m->object));
}

static void follow_drop(struct rank *r, const struct msg *m)
{
	struct txn *t = txn_get(r, m, DSM_PROT_NONE);

	if (!t) {
		no_memory(r);
		return;
	}
	t->b.follow = true;
	batch_start(&t->b);
}

static void lower_and_send(struct rank *r, const struct action *a)
{
	struct dsm_ioc_stats *s = stats_of(r, a->msg.object);
	struct txn *t;

	if (a->prot == PROT_CLOSED)
		count(s->invalidations, 1);
	else if (a->from == PROT_RW)
		count(s->downgrades, 1);
	if (a->from == a->prot) {
		send_block(r, &a->msg);
		return;
	}
	t = txn_get(r, &a->msg, uapi_prot[a->prot]);
	if (!t) {
		no_memory(r);
		return;
	}
	t->data = a->msg;
	batch_start(&t->b);
}

/* More is allowed than was: no translation is stale, and what cannot be changed now a fault will change. */
static void open_block(struct rank *r, const struct action *a, const struct msg *m)
{
	struct dsm_ioc_stats *s = stats_of(r, m->object);
	struct batch b = { .ctx = r->ctx, .count = 1 };
	struct batch_item it = { .page = block_page(m->object), .pages = (u16)block_pages(m->object), .prot = uapi_prot[a->prot] };

	if (!chunk_with(r->ctx, it.page, it.pages))
		return; /* a peer's invention: nobody here asked for it */
	if (a->from == OPEN_ZERO) {
		clear_block(r, m->object);
		count(s->local_faults, 1);
	} else if (a->from == OPEN_DATA || a->from == OPEN_LANDED) {
		count(s->blocks_in, 1);
		count(s->bytes_in, (u64)block_pages(m->object) << PAGE_SHIFT);
	}
	b.items = &it;
	batch_open(&b);
}

/* ---- timers --------------------------------------------------------------------------------- */

static enum hrtimer_restart hold_over(struct hrtimer *timer)
{
	struct hold_timer *t = container_of(timer, struct hold_timer, timer);
	struct rank *r = t->rank;
	struct msg m = { .object = t->object, .src = r->me, .dst = r->me };

	if (!READ_ONCE(r->dead))
		host_page(r, PE_UNHOLD, &m, NULL, NULL);
	host_run();
	kmem_cache_free(timers, t);
	rank_exit(r);
	return HRTIMER_NORESTART;
}

static void start_timer(struct rank *r, u32 object, u32 at)
{
	struct hold_timer *t = kmem_cache_alloc(timers, GFP_ATOMIC | __GFP_HIGH | __GFP_NOWARN);
	s32 us = (s32)(at - now_us());

	if (!t || !rank_enter(r)) {
		if (t)
			kmem_cache_free(timers, t);
		else
			no_memory(r);
		return;
	}
	t->rank = r;
	t->object = object;
	hrtimer_init(&t->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	t->timer.function = hold_over;
	hrtimer_start(&t->timer, ns_to_ktime(us > 0 ? us * NSEC_PER_USEC : 0), HRTIMER_MODE_REL_SOFT);
}

/* ---- actions -------------------------------------------------------------------------------- */

static void woken(struct rank *r, const struct msg *m, const struct action *a)
{
	struct slot *s = &r->slots[a->slot];

	if (READ_ONCE(s->nobody)) {
		/* The grant counts as used, and may be taken away at once. */
		struct msg used = { .object = m->object, .src = r->me, .dst = r->me };

		host_page(r, PE_USED, &used, NULL, NULL);
	}
	slot_complete(r, a->slot, a->status, a->mask);
}

static void multicast(struct rank *r, const struct action *a)
{
	u16 g = set_granule(r->size), to;
	struct msg copy = a->msg;

	for (to = set_next(a->mask, 0, r->size, g, a->msg.req_rank, a->except); to < r->size;
	     to = set_next(a->mask, (u16)(to + 1), r->size, g, a->msg.req_rank, a->except)) {
		copy.dst = to;
		route(r, &copy);
	}
}

static void carry_out(struct rank *r, const struct actions *acts, unsigned int from, const struct msg *m)
{
	unsigned int i;

	for (i = from; i < acts->n; i++) {
		const struct action *a = &acts->v[i];

		switch ((enum act)a->type) {
		case ACT_SEND:
			route(r, &a->msg);
			break;
		case ACT_MCAST:
			multicast(r, a);
			break;
		case ACT_DATA:
			lower_and_send(r, a);
			break;
		case ACT_OPEN:
			if (a->from != OPEN_AGAIN)
				open_block(r, a, m);
			break;
		case ACT_CLOSE:
			count(stats_of(r, m->object)->invalidations, 1);
			close_then(r, acts, i + 1, m);
			return; /* the rest when it is closed */
		case ACT_WAKE:
			woken(r, m, a);
			break;
		case ACT_TIMER:
			start_timer(r, m->object, a->at);
			break;
		case ACT_RESUME:
			route(r, &a->msg);
			break;
		case ACT_WAKE_ALL:
			wake_up_all(&r->bar_wait);
			break;
		case ACT_LAND: /* it is where it belongs, and closed */
		case ACT_WAIT:
			break;
		}
	}
}

/* ---- machines ------------------------------------------------------------------------------- */

static const u8 page_events[MSG_TYPES] = {
	[MSG_DATA] = PE_DATA, [MSG_GRANT] = PE_GRANT, [MSG_INV] = PE_INV, [MSG_INV_ACK] = PE_INV_ACK,
	[MSG_FWD_READ] = PE_FWD_READ, [MSG_FWD_WRITE] = PE_FWD_WRITE,
};

static int page_message(struct rank *r, struct state *st, const struct msg *m, struct actions *acts)
{
	struct page_ctx ctx = page_ctx(r);
	spinlock_t *stripe = stripe_of(r, m->object);
	int err;

	spin_lock(stripe);
	err = page_step(&ctx, &st->copies[block_page(m->object) % CHUNK_PAGES], page_events[m->type], m, acts);
	spin_unlock(stripe);
	return err;
}

static int dir_message(struct rank *r, struct state *st, const struct msg *m, struct actions *acts)
{
	struct dir_ctx ctx = { .me = r->me, .nranks = r->size, .queue = { r->nodes, SLOTS } };
	struct region *g = rank_region_at(r, block_page(m->object));
	spinlock_t *stripe = stripe_of(r, m->object);
	int err;

	acts->n = 0;
	if (m->type == MSG_PLACE && g && rank_home(r, g, block_page(m->object)) != r->me)
		return -EBADMSG; /* only a block's manager places it */
	spin_lock(stripe);
	err = dir_step(&ctx, &st->dirs[block_page(m->object) % CHUNK_PAGES], m, acts);
	spin_unlock(stripe);
	return err;
}

static int refuse(struct rank *r, const struct msg *m, int err, struct actions *acts)
{
	struct action *a = act_add(acts, ACT_SEND);

	a->msg = *m;
	a->msg.type = MSG_REPLY;
	a->msg.src = r->me;
	a->msg.dst = m->req_rank;
	a->msg.count = (s16)err;
	return 0;
}

static int object_create(struct rank *r, const struct msg *m, struct actions *acts)
{
	unsigned long i;
	struct sync *s;
	u16 gen;

	do {
		i = find_next_zero_bit(r->object_used, OBJECTS, 1);
		if (i >= OBJECTS)
			return refuse(r, m, -ENOSPC, acts);
	} while (test_and_set_bit(i, r->object_used));
	s = &r->objects[i];
	gen = (u16)(s->gen + 1 ? s->gen + 1 : 1);
	*s = (struct sync){ .kind = m->op == SOP_CREATE ? (u8)m->aux : 0, .gen = gen, .value = m->value };
	refuse(r, m, 0, acts);
	acts->v[acts->n - 1].msg.value = (u64)gen << 16 | i;
	return 0;
}

static int gone_object(struct rank *r, const struct msg *m, struct actions *acts)
{
	int err = refuse(r, m, -EINVAL, acts);

	if (m->type != MSG_SYNC && m->type != MSG_RESUME) {
		/* A release that crossed its successor's, who has destroyed the mutex since: the lock was handed on. */
		acts->v[0].msg.type = MSG_FREED;
		acts->v[0].msg.home = m->home;
		acts->v[0].msg.count = m->type == MSG_UNLOCK ? 0 : -EINVAL;
		acts->v[0].msg.value = m->type == MSG_UNLOCK;
	}
	return err;
}

static int object_message(struct rank *r, const struct msg *m, struct actions *acts)
{
	struct sync_ctx ctx = { .me = r->me, .queue = { r->nodes, SLOTS } };
	u32 index = m->object & 0xffff;
	spinlock_t *stripe = stripe_of(r, index);
	struct sync *s;
	int err;

	acts->n = 0;
	if (m->type == MSG_SYNC && m->op == SOP_CREATE)
		return object_create(r, m, acts);
	if (index >= OBJECTS)
		return -EBADMSG;
	s = &r->objects[index];
	spin_lock(stripe);
	if (!s->kind || s->gen != m->object >> 16) {
		err = gone_object(r, m, acts);
	} else if (m->type == MSG_SYNC && m->op == SOP_DESTROY) {
		err = refuse(r, m, sync_idle(s) ? 0 : -EBUSY, acts);
		if (sync_idle(s)) {
			s->kind = 0;
			clear_bit(index, r->object_used);
		}
	} else if (m->type == MSG_SYNC || m->type == MSG_RESUME) {
		err = sync_step(&ctx, s, m, acts);
	} else {
		err = s->kind == SYNC_MUTEX ? lock_home_step(r->me, s, m, acts) : -EBADMSG;
	}
	spin_unlock(stripe);
	return err;
}

static int step_hold(struct rank *r, u16 index, enum hold_event ev, const struct msg *m, struct actions *acts)
{
	spinlock_t *stripe = stripe_of(r, 0x80000000u | index);
	int err;

	acts->n = 0;
	spin_lock(stripe);
	err = hold_step(r->me, index, &r->holds[index], ev, m, acts);
	if (!err && r->holds[index].state == HOLD_FREE)
		clear_bit(index, r->hold_used);
	spin_unlock(stripe);
	return err;
}

static int hold_message(struct rank *r, const struct msg *m, struct actions *acts)
{
	enum hold_event ev = m->type == MSG_LOCKED ? HE_LOCKED : m->type == MSG_NEXT ? HE_NEXT : m->count ? HE_REFUSED : HE_FREED;
	unsigned int i;
	int err;

	if (m->home >= HOLDS)
		return -EBADMSG;
	err = step_hold(r, m->home, ev, m, acts);
	for (i = 0; ev == HE_REFUSED && i < acts->n; i++)
		acts->v[i].status = m->count;
	return err;
}

static u64 combine(u8 op, u64 a, u64 b)
{
	bool is_signed = !(op >> 4);

	switch (op & 15) { /* as enum dsm_op of dsm.h; floating point is combined by the library */
	case 0: return a + b;
	case 1: return is_signed ? (u64)min((s64)a, (s64)b) : min(a, b);
	case 2: return is_signed ? (u64)max((s64)a, (s64)b) : max(a, b);
	case 3: return a & b;
	case 4: return a | b;
	case 5: return a ^ b;
	}
	return 0;
}

static int bar_message(struct rank *r, const struct msg *m, struct actions *acts)
{
	spinlock_t *stripe = stripe_of(r, 0x40000000u | m->object);
	struct bar_tree t;
	struct bar *b;
	int err;

	acts->n = 0;
	if (m->object >= (u32)r->size * BARRIERS)
		return -EBADMSG;
	b = &r->bars[m->object];
	spin_lock(stripe);
	if ((b->threads || m->src == m->dst) && !bar_tree(b->mask, r->size, r->me, &t))
		err = bar_step(r->me, &t, combine, b, m, acts);
	else
		err = bar_step(r->me, NULL, combine, b, m, acts);
	spin_unlock(stripe);
	return err;
}

/* -EAGAIN: not in this context. */
static int step(struct rank *r, const struct msg *m, struct actions *acts)
{
	struct state *st = NULL;

	acts->n = 0;
	if (wire_class(m->type) <= CLASS_DATA && !(m->type == MSG_RESUME && m->op)) {
		if (!block_ok(r, m->object))
			return -EBADMSG;
		if (m->type == MSG_RELEASE)
			return -EAGAIN;
		st = rank_state(r, block_page(m->object), GFP_ATOMIC);
		if (!st)
			return -EAGAIN;
	}
	switch ((enum msg_type)m->type) {
	case MSG_READ_REQ: case MSG_WRITE_REQ: case MSG_DONE: case MSG_HOME: case MSG_HOME_ACK: case MSG_PLACE:
		return dir_message(r, st, m, acts);
	case MSG_RESUME:
		return m->op ? object_message(r, m, acts) : dir_message(r, st, m, acts);
	case MSG_DATA: case MSG_GRANT: case MSG_INV: case MSG_INV_ACK: case MSG_FWD_READ: case MSG_FWD_WRITE:
		return page_message(r, st, m, acts);
	case MSG_LOCK: case MSG_TRYLOCK: case MSG_UNLOCK: case MSG_SYNC:
		return object_message(r, m, acts);
	case MSG_NEXT: case MSG_LOCKED: case MSG_FREED:
		return hold_message(r, m, acts);
	case MSG_REPLY:
		slot_complete(r, m->req_slot, m->count, m->value);
		return 0;
	case MSG_ARRIVE: case MSG_DEPART:
		return bar_message(r, m, acts);
	default:
		return -EBADMSG;
	}
}

static void deliver(struct rank *r, const struct msg *m)
{
	struct actions acts;
	int err;

	count(r->steps, 1);
	err = step(r, m, &acts);
	if (err == -EAGAIN) {
		host_later(r, m);
		/* The releaser may leave the region once nothing of it is under way. */
		if (m->type == MSG_RELEASE) {
			acts.n = 0;
			refuse(r, m, 0, &acts);
			carry_out(r, &acts, 0, m);
		}
	} else if (err) {
		bad(r, m);
	} else {
		carry_out(r, &acts, 0, m);
	}
}

void host_run(void)
{
	struct runq *q = runqs[smp_processor_id()];

	if (q->running)
		return; /* the loop below, further up this stack, will get to it */
	q->running = true;
	while (q->head != q->tail) {
		struct rank *to = q->items[q->head % RUNQ].to;
		struct msg m = q->items[q->head++ % RUNQ].m;

		if (!READ_ONCE(to->dead))
			deliver(to, &m);
	}
	q->running = false;
}

void host_message(struct rank *r, const struct msg *m)
{
	if (READ_ONCE(r->dead))
		return;
	deliver(r, m);
	host_run();
}

bool host_page(struct rank *r, enum page_event ev, const struct msg *ask, int *wait, u32 *seq)
{
	struct state *st = rank_state(r, block_page(ask->object), GFP_ATOMIC);
	struct page_ctx ctx = page_ctx(r);
	spinlock_t *stripe = stripe_of(r, ask->object);
	struct actions acts;
	bool open = false, dropped = false;
	unsigned int i;
	int err;

	if (!st) { /* prepare_block() has made it for whoever waits */
		WARN_ON_ONCE(1);
		return false;
	}
	if (ev == PE_USED && !wait)
		ctx.hold_us = 0;
	spin_lock(stripe);
	err = page_step(&ctx, &st->copies[block_page(ask->object) % CHUNK_PAGES], ev, ask, &acts);
	for (i = 0; !err && i < acts.n; i++) {
		const struct action *a = &acts.v[i];

		if (a->type == ACT_OPEN && a->from == OPEN_AGAIN) {
			open = true;
		} else if (a->type == ACT_WAIT && wait) {
			*wait = a->slot;
			*seq = smp_load_acquire(&r->slots[a->slot].seq);
		} else if (a->type == ACT_CLOSE && ev == PE_DROP) {
			drop_now(r, ask);
			dropped = true;
		}
	}
	spin_unlock(stripe);
	if (WARN_ON_ONCE(err)) {
		rank_peer_lost(r, r->me, err);
		return false;
	}
	if (dropped)
		follow_drop(r, ask);
	else
		carry_out(r, &acts, 0, ask);
	return open;
}

int host_unlock(struct rank *r, u16 hold)
{
	struct msg none = { .dst = r->me };
	struct actions acts;

	if (hold >= HOLDS || !test_bit(hold, r->hold_used) || step_hold(r, hold, HE_UNLOCK, &none, &acts))
		return -EPERM;
	carry_out(r, &acts, 0, &none);
	host_run();
	return 0;
}

int host_arrive(struct rank *r, const struct msg *m)
{
	struct actions acts;
	int err = bar_message(r, m, &acts);

	if (err)
		return err;
	carry_out(r, &acts, 0, m);
	host_run();
	return 0;
}

/* ---- what threads ask of a range; all sleep ------------------------------------------------- */

int host_pin(struct rank *r, u32 object, bool write)
{
	struct state *st = rank_state(r, block_page(object), GFP_KERNEL);
	spinlock_t *stripe = stripe_of(r, object);
	int err;

	if (!st)
		return -ENOMEM;
	spin_lock_bh(stripe);
	err = page_pin(&st->copies[block_page(object) % CHUNK_PAGES], write ? 2 : 1);
	spin_unlock_bh(stripe);
	return err;
}

int host_unpin(struct rank *r, u32 object, bool write)
{
	struct state *st = READ_ONCE(r->states[block_page(object) / CHUNK_PAGES]);
	struct msg m = { .object = object, .src = r->me, .dst = r->me };
	spinlock_t *stripe = stripe_of(r, object);
	int due;

	if (!st)
		return -EINVAL;
	local_bh_disable();
	spin_lock(stripe);
	due = page_unpin(&st->copies[block_page(object) % CHUNK_PAGES], write ? 2 : 1);
	spin_unlock(stripe);
	if (due > 0)
		host_page(r, PE_UNHOLD, &m, NULL, NULL);
	host_run();
	local_bh_enable();
	return due < 0 ? due : 0;
}

static bool quiet(const struct copy *p, const struct dir *d)
{
	return d->phase == DIR_IDLE && !p->held && (p->state == PG_INVALID || p->state == PG_READ || p->state == PG_WRITE);
}

int host_quiet(struct rank *r, u32 page, u32 pages)
{
	u32 i, end = page + pages;

	for (; page < end; page++) {
		struct state *st = READ_ONCE(r->states[page / CHUNK_PAGES]);

		i = page % CHUNK_PAGES;
		if (!st)
			page |= CHUNK_PAGES - 1;
		else if (!quiet(&st->copies[i], &st->dirs[i]))
			return -EAGAIN;
	}
	return 0;
}

int host_forget(struct rank *r, u32 page, u32 pages)
{
	u32 u;

	for (u = page / CHUNK_PAGES; u < (page + pages) / CHUNK_PAGES; u++) {
		struct state *st = xchg(&r->states[u], NULL);

		if (r->conn)
			conn_forget(r->conn, u);
		if (st) {
			synchronize_rcu_expedited(); /* softirqs that found it */
			kfree(st);
		}
		ctx_drop_chunk(r->ctx, u * CHUNK_PAGES);
	}
	return 0;
}

/* ---- a block that has come by RDMA ---------------------------------------------------------- */

/* What the 32 bits beside a written block say: everything that a MSG_DATA says and the request does not. */
#define IMM_VALID 0x80000000u

u32 host_imm(const struct msg *m)
{
	if (m->req_slot >= SLOTS || m->home >= 1024 || m->count < 0 || m->count > 511 || m->flags || m->value)
		return 0;
	return IMM_VALID | (u32)(m->op == GRANT_WRITE) << 27 | (u32)m->home << 17 | (u32)m->count << 8 | m->req_slot;
}

void host_landed(struct rank *r, u16 from, u32 imm)
{
	struct msg m = {
		.version = WIRE_VERSION, .type = MSG_DATA, .op = imm >> 27 & 1 ? GRANT_WRITE : GRANT_READ, .src = from, .dst = r->me,
		.req_rank = r->me, .req_slot = (u16)(imm & 0xff), .home = (u16)(imm >> 17 & 1023), .count = (s16)(imm >> 8 & 511),
	};

	m.object = READ_ONCE(r->slots[m.req_slot].object);
	if (!(imm & IMM_VALID) || !test_bit(m.req_slot, r->slot_used) || m.home >= r->size)
		bad(r, &m);
	else
		host_message(r, &m);
}

/* ---- the module ----------------------------------------------------------------------------- */

static bool make_runqs(void)
{
	int cpu;

	runqs = kcalloc(nr_cpu_ids, sizeof(*runqs), GFP_KERNEL);
	if (!runqs)
		return false;
	for_each_possible_cpu(cpu) {
		runqs[cpu] = vzalloc(sizeof(**runqs));
		if (!runqs[cpu])
			return false;
	}
	return true;
}

int host_start(void)
{
	bool ok = make_runqs();

	txns = KMEM_CACHE(txn, 0);
	timers = KMEM_CACHE(hold_timer, 0);
	if (ok && txns && timers)
		return 0;
	host_stop();
	return -ENOMEM;
}

void host_stop(void)
{
	int cpu;

	kmem_cache_destroy(timers);
	kmem_cache_destroy(txns);
	if (!runqs)
		return;
	for_each_possible_cpu(cpu)
		vfree(runqs[cpu]);
	kfree(runqs);
}
