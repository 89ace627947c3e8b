// SPDX-License-Identifier: BSD-2-Clause
/*
 * release.c - release blocks (core/release.h, core/closing.h) of the simulated nodes.
 *
 * Blocks have real contents here: pages, twins, and diffs by core/diff.h. Closes look at their
 * blocks, homes merge diffs, and threads apply notices in single steps, between which anything else
 * may happen.
 */
#include <string.h>

#include "release.h"

#include "../model/show.h"

/* ---- payloads -------------------------------------------------------------------------------- */

struct load *load_add(struct load *l, const void *bytes, size_t n)
{
	if (!l)
		l = zeroed(1, sizeof(*l));
	if (l->used + n > l->room) {
		l->room = l->used + n + l->room;
		l->bytes = realloc(l->bytes, l->room);
		if (!l->bytes)
			abort();
	}
	memcpy(l->bytes + l->used, bytes, n);
	l->used += n;
	return l;
}

void load_free(struct load *l)
{
	if (l)
		free(l->bytes);
	free(l);
}

/* A diff in a FLUSH or a NOTE: the block, the size, the bytes. A notice has no bytes. */
struct piece {
	uint32_t block;
	uint16_t size;
	bool asks;
	uint8_t pad;
};

/* ---- the host -------------------------------------------------------------------------------- */

bool release_block(const struct sim *s, uint32_t block)
{
	return s->rel && block >= s->o.blocks;
}

/* The costs of closes that growth.c counts are those of notices. */
static bool sim_tells(const struct sim *s)
{
	return !s->o.unit_delay;
}

void release_find(const struct sim *s, uint16_t node, uint32_t block, struct core_place *p)
{
	struct rel_node *n = rel_node_of(s, node);

	p->d.closing = &n->closing;
	p->d.closes = &n->ctx;
	p->d.rel_ctx = &p->rel;
	p->rel = (struct rel_ctx){ .me = node, .nnodes = (uint16_t)s->o.nodes, .lists = &n->lists };
	/* Whether the home that a program checks has every store is known only if it stays. */
	p->rel.follow = s->o.replay;
	p->rel.blocks = &s->rel->rels[(size_t)node * s->rel->blocks];
	if (block == RELEASE_CLOSES)
		return;
	p->rel.home = rel_home_of(s, block);
	p->rel.tells = sim_tells(s);
	/* some blocks at each first fetch, others after one rewrite, or two */
	p->rel.lends = sim_tells(s) ? (uint8_t)(1 + block % 3) : 0;
	p->rel.index = block - s->o.blocks;
	p->d.rel = rel_of(s, node, block);
	p->d.page = NULL;
	p->d.dir = NULL;
	p->key = 0;
	p->transfers = NULL;
}

void release_note(struct sim *s, uint16_t node, uint32_t block, const char *what)
{
	const struct rel *p = rel_of(s, node, block);

	sim_note(s, node, block, "%s: %s, copyset %#llx%s%s", what,
		 rel_state_name(rel_home_of(s, block) == node, p->state),
		 (unsigned long long)p->copyset, p->listed ? ", listed" : "",
		 p->noticed ? ", noticed" : "");
}

static void protect(struct sim *s, uint16_t node, uint32_t block, uint8_t prot)
{
	struct rel_block *c = rel_copy_of(s, node, block);

	sim_note(s, node, block, "hardware %s -> %s", show_prot(c->hw), show_prot(prot));
	if (s->o.net && prot < c->hw)
		loggp_spend(s, node, s->o.net->close);
	c->hw = prot;
}

void release_open(struct sim *s, uint16_t node, uint32_t block, uint8_t prot,
		  const struct load *data)
{
	if (data)
		memcpy(rel_page(&rel_copy_of(s, node, block)->frame), data->bytes, DIFF_PAGE);
	protect(s, node, block, prot);
}

void release_zero(struct sim *s, uint16_t node, uint32_t block)
{
	memset(rel_page(&rel_copy_of(s, node, block)->frame), 0, DIFF_PAGE);
}

