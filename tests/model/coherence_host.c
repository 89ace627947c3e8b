// SPDX-License-Identifier: BSD-2-Clause
/* coherence_host.c - a host of the core (core/host.h) for the page and directory machines. */
#include "coherence.h"

#include "../core_ops.h"

#define HOLD_US 10
#define T_USED 100  /* the time of the first use of blocks, */
#define T_EARLY 105 /* a time within the hold time, */
#define T_LATER 120 /* and one after it */

static void protect(struct co *w, unsigned int rank, unsigned int block, uint8_t prot)
{
	if (w->hw[rank][block] != prot)
		model_say("      rank %u block %u: hardware %s -> %s\n", rank, block,
			  show_prot(w->hw[rank][block]), show_prot(prot));
	w->hw[rank][block] = prot;
}

/* A block without access keeps no contents. */
static void close_block(struct co *w, unsigned int rank, unsigned int block)
{
	protect(w, rank, block, PROT_CLOSED);
	w->latest[rank][block] = 0;
}

static void fill(struct co *w, unsigned int rank, unsigned int block, uint8_t from, uint8_t data)
{
	if (from == OPEN_DATA)
		w->latest[rank][block] = data;
	else if (from == OPEN_ZERO)
		w->latest[rank][block] = !w->written[block];
}

/* A slot has changed: threads that joined its wait look again. */
static void stir(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int slot)
{
	unsigned int t;

	for (t = 0; t < cfg->nthreads; t++)
		if (w->threads[rank][t].pc == PC_JOIN && w->threads[rank][t].joined == slot) {
			w->threads[rank][t].pc = PC_TRY;
			w->threads[rank][t].joined = 0;
		}
}

static void wake(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int slot)
{
	model_say("      rank %u: wakes slot %u\n", rank, slot);
	if (w->slot[rank][slot] != SLOT_PENDING)
		model_fail("rank %u: slot %u is woken, but nothing was asked for", rank, slot);
	w->slot[rank][slot] = SLOT_WOKEN;
	stir(cfg, w, rank, slot);
}

static void wait(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int slot,
		 int who)
{
	struct thread *t;

	if (slot > cfg->nthreads) {
		model_fail("rank %u: waits for slot %u", rank, slot);
		return;
	}
	if (who < 0)
		return;
	t = &w->threads[rank][who];
	if (slot == (unsigned int)who) {
		t->pc = PC_WAIT;
	} else {
		/* Until the slot is woken, or after that until its PE_USED. */
		t->pc = PC_JOIN;
		t->joined = (uint8_t)slot;
	}
}

/* OPEN_AGAIN: with the lock held, open as far as the state allows now. */
void co_again(struct co *w, unsigned int rank, unsigned int block)
{
	const struct copy *p = &w->pages[rank][block];
	uint8_t prot = page_writable(p) ? PROT_RW : page_readable(p) ? PROT_RO : PROT_CLOSED;

	if (prot != PROT_CLOSED)
		protect(w, rank, block, prot);
}

/* ---- the callbacks of core/host.h ------------------------------------------------------------ */

/* One rank during one event. */
struct node {
	struct core_host h;
	const struct co_cfg *cfg;
	struct co *w;
	unsigned int rank;
	int who;      /* the thread whose event it is, or WHO_* */
	uint32_t now; /* us */
	/* The message, and the states before its step. */
	const struct wmsg *m;
	struct copy page;
	struct dir dir;
};

static struct node *node_of(struct core_host *h)
{
	return (struct node *)h; /* its first member */
}

static unsigned int block_of(const struct node *n, uint32_t object)
{
	struct chan_names names = co_names(n->cfg);

	return chan_small("block", object, names.object, n->cfg->nblocks);
}

static int find(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		struct core_place *p)
{
	struct node *n = node_of(h);
	unsigned int block = block_of(n, number);

	(void)target, (void)m; /* each message here is about a block */
	p->d.manager = co_rank(n->cfg, n->cfg->manager[block]);
	p->d.queue = chan_queue();
	p->d.page = &n->w->pages[n->rank][block];
	p->d.dir = &n->w->dirs[n->rank][block];
	p->key = 0;
	p->transfers = NULL;
	return 0;
}

