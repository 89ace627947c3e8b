// SPDX-License-Identifier: BSD-2-Clause
/*
 * host.c - the host of the core (core/host.h) for the simulated nodes: protections, contents of
 * blocks, steps.
 */
#include "sim.h"

#include "../core_ops.h"
#include "core/host_release.h"
#include "../model/show.h"

/* ---- protections and contents ---------------------------------------------------------------- */

static void protect(struct sim *s, uint16_t node, uint32_t block, uint8_t prot)
{
	uint8_t *hw = &s->hw[sim_at(s, node, block)];

	s->readers[block] = (uint16_t)(s->readers[block] - (*hw == PROT_RO) + (prot == PROT_RO));
	s->writers[block] = (uint16_t)(s->writers[block] - (*hw == PROT_RW) + (prot == PROT_RW));
	sim_note(s, node, block, "hardware %s -> %s", show_prot(*hw), show_prot(prot));
	if (s->o.net && prot < *hw)
		loggp_spend(s, node, s->o.net->close);
	*hw = prot;
	if (s->writers[block] > 1 || (s->writers[block] && s->readers[block]))
		sim_fail(s, block, "block %u: %u may write and %u read", block, s->writers[block],
			 s->readers[block]);
	if (prot != PROT_CLOSED && s->version[sim_at(s, node, block)] != s->newest[block])
		sim_fail(s, block, "node %u may use version %u of block %u, but the newest is %u",
			 node, s->version[sim_at(s, node, block)], block, s->newest[block]);
}

/* A block without access keeps no contents. */
static void close_block(struct sim *s, uint16_t node, uint32_t block)
{
	protect(s, node, block, PROT_CLOSED);
	s->version[sim_at(s, node, block)] = NO_VERSION;
}

static void fill(struct sim *s, uint16_t node, uint32_t block, const struct action *a,
		 uint32_t data, const struct load *load)
{
	uint32_t *v;

	if (release_block(s, block)) {
		if (a->from == OPEN_ZERO)
			release_zero(s, node, block);
		release_open(s, node, block, a->prot, load);
		return;
	}
	v = &s->version[sim_at(s, node, block)];
	if (a->from == OPEN_DATA)
		*v = data;
	else if (a->from == OPEN_ZERO)
		*v = 0;
	protect(s, node, block, a->prot);
}

static void wake(struct sim *s, uint16_t node, uint32_t object, const struct action *a)
{
	uint8_t *slot = &s->slots[(size_t)node * s->nslots + a->slot];
	struct event e = { .kind = EV_THREAD, .node = node, .thread = (uint8_t)a->slot };
	unsigned int t;

	if (!*slot)
		sim_fail(s, object, "node %u: slot %u is woken, but nothing was asked for", node,
			 a->slot);
	*slot = 0;
	for (t = 0; t < s->o.threads; t++)
		if (sim_thread(s, node, t)->pc == PC_JOIN &&
		    sim_thread(s, node, t)->joined == a->slot)
			thread_wake(s, node, t);
	if (a->slot >= s->o.threads)
		/* no thread waits: PE_USED soon */
		sim_schedule(s, &e, s->o.unit_delay || s->o.net ? 0 : sim_random(s, 10));
	else if (object & OBJECT)
		sync_answered(s, node, a->slot);
	else
		thread_wake(s, node, a->slot);
}

/* ---- the callbacks of core/host.h ------------------------------------------------------------ */

static struct host_node *node_of(struct core_host *h)
{
	return (struct host_node *)h; /* its first member */
}

static int find(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		struct core_place *p)
{
	struct host_node *n = node_of(h);
	struct sim *s = n->s;
	uint32_t missing;

	(void)m;
	n->target = target;
	p->d.queue = (struct qpool){ s->nodes + (size_t)h->me * s->o.nodes * s->nslots, s->nslots,
				     NULL };
	switch (target) {
	case TARGET_CLOSING:
		if (!s->rel)
			return -EBADMSG;
		release_find(s, h->me, RELEASE_CLOSES, p);
		break;
	case TARGET_BLOCK:
		if (release_block(s, number)) {
			release_find(s, h->me, number, p);
			break;
		}
		p->d.manager = sim_manager(s, number);
		n->page = p->d.page = &s->pages[sim_at(s, h->me, number)];
		n->dir = p->d.dir = &s->dirs[sim_at(s, h->me, number)];
		p->key = 0;
		p->transfers = NULL;
		break;
	case TARGET_CREATE:
	case TARGET_OBJECT:
		p->objects = objects_of(s, h->me);
		if (target == TARGET_CREATE)
			number = p->d.index = objects_take(&p->objects, &missing);
		p->d.object = objects_at(&p->objects, number);
		if (p->d.object)
			n->before = *p->d.object;
		break;
	case TARGET_HOLD: p->d.hold = sim_hold(s, h->me, number); break;
	case TARGET_BARRIER:
		p->d.bar = &s->bars[h->me];
		p->d.combine = sync_combine;
		break;
	case TARGET_SLOT: p->d.ask = &s->asks[(size_t)h->me * s->nslots + number]; break;
	default: break;
	}
	return 0;
}