void release_lower(struct sim *s, uint16_t node, uint32_t block, uint8_t prot)
{
	if (rel_copy_of(s, node, block)->hw > prot)
		protect(s, node, block, prot);
}

void release_leaves(struct sim *s, uint16_t node, uint32_t block)
{
	rel_copy_of(s, node, block)->late++;
}

struct load *release_contents(struct sim *s, uint16_t node, uint32_t block)
{
	struct rel_block *c = rel_copy_of(s, node, block);

	c->late--;
	return load_add(NULL, c->twin ? c->twin : rel_page(&c->frame), DIFF_PAGE);
}

static void twin(struct core_host *h, uint32_t block)
{
	struct rel_block *c = rel_copy_of(sim_of(h), h->me, block);

	if (c->twin)
		sim_fail(sim_of(h), block, "node %u makes a second twin of block %u", h->me, block);
	memcpy(rel_page(&c->twin), rel_page(&c->frame), DIFF_PAGE);
}

static void untwin(struct core_host *h, uint32_t block)
{
	struct rel_block *c = rel_copy_of(sim_of(h), h->me, block);

	if (!c->twin)
		sim_fail(sim_of(h), block, "node %u has no twin of block %u", h->me, block);
	free(c->twin);
	c->twin = NULL;
}

static void lower(struct core_host *h, uint32_t block, uint8_t prot)
{
	release_lower(sim_of(h), h->me, block, prot);
}

static bool diff(struct core_host *h, uint32_t block, uint16_t home, bool asks, bool *kept)
{
	struct rel_node *n = rel_node_of(sim_of(h), h->me);
	struct rel_block *c = rel_copy_of(sim_of(h), h->me, block);
	struct load **to = &rel_node_of(sim_of(h), h->me)->diffs[home];
	uint8_t bytes[DIFF_MAX];
	struct piece p = { .block = block,
			   .size = (uint16_t)diff_make(rel_page(&c->frame), rel_page(&c->twin),
						       bytes),
			   .asks = asks };

	if (!p.size)
		return false;
	memcpy(c->twin, c->frame, DIFF_PAGE);
	if (home == h->me && *kept) {
		memcpy(n->told, bytes, p.size);
		n->told_size = p.size;
	}
	if (home != h->me)
		*to = load_add(load_add(*to, &p, sizeof(p)), bytes, p.size);
	return true;
}

static void merge(struct core_host *h, uint32_t block, const void *data, size_t size)
{
	struct rel_block *c = rel_copy_of(sim_of(h), h->me, block);

	if (diff_check(data, size))
		sim_fail(sim_of(h), block, "node %u gets a bad diff of block %u", h->me, block);
	diff_apply(rel_page(&c->frame), data);
	if (c->twin)
		diff_apply(c->twin, data);
}

/* A home that has a frame has stored, merged, or sent the contents before. */
static bool fresh(struct core_host *h, uint32_t block)
{
	const struct rel_block *c = rel_copy_of(sim_of(h), h->me, block);

	return sim_tells(sim_of(h)) && c->hw == PROT_CLOSED && !c->frame;
}

static uint32_t object(struct core_host *h, uint32_t index)
{
	return sim_of(h)->o.blocks + index;
}

static bool noted(const struct rel_node *n, uint16_t writer, uint16_t to)
{
	size_t i;

	for (i = 0; i < n->nnotes; i++)
		if (n->notes[i].writer == writer && n->notes[i].to == to)
			return true;
	return false;
}

static void notice(struct core_host *h, uint32_t block, const struct action *a, uint16_t writer)
{
	const uint16_t g = set_granule(h->nnodes);
	struct rel_node *n = rel_node_of(sim_of(h), h->me);
	uint16_t to;

	for (to = set_next(a->mask, 0, h->nnodes, g, a->except, h->me); to < h->nnodes;
	     to = set_next(a->mask, (uint16_t)(to + 1), h->nnodes, g, a->except, h->me)) {
		if (n->nnotes == n->notes_room) {
			n->notes_room = n->notes_room ? n->notes_room * 2 : 16;
			n->notes = realloc(n->notes, n->notes_room * sizeof(*n->notes));
			if (!n->notes)
				abort();
		}
		n->notes[n->nnotes] = (struct note){ .block = block, .writer = writer, .to = to };
		if (a->type == ACT_TELL)
			n->notes[n->nnotes].told = load_add(NULL, n->told, n->told_size);
		n->nnotes++;
	}
}