static void lock(struct core_host *h, uint32_t key)
{
	struct chan_names names = co_names(node_of(h)->cfg);

	(void)key;
	chan_load(&names, node_of(h)->w->nodes[node_of(h)->rank]);
}

static void unlock(struct core_host *h, uint32_t key)
{
	struct chan_names names = co_names(node_of(h)->cfg);

	(void)key;
	chan_store(&names, node_of(h)->w->nodes[node_of(h)->rank]);
}

static uint32_t now(struct core_host *h)
{
	return node_of(h)->now;
}

static bool again(struct core_host *h, uint32_t object, uint8_t prot)
{
	struct node *n = node_of(h);

	(void)object, (void)prot;
	if (n->who >= 0)
		n->w->threads[n->rank][n->who].pc = PC_AGAIN;
	return false;
}

/* No other rank answers for it. */
static void drop(struct core_host *h, uint32_t object)
{
	close_block(node_of(h)->w, node_of(h)->rank, block_of(node_of(h), object));
}

/* Store what is done later; any other event of this rank may come before. */
static struct wlist *defer(struct node *n, uint32_t object, uint8_t data)
{
	static struct wlist none;
	struct wlist *l = &n->w->lists[n->w->nlists];

	if (n->w->nlists == L_MAX) {
		model_fail("%u lists of actions are put aside", n->w->nlists);
		return &none;
	}
	n->w->nlists++;
	*l = (struct wlist){ .rank = (uint8_t)n->rank,
			     .block = (uint8_t)block_of(n, object),
			     .data = data };
	return l;
}

static void land(struct core_host *h, const struct msg *m, const void *data)
{
	struct node *n = node_of(h);
	struct wlist *l;

	if (!n->cfg->late_land) {
		n->w->latest[n->rank][block_of(n, m->object)] = *(const uint8_t *)data;
		return;
	}
	l = defer(n, m->object, *(const uint8_t *)data);
	l->v[l->n++].type = ACT_LAND;
}

static void send(struct core_host *h, const struct msg *m)
{
	struct node *n = node_of(h);
	struct wmsg small = co_narrow(n->cfg, m);

	if (n->m && n->m->type == MSG_RELEASE && m->type == MSG_REPLY)
		return; /* no thread here waits for the answer */
	chan_post(&n->w->chan, &small);
}

static void send_block(struct core_host *h, const struct msg *m, const void *contents)
{
	struct node *n = node_of(h);
	struct wmsg small = co_narrow(n->cfg, m);

	(void)contents;
	small.data = n->w->latest[n->rank][small.object];
	if (m->op == GRANT_WRITE)
		close_block(n->w, n->rank, small.object);
	chan_post(&n->w->chan, &small);
}

/*
 * As the engine does: change the protection only as the step says, without looking at the current
 * one.
 */
static void lower_now(struct co *w, unsigned int rank, unsigned int block, const struct wact *a)
{
	if (a->type == ACT_CLOSE)
		close_block(w, rank, block);
	else if (a->from > a->prot && w->hw[rank][block] > a->prot)
		protect(w, rank, block, a->prot);
}

static bool lower(struct core_host *h, const struct core_leave *l)
{
	struct node *n = node_of(h);
	struct wact a = { .type = l->m->type == MSG_DATA ? ACT_DATA : ACT_CLOSE,
			  .prot = l->to,
			  .from = l->from,
			  .msg = co_narrow(n->cfg, l->m) };
	struct wlist *list;

	if (!n->cfg->split) {
		lower_now(n->w, n->rank, a.msg.object, &a);
		return true;
	}
	list = defer(n, l->m->object, 0);
	list->v[list->n++] = a;
	return false;
}

static void open_now(struct co *w, unsigned int rank, unsigned int block, const struct wact *a,
		     uint8_t data)
{
	fill(w, rank, block, a->from, data);
	protect(w, rank, block, a->prot);
}

