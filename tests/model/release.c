// SPDX-License-Identifier: BSD-2-Clause
/* release.c - see release.h. */
#include "release_world.h"

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
	{ .type = MSG_REVOKED, .then = MSG_REPLY },
	{ .type = MSG_BYE, .then = MSG_RETURN },
	{ .type = MSG_SYNC, .op = SOP_POST, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_RDUNLOCK, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_WRUNLOCK, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_SIGNAL, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_BROADCAST, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_MEET, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_STORE, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_ADD, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_EXCHANGE, .then = MSG_REPLY },
	{ .type = MSG_SYNC, .op = SOP_CAS, .then = MSG_REPLY },
};
#define CHOICES (sizeof(choices) / sizeof(choices[0]))

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
/* ---- threads --------------------------------------------------------------------------------- */

enum event { EV_CHOOSE = 1, EV_THREAD, EV_GATHER, EV_MERGE, EV_LEAVE, EV_MSG, EV_DROP, EV_APPLY };

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

static void next(struct thread *t)
{
	t->pc = PC_READY;
	t->at++;
	t->entry = t->stale = t->again = 0;
}

/* The access itself. Scripts have no races, so the last store is the one that the load must see. */
static void access_byte(const struct rc_cfg *cfg, struct world *w, unsigned int t, bool store,
			unsigned int b, unsigned int i)
{
	struct byte_ghost *g = &w->bytes[b][i];
	struct rnode *n = &w->nodes[cfg->node[t]];
	uint8_t *clock = w->threads[t].clock;
	unsigned int o;

	if (g->by && clock[g->by - 1] < g->when)
		model_fail("the script of thread %u races with thread %u for byte %u.%u", t,
			   g->by - 1u, b, i);
	for (o = 0; o < RC_THREADS && store; o++)
		if (clock[o] < g->read[o])
			model_fail("the script of thread %u stores what thread %u still reads", t,
				   o);
	clock[t]++;
	if (!store) {
		g->read[t] = clock[t];
		if (n->frame[b][i] != g->value)
			model_fail(
				"thread %u of node %u reads %u from byte %u.%u, whose last store was %u",
				t, cfg->node[t], n->frame[b][i], b, i, g->value);
	} else {
		g->by = (uint8_t)(t + 1);
		g->when = clock[t];
		g->value++;
		n->frame[b][i] = g->value;
		if (n->twinned[b])
			n->dirty[b] |= (uint8_t)(1 << i);
	}
	model_say("      thread %u of node %u %s byte %u.%u: %u\n", t, cfg->node[t],
		  store ? "stores" : "loads", b, i, g->value);
	next(&w->threads[t]);
}

static void fault(const struct rc_cfg *cfg, struct world *w, unsigned int t, enum page_event ev,
		  unsigned int b)
{
	struct host x = rc_host_at(cfg, w, cfg->node[t], (int)t, NULL);
	struct core_waiter waiter = { .wait = -1 };
	const struct msg about = { .object = b,
				   .req_slot = (uint16_t)t,
				   .req_node = x.h.me,
				   .src = x.h.me,
				   .dst = x.h.me };
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
	const struct rc_op op = rc_next_op(cfg, w, t);
	const bool store = op.what == RC_STORE;
	const unsigned int b = op.arg >> 4, i = op.arg & 15;
	struct rnode *n = &w->nodes[cfg->node[t]];

	if (w->threads[t].pc == PC_WOKEN) {
		fault(cfg, w, t, PE_USED, b);
		if (n->hw[b] < (store ? PROT_RW : PROT_RO)) {
			if (store && n->blocks[b].flags & REL_REFUSED) {
				w->threads[t].pc =
					PC_READY; /* it has got nothing, and makes a twin */
				return;
			}
			model_fail("node %u has fetched block %u, and may not use it", cfg->node[t],
				   b);
			return;
		}
	} else if (n->hw[b] < (store ? PROT_RW : PROT_RO)) {
		fault(cfg, w, t, store ? PE_WRITE : PE_READ, b);
		return;
	}
	access_byte(cfg, w, t, store, b, i);
}

