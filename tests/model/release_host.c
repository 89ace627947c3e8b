// SPDX-License-Identifier: BSD-2-Clause
/* release_host.c - the nodes of a world of release blocks, as hosts of the core. */
#include "../core_ops.h"
#include "release_world.h"

/* ---- messages -------------------------------------------------------------------------------- */

void rc_post(struct world *w, const struct rmsg *m)
{
	if (w->n == MESSAGES) {
		model_fail("more than %d messages in flight", MESSAGES);
		return;
	}
	model_say("      sends %s %u->%u object %u close %llu%s%s\n", wire_name(m->type), m->src,
		  m->dst, m->object, (unsigned long long)m->close, m->inside ? " with " : "",
		  m->inside ? wire_name(m->inside) : "");
	w->msgs[w->n++] = *m;
}

static struct rmsg narrow(const struct msg *m)
{
	return (struct rmsg){ .close = m->value,
			      .type = m->type,
			      .op = m->op,
			      .flags = m->flags,
			      .src = (uint8_t)m->src,
			      .dst = (uint8_t)m->dst,
			      .object = (uint8_t)m->object,
			      .req_node = (uint8_t)m->req_node,
			      .slot = (uint8_t)m->req_slot };
}

struct msg rc_widen(const struct rmsg *m)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = m->type,
			     .op = m->op,
			     .flags = m->flags,
			     .src = m->src,
			     .dst = m->dst,
			     .object = m->object,
			     .req_node = m->req_node,
			     .req_slot = m->slot,
			     .home = m->type == MSG_DATA || m->type == MSG_GRANT ? m->src : 0,
			     .value = m->close };
}

/* ---- the host -------------------------------------------------------------------------------- */

static struct host *host_of(struct core_host *h)
{
	return (struct host *)h; /* its first member */
}

static const struct core_ops ops;

struct host rc_host_at(const struct rc_cfg *cfg, struct world *w, unsigned int node, int who,
		       const struct rmsg *m)
{
	return (struct host){ .h = { .ops = &ops, .me = (uint16_t)node, .nnodes = rc_nominal(cfg) },
			      .cfg = cfg,
			      .w = w,
			      .n = &w->nodes[node],
			      .m = m,
			      .who = who };
}

#define BLOCK_KEY 7

/* find() is called once for each step, so one is enough. */
static struct closing_ctx closes;

static int find(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		struct core_place *p)
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
	p->rel = (struct rel_ctx){
		.me = h->me, .nnodes = h->nnodes, .lists = &x->n->lists, .blocks = x->n->blocks
	};
	p->rel.tells = x->cfg->tells;
	p->rel.raises = x->cfg->raises;
	p->rel.lends = x->cfg->lends;
	p->d.rel_ctx = &p->rel;
	if (target == TARGET_BLOCK) {
		p->rel.home = x->cfg->home[number];
		p->rel.follow = x->cfg->follow &&
			!(x->cfg->unknown && x->cfg->home[number] == h->me &&
			  !x->n->blocks[number].copyset && !x->n->blocks[number].home);
		p->rel.index = number;
		p->d.rel = &x->n->blocks[number];
		p->key = BLOCK_KEY;
	} else if (target != TARGET_CLOSING) {
		return -EBADMSG;
	}
	return 0;
}

static uint32_t lock_held; /* its key */

void rc_unlock_all(void)
{
	lock_held = 0;
}

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
		model_fail("node %u: %s", h->me,
			   should ? "not under the block's lock" : "under a lock");
}

static uint32_t now(struct core_host *h)
{
	(void)h;
	return 0;
}

void rc_set_hw(struct host *x, uint32_t b, uint8_t prot)
{
	if (x->n->hw[b] != prot)
		model_say("      node %u block %u: hardware %s\n", x->h.me, b, show_prot(prot));
	x->n->hw[b] = prot;
}

static bool again(struct core_host *h, uint32_t b, uint8_t prot)
{
	under_lock(h, true);
	rc_set_hw(host_of(h), b, prot);
	return true;
}

static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *acts)
{
	(void)acts;
	if (err)
		model_fail("node %u does not expect %s of %u (%d)", h->me, wire_name(m->type),
			   m->src, err);
}

static void damaged(struct core_host *h, const struct msg *about, enum page_event ev, uint8_t state)
{
	model_fail("node %u block %u: event %u in state %u", h->me, about->object, ev, state);
}

static void fill_note(struct rnode *n, unsigned int writer, unsigned int to, struct rmsg *out)
{
	const uint8_t tells = n->tells[writer][to];
	unsigned int b;

	for (b = 0; b < RC_BLOCKS; b++) {
		out->mask[b] = n->notices[writer][to] >> b & 1 ? NOTED_BLOCK : 0;
		if (tells >> b & 1) {
			out->mask[b] = n->told[writer][b].mask;
			memcpy(out->v[b], n->told[writer][b].v, RC_BYTES);
		}
	}
	n->notices[writer][to] = n->tells[writer][to] = 0;
	for (to = 0; to < RC_NODES; to++)
		for (b = 0; b < RC_BLOCKS; b++)
			if (n->tells[writer][to] >> b & 1)
				return; /* still wanted */
	memset(n->told[writer], 0, sizeof(n->told[writer]));
}

