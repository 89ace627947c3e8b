// SPDX-License-Identifier: BSD-2-Clause
/* release.c - see release.h. */
#include "release.h"

#include <stdlib.h>
#include <string.h>

#include "../core_ops.h"
#include "show.h"

#define MESSAGES 20
#define HELD 12 /* a sender may have half of them */
#define LEAVES 4
#define CLOSES 64 /* more than a search reaches */

/* A message in flight: what the machines see of it, and its payload. */
struct rmsg {
	uint64_t close;
	uint8_t type, op, src, dst, object, req_node, slot;
	uint8_t inside, inside_op; /* AFTER */
	uint8_t mask[RC_BLOCKS];   /* FLUSH: changed bytes; NOTE: is the block noted? */
	uint8_t v[RC_BLOCKS][RC_BYTES];
	uint8_t pad;
};

/* ACT_DATA that is not carried out yet. */
struct leave {
	uint8_t used, node, block, from;
	struct rmsg m;
};

enum pc { PC_READY = 0, PC_WAIT, PC_WOKEN, PC_JOIN, PC_ACQUIRE, PC_WALK };

struct thread {
	uint8_t at, pc, entry, stale, again;
	uint8_t clock[RC_THREADS];
};

struct byte_ghost {
	uint8_t value;            /* number of stores */
	uint8_t by, when;         /* the last store: 1 + thread, its clock */
	uint8_t read[RC_THREADS]; /* clocks of the last loads */
};

struct diff_out {
	uint8_t mask;
	uint8_t v[RC_BYTES];
};

struct rnode {
	struct rel blocks[RC_BLOCKS];
	struct rel_lists lists;
	struct closing closing;
	struct closing_peer peers[RC_NODES];
	struct closing_held held[HELD];
	uint8_t hw[RC_BLOCKS], twinned[RC_BLOCKS], dirty[RC_BLOCKS];
	uint8_t frame[RC_BLOCKS][RC_BYTES], twin[RC_BLOCKS][RC_BYTES];
	struct diff_out diffs[RC_BLOCKS];    /* of the close that gathers */
	uint8_t notices[RC_NODES][RC_NODES]; /* by writer and receiver: blocks */
	uint8_t gather, entry;               /* 1: to begin, 2: at this block */
	struct rmsg merging[RC_NODES];       /* FLUSH of this node, partly merged */
};

struct world {
	struct rnode nodes[RC_NODES];
	struct thread threads[RC_THREADS];
	struct byte_ghost bytes[RC_BLOCKS][RC_BYTES];
	uint8_t arrived[RC_EDGES]; /* 1: the message has come; 2: and acquires */
	uint8_t edge_clock[RC_EDGES][RC_THREADS];
	uint8_t lock_clock[RC_THREADS];
	uint8_t lock_holder, lock_line, lock_granted; /* 1 + thread; threads; 1 + thread, 16: acquires */
	uint8_t chosen;                               /* 1 + the type of edges, see choices */
	uint8_t n;
	struct rmsg msgs[MESSAGES];
	struct leave leaves[LEAVES];
};
_Static_assert(sizeof(struct world) <= WORLD_MAX, "a world that search.c has no room for");

/* Types that an edge may have, and how they are passed on. */
static const struct rc_edge choices[] = {
	{ .type = MSG_LOCKED },
	{ .type = MSG_REPLY },
	{ .type = MSG_ARRIVE },
	{ .type = MSG_DEPART },
	{ .type = MSG_CALL },
	{ .type = MSG_RETURN },
	{ .type = MSG_CHUNK },
	{ .type = MSG_UNLOCK, .then = MSG_LOCKED },
	{ .type = MSG_RECALLED, .then = MSG_LOCKED },
	{ .type = MSG_BYE, .then = MSG_RETURN },
	{ .type = MSG_SYNC, .op = SOP_POST, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_RDUNLOCK, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_WRUNLOCK, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_SIGNAL, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_BROADCAST, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_STORE, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_ADD, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_EXCHANGE, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_CAS, .then = MSG_REPLY },
};
#define CHOICES (sizeof(choices) / sizeof(choices[0]))

static uint16_t nominal(const struct rc_cfg *cfg)
{
	return cfg->nominal ? cfg->nominal : 64;
}

static struct rc_edge edge_of(const struct rc_cfg *cfg, const struct world *w, unsigned int e)
{
	struct rc_edge edge = cfg->edges[e];

	if (!edge.type) {
		const struct rc_edge *c = &choices[w->chosen ? w->chosen - 1 : 0];

		edge.type = c->type;
		edge.op = c->op;
		edge.then = c->then;
		if (!c->then)
			edge.hop = 0;
	}
	return edge;
}

/* ---- messages ------------------------------------------------------------------------------------- */

static void post(struct world *w, const struct rmsg *m)
{
	if (w->n == MESSAGES) {
		model_fail("more than %d messages in flight", MESSAGES);
		return;
	}
	model_say("      sends %s %u->%u object %u close %llu%s%s\n", wire_name(m->type), m->src, m->dst, m->object,
		  (unsigned long long)m->close, m->inside ? " with " : "", m->inside ? wire_name(m->inside) : "");
	w->msgs[w->n++] = *m;
}

static struct rmsg narrow(const struct msg *m)
{
	return (struct rmsg){ .close = m->value,
			      .type = m->type,
			      .op = m->op,
			      .src = (uint8_t)m->src,
			      .dst = (uint8_t)m->dst,
			      .object = (uint8_t)m->object,
			      .req_node = (uint8_t)m->req_node,
			      .slot = (uint8_t)m->req_slot };
}

