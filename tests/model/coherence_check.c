// SPDX-License-Identifier: BSD-2-Clause
/* coherence_check.c - the invariants of a world of pages and directories. */
#include "coherence.h"

static int compare_lists(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct wlist));
}

/* Queue entries in no queue have meaningless leftovers, except for their marks. */
static void canon_queues(const struct co_cfg *cfg, struct co *w)
{
	struct chan_names names = co_names(cfg);
	unsigned int r, b, at, i;

	for (r = 0; r < cfg->nnodes; r++) {
		struct queue_entry clean[R_MAX * S_MAX] = { 0 };

		for (b = 0; b < cfg->nblocks; b++) {
			uint32_t tail = w->dirs[r][b].tail, node = tail;

			for (i = 0; node && i < R_MAX * S_MAX; i++) {
				node = chan_after(&names, w->nodes[r], node, &at);
				if (node)
					clean[at] = w->nodes[r][at];
				if (node == tail)
					break;
			}
		}
		for (i = 0; i < cfg->nnodes * names.slots; i++)
			clean[i].mark = w->nodes[r][i].mark;
		memcpy(w->nodes[r], clean, sizeof(clean));
	}
}

static void canon_page(struct copy *p)
{
	bool asking = p->state == PG_WANT_READ || p->state == PG_WANT_WRITE ||
		p->state == PG_UPGRADE || p->state == PG_COUNT || p->state == PG_GOT_READ ||
		p->state == PG_GOT_WRITE;

	if (!asking)
		p->slot = 0;
	if (p->state != PG_COUNT)
		p->flags &= 0xf;
	if (!p->held) {
		p->held_node = p->held_slot = 0;
		p->held_count = 0;
	}
	if (p->state == PG_INVALID || p->state == PG_WANT_READ || p->state == PG_WANT_WRITE)
		p->hold = 0; /* set before it is read */
}

void co_canon(const void *c, void *world)
{
	const struct co_cfg *cfg = c;
	struct co *w = world;
	unsigned int r, b, t;

	chan_canon(&w->chan, cfg->fifo);
	qsort(w->lists, w->nlists, sizeof(w->lists[0]), compare_lists);
	canon_queues(cfg, w);
	for (r = 0; r < cfg->nnodes; r++) {
		for (b = 0; b < cfg->nblocks; b++) {
			canon_page(&w->pages[r][b]);
			w->dirs[r][b].sample = 0; /* co_deliver() tries both values */
			if (w->dirs[r][b].state != DIR_SHARED && w->dirs[r][b].phase != DIR_BUSY &&
			    w->dirs[r][b].phase != DIR_HANDING && w->dirs[r][b].phase != DIR_HOMING)
				w->dirs[r][b].served = 0;
			if (w->dirs[r][b].state == DIR_LEFT) { /* set before they are read */
				w->pages[r][b].forwarded = 0;
				w->pages[r][b].push = (struct push){ 0 };
			}
			if (w->pages[r][b].push.left > 1)
				/* any value has the same effects as the last one */
				w->pages[r][b].push.left = 1;
			if (w->pages[r][b].state == PG_INVALID || w->pages[r][b].state == PG_READ)
				w->told[r][b] = 0; /* nothing is left to push */
		}
		if (w->slot[r][cfg->nthreads] == SLOT_IDLE)
			w->async_block[r] = 0;
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].pc == PC_READY)
				w->threads[r][t].op = w->threads[r][t].block = 0;
	}
}

/* Is a thread about to place the block? From its first message on, the block may move. */
static bool being_placed(const struct co_cfg *cfg, const struct co *w, unsigned int b)
{
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].pc == PC_REPLY && w->threads[r][t].block == b)
				return true;
	return false;
}

/* A placed block stays at its home. */
static void check_placed(const struct co_cfg *cfg, const struct co *w, unsigned int b)
{
	const struct dir *d = &w->dirs[cfg->manager[b]][b];
	unsigned int home = d->state == DIR_MOVED ? d->owner : co_rank(cfg, cfg->manager[b]);

	if (home != co_rank(cfg, w->placed[b] - 1u))
		model_fail("block %u was placed at rank %u, but its home is %u", b,
			   co_rank(cfg, w->placed[b] - 1u), home);
}

/* Protections, pins and contents agree with each other at every moment. */
static void check_block(const struct co_cfg *cfg, const struct co *w, unsigned int b)
{
	unsigned int r, o;

	if (w->placed[b] && !being_placed(cfg, w, b))
		check_placed(cfg, w, b);
	for (r = 0; r < cfg->nnodes; r++) {
		const struct copy *p = &w->pages[r][b];
		bool writes = w->hw[r][b] == PROT_RW || p->pins_write;
		bool reads = writes || w->hw[r][b] == PROT_RO || p->pins_read;

		if (reads && !w->latest[r][b])
			model_fail("rank %u may %s block %u, but does not have the latest value", r,
				   writes ? "write" : "read", b);
		for (o = 0; o < cfg->nnodes && writes; o++)
			if (o != r &&
			    (w->hw[o][b] != PROT_CLOSED || w->pages[o][b].pins_read ||
			     w->pages[o][b].pins_write))
				model_fail("rank %u may write block %u while rank %u has access", r,
					   b, o);
	}
}

static bool quiet(const struct co_cfg *cfg, const struct co *w)
{
	unsigned int r, s;

	if (w->chan.n || w->nlists)
		return false;
	for (r = 0; r < cfg->nnodes; r++)
		for (s = 0; s <= cfg->nthreads; s++)
			if (w->slot[r][s] != SLOT_IDLE)
				return false;
	return true;
}