static bool open(struct core_host *h, const struct actions *acts, unsigned int at,
		 const struct msg *m, const void *data)
{
	struct node *n = node_of(h);
	const uint8_t contents = data ? *(const uint8_t *)data : 0;
	struct wact a = { .type = ACT_OPEN, .prot = acts->v[at].prot, .from = acts->v[at].from };
	struct wlist *l;

	if (!n->cfg->split) {
		open_now(n->w, n->rank, block_of(n, m->object), &a, contents);
		return true;
	}
	if (at + 2 != acts->n || acts->v[at + 1].type != ACT_WAKE)
		model_fail("a block is opened, and %u actions follow", acts->n - at - 1);
	l = defer(n, m->object, contents);
	l->v[l->n++] = a;
	l->v[l->n++] = (struct wact){ .type = ACT_WAKE,
				      .slot = chan_small("slot", acts->v[at + 1].slot, CHAN_SLOT,
							 n->cfg->nthreads + 1u) };
	return false;
}

static bool wake_slot(struct core_host *h, const struct action *a, const struct msg *m)
{
	struct node *n = node_of(h);

	(void)m;
	wake(n->cfg, n->w, n->rank, chan_small("slot", a->slot, CHAN_SLOT, n->cfg->nthreads + 1u));
	return true; /* a request without a thread is confirmed later */
}

static bool timer(struct core_host *h, uint32_t object, uint32_t at)
{
	struct node *n = node_of(h);

	(void)at;
	n->w->timer[n->rank][block_of(n, object)] = 1;
	return true;
}

static void damaged(struct core_host *h, const struct msg *about, enum page_event ev, uint8_t state)
{
	(void)about;
	model_fail("rank %u: page %s does not expect %s", node_of(h)->rank, page_state_name(state),
		   page_event_name(ev));
}

static void blame(struct core_host *h, uint16_t rank)
{
	model_fail("rank %u blames rank %u", node_of(h)->rank, rank);
}

static void fetch(struct core_host *h, const struct action *a);
static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *out);

static const struct core_ops ops =
	CORE_OPS(.lock = lock, .unlock = unlock, .answers = core_no_answers, .wake = wake_slot,
		 .blame = blame);

static struct node node(const struct co_cfg *cfg, struct co *w, unsigned int rank, int who,
			uint32_t time)
{
	return (struct node){ .h = { .ops = &ops,
				     .me = co_rank(cfg, rank),
				     .nnodes = co_nominal(cfg),
				     .follow = cfg->follow,
				     .pushes = cfg->pushes,
				     .brief = !cfg->confirmed,
				     .hold_us = cfg->hold ? HOLD_US : 0 },
			      .cfg = cfg,
			      .w = w,
			      .rank = rank,
			      .who = who,
			      .now = time };
}

/* Do what was deferred, and what waits for it. */
void co_continue(const struct co_cfg *cfg, struct co *w, unsigned int list)
{
	struct wlist l = w->lists[list];
	struct node n = node(cfg, w, l.rank, WHO_HANDLER, T_LATER);
	struct wmsg about = { .object = l.block };
	struct msg event = co_widen(cfg, &about), m;
	struct actions rest = { 0 };

	memmove(&w->lists[list], &w->lists[list + 1], (w->nlists - list - 1u) * sizeof(l));
	memset(&w->lists[--w->nlists], 0, sizeof(l));
	model_say("rank %u block %u: goes on with its actions\n", l.rank, l.block);
	switch (l.v[0].type) {
	case ACT_LAND: w->latest[l.rank][l.block] = l.data; break;
	case ACT_OPEN:
		open_now(w, l.rank, l.block, &l.v[0], l.data);
		act_add(&rest, ACT_WAKE)->slot = (uint16_t)(CHAN_SLOT + l.v[1].slot);
		core_carry_out(&n.h, &rest, 0, &event, &l.data);
		break;
	default:
		lower_now(w, l.rank, l.block, &l.v[0]);
		m = co_widen(cfg, &l.v[0].msg);
		core_lowered(&n.h, &m, NULL);
		break;
	}
}

bool co_leaves(const struct co *w, unsigned int rank, unsigned int block)
{
	unsigned int i;

	for (i = 0; i < w->nlists; i++)
		if (w->lists[i].rank == rank && w->lists[i].block == block &&
		    w->lists[i].v[0].type == ACT_DATA)
			return true;
	return false;
}

/* ---- events of threads ----------------------------------------------------------------------- */