static struct msg widen(const struct rmsg *m)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = m->type,
			     .op = m->op,
			     .src = m->src,
			     .dst = m->dst,
			     .object = m->object,
			     .req_node = m->req_node,
			     .req_slot = m->slot,
			     .home = m->type == MSG_DATA ? m->src : 0,
			     .value = m->close };
}

/* ---- the host ------------------------------------------------------------------------------------- */

struct host {
	struct core_host h;
	const struct rc_cfg *cfg;
	struct world *w;
	struct rnode *n;
	const struct rmsg *m; /* the message, with its payload */
	int who;              /* the thread, or -1 */
};

static struct host *host_of(struct core_host *h)
{
	return (struct host *)h; /* its first member */
}

static const struct core_ops ops;

static struct host host_at(const struct rc_cfg *cfg, struct world *w, unsigned int node, int who, const struct rmsg *m)
{
	return (struct host){ .h = { .ops = &ops, .me = (uint16_t)node, .nnodes = nominal(cfg) },
			      .cfg = cfg,
			      .w = w,
			      .n = &w->nodes[node],
			      .m = m,
			      .who = who };
}

#define BLOCK_KEY 7

/* find() is called once for each step, so one is enough. */
static struct closing_ctx closes;

static int find(struct core_host *h, enum target target, uint32_t number, const struct msg *m, struct core_place *p)
{
	struct host *x = host_of(h);

	(void)m;
	closes = (struct closing_ctx){ .me = h->me,
				       .nnodes = h->nnodes,
				       .lists = &x->n->lists,
				       .peers = x->n->peers,
				       .held = x->n->held,
				       .nheld = HELD };
	p->d.closing = &x->n->closing;
	p->d.closes = &closes;
	p->rel = (struct rel_ctx){ .me = h->me, .nnodes = h->nnodes, .lists = &x->n->lists, .blocks = x->n->blocks };
	p->d.rel_ctx = &p->rel;
	if (target == TARGET_BLOCK) {
		p->rel.home = x->cfg->home[number];
		p->rel.index = number;
		p->d.rel = &x->n->blocks[number];
		p->key = BLOCK_KEY;
	} else if (target != TARGET_CLOSING) {
		return -EBADMSG;
	}
	return 0;
}

static uint32_t lock_held; /* its key */

static void lock(struct core_host *h, uint32_t key)
{
	if (lock_held)
		model_fail("node %u takes the lock %#x, and has %#x", h->me, key, lock_held);
	lock_held = key;
}

static void unlock(struct core_host *h, uint32_t key)
{
	if (lock_held != key)
		model_fail("node %u drops the lock %#x, and has %#x", h->me, key, lock_held);
	lock_held = 0;
}

/* What must be done under the block's lock, and what must not. */
static void under_lock(struct core_host *h, bool should)
{
	if (lock_held != (should ? BLOCK_KEY : 0))
		model_fail("node %u: %s", h->me, should ? "not under the block's lock" : "under a lock");
}

static uint32_t now(struct core_host *h)
{
	(void)h;
	return 0;
}

static void set_hw(struct host *x, uint32_t b, uint8_t prot)
{
	if (x->n->hw[b] != prot)
		model_say("      node %u block %u: hardware %s\n", x->h.me, b, show_prot(prot));
	x->n->hw[b] = prot;
}

static bool again(struct core_host *h, uint32_t b, uint8_t prot)
{
	under_lock(h, true);
	set_hw(host_of(h), b, prot);
	return true;
}

static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *acts)
{
	(void)acts;
	if (err)
		model_fail("node %u does not expect %s of %u (%d)", h->me, wire_name(m->type), m->src, err);
}

static void damaged(struct core_host *h, const struct msg *about, enum page_event ev, uint8_t state)
{
	model_fail("node %u block %u: event %u in state %u", h->me, about->object, ev, state);
}

static void host_send(struct core_host *h, const struct msg *m)
{
	struct host *x = host_of(h);
	struct rmsg small = narrow(m);
	unsigned int b;

	under_lock(h, false);
	for (b = 0; b < RC_BLOCKS && m->type == MSG_FLUSH; b++)
		if (x->n->diffs[b].mask && x->cfg->home[b] == m->dst) {
			small.mask[b] = x->n->diffs[b].mask;
			memcpy(small.v[b], x->n->diffs[b].v, RC_BYTES);
			memset(&x->n->diffs[b], 0, sizeof(x->n->diffs[b]));
		}
	if (m->type == MSG_NOTE) {
		for (b = 0; b < RC_BLOCKS; b++)
			small.mask[b] = x->n->notices[m->req_node][m->dst] >> b & 1;
		x->n->notices[m->req_node][m->dst] = 0;
	}
	post(x->w, &small);
}

static void send_data(struct world *w, unsigned int node, unsigned int b, struct rmsg *m)
{
	m->mask[b] = 1;
	memcpy(m->v[b], w->nodes[node].frame[b], RC_BYTES);
	post(w, m);
}

static void send_block(struct core_host *h, const struct msg *m, const void *contents)
{
	struct rmsg small = narrow(m);

	(void)contents;
	send_data(host_of(h)->w, h->me, m->object, &small);
}