static uint32_t now(struct core_host *h)
{
	return (uint32_t)sim_of(h)->now;
}

static bool again(struct core_host *h, uint32_t object, uint8_t prot)
{
	const struct copy *p;

	if (release_block(sim_of(h), object)) {
		release_open(sim_of(h), h->me, object, prot, NULL);
		return false;
	}
	p = &sim_of(h)->pages[sim_at(sim_of(h), h->me, object)];
	protect(sim_of(h), h->me, object, page_writable(p) ? PROT_RW : PROT_RO);
	return false;
}

static void leaves(struct core_host *h, uint32_t object)
{
	if (release_block(sim_of(h), object))
		release_leaves(sim_of(h), h->me, object);
	else
		sim_of(h)->leaves[sim_at(sim_of(h), h->me, object)]++;
}

static void drop(struct core_host *h, uint32_t object)
{
	close_block(sim_of(h), h->me, object);
}

static void freed(struct core_host *h, uint32_t index, struct hold *hold)
{
	(void)h, (void)index, (void)hold; /* records belong to threads */
}

static void land(struct core_host *h, const struct msg *m, const void *data)
{
	sim_of(h)->version[sim_at(sim_of(h), h->me, m->object)] = *(const uint32_t *)data;
}

/* No thread waits for the answer to MSG_RELEASE. */
static bool is_unwanted(const struct sim *s, const struct msg *m)
{
	return m->type == MSG_REPLY && m->req_slot == sim_release_slot(s);
}

static void send(struct core_host *h, const struct msg *m)
{
	if (!is_unwanted(sim_of(h), m))
		sim_send_load(sim_of(h), m, 0, release_payload(sim_of(h), m));
}

static void send_block(struct core_host *h, const struct msg *m, const void *contents)
{
	struct sim *s = sim_of(h);
	const size_t at = sim_at(s, h->me, m->object);

	(void)contents;
	if (release_block(s, m->object)) {
		sim_send_load(s, m, 0, release_contents(s, h->me, m->object));
		return;
	}
	sim_send(s, m, s->version[at]);
	s->leaves[at]--;
	if (m->op == GRANT_WRITE)
		close_block(s, h->me, m->object);
}

/* Anything that changes protection or contents may be delayed. */
static bool is_late(struct sim *s)
{
	return !s->o.unit_delay && !s->o.net && sim_random(s, 2);
}

/*
 * As the engine does: change the protection only as the step says, without looking at the current
 * one.
 */
static void lower_now(struct sim *s, uint16_t node, const struct core_leave *l)
{
	if (release_block(s, l->m->object)) {
		if (l->from > l->to)
			release_lower(s, node, l->m->object, l->to);
		return;
	}
	if (l->m->type != MSG_DATA)
		close_block(s, node, l->m->object);
	else if (l->from > l->to && s->hw[sim_at(s, node, l->m->object)] > l->to)
		protect(s, node, l->m->object, l->to);
}

static bool lower(struct core_host *h, const struct core_leave *l)
{
	struct sim *s = sim_of(h);
	struct event e = {
		.kind = EV_LOWER, .node = h->me, .thread = l->to, .from = l->from, .msg = *l->m
	};

	if (is_late(s)) {
		sim_schedule(s, &e, 1 + sim_random(s, 15));
		return false;
	}
	lower_now(s, h->me, l);
	return true;
}

static bool open(struct core_host *h, const struct actions *acts, unsigned int at,
		 const struct msg *m, const void *data)
{
	struct sim *s = sim_of(h);
	const bool loaded = release_block(s, m->object) && acts->v[at].from == OPEN_DATA;
	const struct load *load = loaded ? data : NULL;
	struct event e = { .kind = EV_OPEN,
			   .node = h->me,
			   .data = data && !load ? *(const uint32_t *)data : 0,
			   .from = at,
			   .msg = { .object = m->object } };

	if (!is_late(s)) {
		fill(s, h->me, m->object, &acts->v[at], e.data, load);
		return true;
	}
	if (load)
		e.load = load_add(NULL, load->bytes, load->used);
	e.rest = malloc(sizeof(*e.rest));
	*e.rest = *acts;
	sim_schedule(s, &e, 1 + sim_random(s, 15));
	return false;
}