static void check_copy(const struct co_cfg *cfg, const struct co *w, unsigned int home,
		       unsigned int b, unsigned int r)
{
	const struct dir *d = &w->dirs[home][b];
	const struct copy *p = &w->pages[r][b];
	uint8_t prot = p->state == PG_WRITE ? PROT_RW : p->state == PG_READ ? PROT_RO : PROT_CLOSED;
	bool owner = d->state >= DIR_SHARED && d->owner == co_rank(cfg, r);
	bool may = set_has(d->copyset, co_rank(cfg, r), set_granule(co_nominal(cfg)));

	if (p->state != PG_INVALID && p->state != PG_READ && p->state != PG_WRITE)
		model_fail("at rest, but rank %u block %u is %s", r, b, page_state_name(p->state));
	if (p->held)
		model_fail("at rest, but rank %u block %u holds %s back", r, b,
			   page_event_name(p->held));
	if (owner != !!(p->flags & PAGE_OWNER))
		model_fail("at rest: rank %u block %u %s itself the owner", r, b,
			   owner ? "does not think" : "thinks");
	if (owner && p->state != (d->state == DIR_EXCLUSIVE ? PG_WRITE : PG_READ))
		model_fail("at rest: directory %s, but the owner has %s", dir_state_name(d->state),
			   page_state_name(p->state));
	if (p->state != PG_INVALID && !may)
		model_fail("at rest: rank %u block %u has a copy, but is not in the copyset", r, b);
	if (d->state == DIR_EXCLUSIVE && !owner && p->state != PG_INVALID)
		model_fail("at rest: directory EXCLUSIVE, but rank %u has %s", r,
			   page_state_name(p->state));
	if (w->hw[r][b] > prot)
		model_fail("at rest: rank %u block %u: hardware %s, page %s", r, b,
			   show_prot(w->hw[r][b]), page_state_name(p->state));
	if (p->home && p->home != co_rank(cfg, home) + 1 &&
	    (p->state != PG_INVALID || !co_homes_move(cfg)))
		model_fail("at rest: rank %u takes %u for the home of block %u, which is %u", r,
			   p->home - 1, b, co_rank(cfg, home));
}

/* If nothing is in progress, the directory must agree with the copies. */
static void check_rest(const struct co_cfg *cfg, const struct co *w, unsigned int b)
{
	unsigned int home = cfg->manager[b], r;
	const struct dir *d = &w->dirs[home][b];

	if (d->state == DIR_MOVED)
		home = d->owner - co_rank(cfg, 0);
	if (home >= cfg->nnodes) {
		model_fail("the home of block %u is rank %u", b, d->owner);
		return;
	}
	if (!dir_quiet(d) || d->tail || !dir_quiet(&w->dirs[home][b]) || w->dirs[home][b].tail)
		model_fail("at rest, but the directory of block %u is busy", b);
	for (r = 0; r < cfg->nnodes; r++) {
		check_copy(cfg, w, home, b, r);
		d = &w->dirs[r][b];
		if (r != home && r != cfg->manager[b] &&
		    ((d->state != DIR_UNTOUCHED && d->state != DIR_LEFT) || !dir_quiet(d) ||
		     d->tail))
			model_fail("at rest: rank %u is not the home of block %u, but %s %s", r, b,
				   dir_state_name(d->state), dir_phase_name(d->phase));
	}
}

void co_check(const void *c, const void *world)
{
	const struct co_cfg *cfg = c;
	const struct co *w = world;
	unsigned int b, r, t;
	bool rest = quiet(cfg, w);

	for (r = 0; r < cfg->nnodes && rest; r++)
		for (t = 0; t < cfg->nthreads; t++)
			rest = rest && w->threads[r][t].pc == PC_READY;
	for (b = 0; b < cfg->nblocks; b++) {
		check_block(cfg, w, b);
		if (rest)
			check_rest(cfg, w, b);
	}
}

bool co_final(const void *c, const void *world)
{
	const struct co_cfg *cfg = c;
	const struct co *w = world;
	unsigned int r, t;

	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			if (w->threads[r][t].pc != PC_READY || w->threads[r][t].left)
				return false;
	return quiet(cfg, w);
}

void co_show(const void *c, const void *world)
{
	const struct co_cfg *cfg = c;
	const struct co *w = world;
	unsigned int r, b, t;

	for (b = 0; b < cfg->nblocks; b++)
		for (r = 0; r < cfg->nnodes; r++) {
			const struct copy *p = &w->pages[r][b];
			const struct dir *d = &w->dirs[r][b];

			model_say(
				"    block %u rank %u: page %s%s acks %d held %u pins %u/%u, hardware %s, contents %s",
				b, r, page_state_name(p->state),
				p->flags & PAGE_OWNER ? " owner" : "", p->acks, p->held,
				p->pins_read, p->pins_write, show_prot(w->hw[r][b]),
				w->latest[r][b] ? "latest" : "stale");
			model_say("; directory %s %s owner %u copyset %llx\n",
				  dir_state_name(d->state), dir_phase_name(d->phase), d->owner,
				  (unsigned long long)d->copyset);
		}
	for (r = 0; r < cfg->nnodes; r++)
		for (t = 0; t < cfg->nthreads; t++)
			model_say("    thread %u.%u: pc %u op %u block %u left %u\n", r, t,
				  w->threads[r][t].pc, w->threads[r][t].op, w->threads[r][t].block,
				  w->threads[r][t].left);
	model_say("    %u messages, %u lists\n", w->chan.n, w->nlists);
}