/* The mappings are lowered, then the contents are read. */
static bool host_lower(struct core_host *h, const struct core_leave *l)
{
	struct host *x = host_of(h);
	unsigned int i;

	for (i = 0; x->cfg->late && l->from > l->to && i < LEAVES; i++)
		if (!x->w->leaves[i].used) {
			x->w->leaves[i] = (struct leave){ .used = 1,
							  .node = (uint8_t)h->me,
							  .block = (uint8_t)l->m->object,
							  .from = l->from,
							  .m = narrow(l->m) };
			return false;
		}
	if (l->from > l->to && x->n->hw[l->m->object] > l->to)
		set_hw(x, l->m->object, l->to);
	return true;
}

static bool host_open(struct core_host *h, const struct actions *acts, unsigned int at, const struct msg *m,
		      const void *data)
{
	struct host *x = host_of(h);

	(void)data;
	memcpy(x->n->frame[m->object], x->m->v[m->object], RC_BYTES);
	set_hw(x, m->object, acts->v[at].prot);
	return true;
}

static bool host_wake(struct core_host *h, const struct action *a, const struct msg *m)
{
	struct host *x = host_of(h);

	(void)m;
	if (x->w->threads[a->slot].pc != PC_WAIT)
		model_fail("thread %u is woken, but does not wait", a->slot);
	x->w->threads[a->slot].pc = PC_WOKEN;
	return true;
}

static void never(struct core_host *h, const struct action *a)
{
	model_fail("node %u: action %u", h->me, a->type);
}

static bool no_timer(struct core_host *h, uint32_t object, uint32_t at)
{
	(void)h, (void)object, (void)at;
	return true;
}

static void blame(struct core_host *h, uint16_t node)
{
	model_fail("node %u blames node %u", h->me, node);
}

static void twin(struct core_host *h, uint32_t b)
{
	struct host *x = host_of(h);

	under_lock(h, true);
	memcpy(x->n->twin[b], x->n->frame[b], RC_BYTES);
	x->n->twinned[b] = x->cfg->twins_after ? 2 : 1;
}

static void untwin(struct core_host *h, uint32_t b)
{
	struct rnode *n = host_of(h)->n;

	under_lock(h, true);
	memset(n->twin[b], 0, RC_BYTES);
	n->twinned[b] = n->dirty[b] = 0;
}

static void lower_all(struct core_host *h, uint32_t b, uint8_t prot)
{
	struct host *x = host_of(h);

	under_lock(h, true);
	if (x->n->hw[b] > prot && !(x->cfg->lowers_after && x->n->twinned[b]))
		set_hw(x, b, prot);
}

static bool diff(struct core_host *h, uint32_t b, uint16_t home)
{
	struct rnode *n = host_of(h)->n;
	uint8_t mask = 0, i;

	under_lock(h, true);
	for (i = 0; i < RC_BYTES; i++)
		mask |= (uint8_t)((n->frame[b][i] != n->twin[b][i]) << i);
	if (mask & ~n->dirty[b])
		model_fail("node %u takes bytes %#x of block %u for changed, but has stored %#x", h->me, mask, b,
			   n->dirty[b]);
	n->dirty[b] = 0;
	if (mask && home != h->me) {
		n->diffs[b].mask = mask;
		for (i = 0; i < RC_BYTES; i++)
			n->diffs[b].v[i] = mask >> i & 1 ? n->frame[b][i] : 0;
	}
	memcpy(n->twin[b], n->frame[b], RC_BYTES);
	return mask;
}

static void merge(struct core_host *h, uint32_t b, const void *data, size_t size)
{
	struct host *x = host_of(h);
	const struct rmsg *m = data;
	unsigned int i;

	(void)size;
	under_lock(h, true);
	for (i = 0; i < RC_BYTES; i++) {
		if (!(m->mask[b] >> i & 1) && !x->cfg->merges_words)
			continue;
		if (m->v[b][i] < x->n->frame[b][i])
			model_fail("node %u replaces byte %u.%u by an older one", h->me, b, i);
		x->n->frame[b][i] = m->v[b][i];
		if (x->n->twinned[b] && !x->cfg->merges_copy)
			x->n->twin[b][i] = m->v[b][i];
	}
}

static uint32_t object_at(struct core_host *h, uint32_t index)
{
	(void)h;
	return index;
}

static void notice(struct core_host *h, uint32_t object, const struct action *a, uint16_t writer)
{
	struct host *x = host_of(h);
	const uint16_t g = set_granule(h->nnodes);
	uint16_t to;

	for (to = 0; to < x->cfg->nnodes; to++)
		if (set_has(a->mask, to, g) && to != a->except && to != h->me)
			x->n->notices[writer][to] |= (uint8_t)(1 << object);
}

static void gather(struct core_host *h)
{
	struct host *x = host_of(h);

	under_lock(h, false);
	if (x->n->gather)
		model_fail("node %u gathers twice", h->me);
	x->n->gather = 1;
}

static void after(struct core_host *h, const struct action *a)
{
	struct rmsg m = narrow(&a->msg);

	m.inside = m.type;
	m.inside_op = m.op;
	m.type = MSG_AFTER;
	m.op = a->prot;
	m.close = a->mask;
	post(host_of(h)->w, &m);
}

static void deliver_later(struct core_host *h, const struct msg *m)
{
	struct rmsg small = narrow(m);

	post(host_of(h)->w, &small);
}

static void fail(struct core_host *h, const char *why)
{
	model_fail("node %u: %s", h->me, why);
}

static const struct core_rel_ops rel_ops = {
	.twin = twin,
	.untwin = untwin,
	.lower = lower_all,
	.diff = diff,
	.merge = merge,
	.object = object_at,
	.notice = notice,
	.gather = gather,
	.after = after,
	.deliver = deliver_later,
	.fail = fail,
};

