// SPDX-License-Identifier: BSD-2-Clause
/* coherence_host.c - the host of the page and directory machines: steps them and carries out their actions. */
#include "coherence.h"

#define HOLD_US 10
#define T_USED 100  /* the time of the first use of blocks, */
#define T_EARLY 105 /* a time within the hold time, */
#define T_LATER 120 /* and one after it */

static void protect(struct co *w, unsigned int rank, unsigned int block, uint8_t prot)
{
	if (w->hw[rank][block] != prot)
		model_say("      rank %u block %u: hardware %s -> %s\n", rank, block, show_prot(w->hw[rank][block]),
			  show_prot(prot));
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

static void wait(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int slot, int who)
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

static void multicast(const struct co_cfg *cfg, struct co *w, const struct action *a)
{
	uint16_t n = co_nominal(cfg), g = set_granule(n), r;
	struct msg to = a->msg;
	struct wmsg m;

	for (r = set_next(a->mask, 0, n, g, a->msg.req_node, a->except); r < n;
	     r = set_next(a->mask, (uint16_t)(r + 1), n, g, a->msg.req_node, a->except)) {
		to.dst = r;
		m = co_narrow(cfg, &to);
		chan_post(&w->chan, &m);
	}
}

/* As the engine does: change the protection only as the step says, without looking at the current one. */
static void data_out(struct co *w, unsigned int rank, unsigned int block, const struct wact *a)
{
	struct wmsg m = a->msg;

	if (a->from > a->prot && w->hw[rank][block] > a->prot)
		protect(w, rank, block, a->prot);
	m.data = w->latest[rank][block];
	if (a->prot == PROT_CLOSED)
		close_block(w, rank, block);
	chan_post(&w->chan, &m);
}

/* Actions that change protection or contents, and may be delayed. */
static bool hard(const struct co_cfg *cfg, uint8_t type)
{
	return type == ACT_DATA || type == ACT_OPEN || type == ACT_CLOSE || (type == ACT_LAND && cfg->late_land);
}

static void act_hard(struct co *w, unsigned int rank, unsigned int block, const struct wact *a, uint8_t data)
{
	switch (a->type) {
	case ACT_DATA: data_out(w, rank, block, a); break;
	case ACT_CLOSE: close_block(w, rank, block); break;
	case ACT_LAND: w->latest[rank][block] = data; break;
	default:
		fill(w, rank, block, a->from, data);
		protect(w, rank, block, a->prot);
		break;
	}
}

static struct wact in_small(const struct co_cfg *cfg, const struct action *a)
{
	struct wact small = { .type = a->type, .prot = a->prot, .from = a->from };

	if (a->type == ACT_SEND || a->type == ACT_RESUME || a->type == ACT_DATA)
		small.msg = co_narrow(cfg, &a->msg);
	if (a->type == ACT_WAKE || a->type == ACT_WAIT)
		small.slot = chan_small("slot", a->slot, CHAN_SLOT, cfg->nthreads + 1u);
	return small;
}

static void act(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block, const struct wact *a,
		uint8_t data, int who)
{
	switch (a->type) {
	case ACT_SEND:
	case ACT_RESUME: chan_post(&w->chan, &a->msg); break;
	case ACT_WAKE: wake(cfg, w, rank, a->slot); break;
	case ACT_WAIT: wait(cfg, w, rank, a->slot, who); break;
	case ACT_TIMER: w->timer[rank][block] = 1; break;
	case ACT_FETCH: break; /* deliver_block() handles it */
	default: act_hard(w, rank, block, a, data); break;
	}
}

/* Store the actions from i on. */
static void defer(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block,
		  const struct actions *out, unsigned int i, uint8_t data)
{
	struct wlist *l = &w->lists[w->nlists];
	unsigned int n = out->n - i;

	if (w->nlists == L_MAX || n > 2) {
		model_fail("too much to put aside: %u lists, %u actions", w->nlists, n);
		return;
	}
	w->nlists++;
	*l = (struct wlist){ .rank = (uint8_t)rank, .block = (uint8_t)block, .n = (uint8_t)n, .data = data };
	for (n = 0; i < out->n; i++, n++)
		l->v[n] = in_small(cfg, &out->v[i]);
}

static void carry_out(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block,
		      const struct actions *out, uint8_t data, int who)
{
	struct wact small;
	unsigned int i;

	if (out->n >= ACTIONS_MAX)
		model_fail("%u actions", out->n);
	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];

		if (a->type == ACT_OPEN && a->from == OPEN_AGAIN) {
			if (who >= 0)
				w->threads[rank][who].pc = PC_AGAIN;
			continue;
		}
		if (cfg->split && hard(cfg, a->type)) {
			defer(cfg, w, rank, block, out, i, data);
			return;
		}
		if (a->type == ACT_MCAST) {
			multicast(cfg, w, a);
		} else {
			small = in_small(cfg, a);
			act(cfg, w, rank, block, &small, data, who);
		}
	}
}