static uint64_t soon(struct sim *s)
{
	return s->o.unit_delay || s->o.net ? 0 : sim_random(s, sim_random(s, 4) ? 4 : 100);
}

/* The time of a comparison or a merge. */
static uint64_t diffed(struct sim *s, uint16_t node)
{
	return s->o.net ? loggp_spend(s, node, s->o.net->diff) : soon(s);
}

static void gather(struct core_host *h)
{
	struct event e = { .kind = EV_GATHER, .node = h->me };

	rel_node_of(sim_of(h), h->me)->first = true;
	sim_of(h)->st.closes++;
	sim_schedule(sim_of(h), &e, soon(sim_of(h)));
}

static void after(struct core_host *h, const struct action *a)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_AFTER,
			 .op = a->prot,
			 .src = h->me,
			 .dst = a->msg.dst,
			 .req_node = h->me,
			 .value = a->mask };

	sim_check_sent(sim_of(h), &a->msg);
	sim_send_load(sim_of(h), &m, 0, load_add(NULL, &a->msg, sizeof(a->msg)));
}

static void deliver(struct core_host *h, const struct msg *m)
{
	const struct event e = { .kind = EV_MSG, .node = h->me, .msg = *m };

	sim_schedule(sim_of(h), &e, soon(sim_of(h)));
}

static void fail(struct core_host *h, const char *why)
{
	sim_fail(sim_of(h), OBJECT, "node %u: %s", h->me, why);
}

const struct core_rel_ops release_ops = {
	.twin = twin,
	.untwin = untwin,
	.lower = lower,
	.diff = diff,
	.merge = merge,
	.fresh = fresh,
	.object = object,
	.notice = notice,
	.gather = gather,
	.after = after,
	.deliver = deliver,
	.fail = fail,
};

/* ---- closes and services --------------------------------------------------------------------- */

static void closing_event(struct sim *s, uint16_t node, enum closing_event ev, const struct msg *m)
{
	struct host_node n = sim_node(s, node, NULL);
	int err = core_closing_event(&n.h, ev, m);

	if (err)
		sim_fail(s, OBJECT, "node %u does not expect %s of %u (%d)", node,
			 closing_event_name(ev), m->src, err);
}

void release_close(struct sim *s, uint16_t node)
{
	closing_event(s, node, CE_CLOSE, &(struct msg){ .src = node, .dst = node });
}

/* One more block; after the last one, a FLUSH to each home, and a NOTE to each registered node. */
void release_gather(struct sim *s, const struct event *e)
{
	struct host_node h = sim_node(s, e->node, NULL);
	struct rel_node *n = rel_node_of(s, e->node);
	struct msg m = { .src = e->node };
	uint16_t to;

	if (n->first)
		n->entry = core_gather_first(&h.h);
	else if (n->entry)
		n->entry = core_gather_next(&h.h, n->entry);
	n->first = false;
	if (n->entry) {
		sim_schedule(s, e, diffed(s, e->node));
		return;
	}
	for (to = 0; to < s->o.nodes; to++) {
		m.dst = to;
		if (n->diffs[to])
			closing_event(s, e->node, CE_SENT, &m);
		if (n->nnotes && noted(n, e->node, to))
			closing_event(s, e->node, CE_TOLD, &m);
	}
	closing_event(s, e->node, CE_GATHERED, &(struct msg){ .src = e->node, .dst = e->node });
}