static const struct core_ops ops = {
	.find = find,
	.lock = lock,
	.unlock = unlock,
	.now = now,
	.again = again,
	.answers = core_no_answers,
	.stepped = stepped,
	.damaged = damaged,
	.send = host_send,
	.send_block = send_block,
	.lower = host_lower,
	.open = host_open,
	.wake = host_wake,
	.unclaimed = never,
	.timer = no_timer,
	.answer = never,
	.fetch = never,
	.blame = blame,
	.rel = &rel_ops,
};

/* ---- threads -------------------------------------------------------------------------------------- */

enum event { EV_CHOOSE = 1, EV_THREAD, EV_GATHER, EV_MERGE, EV_LEAVE, EV_MSG };

static uint32_t event(enum event e, unsigned int a, unsigned int b)
{
	return (uint32_t)e << 16 | a << 8 | b;
}

static void join_clock(uint8_t *to, const uint8_t *from)
{
	unsigned int i;

	for (i = 0; i < RC_THREADS; i++)
		if (from[i] > to[i])
			to[i] = from[i];
}

static struct rc_op next_op(const struct rc_cfg *cfg, const struct world *w, unsigned int t)
{
	return cfg->script[t][w->threads[t].at];
}

static void next(struct thread *t)
{
	t->pc = PC_READY;
	t->at++;
	t->entry = t->stale = t->again = 0;
}

/* The access itself. Scripts have no races, so the last store is the one that the load must see. */
static void access_byte(const struct rc_cfg *cfg, struct world *w, unsigned int t, bool store, unsigned int b,
			unsigned int i)
{
	struct byte_ghost *g = &w->bytes[b][i];
	struct rnode *n = &w->nodes[cfg->node[t]];
	uint8_t *clock = w->threads[t].clock;
	unsigned int o;

	if (g->by && clock[g->by - 1] < g->when)
		model_fail("the script of thread %u races with thread %u for byte %u.%u", t, g->by - 1u, b, i);
	for (o = 0; o < RC_THREADS && store; o++)
		if (clock[o] < g->read[o])
			model_fail("the script of thread %u stores what thread %u still reads", t, o);
	clock[t]++;
	if (!store) {
		g->read[t] = clock[t];
		if (n->frame[b][i] != g->value)
			model_fail("thread %u of node %u reads %u from byte %u.%u, whose last store was %u", t,
				   cfg->node[t], n->frame[b][i], b, i, g->value);
	} else {
		g->by = (uint8_t)(t + 1);
		g->when = clock[t];
		g->value++;
		n->frame[b][i] = g->value;
		if (n->twinned[b])
			n->dirty[b] |= (uint8_t)(1 << i);
	}
	model_say("      thread %u of node %u %s byte %u.%u: %u\n", t, cfg->node[t], store ? "stores" : "loads", b, i,
		  g->value);
	next(&w->threads[t]);
}

static void fault(const struct rc_cfg *cfg, struct world *w, unsigned int t, enum page_event ev, unsigned int b)
{
	struct host x = host_at(cfg, w, cfg->node[t], (int)t, NULL);
	struct core_waiter waiter = { .wait = -1 };
	const struct msg about = {
		.object = b, .req_slot = (uint16_t)t, .req_node = x.h.me, .src = x.h.me, .dst = x.h.me
	};
	struct thread *th = &w->threads[t];
	unsigned int o;

	core_page_event(&x.h, ev, &about, &waiter);
	if (ev == PE_USED) {
		for (o = 0; o < cfg->nthreads; o++)
			if (cfg->node[o] == cfg->node[t] && w->threads[o].pc == PC_JOIN)
				w->threads[o].pc = PC_READY;
	} else if (waiter.wait >= 0) {
		th->pc = waiter.wait == (int)t ? PC_WAIT : PC_JOIN;
	}
}

static void use(const struct rc_cfg *cfg, struct world *w, unsigned int t)
{
	const struct rc_op op = next_op(cfg, w, t);
	const bool store = op.what == RC_STORE;
	const unsigned int b = op.arg >> 4, i = op.arg & 15;
	struct rnode *n = &w->nodes[cfg->node[t]];

	if (w->threads[t].pc == PC_WOKEN) {
		fault(cfg, w, t, PE_USED, b);
		if (n->hw[b] < (store ? PROT_RW : PROT_RO)) {
			model_fail("node %u has fetched block %u, and may not use it", cfg->node[t], b);
			return;
		}
	} else if (n->hw[b] < (store ? PROT_RW : PROT_RO)) {
		fault(cfg, w, t, store ? PE_WRITE : PE_READ, b);
		return;
	}
	access_byte(cfg, w, t, store, b, i);
}

static void order_by(struct host *x, uint8_t type, uint8_t op, unsigned int dst, unsigned int object)
{
	const struct msg m = {
		.version = WIRE_VERSION, .type = type, .op = op, .src = x->h.me, .dst = (uint16_t)dst, .object = object
	};
	struct actions acts = { .n = 0 };

	act_add(&acts, ACT_SEND)->msg = m;
	core_carry_out(&x->h, &acts, 0, &m, NULL);
}

#define OBJECT_LOCK 0x80u /* object: the lock's, and a thread; else an edge, and 0x40 once it was passed on */
#define OBJECT_HOPPED 0x40u