/* A local event, with flags; `home` is asked if no home is known. */
static void local(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block,
		  enum page_event ev, int who, unsigned int home, uint8_t flags)
{
	unsigned int slot = who >= 0 ? (unsigned int)who : cfg->nthreads;
	struct wmsg small = { .object = (uint8_t)block,
			      .src = (uint8_t)rank,
			      .req_node = (uint8_t)rank,
			      .req_slot = (uint8_t)slot,
			      .home = (uint8_t)(home + 1),
			      .flags = flags };
	struct msg m = co_widen(cfg, &small);
	bool asks = ev == PE_READ || ev == PE_WRITE;
	struct node n = node(cfg, w, rank, who, ev == PE_USED ? T_USED : T_LATER);
	struct core_waiter t = { .wait = -1 };
	uint8_t before = w->pages[rank][block].state;

	if (ev == PE_USED)
		w->slot[rank][slot] = SLOT_IDLE;
	if (asks)
		/* the answer may come before the thread waits */
		w->slot[rank][slot] = SLOT_PENDING;
	if (who >= 0)
		w->threads[rank][who].pc = PC_TRY;
	if (core_page_event(&n.h, ev, &m, who == WHO_HANDLER ? NULL : &t) < 0)
		return;
	model_say("      rank %u block %u: page %s --%s--> %s\n", rank, block,
		  page_state_name(before), page_event_name(ev),
		  page_state_name(w->pages[rank][block].state));
	if (ev == PE_USED)
		stir(cfg, w, rank, slot);
	if (t.wait >= 0)
		wait(cfg, w, rank,
		     chan_small("slot", (unsigned int)t.wait, CHAN_SLOT, cfg->nthreads + 1u), who);
	if (asks && t.wait != m.req_slot)
		w->slot[rank][slot] = SLOT_IDLE;
	else if (asks && who == WHO_ASYNC)
		w->async_block[rank] = (uint8_t)block;
}