/* One more diff of a FLUSH; after the last one, the notices. */
void release_merge(struct sim *s, const struct event *e)
{
	struct rel_node *n = rel_node_of(s, e->node);
	struct msg m = { .src = e->msg.src };
	struct load *l = n->merging[m.src];
	size_t *at = &n->merged[m.src];
	struct core_change c = { .kept = sim_tells(s) };
	struct piece p;
	uint16_t to;

	if (*at < l->used) {
		struct host_node h = sim_node(s, e->node, NULL);

		memcpy(&p, l->bytes + *at, sizeof(p));
		n->told_size = p.size;
		memcpy(n->told, l->bytes + *at + sizeof(p), p.size);
		c.object = p.block;
		c.asks = p.asks;
		c.diff = l->bytes + *at + sizeof(p);
		c.size = p.size;
		if (core_flush_block(&h.h, m.src, &c))
			sim_fail(s, p.block, "node %u does not merge block %u of %u", e->node,
				 p.block, m.src);
		release_note(s, e->node, p.block, "merged");
		*at += sizeof(p) + p.size;
		sim_schedule(s, e, diffed(s, e->node));
		return;
	}
	load_free(l);
	n->merging[m.src] = NULL;
	for (to = 0; n->nnotes && to < s->o.nodes; to++)
		if (noted(n, m.src, to)) {
			m.dst = to;
			closing_event(s, e->node, CE_SPREAD, &m);
		}
	m.dst = e->node;
	closing_event(s, e->node, CE_MERGED, &m);
}

static struct load *add_note(struct load *l, struct note *one)
{
	const struct piece p = { .block = one->block,
				 .size = one->told ? (uint16_t)one->told->used : 0 };

	l = load_add(l, &p, sizeof(p));
	if (one->told)
		l = load_add(l, one->told->bytes, one->told->used);
	load_free(one->told);
	return l;
}

/* The notices for m->dst, of the service that m belongs to. */
static struct load *take_notes(struct rel_node *n, const struct msg *m)
{
	struct load *l = NULL;
	size_t i, left = 0;

	for (i = 0; i < n->nnotes; i++)
		if (n->notes[i].writer == m->req_node && n->notes[i].to == m->dst)
			l = add_note(l, &n->notes[i]);
		else
			n->notes[left++] = n->notes[i];
	n->nnotes = left;
	return l;
}

/* The blocks whose home the receiver of FLUSHED gets. */
static struct load *take_given(struct sim *s, const struct msg *m)
{
	struct host_node h = sim_node(s, m->src, NULL);
	struct load *l = NULL;
	uint32_t entry, block;

	for (entry = core_given_first(&h.h, m->dst); entry; entry = core_given_next(&h.h, entry)) {
		block = object(&h.h, entry - 1);
		l = load_add(l, &block, sizeof(block));
	}
	return l;
}

struct load *release_payload(struct sim *s, const struct msg *m)
{
	struct rel_node *n;
	struct load *l;

	if (!s->rel || (m->type != MSG_FLUSH && m->type != MSG_NOTE && m->type != MSG_FLUSHED))
		return NULL;
	n = rel_node_of(s, m->src);
	if (m->type == MSG_NOTE)
		return take_notes(n, m);
	if (m->type == MSG_FLUSHED)
		return take_given(s, m);
	l = n->diffs[m->dst];
	n->diffs[m->dst] = NULL;
	return l;
}

static void flush_arrives(struct sim *s, struct event *e)
{
	struct event next = { .kind = EV_MERGE, .node = e->node, .msg = e->msg };
	struct rel_node *n = rel_node_of(s, e->node);

	closing_event(s, e->node, CE_FLUSH, &e->msg);
	if (n->merging[e->msg.src])
		sim_fail(s, OBJECT, "node %u merges two flushes of %u", e->node, e->msg.src);
	n->merging[e->msg.src] = e->load;
	n->merged[e->msg.src] = 0;
	e->load = NULL;
	sim_schedule(s, &next, soon(s));
}

static void note_arrives(struct sim *s, const struct event *e)
{
	struct host_node h = sim_node(s, e->node, NULL);
	struct piece p;
	size_t i;
	int err;

	for (i = 0; i < e->load->used; i += sizeof(p) + p.size) {
		memcpy(&p, e->load->bytes + i, sizeof(p));
		err = p.size ? core_tell_block(&h.h, p.block, e->msg.src,
					       e->load->bytes + i + sizeof(p), p.size)
			     : core_note_block(&h.h, p.block, e->msg.src);
		if (err)
			sim_fail(s, p.block, "node %u does not take a notice of block %u", e->node,
				 p.block);
		release_note(s, e->node, p.block, p.size ? "told" : "notice");
	}
	closing_event(s, e->node, CE_NOTE, &e->msg);
}