static void order_by(struct host *x, uint8_t type, uint8_t op, unsigned int dst,
		     unsigned int object)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = type,
			       .op = op,
			       .src = x->h.me,
			       .dst = (uint16_t)dst,
			       .object = object };
	struct actions acts = { .n = 0 };

	act_add(&acts, ACT_SEND)->msg = m;
	core_carry_out(&x->h, &acts, 0, &m, NULL);
}

/* object: the lock's, and a thread; or an edge, on the way to who passes it on, or to its end; of a
 * block, its number */
#define OBJECT_LOCK 0x80u
#define OBJECT_HOPPED 0x40u
#define OBJECT_HOP 0x20u

static void send_edge(const struct rc_cfg *cfg, struct world *w, unsigned int t, unsigned int e)
{
	const struct rc_edge edge = edge_of(cfg, w, e);
	struct host x = rc_host_at(cfg, w, cfg->node[t], (int)t, NULL);

	w->threads[t].clock[t]++;
	memcpy(w->edge_clock[e], w->threads[t].clock, RC_THREADS);
	next(&w->threads[t]);
	if (cfg->node[edge.to] == cfg->node[t])
		w->arrived[e] = 1;
	else
		order_by(&x, edge.type, edge.op, edge.hop ? edge.hop - 1u : cfg->node[edge.to],
			 e | (edge.hop ? OBJECT_HOP : OBJECT_HOPPED));
}

/* One step of an acquire. */
static void acquire(const struct rc_cfg *cfg, struct world *w, unsigned int t)
{
	struct host x = rc_host_at(cfg, w, cfg->node[t], (int)t, NULL);
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
	const struct rc_op op = rc_next_op(cfg, w, t);
	struct thread *th = &w->threads[t];
	struct host x = rc_host_at(cfg, w, cfg->node[t], (int)t, NULL);

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
	const struct rc_op op = rc_next_op(cfg, w, t);

	if (th->pc == PC_WAIT || th->pc == PC_JOIN || op.what == RC_END)
		return false;
	return op.what != RC_RECV || th->pc != PC_READY || w->arrived[op.arg];
}

/* ---- what arrives ---------------------------------------------------------------------------- */

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
	} else if (m->object & OBJECT_HOP) {
		const struct rc_edge edge = edge_of(x->cfg, w, t);

		order_by(x, edge.then, 0, x->cfg->node[edge.to], t | OBJECT_HOPPED);
	} else {
		model_fail("node %u receives %s, which the model does not deliver", x->h.me,
			   wire_name(m->type));
	}
}

static void closing_event(struct host *x, enum closing_event ev, unsigned int src, unsigned int dst,
			  uint64_t close, unsigned int writer)
{
	const struct msg m = { .src = (uint16_t)src,
			       .dst = (uint16_t)dst,
			       .req_node = (uint16_t)writer,
			       .value = close };
	int err = core_closing_event(&x->h, ev, &m);

	if (err)
		model_fail("node %u: %s of %u for %u: %d", x->h.me, closing_event_name(ev), src,
			   dst, err);
}

static void noted(struct host *x, const struct rmsg *m)
{
	struct rmsg again = *m;
	unsigned int b;

	if (x->cfg->notes_after && !m->op) {
		closing_event(x, CE_NOTE, m->src, m->dst, m->close, m->req_node);
		again.op = 1;
		rc_post(x->w, &again);
		return;
	}
	for (b = 0; b < RC_BLOCKS; b++)
		if (m->mask[b] &&
		    (m->mask[b] & NOTED_BLOCK ? core_note_block(&x->h, b, m->src)
					      : core_tell_block(&x->h, b, m->src, m, sizeof(*m))))
			model_fail("node %u does not take a notice of block %u", x->h.me, b);
	if (!x->cfg->notes_after)
		closing_event(x, CE_NOTE, m->src, m->dst, m->close, m->req_node);
}