static void send_edge(const struct rc_cfg *cfg, struct world *w, unsigned int t, unsigned int e)
{
	const struct rc_edge edge = edge_of(cfg, w, e);
	struct host x = host_at(cfg, w, cfg->node[t], (int)t, NULL);

	w->threads[t].clock[t]++;
	memcpy(w->edge_clock[e], w->threads[t].clock, RC_THREADS);
	next(&w->threads[t]);
	if (cfg->node[edge.to] == cfg->node[t])
		w->arrived[e] = 1;
	else
		order_by(&x, edge.type, edge.op, edge.hop ? edge.hop - 1u : cfg->node[edge.to],
			 e | (edge.hop ? 0 : OBJECT_HOPPED));
}

/* One step of an acquire. */
static void acquire(const struct rc_cfg *cfg, struct world *w, unsigned int t)
{
	struct host x = host_at(cfg, w, cfg->node[t], (int)t, NULL);
	struct thread *th = &w->threads[t];
	bool stale = th->stale;
	int err = th->again ? -EAGAIN : 0;

	if (th->pc == PC_ACQUIRE) {
		th->entry = (uint8_t)core_acquire_begin(&x.h, &err);
		if (err)
			return;
		th->pc = PC_WALK;
		th->stale = th->again = 0;
	} else if (th->entry) {
		th->entry = (uint8_t)core_acquire_next(&x.h, th->entry, &stale, &err);
		th->stale = stale;
		th->again = err != 0;
	} else if (core_acquire_end(&x.h, stale, err)) {
		th->pc = PC_ACQUIRE;
		th->stale = th->again = 0;
	} else {
		next(th);
	}
}

static void got_order(struct thread *th, bool acquires)
{
	if (acquires)
		th->pc = PC_ACQUIRE;
	else
		next(th);
}

static void thread_runs(const struct rc_cfg *cfg, struct world *w, unsigned int t)
{
	const struct rc_op op = next_op(cfg, w, t);
	struct thread *th = &w->threads[t];
	struct host x = host_at(cfg, w, cfg->node[t], (int)t, NULL);

	if (th->pc == PC_ACQUIRE || th->pc == PC_WALK) {
		acquire(cfg, w, t);
		return;
	}
	switch ((enum rc_do)op.what) {
	case RC_LOAD:
	case RC_STORE: use(cfg, w, t); break;
	case RC_SEND: send_edge(cfg, w, t, op.arg); break;
	case RC_RECV:
		join_clock(th->clock, w->edge_clock[op.arg]);
		got_order(th, w->arrived[op.arg] == 2);
		w->arrived[op.arg] = 0;
		break;
	case RC_LOCK:
		if (th->entry) { /* granted */
			join_clock(th->clock, w->lock_clock);
			got_order(th, w->lock_granted & 16);
			w->lock_granted = th->entry = 0;
		} else {
			th->pc = PC_WAIT;
			order_by(&x, MSG_LOCK, 0, cfg->lock_home, OBJECT_LOCK | t);
		}
		break;
	case RC_UNLOCK:
		th->clock[t]++;
		memcpy(w->lock_clock, th->clock, RC_THREADS);
		next(th);
		order_by(&x, MSG_UNLOCK, 0, cfg->lock_home, OBJECT_LOCK | t);
		break;
	case RC_END: break;
	}
}

static bool runnable(const struct rc_cfg *cfg, const struct world *w, unsigned int t)
{
	const struct thread *th = &w->threads[t];
	const struct rc_op op = next_op(cfg, w, t);

	if (th->pc == PC_WAIT || th->pc == PC_JOIN || op.what == RC_END)
		return false;
	return op.what != RC_RECV || th->pc != PC_READY || w->arrived[op.arg];
}

/* ---- what arrives --------------------------------------------------------------------------------- */

static void lock_grant(struct host *x)
{
	struct world *w = x->w;
	unsigned int t;

	for (t = 0; t < x->cfg->nthreads && !w->lock_holder; t++)
		if (w->lock_line >> t & 1) {
			w->lock_line &= (uint8_t) ~(1u << t);
			w->lock_holder = (uint8_t)(t + 1);
			order_by(x, MSG_LOCKED, 0, x->cfg->node[t], OBJECT_LOCK | t);
		}
}

/* A message that orders threads has come. */
static void ordered(struct host *x, const struct rmsg *m)
{
	const struct msg wide = { .type = m->type, .op = m->op };
	struct world *w = x->w;
	const unsigned int t = m->object & 15;

	if (m->object & OBJECT_LOCK) {
		if (m->type == MSG_LOCK)
			w->lock_line |= (uint8_t)(1u << t);
		else if (m->type == MSG_UNLOCK)
			w->lock_holder = 0;
		if (m->type != MSG_LOCKED) {
			lock_grant(x);
			return;
		}
		w->threads[t].pc = PC_READY;
		w->threads[t].entry = 1;
		w->lock_granted = (uint8_t)(t + 1) | (closing_acquires(&wide) ? 16 : 0);
	} else if (m->object & OBJECT_HOPPED) {
		w->arrived[t] = closing_acquires(&wide) ? 2 : 1;
	} else {
		const struct rc_edge edge = edge_of(x->cfg, w, t);

		order_by(x, edge.then, 0, x->cfg->node[edge.to], t | OBJECT_HOPPED);
	}
}