static void flushed_arrives(struct sim *s, const struct event *e)
{
	struct host_node h = sim_node(s, e->node, NULL);
	uint32_t block;
	size_t i;

	for (i = 0; e->load && i < e->load->used; i += sizeof(block)) {
		memcpy(&block, e->load->bytes + i, sizeof(block));
		if (core_give_block(&h.h, block, e->msg.src))
			sim_fail(s, block, "node %u is not given block %u", e->node, block);
		release_note(s, e->node, block, "given");
	}
}

static void after_arrives(struct sim *s, const struct event *e)
{
	struct host_node h = sim_node(s, e->node, NULL);
	struct msg inside;

	memcpy(&inside, e->load->bytes, sizeof(inside));
	if (core_after(&h.h, &e->msg, &inside))
		sim_fail(s, OBJECT, "node %u does not take AFTER of %u", e->node, e->msg.src);
}

bool release_arrives(struct sim *s, struct event *e)
{
	switch (e->msg.type) {
	case MSG_FLUSH: flush_arrives(s, e); return true;
	case MSG_NOTE: note_arrives(s, e); return true;
	case MSG_FLUSHED: flushed_arrives(s, e); return false;
	case MSG_AFTER: after_arrives(s, e); return true;
	default: return false;
	}
}

/* ---- at rest --------------------------------------------------------------------------------- */

static void check_node(struct sim *s, uint16_t node)
{
	const struct closing *c = &rel_node_of(s, node)->closing;
	uint32_t b;

	if (c->phase != CLOSING_IDLE || c->held || c->first || c->flushes || c->applying ||
	    rel_node_of(s, node)->nnotes)
		sim_fail(s, OBJECT, "in the end node %u still closes (%s, %u held)", node,
			 closing_phase_name(c->phase), c->held);
	for (b = s->o.blocks; b < s->o.blocks + s->rel->blocks; b++) {
		const struct rel_ctx ctx = { .me = node, .home = rel_home_of(s, b) };
		const struct rel *p = rel_of(s, node, b);

		if (ctx.home != node &&
		    (p->state == REL_FETCH || p->state == REL_AGAIN || p->state == REL_GOT ||
		     p->state == REL_RAISE))
			sim_fail(s, b, "in the end node %u block %u is %s", node, b,
				 rel_state_name(false, p->state));
		if (ctx.home == node && !p->copyset != (p->state == RELH_EXCLUSIVE))
			sim_fail(s, b, "in the end block %u is %s at its home, with copyset %#llx",
				 b, rel_state_name(true, p->state), (unsigned long long)p->copyset);
		if (rel_open(&ctx, p) != !!rel_copy_of(s, node, b)->twin ||
		    rel_copy_of(s, node, b)->late)
			sim_fail(s, b, "in the end node %u block %u is %s, with%s a twin", node, b,
				 rel_state_name(ctx.home == node, p->state),
				 rel_copy_of(s, node, b)->twin ? "" : "out");
	}
}

/* The home has the last store, unless the node that made it has not closed since. */
static void check_bytes(struct sim *s, uint32_t block)
{
	const uint8_t *master = rel_page(&rel_copy_of(s, rel_home_of(s, block), block)->frame);
	uint8_t want[DIFF_PAGE] = { 0 };
	unsigned int i;

	for (i = 0; i < RELEASE_BYTES; i++) {
		const struct byte *b = rel_byte(s, block, i);
		const struct rel_block *c;

		want[rel_place(i)] = master[rel_place(i)];
		if (!b->by || master[rel_place(i)] == b->value)
			continue;
		c = rel_copy_of(s, (uint16_t)((b->by - 1) / s->o.threads), block);
		if (!c->twin || c->frame[rel_place(i)] != b->value ||
		    c->twin[rel_place(i)] == b->value)
			sim_fail(
				s, block,
				"in the end byte %u of block %u is %u at its home, its last store was %u",
				i, block, master[rel_place(i)], b->value);
	}
	if (memcmp(master, want, DIFF_PAGE))
		sim_fail(s, block, "in the end block %u has bytes that nobody has stored", block);
}