void co_local(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block,
	      enum page_event ev, int who)
{
	local(cfg, w, rank, block, ev, who, cfg->manager[block],
	      cfg->first_touch ? MSGF_FIRST_TOUCH : 0);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Queueing a request twice would make the list cyclic. */
static bool queued(const struct co_cfg *cfg, const struct co *w, const struct wmsg *m)
{
	struct chan_names names = co_names(cfg);
	unsigned int b, at, i;

	for (b = 0; b < cfg->nblocks; b++) {
		uint32_t tail = w->dirs[m->dst][b].tail, node = tail;

		for (i = 0; node && i < R_MAX * S_MAX; i++) {
			node = chan_after(&names, w->nodes[m->dst], node, &at);
			if (node && at == m->req_node * names.slots + m->req_slot)
				return true;
			if (node == tail)
				break;
		}
	}
	return false;
}

/* The block's new home, if the manager or the home itself has said that the block is placed. */
static void note_placed(struct co *w, const struct wmsg *m, const struct actions *out)
{
	if (!out->n || out->v[0].msg.type != MSG_REPLY)
		model_fail("placing block %u is not answered", m->object);
	else if (!out->v[0].msg.count)
		w->placed[m->object] = (uint8_t)(1 + (m->type == MSG_SETTLE ? m->dst : m->value));
}

/*
 * Request a block that comes back, or is placed here, as a thread would; but not while the slot for
 * such requests is in use.
 */
static void fetch(struct core_host *h, const struct action *a)
{
	const struct node *n = node_of(h);
	const struct chan_names names = co_names(n->cfg);

	if (n->w->slot[n->rank][n->cfg->nthreads] == SLOT_IDLE)
		local(n->cfg, n->w, n->rank, block_of(n, a->msg.object),
		      a->prot == PROT_RW ? PE_WRITE : PE_READ, WHO_ASYNC,
		      chan_small("home", a->msg.home, names.home, names.homes), a->msg.flags);
}

/* If a block is given back to its home, the home has not used it, and the giver keeps a copy. */
static void check_pushed(const struct wmsg *m, const struct dir *was, const struct dir *d,
			 const struct actions *out)
{
	if (m->type != MSG_READ_REQ || !(m->flags & MSGF_PUSH) || m->req_node != m->dst)
		return;
	if (was->uses != d->uses)
		model_fail("home %u: block %u is pushed, and counts as used", m->dst, m->object);
	if (out->n && out->v[0].msg.type == MSG_FWD_MIGRATE)
		model_fail("home %u: block %u is pushed, and migrates", m->dst, m->object);
}

/* No host accepts a message with flags that its type does not have. */
static void check_flags(const struct msg *m)
{
	const struct wire_limits none = { 0 };
	int64_t lo, hi;

	wire_range(wire_rule_of(m->type, WF_flags), m, &none, &lo, &hi);
	if (m->flags & ~hi)
		model_fail("%s has flags %#x", wire_name(m->type), m->flags);
}

static bool has_act(const struct actions *out, enum act type)
{
	unsigned int i;

	for (i = 0; i < out->n && out->v[i].type != type; i++)
		;
	return i < out->n;
}

static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *out)
{
	const struct node *n = node_of(h);
	const struct wmsg *small = n->m;
	const struct dir *d = &n->w->dirs[n->rank][small->object], *was = &n->dir;
	const struct copy *p = &n->w->pages[n->rank][small->object];

	if (err) {
		model_fail("rank %u: page %s, directory %s %s do not expect %s (%d)", n->rank,
			   page_state_name(n->page.state), dir_state_name(was->state),
			   dir_phase_name(was->phase), wire_name(m->type), err);
		return;
	}
	if (out->n >= ACTIONS_MAX)
		model_fail("%u actions", out->n);
	/* The contents of a read copy are kept anyway. */
	if (m->type == MSG_DATA && p->state == PG_COUNT && n->page.state != PG_COUNT &&
	    n->page.state != PG_UPGRADE && !has_act(out, ACT_LAND))
		model_fail(
			"rank %u: block %u waits for acknowledgements, and its contents are not kept",
			n->rank, small->object);
	if (n->page.state != p->state)
		model_say("      rank %u block %u: page %s -> %s\n", n->rank, small->object,
			  page_state_name(n->page.state), page_state_name(p->state));
	if (memcmp(was, d, sizeof(*was)))
		model_say("      home %u block %u: %s %s -> %s %s, owner %u, copyset %llx\n",
			  n->rank, small->object, dir_state_name(was->state),
			  dir_phase_name(was->phase), dir_state_name(d->state),
			  dir_phase_name(d->phase), d->owner, (unsigned long long)d->copyset);
	if (m->type == MSG_PLACE || m->type == MSG_SETTLE)
		note_placed(n->w, small, out);
	if (m->type == MSG_GRANT && m->flags & MSGF_PUSH)
		n->w->told[n->rank][small->object] = 1;
	check_pushed(small, was, d, out);
}

static void deliver_block(const struct co_cfg *cfg, struct co *w, const struct wmsg *m,
			  uint32_t time)
{
	struct node n = node(cfg, w, m->dst, WHO_HANDLER, time);
	struct msg wide = co_widen(cfg, m);

	if ((m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ) && queued(cfg, w, m))
		model_fail("home %u: request of %u.%u is queued twice", m->dst, m->req_node,
			   m->req_slot);
	check_flags(&wide);
	n.m = m;
	n.page = w->pages[m->dst][m->object];
	n.dir = w->dirs[m->dst][m->object];
	core_deliver(&n.h, &wide, &m->data);
}

bool co_deliverable(const struct co_cfg *cfg, const struct co *w, unsigned int index)
{
	const struct wmsg *m = &w->chan.v[index];

	if (m->type == MSG_RELEASE && w->slot[m->dst][cfg->nthreads] != SLOT_IDLE)
		return false;
	return chan_next(&w->chan, index, cfg->fifo);
}

void co_deliver(const struct co_cfg *cfg, struct co *w, unsigned int index, enum variant v)
{
	struct wmsg m = chan_take(&w->chan, index);

	if (v == VARIANT_EARLY)
		model_say("      within the hold time\n");
	if (v == VARIANT_SAMPLE)
		w->dirs[m.dst][m.object].sample = 15;
	if (m.type == MSG_REPLY) {
		w->threads[m.dst][m.req_slot].busy = m.count == -EBUSY;
		w->threads[m.dst][m.req_slot].owns = m.value;
		wake(cfg, w, m.dst, m.req_slot);
	} else {
		deliver_block(cfg, w, &m, v == VARIANT_EARLY ? T_EARLY : T_LATER);
	}
}
