// SPDX-License-Identifier: BSD-2-Clause
/* release_check.c - the invariants of a world of release blocks, and its canonical form. */
#include "release_world.h"

#define CLOSES 64 /* more than a search reaches */

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

void rc_canon(const void *c, void *world)
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
			const bool home = rc_home(cfg, n, b) == i;

			if (!p->listed)
				p->next_open = 0;
			if (!p->noticed)
				p->next_notice = 0;
			if (!home && p->state != REL_FETCH && p->state != REL_AGAIN &&
			    p->state != REL_GOT && p->state != REL_RAISE)
				p->slot = 0;
			if (!home &&
			    (n->closing.run == n->closing.ended ||
			     p->flushed != (uint32_t)n->closing.run))
				p->flushed = 0; /* any that has ended */
			if (!home &&
			    (p->state == REL_NONE || p->state == REL_FETCH ||
			     p->state == REL_AGAIN))
				memset(n->frame[b], 0, RC_BYTES);
		}
	}
}

/* Is a notice for the block on its way to the node? */
static bool under_way(const struct rc_cfg *cfg, const struct world *w, unsigned int node,
		      unsigned int b)
{
	unsigned int i, home;

	for (i = 0; i < w->n; i++)
		if (w->msgs[i].type == MSG_NOTE && w->msgs[i].dst == node &&
		    w->msgs[i].mask[b] & NOTED_BLOCK)
			return true;
	for (home = 0; home < cfg->nnodes; home++)
		for (i = 0; i < cfg->nnodes; i++)
			if (w->nodes[home].notices[i][node] >> b & 1)
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

/* The node that the first home has made the home. It may not know that yet. */
static unsigned int home_of(const struct rc_cfg *cfg, const struct world *w, unsigned int b)
{
	return rc_home(cfg, &w->nodes[cfg->home[b]], b);
}

/*
 * Only the first home knows that a home moves, and keeps a copy: it will be registered, or has
 * noted it.
 */
static bool registered(const struct rc_cfg *cfg, const struct world *w, unsigned int node,
		       unsigned int b)
{
	const unsigned int home = home_of(cfg, w, b);
	const struct rel *p = &w->nodes[home].blocks[b];

	if (rc_home(cfg, &w->nodes[home], b) != home)
		return node == cfg->home[b];
	return set_has(p->copyset, (uint16_t)node, set_granule(rc_nominal(cfg)));
}

static void check_copy(const struct rc_cfg *cfg, const struct world *w, unsigned int node,
		       unsigned int b)
{
	const struct rnode *n = &w->nodes[node];
	const struct rel *p = &n->blocks[b];
	const struct rel_ctx ctx = { .me = (uint16_t)node, .home = cfg->home[b] };
	const bool at_home = rc_home(cfg, n, b) == node;

	if (at_home && home_of(cfg, w, b) != node)
		model_fail("node %u believes that it is the home of block %u", node, b);
	if (n->hw[b] > PROT_CLOSED && !at_home && p->state != REL_STALE && !p->noticed &&
	    !(p->flags & REL_MOVES) && home_of(cfg, w, b) != node && !registered(cfg, w, node, b) &&
	    !under_way(cfg, w, node, b))
		model_fail("node %u can read block %u, but is not registered, and has no notice",
			   node, b);
	/* nobody can fetch it from the next home before that is exclusive */
	if (n->hw[b] == PROT_RW && !n->twinned[b] && !(p->flags & REL_MOVES) &&
	    !(at_home && p->state == RELH_EXCLUSIVE) && !(rel_lent(&ctx, p) && p->listed) &&
	    !lowers(w, node, b) && !cfg->lowers_after)
		model_fail("node %u can write block %u without a twin", node, b);
	if (rel_lent(&ctx, p) && !p->listed)
		model_fail("node %u has lent block %u, and its next close does not look at it",
			   node, b);
	if (at_home && !p->copyset != (p->state == RELH_EXCLUSIVE))
		model_fail("node %u: block %u is %s, with copyset %llx", node, b,
			   rel_state_name(true, p->state), (unsigned long long)p->copyset);
	if (!!n->twinned[b] != rel_open(&ctx, p))
		model_fail("node %u: block %u is %s, with%s a twin", node, b,
			   rel_state_name(at_home, p->state), n->twinned[b] ? "" : "out");
}

static bool at_rest(const struct rc_cfg *cfg, const struct world *w)
{
	unsigned int i, b;

	for (i = 0; i < LEAVES; i++)
		if (w->leaves[i].used)
			return false;
	for (i = 0; i < cfg->nthreads; i++)
		if (rc_next_op(cfg, w, i).what != RC_END)
			return false;
	for (i = 0; i < cfg->nnodes; i++) {
		if (w->nodes[i].gather || w->nodes[i].applies)
			return false;
		for (b = 0; b < cfg->nnodes; b++)
			if (w->nodes[i].merging[b].type)
				return false;
	}
	return !w->n;
}

/* The master has every store, unless its node has not closed since. */
static void check_master(const struct rc_cfg *cfg, const struct world *w, unsigned int b,
			 unsigned int i)
{
	const struct byte_ghost *g = &w->bytes[b][i];
	const struct rnode *writer;

	if (!g->by || w->nodes[home_of(cfg, w, b)].frame[b][i] == g->value)
		return;
	writer = &w->nodes[cfg->node[g->by - 1]];
	if (!writer->twinned[b] || !(writer->dirty[b] >> i & 1) || writer->frame[b][i] != g->value)
		model_fail("at rest: byte %u.%u is %u at its home, and its last store was %u", b, i,
			   w->nodes[home_of(cfg, w, b)].frame[b][i], g->value);
}

static void check_rest(const struct rc_cfg *cfg, const struct world *w)
{
	unsigned int i, b;

	for (i = 0; i < cfg->nnodes; i++) {
		const struct closing *k = &w->nodes[i].closing;

		if (k->phase != CLOSING_IDLE || k->held || k->first || k->flushes || k->applying)
			model_fail("at rest: node %u still closes (%s, %u held)", i,
				   closing_phase_name(k->phase), k->held);
		if (k->run - cfg->before > CLOSES)
			model_fail("node %u has closed %llu times", i,
				   (unsigned long long)(k->run - cfg->before));
	}
	for (b = 0; b < RC_BLOCKS; b++)
		for (i = 0; i < RC_BYTES; i++)
			check_master(cfg, w, b, i);
}

void rc_check(const void *c, const void *world)
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

bool rc_final(const void *c, const void *world)
{
	return at_rest(c, world);
}

void rc_show(const void *c, const void *world)
{
	const struct rc_cfg *cfg = c;
	const struct world *w = world;
	unsigned int i, b;

	for (i = 0; i < cfg->nnodes; i++) {
		const struct rnode *n = &w->nodes[i];

		model_say(
			"    node %u: %s, close %llu of %llu, ended %llu, %u held, first service %u\n",
			i, closing_phase_name(n->closing.phase), (unsigned long long)n->closing.run,
			(unsigned long long)n->closing.asked, (unsigned long long)n->closing.ended,
			n->closing.held, n->closing.first);
		for (b = 0; b < RC_BLOCKS; b++)
			model_say(
				"      block %u: %s, hardware %s, %u %u, twin %u %u, copyset %llx, %s%s\n",
				b, rel_state_name(rc_home(cfg, n, b) == i, n->blocks[b].state),
				show_prot(n->hw[b]), n->frame[b][0], n->frame[b][1], n->twin[b][0],
				n->twin[b][1], (unsigned long long)n->blocks[b].copyset,
				n->blocks[b].listed ? "listed " : "",
				n->blocks[b].noticed ? "noticed" : "");
	}
	for (i = 0; i < cfg->nthreads; i++)
		model_say("    thread %u of node %u: operation %u, pc %u\n", i, cfg->node[i],
			  w->threads[i].at, w->threads[i].pc);
	model_say("    %u messages\n", w->n);
}