static void given(struct host *x, const struct rmsg *m)
{
	unsigned int b;

	for (b = 0; b < RC_BLOCKS; b++)
		if (m->mask[b] & GIVEN_BLOCK && core_give_block(&x->h, b, m->src))
			model_fail("node %u is not given block %u", x->h.me, b);
}

static void deliver(const struct rc_cfg *cfg, struct world *w, unsigned int index)
{
	struct rmsg m = w->msgs[index];
	struct host x = rc_host_at(cfg, w, m.dst, -1, &m);
	struct msg wide = rc_widen(&m), inside;

	memmove(&w->msgs[index], &w->msgs[index + 1], (w->n - index - 1u) * sizeof(m));
	memset(&w->msgs[--w->n], 0, sizeof(m));
	model_say("node %u receives %s of %u, object %u close %llu\n", m.dst, wire_name(m.type),
		  m.src, m.object, (unsigned long long)m.close);
	switch (m.type) {
	case MSG_FLUSH:
		closing_event(&x, CE_FLUSH, m.src, m.dst, m.close, m.src);
		x.n->merging[m.src] = m;
		break;
	case MSG_NOTE: noted(&x, &m); break;
	case MSG_FLUSHED:
		given(&x, &m);
		core_deliver(&x.h, &wide, NULL);
		break;
	case MSG_AFTER:
		inside = wide;
		inside.type = m.inside;
		inside.op = m.inside_op;
		inside.value = 0;
		if (core_after(&x.h, &wide, &inside))
			model_fail("node %u does not take AFTER", m.dst);
		break;
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
	case MSG_GRANT:
	case MSG_DATA:
	case MSG_DONE:
	case MSG_NOTED: core_deliver(&x.h, &wide, NULL); break;
	default: ordered(&x, &m); break;
	}
}

/* One block of a FLUSH; after the last one, the notices. */
static void merge_next(const struct rc_cfg *cfg, struct world *w, unsigned int node,
		       unsigned int src)
{
	struct host x = rc_host_at(cfg, w, node, -1, NULL);
	struct rmsg *m = &x.n->merging[src];
	unsigned int b, to;

	for (b = 0; b < RC_BLOCKS; b++)
		if (m->mask[b]) {
			const struct core_change c = { .object = b,
						       .asks = m->mask[b] & ASKS_BLOCK,
						       .kept = cfg->tells,
						       .diff = m,
						       .size = sizeof(*m) };

			model_say("node %u merges block %u of %u\n", node, b, src);
			if (core_flush_block(&x.h, (uint16_t)src, &c))
				model_fail("node %u does not merge block %u", node, b);
			m->mask[b] = 0;
			return;
		}
	model_say("node %u has merged what %u sent\n", node, src);
	memset(m, 0, sizeof(*m));
	for (to = 0; to < cfg->nnodes; to++)
		if (x.n->notices[src][to] | x.n->tells[src][to])
			closing_event(&x, CE_SPREAD, src, to, 0, 0);
	closing_event(&x, CE_MERGED, src, node, 0, 0);
}

static void gather_next(const struct rc_cfg *cfg, struct world *w, unsigned int node)
{
	struct host x = rc_host_at(cfg, w, node, -1, NULL);
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
			rc_set_hw(&x, b, (uint8_t)rel_prot(&ctx, &n->blocks[b]));
	}
	if (n->entry) {
		n->entry = (uint8_t)core_gather_next(&x.h, n->entry);
		return;
	}
	for (to = 0; to < cfg->nnodes; to++) {
		for (b = 0; b < RC_BLOCKS && !(n->diffs[b].mask && rc_home(cfg, n, b) == to); b++)
			;
		if (b < RC_BLOCKS)
			closing_event(&x, CE_SENT, node, to, 0, 0);
		if (n->notices[node][to] | n->tells[node][to])
			closing_event(&x, CE_TOLD, node, to, 0, 0);
	}
	n->gather = 0;
	closing_event(&x, CE_GATHERED, node, node, 0, 0);
}

/* ---- copies that a node gives up by itself --------------------------------------------------- */