void release_check_rest(struct sim *s)
{
	uint32_t b;
	uint16_t r;

	if (!s->rel)
		return;
	for (r = 0; r < s->o.nodes; r++)
		check_node(s, r);
	for (b = s->o.blocks; b < s->o.blocks + s->rel->blocks; b++)
		check_bytes(s, b);
}

/* ---- creation -------------------------------------------------------------------------------- */

static void create_node(struct sim *s, uint16_t node)
{
	const size_t most = 2 * (size_t)s->o.nodes * s->nslots + 64;
	struct rel_node *n = rel_node_of(s, node);

	n->peers = zeroed(s->o.nodes, sizeof(*n->peers));
	n->merging = zeroed(s->o.nodes, sizeof(struct load *));
	n->merged = zeroed(s->o.nodes, sizeof(*n->merged));
	n->diffs = zeroed(s->o.nodes, sizeof(struct load *));
	n->ctx = (struct closing_ctx){ .me = node,
				       .nnodes = (uint16_t)s->o.nodes,
				       .lists = &n->lists,
				       .peers = n->peers,
				       .nheld = (uint32_t)(most < UINT16_MAX ? most : UINT16_MAX) };
	n->ctx.held = zeroed(n->ctx.nheld, sizeof(struct closing_held));
}

void release_create(struct sim *s)
{
	const size_t n = (size_t)s->o.nodes * s->o.release, t = (size_t)s->o.nodes * s->o.threads;
	struct releases *r;
	size_t i;

	if (!s->o.release)
		return;
	r = s->rel = zeroed(1, sizeof(*r));
	r->blocks = s->o.release;
	r->threads = (unsigned int)t;
	r->rels = zeroed(n, sizeof(*r->rels));
	r->copies = zeroed(n, sizeof(*r->copies));
	r->nodes = zeroed(s->o.nodes, sizeof(*r->nodes));
	r->nbytes = s->o.replay ? 0 : (size_t)r->blocks * RELEASE_BYTES;
	r->bytes = zeroed(r->nbytes + 1, sizeof(*r->bytes));
	for (i = 0; i < r->nbytes; i++)
		r->bytes[i].read = zeroed(t, sizeof(uint32_t));
	r->clocks = zeroed(t * t, sizeof(uint32_t));
	r->pending = zeroed(t * t, sizeof(uint32_t));
	for (i = 0; i < 2; i++)
		r->barrier[i] = zeroed(t, sizeof(uint32_t));
	for (i = 0; i < s->o.nodes; i++)
		create_node(s, (uint16_t)i);
}

static void destroy_node(struct sim *s, struct rel_node *n)
{
	uint16_t i;

	for (i = 0; i < s->o.nodes; i++) {
		load_free(n->merging[i]);
		load_free(n->diffs[i]);
	}
	free(n->peers);
	free(n->merging);
	free(n->merged);
	free(n->diffs);
	free(n->notes);
	free(n->ctx.held);
}

void release_destroy(struct sim *s)
{
	struct releases *r = s->rel;
	size_t i;

	if (!r)
		return;
	for (i = 0; i < (size_t)s->o.nodes * r->blocks; i++) {
		free(r->copies[i].frame);
		free(r->copies[i].twin);
	}
	for (i = 0; i < r->nbytes; i++)
		free(r->bytes[i].read);
	for (i = 0; i < r->nobjects; i++)
		free(r->objects[i]);
	for (i = 0; i < s->o.nodes; i++)
		destroy_node(s, &r->nodes[i]);
	free(r->objects);
	free(r->barrier[0]);
	free(r->barrier[1]);
	free(r->pending);
	free(r->clocks);
	free(r->bytes);
	free(r->nodes);
	free(r->copies);
	free(r->rels);
	free(r);
}