static void closing_event(struct host *x, enum closing_event ev, unsigned int src, unsigned int dst, uint64_t close,
			  unsigned int writer)
{
	const struct msg m = {
		.src = (uint16_t)src, .dst = (uint16_t)dst, .req_node = (uint16_t)writer, .value = close
	};
	int err = core_closing_event(&x->h, ev, &m);

	if (err)
		model_fail("node %u: %s of %u for %u: %d", x->h.me, closing_event_name(ev), src, dst, err);
}

static void noted(struct host *x, const struct rmsg *m)
{
	struct rmsg again = *m;
	unsigned int b;

	if (x->cfg->notes_after && !m->op) {
		closing_event(x, CE_NOTE, m->src, m->dst, m->close, m->req_node);
		again.op = 1;
		post(x->w, &again);
		return;
	}
	for (b = 0; b < RC_BLOCKS; b++)
		if (m->mask[b] && core_note_block(&x->h, b, m->src))
			model_fail("node %u does not take a notice of block %u", x->h.me, b);
	if (!x->cfg->notes_after)
		closing_event(x, CE_NOTE, m->src, m->dst, m->close, m->req_node);
}

static void deliver(const struct rc_cfg *cfg, struct world *w, unsigned int index)
{
	struct rmsg m = w->msgs[index];
	struct host x = host_at(cfg, w, m.dst, -1, &m);
	struct msg wide = widen(&m), inside;

	memmove(&w->msgs[index], &w->msgs[index + 1], (w->n - index - 1u) * sizeof(m));
	memset(&w->msgs[--w->n], 0, sizeof(m));
	model_say("node %u receives %s of %u, object %u close %llu\n", m.dst, wire_name(m.type), m.src, m.object,
		  (unsigned long long)m.close);
	switch (m.type) {
	case MSG_FLUSH:
		closing_event(&x, CE_FLUSH, m.src, m.dst, m.close, m.src);
		x.n->merging[m.src] = m;
		break;
	case MSG_NOTE: noted(&x, &m); break;
	case MSG_AFTER:
		inside = wide;
		inside.type = m.inside;
		inside.op = m.inside_op;
		inside.value = 0;
		if (core_after(&x.h, &wide, &inside))
			model_fail("node %u does not take AFTER", m.dst);
		break;
	case MSG_READ_REQ:
	case MSG_DATA:
	case MSG_FLUSHED:
	case MSG_NOTED: core_deliver(&x.h, &wide, NULL); break;
	default: ordered(&x, &m); break;
	}
}

/* One block of a FLUSH; after the last one, the notices. */
static void merge_next(const struct rc_cfg *cfg, struct world *w, unsigned int node, unsigned int src)
{
	struct host x = host_at(cfg, w, node, -1, NULL);
	struct rmsg *m = &x.n->merging[src];
	unsigned int b, to;

	for (b = 0; b < RC_BLOCKS; b++)
		if (m->mask[b]) {
			model_say("node %u merges block %u of %u\n", node, b, src);
			if (core_flush_block(&x.h, b, (uint16_t)src, m, sizeof(*m)))
				model_fail("node %u does not merge block %u", node, b);
			m->mask[b] = 0;
			return;
		}
	model_say("node %u has merged what %u sent\n", node, src);
	memset(m, 0, sizeof(*m));
	for (to = 0; to < cfg->nnodes; to++)
		if (x.n->notices[src][to])
			closing_event(&x, CE_SPREAD, src, to, 0, 0);
	closing_event(&x, CE_MERGED, src, node, 0, 0);
}

static void gather_next(const struct rc_cfg *cfg, struct world *w, unsigned int node)
{
	struct host x = host_at(cfg, w, node, -1, NULL);
	struct rnode *n = x.n;
	unsigned int to, b;

	model_say("node %u gathers\n", node);
	if (n->gather == 1) {
		n->entry = (uint8_t)core_gather_first(&x.h);
		n->gather = 2;
		return;
	}
	for (b = 0; b < RC_BLOCKS && cfg->lowers_after; b++) {
		const struct rel_ctx ctx = { .me = x.h.me, .home = cfg->home[b] };

		if (n->hw[b] > rel_prot(&ctx, &n->blocks[b]))
			set_hw(&x, b, (uint8_t)rel_prot(&ctx, &n->blocks[b]));
	}
	if (n->entry) {
		n->entry = (uint8_t)core_gather_next(&x.h, n->entry);
		return;
	}
	for (to = 0; to < cfg->nnodes; to++) {
		for (b = 0; b < RC_BLOCKS && !(n->diffs[b].mask && cfg->home[b] == to); b++)
			;
		if (b < RC_BLOCKS)
			closing_event(&x, CE_SENT, node, to, 0, 0);
		if (n->notices[node][to])
			closing_event(&x, CE_TOLD, node, to, 0, 0);
	}
	n->gather = 0;
	closing_event(&x, CE_GATHERED, node, node, 0, 0);
}

static void leave(struct world *w, unsigned int i)
{
	struct leave l = w->leaves[i];
	uint8_t *hw = &w->nodes[l.node].hw[l.block];

	memset(&w->leaves[i], 0, sizeof(l));
	model_say("node %u lowers block %u\n", l.node, l.block);
	if (*hw > PROT_RO)
		*hw = PROT_RO;
	send_data(w, l.node, l.block, &l.m);
}

/* ---- the search ----------------------------------------------------------------------------------- */