/* Continue a list: carry out one action that may be delayed, and those after it up to the next such action. */
void co_continue(const struct co_cfg *cfg, struct co *w, unsigned int list)
{
	struct wlist l = w->lists[list];
	unsigned int i;

	memmove(&w->lists[list], &w->lists[list + 1], (w->nlists - list - 1u) * sizeof(l));
	memset(&w->lists[--w->nlists], 0, sizeof(l));
	model_say("rank %u block %u: goes on with its actions\n", l.rank, l.block);
	act_hard(w, l.rank, l.block, &l.v[0], l.data);
	for (i = 1; i < l.n; i++) {
		if (hard(cfg, l.v[i].type)) {
			l.v[0] = l.v[i];
			l.n = 1;
			w->lists[w->nlists++] = l;
			return;
		}
		act(cfg, w, l.rank, l.block, &l.v[i], l.data, WHO_HANDLER);
	}
}

bool co_leaves(const struct co *w, unsigned int rank, unsigned int block)
{
	unsigned int i, k;

	for (i = 0; i < w->nlists; i++)
		for (k = 0; k < w->lists[i].n; k++)
			if (w->lists[i].rank == rank && w->lists[i].block == block && w->lists[i].v[k].type == ACT_DATA)
				return true;
	return false;
}

static int step_page(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block, enum page_event ev,
		     const struct msg *m, uint32_t now, struct actions *out)
{
	struct page_ctx ctx = {
		.me = co_rank(cfg, rank), .nnodes = co_nominal(cfg), .now = now, .hold_us = cfg->hold ? HOLD_US : 0
	};
	struct copy *p = &w->pages[rank][block];
	uint8_t before = p->state;
	int err = page_step(&ctx, p, ev, m, out);

	model_say("      rank %u block %u: page %s --%s--> %s\n", rank, block, page_state_name(before),
		  page_event_name(ev), page_state_name(p->state));
	if (err)
		model_fail("rank %u: page %s does not expect %s (%d)", rank, page_state_name(before),
			   page_event_name(ev), err);
	return err;
}

/* A local event, with flags; `home` is asked if no home is known. */
static void local(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block, enum page_event ev,
		  int who, unsigned int home, uint8_t flags)
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
	struct actions out;
	unsigned int i;

	if (ev == PE_USED)
		w->slot[rank][slot] = SLOT_IDLE;
	if (asks)
		w->slot[rank][slot] = SLOT_PENDING; /* the answer may come before the thread waits */
	if (who >= 0)
		w->threads[rank][who].pc = PC_TRY;
	if (step_page(cfg, w, rank, block, ev, &m, ev == PE_USED ? T_USED : T_LATER, &out))
		return;
	if (ev == PE_USED)
		stir(cfg, w, rank, slot);
	if (ev == PE_DROP && out.n) {
		/* A copy is dropped while the lock is held: no other rank answers for it. */
		close_block(w, rank, block);
		return;
	}
	for (i = 0; i < out.n; i++)
		if (out.v[i].type == ACT_WAIT && out.v[i].slot == m.req_slot)
			break;
	if (asks && i == out.n)
		w->slot[rank][slot] = SLOT_IDLE;
	else if (asks && who == WHO_ASYNC)
		w->async_block[rank] = (uint8_t)block;
	carry_out(cfg, w, rank, block, &out, 0, who);
}