static bool may_drop(const struct rc_cfg *cfg, const struct world *w, unsigned int node,
		     unsigned int b)
{
	const uint8_t state = w->nodes[node].blocks[b].state;

	return w->drops < cfg->drops && cfg->droppers >> node & 1 &&
		rc_home(cfg, &w->nodes[node], b) != node &&
		(state == REL_CLEAN || state == REL_OPEN);
}

/* A clean copy goes at once, one that was written as by a notice. */
static void give_up(const struct rc_cfg *cfg, struct world *w, unsigned int node, unsigned int b)
{
	struct host x = rc_host_at(cfg, w, node, -1, NULL);
	const struct msg about = { .object = b, .src = x.h.me, .dst = x.h.me };
	struct rnode *n = x.n;

	model_say("node %u gives up block %u\n", node, b);
	w->drops++;
	if (n->blocks[b].state == REL_CLEAN) {
		if (core_page_event(&x.h, PE_DROP, &about, NULL) != CORE_DROPPED &&
		    !(n->blocks[b].flags & REL_MOVING))
			model_fail("node %u does not drop block %u", node, b);
	} else if (cfg->drops_open) {
		n->blocks[b].state = REL_NONE;
		n->twinned[b] = n->dirty[b] = 0;
		rc_set_hw(&x, b, PROT_CLOSED);
	} else {
		rel_notice(&n->lists, n->blocks, b);
		n->applies = 1;
	}
}

static void apply_all(const struct rc_cfg *cfg, struct world *w, unsigned int node)
{
	struct host x = rc_host_at(cfg, w, node, -1, NULL);

	model_say("node %u applies notices\n", node);
	x.n->applies = core_acquire(&x.h) == -EAGAIN;
}

static void leave(struct world *w, unsigned int i)
{
	struct leave l = w->leaves[i];
	uint8_t *hw = &w->nodes[l.node].hw[l.block];

	memset(&w->leaves[i], 0, sizeof(l));
	model_say("node %u lowers block %u\n", l.node, l.block);
	if (*hw > PROT_RO)
		*hw = PROT_RO;
	rc_send_data(w, l.node, l.block, &l.m);
}

/* ---- the search ------------------------------------------------------------------------------ */

static void start(const void *c, void *world)
{
	const struct rc_cfg *cfg = c;
	struct world *w = world;
	unsigned int n, b, o;

	rc_unlock_all();
	for (n = 0; n < cfg->nnodes; n++) {
		struct closing *k = &w->nodes[n].closing;

		k->run = k->ended = k->asked = k->due = cfg->before;
		for (o = 0; o < cfg->nnodes; o++)
			w->nodes[n].peers[o].flushed = w->nodes[n].peers[o].noted = cfg->before;
		for (b = 0; b < RC_BLOCKS; b++) {
			w->nodes[n].blocks[b].flushed = (uint32_t)cfg->before;
			w->nodes[n].hw[b] =
				cfg->home[b] == n && !cfg->fresh ? PROT_RW : PROT_CLOSED;
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
	for (i = 0; i < cfg->nnodes; i++) {
		if (w->nodes[i].applies)
			events[n++] = event(EV_APPLY, i, 0);
		for (o = 0; o < RC_BLOCKS; o++)
			if (may_drop(cfg, w, i, o))
				events[n++] = event(EV_DROP, i, o);
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
	case EV_DROP: give_up(cfg, w, a, b); break;
	case EV_APPLY: apply_all(cfg, w, a); break;
	}
	/* twins_after: the mapping was open for one event before the twin is made. */
	for (i = 0; i < cfg->nnodes; i++)
		for (o = 0; o < RC_BLOCKS && cfg->twins_after; o++)
			if (w->nodes[i].twinned[o] == 2 && w->nodes[i].dirty[o]) {
				memcpy(w->nodes[i].twin[o], w->nodes[i].frame[o], RC_BYTES);
				w->nodes[i].twinned[o] = 1;
			}
}

const struct model rc_model = {
	.size = WORLD_SIZE(struct world),
	.start = start,
	.list = list,
	.fire = fire,
	.canon = rc_canon,
	.check = rc_check,
	.final = rc_final,
	.show = rc_show,
};