static void start(const void *c, void *world)
{
	const struct rc_cfg *cfg = c;
	struct world *w = world;
	unsigned int n, b, o;

	lock_held = 0;
	for (n = 0; n < cfg->nnodes; n++) {
		struct closing *k = &w->nodes[n].closing;

		k->run = k->ended = k->asked = k->due = cfg->before;
		for (o = 0; o < cfg->nnodes; o++)
			w->nodes[n].peers[o].flushed = w->nodes[n].peers[o].noted = cfg->before;
		for (b = 0; b < RC_BLOCKS; b++) {
			w->nodes[n].blocks[b].flushed = (uint32_t)cfg->before;
			w->nodes[n].hw[b] = cfg->home[b] == n ? PROT_RW : PROT_CLOSED;
		}
	}
}

static bool first_of_equals(const struct world *w, unsigned int i)
{
	unsigned int o;

	for (o = 0; o < i; o++)
		if (!memcmp(&w->msgs[o], &w->msgs[i], sizeof(w->msgs[i])))
			return false;
	return true;
}

static unsigned int list(const void *c, const void *world, uint32_t *events)
{
	const struct rc_cfg *cfg = c;
	const struct world *w = world;
	unsigned int n = 0, i, o;

	for (i = 0; cfg->choose && !w->chosen && i < CHOICES; i++)
		events[n++] = event(EV_CHOOSE, i, 0);
	if (n)
		return n;
	for (i = 0; i < cfg->nthreads; i++)
		if (runnable(cfg, w, i))
			events[n++] = event(EV_THREAD, i, 0);
	for (i = 0; i < cfg->nnodes; i++) {
		if (w->nodes[i].gather)
			events[n++] = event(EV_GATHER, i, 0);
		for (o = 0; o < cfg->nnodes; o++)
			if (w->nodes[i].merging[o].type)
				events[n++] = event(EV_MERGE, i, o);
	}
	for (i = 0; i < LEAVES; i++)
		if (w->leaves[i].used)
			events[n++] = event(EV_LEAVE, i, 0);
	for (i = 0; i < w->n; i++)
		if (first_of_equals(w, i))
			events[n++] = event(EV_MSG, i, 0);
	return n;
}

static void fire(const void *c, void *world, uint32_t ev)
{
	const unsigned int a = ev >> 8 & 0xff, b = ev & 0xff;
	const struct rc_cfg *cfg = c;
	struct world *w = world;
	unsigned int i, o;

	switch ((enum event)(ev >> 16)) {
	case EV_CHOOSE:
		model_say("threads are ordered by %s %s\n", wire_name(choices[a].type),
			  choices[a].type == MSG_SYNC ? sync_op_name(choices[a].op) : "");
		w->chosen = (uint8_t)(a + 1);
		break;
	case EV_THREAD:
		model_say("thread %u runs, operation %u\n", a, w->threads[a].at);
		thread_runs(cfg, w, a);
		break;
	case EV_GATHER: gather_next(cfg, w, a); break;
	case EV_MERGE: merge_next(cfg, w, a, b); break;
	case EV_LEAVE: leave(w, a); break;
	case EV_MSG: deliver(cfg, w, a); break;
	}
	/* twins_after: the mapping was open for one event before the twin is made. */
	for (i = 0; i < cfg->nnodes; i++)
		for (o = 0; o < RC_BLOCKS && cfg->twins_after; o++)
			if (w->nodes[i].twinned[o] == 2 && w->nodes[i].dirty[o]) {
				memcpy(w->nodes[i].twin[o], w->nodes[i].frame[o], RC_BYTES);
				w->nodes[i].twinned[o] = 1;
			}
}

static int compare_messages(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rmsg));
}

static int compare_leaves(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct leave));
}

static int compare_held(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct closing_held));
}

static void canon(const void *c, void *world)
{
	const struct rc_cfg *cfg = c;
	struct world *w = world;
	unsigned int i, b;

	qsort(w->msgs, w->n, sizeof(w->msgs[0]), compare_messages);
	qsort(w->leaves, LEAVES, sizeof(w->leaves[0]), compare_leaves);
	for (i = 0; i < cfg->nnodes; i++) {
		struct rnode *n = &w->nodes[i];

		qsort(n->held, HELD, sizeof(n->held[0]), compare_held);
		for (b = 0; b < RC_BLOCKS; b++) {
			struct rel *p = &n->blocks[b];
			const bool home = cfg->home[b] == i;

			if (!p->listed)
				p->next_open = 0;
			if (!p->noticed)
				p->next_notice = 0;
			if (home || (p->state != REL_FETCH && p->state != REL_AGAIN && p->state != REL_GOT))
				p->slot = 0;
			if (n->closing.run == n->closing.ended || p->flushed != (uint32_t)n->closing.run)
				p->flushed = 0; /* any that has ended */
			if (!home && (p->state == REL_NONE || p->state == REL_FETCH || p->state == REL_AGAIN))
				memset(n->frame[b], 0, RC_BYTES);
		}
	}
}

/* Is a notice for the block on its way to the node? */
static bool under_way(const struct rc_cfg *cfg, const struct world *w, unsigned int node, unsigned int b)
{
	const struct rnode *home = &w->nodes[cfg->home[b]];
	unsigned int i;

	for (i = 0; i < w->n; i++)
		if (w->msgs[i].type == MSG_NOTE && w->msgs[i].dst == node && w->msgs[i].mask[b])
			return true;
	for (i = 0; i < cfg->nnodes; i++)
		if (home->notices[i][node] >> b & 1)
			return true;
	return false;
}

static bool lowers(const struct world *w, unsigned int node, unsigned int b)
{
	unsigned int i;

	for (i = 0; i < LEAVES; i++)
		if (w->leaves[i].used && w->leaves[i].node == node && w->leaves[i].block == b)
			return true;
	return false;
}