static void host_send(struct core_host *h, const struct msg *m)
{
	struct host *x = host_of(h);
	struct rmsg small = narrow(m);
	unsigned int b;

	under_lock(h, false);
	for (b = 0; b < RC_BLOCKS && m->type == MSG_FLUSH; b++)
		if (x->n->diffs[b].mask && rc_home(x->cfg, x->n, b) == m->dst) {
			small.mask[b] = x->n->diffs[b].mask;
			memcpy(small.v[b], x->n->diffs[b].v, RC_BYTES);
			memset(&x->n->diffs[b], 0, sizeof(x->n->diffs[b]));
		}
	if (m->type == MSG_NOTE)
		fill_note(x->n, m->req_node, m->dst, &small);
	for (b = m->type == MSG_FLUSHED ? core_given_first(h, m->dst) : 0; b;
	     b = core_given_next(h, b))
		small.mask[b - 1] = GIVEN_BLOCK;
	rc_post(x->w, &small);
}

void rc_send_data(struct world *w, unsigned int node, unsigned int b, struct rmsg *m)
{
	const struct rnode *n = &w->nodes[node];

	m->mask[b] = 1;
	memcpy(m->v[b], n->twinned[b] == 1 ? n->twin[b] : n->frame[b], RC_BYTES);
	rc_post(w, m);
}

static void send_block(struct core_host *h, const struct msg *m, const void *contents)
{
	struct rmsg small = narrow(m);

	(void)contents;
	rc_send_data(host_of(h)->w, h->me, m->object, &small);
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
		rc_set_hw(x, l->m->object, l->to);
	return true;
}

static bool host_open(struct core_host *h, const struct actions *acts, unsigned int at,
		      const struct msg *m, const void *data)
{
	struct host *x = host_of(h);

	(void)data;
	if (acts->v[at].from == OPEN_ZERO)
		memset(x->n->frame[m->object], 0, RC_BYTES);
	else if (acts->v[at].from != OPEN_UPGRADE)
		memcpy(x->n->frame[m->object], x->m->v[m->object], RC_BYTES);
	rc_set_hw(x, m->object, acts->v[at].prot);
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
		rc_set_hw(x, b, prot);
}

static bool diff(struct core_host *h, uint32_t b, uint16_t home, bool asks, bool *kept)
{
	struct rnode *n = host_of(h)->n;
	struct diff_out *out = home != h->me ? &n->diffs[b] : *kept ? &n->told[h->me][b] : NULL;
	uint8_t mask = 0, i;

	under_lock(h, true);
	for (i = 0; i < RC_BYTES; i++)
		mask |= (uint8_t)((n->frame[b][i] != n->twin[b][i]) << i);
	if (mask & ~n->dirty[b])
		model_fail("node %u takes bytes %#x of block %u for changed, but has stored %#x",
			   h->me, mask, b, n->dirty[b]);
	n->dirty[b] = 0;
	if (mask && out) {
		out->mask = (uint8_t)(mask | (asks ? ASKS_BLOCK : 0));
		for (i = 0; i < RC_BYTES; i++)
			out->v[i] = mask >> i & 1 ? n->frame[b][i] : 0;
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
	if (x->n->hw[b] == PROT_CLOSED)
		rc_set_hw(x, b, PROT_RO);
}

/* What a home has never mapped. */
static bool fresh(struct core_host *h, uint32_t b)
{
	const struct host *x = host_of(h);
	unsigned int i;

	under_lock(h, true);
	if (!x->cfg->fresh || x->cfg->home[b] != h->me || x->n->hw[b] > PROT_CLOSED)
		return false;
	for (i = 0; i < RC_BYTES; i++)
		if (x->n->frame[b][i])
			model_fail("node %u has never touched block %u, but byte %u is %u", h->me,
				   b, i, x->n->frame[b][i]);
	return true;
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
	const struct rmsg *flush = &x->n->merging[writer];
	uint8_t(*to)[RC_NODES] = a->type == ACT_TELL ? x->n->tells : x->n->notices;
	uint16_t node;

	for (node = 0; node < x->cfg->nnodes; node++)
		if (set_has(a->mask, node, g) && node != a->except && node != h->me)
			to[writer][node] |= (uint8_t)(1 << object);
	if (a->type == ACT_TELL && writer != h->me) {
		x->n->told[writer][object].mask = flush->mask[object] & (uint8_t)~ASKS_BLOCK;
		memcpy(x->n->told[writer][object].v, flush->v[object], RC_BYTES);
	}
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
	rc_post(host_of(h)->w, &m);
}

static void deliver_later(struct core_host *h, const struct msg *m)
{
	struct rmsg small = narrow(m);

	rc_post(host_of(h)->w, &small);
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
	.fresh = fresh,
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