static bool wake_slot(struct core_host *h, const struct action *a, const struct msg *m)
{
	wake(sim_of(h), h->me, m->object, a);
	return true; /* a request without a thread is confirmed later */
}

static bool timer(struct core_host *h, uint32_t object, uint32_t at)
{
	struct sim *s = sim_of(h);
	struct event e = { .kind = EV_TIMER, .node = h->me, .msg = { .object = object } };

	sim_schedule(s, &e, us_before((uint32_t)s->now, at) ? at - (uint32_t)s->now : 0);
	return true;
}

static void wake_all(struct core_host *h, uint32_t barrier)
{
	unsigned int t;

	(void)barrier;
	for (t = 0; t < sim_of(h)->o.threads; t++)
		if (sim_thread(sim_of(h), h->me, t)->pc == PC_BARRIER)
			thread_wake(sim_of(h), h->me, t);
}

static void answer(struct core_host *h, const struct action *a)
{
	sync_reply(sim_of(h), h->me, a);
}

static void blame(struct core_host *h, uint16_t node)
{
	sim_fail(sim_of(h), node_of(h)->m->object, "node %u is blamed", node);
}

static void damaged(struct core_host *h, const struct msg *about, enum page_event ev, uint8_t state)
{
	sim_fail(sim_of(h), about->object, "node %u: page %s does not expect %s", h->me,
		 page_state_name(state), page_event_name(ev));
}

static void fetch(struct core_host *h, const struct action *a);
static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *out);

#define OPS_WITH(release_blocks)                                                            \
	CORE_OPS(.lock = core_no_lock, .unlock = core_no_lock, .answers = core_no_answers,  \
		 .leaves = leaves, .freed = freed, .wake = wake_slot, .wake_all = wake_all, \
		 .answer = answer, .blame = blame, .rel = release_blocks)
static const struct core_ops ops = OPS_WITH(NULL), ops_release = OPS_WITH(&release_ops);

struct host_node sim_node(struct sim *s, uint16_t node, const struct msg *m)
{
	return (struct host_node){ .h = { .ops = s->rel ? &ops_release : &ops,
					  .me = node,
					  .nnodes = (uint16_t)s->o.nodes,
					  .follow = (uint8_t)s->o.follow,
					  .pushes = (uint8_t)s->o.pushes,
					  .brief = true,
					  .hold_us = s->o.hold_us },
				   .s = s,
				   .m = m };
}

/* Do what was delayed, and what waits for it. */
void sim_lower_late(struct sim *s, const struct event *e)
{
	const struct core_leave l = { .from = (uint8_t)e->from, .to = e->thread, .m = &e->msg };
	struct host_node n = sim_node(s, e->node, NULL);

	lower_now(s, e->node, &l);
	core_lowered(&n.h, &e->msg, NULL);
}