static void check_copy(const struct rc_cfg *cfg, const struct world *w, unsigned int node, unsigned int b)
{
	const struct rnode *n = &w->nodes[node];
	const struct rel *p = &n->blocks[b], *home = &w->nodes[cfg->home[b]].blocks[b];
	const struct rel_ctx ctx = { .me = (uint16_t)node, .home = cfg->home[b] };
	const bool at_home = cfg->home[b] == node;

	if (n->hw[b] > PROT_CLOSED && !at_home && p->state != REL_STALE && !p->noticed &&
	    !set_has(home->copyset, (uint16_t)node, set_granule(nominal(cfg))) && !under_way(cfg, w, node, b))
		model_fail("node %u can read block %u, but is not registered, and has no notice", node, b);
	if (n->hw[b] == PROT_RW && !n->twinned[b] && !(at_home && p->state == RELH_EXCLUSIVE) && !lowers(w, node, b) &&
	    !cfg->lowers_after)
		model_fail("node %u can write block %u without a twin", node, b);
	if (at_home && !p->copyset != (p->state == RELH_EXCLUSIVE))
		model_fail("node %u: block %u is %s, with copyset %llx", node, b, rel_state_name(true, p->state),
			   (unsigned long long)p->copyset);
	if (!!n->twinned[b] != rel_open(&ctx, p))
		model_fail("node %u: block %u is %s, with%s a twin", node, b, rel_state_name(at_home, p->state),
			   n->twinned[b] ? "" : "out");
}

static bool at_rest(const struct rc_cfg *cfg, const struct world *w)
{
	unsigned int i, b;

	for (i = 0; i < LEAVES; i++)
		if (w->leaves[i].used)
			return false;
	for (i = 0; i < cfg->nthreads; i++)
		if (next_op(cfg, w, i).what != RC_END)
			return false;
	for (i = 0; i < cfg->nnodes; i++) {
		if (w->nodes[i].gather)
			return false;
		for (b = 0; b < cfg->nnodes; b++)
			if (w->nodes[i].merging[b].type)
				return false;
	}
	return !w->n;
}

/* The master has every store, unless its node has not closed since. */
static void check_master(const struct rc_cfg *cfg, const struct world *w, unsigned int b, unsigned int i)
{
	const struct byte_ghost *g = &w->bytes[b][i];
	const struct rnode *writer;

	if (!g->by || w->nodes[cfg->home[b]].frame[b][i] == g->value)
		return;
	writer = &w->nodes[cfg->node[g->by - 1]];
	if (!writer->twinned[b] || !(writer->dirty[b] >> i & 1) || writer->frame[b][i] != g->value)
		model_fail("at rest: byte %u.%u is %u at its home, and its last store was %u", b, i,
			   w->nodes[cfg->home[b]].frame[b][i], g->value);
}

static void check_rest(const struct rc_cfg *cfg, const struct world *w)
{
	unsigned int i, b;

	for (i = 0; i < cfg->nnodes; i++) {
		const struct closing *k = &w->nodes[i].closing;

		if (k->phase != CLOSING_IDLE || k->held || k->first || k->flushes || k->applying)
			model_fail("at rest: node %u still closes (%s, %u held)", i, closing_phase_name(k->phase),
				   k->held);
		if (k->run - cfg->before > CLOSES)
			model_fail("node %u has closed %llu times", i, (unsigned long long)(k->run - cfg->before));
	}
	for (b = 0; b < RC_BLOCKS; b++)
		for (i = 0; i < RC_BYTES; i++)
			check_master(cfg, w, b, i);
}

static void check(const void *c, const void *world)
{
	const struct rc_cfg *cfg = c;
	const struct world *w = world;
	unsigned int i, b;

	for (i = 0; i < cfg->nnodes; i++)
		for (b = 0; b < RC_BLOCKS; b++)
			check_copy(cfg, w, i, b);
	if (at_rest(cfg, w))
		check_rest(cfg, w);
}

static bool final(const void *c, const void *world)
{
	return at_rest(c, world);
}

static void show(const void *c, const void *world)
{
	const struct rc_cfg *cfg = c;
	const struct world *w = world;
	unsigned int i, b;

	for (i = 0; i < cfg->nnodes; i++) {
		const struct rnode *n = &w->nodes[i];

		model_say("    node %u: %s, close %llu of %llu, ended %llu, %u held, first service %u\n", i,
			  closing_phase_name(n->closing.phase), (unsigned long long)n->closing.run,
			  (unsigned long long)n->closing.asked, (unsigned long long)n->closing.ended, n->closing.held,
			  n->closing.first);
		for (b = 0; b < RC_BLOCKS; b++)
			model_say("      block %u: %s, hardware %s, %u %u, twin %u %u, copyset %llx, %s%s\n", b,
				  rel_state_name(cfg->home[b] == i, n->blocks[b].state), show_prot(n->hw[b]),
				  n->frame[b][0], n->frame[b][1], n->twin[b][0], n->twin[b][1],
				  (unsigned long long)n->blocks[b].copyset, n->blocks[b].listed ? "listed " : "",
				  n->blocks[b].noticed ? "noticed" : "");
	}
	for (i = 0; i < cfg->nthreads; i++)
		model_say("    thread %u of node %u: operation %u, pc %u\n", i, cfg->node[i], w->threads[i].at,
			  w->threads[i].pc);
	model_say("    %u messages\n", w->n);
}

const struct model rc_model = MODEL(struct world);