void co_local(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block, enum page_event ev,
	      int who)
{
	local(cfg, w, rank, block, ev, who, cfg->manager[block], cfg->first_touch ? MSGF_FIRST_TOUCH : 0);
}

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

/* Request a block that comes back, or is placed here, as a thread would; but not while the slot for such requests is in use. */
static void fetch(const struct co_cfg *cfg, struct co *w, const struct actions *out)
{
	const struct chan_names names = co_names(cfg);
	unsigned int i;

	for (i = 0; i < out->n; i++) {
		const struct action *a = &out->v[i];

		if (a->type == ACT_FETCH && w->slot[a->msg.dst - names.rank][cfg->nthreads] == SLOT_IDLE)
			local(cfg, w, (unsigned int)(a->msg.dst - names.rank),
			      chan_small("block", a->msg.object, names.object, cfg->nblocks),
			      a->prot == PROT_RW ? PE_WRITE : PE_READ, WHO_ASYNC,
			      chan_small("home", a->msg.home, names.home, names.homes), a->msg.flags);
	}
}

/* If a block is given back to its home, the home has not used it, and the giver keeps a copy. */
static void check_pushed(const struct wmsg *m, const struct dir *was, const struct dir *d, const struct actions *out)
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

static void deliver_block(const struct co_cfg *cfg, struct co *w, const struct wmsg *m, uint32_t now)
{
	struct chan_names names = co_names(cfg);
	struct dir *d = &w->dirs[m->dst][m->object], was = *d;
	struct copy *p = &w->pages[m->dst][m->object], before = *p;
	struct dispatch at = { .me = co_rank(cfg, m->dst),
			       .nnodes = co_nominal(cfg),
			       .manager = co_rank(cfg, cfg->manager[m->object]),
			       .follow = cfg->follow,
			       .pushes = cfg->pushes,
			       .now = now,
			       .hold_us = cfg->hold ? HOLD_US : 0,
			       .page = p,
			       .dir = d };
	struct msg wide = co_widen(cfg, m);
	struct actions out;
	int err;

	if ((m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ) && queued(cfg, w, m))
		model_fail("home %u: request of %u.%u is queued twice", m->dst, m->req_node, m->req_slot);
	check_flags(&wide);
	at.queue = chan_load(&names, w->nodes[m->dst]);
	err = dispatch_step(&at, &wide, &out);
	chan_store(&names, w->nodes[m->dst]);
	if (err) {
		model_fail("rank %u: page %s, directory %s %s do not expect %s (%d)", m->dst,
			   page_state_name(before.state), dir_state_name(was.state), dir_phase_name(was.phase),
			   wire_name(m->type), err);
		return;
	}
	if (before.state != p->state)
		model_say("      rank %u block %u: page %s -> %s\n", m->dst, m->object, page_state_name(before.state),
			  page_state_name(p->state));
	if (memcmp(&was, d, sizeof(was)))
		model_say("      home %u block %u: %s %s -> %s %s, owner %u, copyset %llx\n", m->dst, m->object,
			  dir_state_name(was.state), dir_phase_name(was.phase), dir_state_name(d->state),
			  dir_phase_name(d->phase), d->owner, (unsigned long long)d->copyset);
	if (m->type == MSG_PLACE || m->type == MSG_SETTLE)
		note_placed(w, m, &out);
	if (m->type == MSG_GRANT && m->flags & MSGF_PUSH)
		w->told[m->dst][m->object] = 1;
	check_pushed(m, &was, d, &out);
	fetch(cfg, w, &out);
	if (m->type != MSG_RELEASE) /* no thread here waits for the answer */
		carry_out(cfg, w, m->dst, m->object, &out, m->data, WHO_HANDLER);
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