void sim_open_late(struct sim *s, const struct event *e)
{
	struct host_node n = sim_node(s, e->node, NULL);

	fill(s, e->node, e->msg.object, &e->rest->v[e->from], e->data, e->load);
	core_carry_out(&n.h, e->rest, e->from + 1, &e->msg, &e->data);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A local event, with flags; `home` is asked if no home is known. */
static void local(struct sim *s, uint16_t node, uint32_t block, enum page_event ev, uint16_t slot,
		  uint16_t home, uint8_t flags)
{
	struct msg m = { .version = WIRE_VERSION,
			 .object = block,
			 .src = node,
			 .req_node = node,
			 .req_slot = slot,
			 .home = home,
			 .flags = flags };
	struct thread *t = slot < s->o.threads ? sim_thread(s, node, slot) : NULL;
	struct core_waiter caller = { .wait = -1 };
	struct host_node n = sim_node(s, node, NULL);
	const struct copy *p = release_block(s, block) ? NULL : &s->pages[sim_at(s, node, block)];
	uint8_t before = p ? p->state : 0;
	unsigned int i;

	s->st.steps++;
	core_page_event(&n.h, ev, &m, slot < s->nslots ? &caller : NULL);
	if (p)
		sim_note(s, node, block, "%s --%s--> %s", page_state_name(before),
			 page_event_name(ev), page_state_name(p->state));
	else
		release_note(s, node, block, page_event_name(ev));
	if (caller.wait == slot) {
		s->slots[(size_t)node * s->nslots + slot] = 1;
		if (t)
			t->pc = PC_WAIT;
		else
			s->async_block[(size_t)node * s->async + slot - s->o.threads] = block + 1;
	} else if (caller.wait >= 0 && t) {
		t->pc = PC_JOIN;
		t->joined = (uint16_t)caller.wait;
	}
	if (ev == PE_USED)
		for (i = 0; i < s->o.threads; i++)
			if (sim_thread(s, node, i)->pc == PC_JOIN &&
			    sim_thread(s, node, i)->joined == slot)
				thread_wake(s, node, i);
	if ((ev == PE_READ || ev == PE_WRITE) && t && t->pc == PC_TRY)
		thread_wake(s, node, slot);
}

/* A local event. After PE_READ or PE_WRITE, a thread waits, has joined a request, or must retry. */
void sim_local(struct sim *s, uint16_t node, uint32_t block, enum page_event ev, uint16_t slot)
{
	local(s, node, block, ev, slot, sim_manager(s, block),
	      s->o.first_touch ? MSGF_FIRST_TOUCH : 0);
}

/* Request a block that comes back, or is placed here, as a thread would. */
static void fetch(struct core_host *h, const struct action *a)
{
	struct sim *s = sim_of(h);
	unsigned int i;

	for (i = 0; i < s->async; i++)
		if (!s->async_block[(size_t)h->me * s->async + i]) {
			local(s, h->me, a->msg.object, a->prot == PROT_RW ? PE_WRITE : PE_READ,
			      (uint16_t)(s->o.threads + i), a->msg.home, a->msg.flags);
			return;
		}
}

/* A grant told this rank to push the block. It does so at any time, or never. */
static void push(struct sim *s, const struct msg *grant)
{
	const struct copy *p = &s->pages[sim_at(s, grant->dst, grant->object)];
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_RELEASE,
			 .op = RELEASE_KEEP,
			 .src = grant->dst,
			 .dst = (uint16_t)(p->home - 1),
			 .object = grant->object,
			 .req_node = grant->dst,
			 .req_slot = sim_release_slot(s) };

	if (!sim_random(s, 4))
		return;
	s->st.pushes++;
	sim_send(s, &m, 0);
}

static void stepped(struct core_host *h, const struct msg *m, int err, const struct actions *out)
{
	const struct host_node *n = node_of(h);
	struct sim *s = n->s;

	if (err)
		sim_fail(s, m->object,
			 "node %u does not expect %s of %u (%s): page %s, directory %s %s", h->me,
			 wire_name(m->type), m->src, err == -ESTALE ? "not asked for" : "bad",
			 n->page ? page_state_name(n->page->state) : "-",
			 n->dir ? dir_state_name(n->dir->state) : "-",
			 n->dir ? dir_phase_name(n->dir->phase) : "-");
	if (out->n >= ACTIONS_MAX)
		sim_fail(s, m->object, "%u actions", out->n);
	if (n->target == TARGET_CREATE || n->target == TARGET_OBJECT)
		objects_judge(s, m, &n->before, out);
	if (n->page)
		sim_note(s, h->me, m->object, "page %s, directory %s %s, owner %u",
			 page_state_name(n->page->state), dir_state_name(n->dir->state),
			 dir_phase_name(n->dir->phase), n->dir->owner);
	if (m->type == MSG_GRANT && m->flags & MSGF_PUSH)
		push(s, m);
	if (m->type == MSG_LOCKED || m->type == MSG_FREED)
		sim_thread(s, h->me, s->o.replay ? 0 : m->aux)->status = m->count;
}

void sim_step(struct sim *s, const struct msg *m, struct actions *out)
{
	struct host_node n = sim_node(s, m->dst, m);

	stepped(&n.h, m, core_step(&n.h, m, NULL, out), out);
}

void sim_deliver(struct sim *s, const struct msg *m, uint32_t data, const struct load *load)
{
	struct host_node n = sim_node(s, m->dst, m);

	s->st.steps++;
	if (!is_unwanted(s, m)) /* it may have been held for a close */
		core_deliver(&n.h, m, load ? (const void *)load : &data);
}

void sim_request(struct sim *s, const struct msg *m)
{
	struct host_node n = sim_node(s, m->src, NULL);

	core_release(&n.h, m);
}

void sim_hold_event(struct sim *s, uint16_t node, uint16_t record, enum hold_event ev,
		    const struct msg *about)
{
	struct host_node n = sim_node(s, node, NULL);
	const struct hold *h = sim_hold(s, node, record);

	if (core_hold_event(&n.h, record, ev, about) < 0)
		sim_fail(s, h->object, "node %u: record %s does not expect %s", node,
			 hold_state_name(h->state), hold_event_name(ev));
}
