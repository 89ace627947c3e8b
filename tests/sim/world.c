// SPDX-License-Identifier: BSD-2-Clause
/* world.c - the host of the simulated nodes: channels, protections, contents of blocks. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "../model/show.h"

/* ---- messages --------------------------------------------------------------------------------- */

uint16_t sim_manager(const struct sim *s, uint32_t block)
{
	return (uint16_t)(block % s->o.nodes);
}

/* The size of a message with its payload. */
static unsigned int bytes_of(const struct sim *s, const struct msg *m)
{
	unsigned int block = m->type != MSG_DATA ? 0 : s->o.replay ? replay_block_bytes(s->o.replay, m->object) : 4096;

	return (unsigned int)sizeof(*m) + block;
}

void sim_send(struct sim *s, const struct msg *m, uint32_t data)
{
	struct event e = { .kind = EV_MSG, .node = m->dst, .data = data, .msg = *m };
	/* Delays are similar, with an occasional long one. */
	uint64_t delay = 1 + sim_random(s, sim_random(s, 16) ? 20 : 400);
	const struct wire_limits lim = { .me = m->dst,
					 .nnodes = (uint16_t)s->o.nodes,
					 .host = HOST_BOTH,
					 .block_slots = s->nslots,
					 .slots = s->nslots,
					 .holds = s->nholds,
					 .barriers = UINT32_MAX,
					 .pages = s->o.blocks };
	uint64_t *last;

	if (m->dst >= s->o.nodes)
		sim_fail(s, m->object, "%s is sent to node %u", wire_name(m->type), m->dst);
	if (m->type != MSG_RESUME && wire_check(m, &lim))
		sim_fail(s, m->object, "node %u sends a %s that wire_check() refuses", m->src, wire_name(m->type));
	if (ask_is(m->type) && m->type != MSG_RELEASE)
		ask_note(&s->asks[(size_t)m->src * s->nslots + m->req_slot], m);
	if (m->src != m->dst) {
		s->st.messages[m->type]++;
		s->st.total++;
	}
	if (s->o.unit_delay)
		delay = m->src == m->dst ? 0 : UNIT;
	else if (s->o.net)
		delay = m->src == m->dst ? 0 : loggp_send(s, m->src, bytes_of(s, m));
	if (s->o.fifo) {
		last = &s->last[(size_t)m->src * s->o.nodes + m->dst];
		if (s->now + delay < *last)
			delay = *last - s->now;
		*last = s->now + delay;
	}
	sim_schedule(s, &e, delay);
}

/* ---- protections and contents ----------------------------------------------------------------- */

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
		sim_fail(s, block, "block %u: %u may write and %u read", block, s->writers[block], s->readers[block]);
	if (prot != PROT_CLOSED && s->version[sim_at(s, node, block)] != s->newest[block])
		sim_fail(s, block, "node %u may use version %u of block %u, but the newest is %u", node,
			 s->version[sim_at(s, node, block)], block, s->newest[block]);
}

#define NO_VERSION UINT32_MAX /* the frame is empty */

/* A block without access keeps no contents. */
static void close_block(struct sim *s, uint16_t node, uint32_t block)
{
	protect(s, node, block, PROT_CLOSED);
	s->version[sim_at(s, node, block)] = NO_VERSION;
}

static void fill(struct sim *s, uint16_t node, uint32_t block, const struct action *a, uint32_t data)
{
	uint32_t *v = &s->version[sim_at(s, node, block)];

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
		sim_fail(s, object, "node %u: slot %u is woken, but nothing was asked for", node, a->slot);
	*slot = 0;
	for (t = 0; t < s->o.threads; t++)
		if (sim_thread(s, node, t)->pc == PC_JOIN && sim_thread(s, node, t)->joined == a->slot)
			thread_wake(s, node, t);
	if (a->slot >= s->o.threads)
		/* no thread waits: PE_USED soon */
		sim_schedule(s, &e, s->o.unit_delay || s->o.net ? 0 : sim_random(s, 10));
	else if (object & OBJECT)
		sync_answered(s, node, a->slot);
	else
		thread_wake(s, node, a->slot);
}

static void act(struct sim *s, uint16_t node, uint32_t object, const struct action *a, uint32_t data)
{
	uint16_t n = (uint16_t)s->o.nodes, g = set_granule(n), r;
	struct msg m = a->msg;
	struct event e = { .kind = EV_TIMER, .node = node, .msg = { .object = object } };

	switch ((enum act)a->type) {
	case ACT_SEND:
	case ACT_RESUME: sim_send(s, &m, 0); break;
	case ACT_MCAST:
		for (r = set_next(a->mask, 0, n, g, m.req_node, a->except); r < n;
		     r = set_next(a->mask, (uint16_t)(r + 1), n, g, m.req_node, a->except)) {
			m.dst = r;
			sim_send(s, &m, 0);
		}
		break;
	case ACT_DATA:
		/* As the engine does: change the protection only as the step says, without looking at the current one. */
		if (a->from > a->prot && s->hw[sim_at(s, node, object)] > a->prot)
			protect(s, node, object, a->prot);
		sim_send(s, &m, s->version[sim_at(s, node, object)]);
		s->leaves[sim_at(s, node, object)]--;
		if (a->prot == PROT_CLOSED)
			close_block(s, node, object);
		break;
	case ACT_OPEN: fill(s, node, object, a, data); break;
	case ACT_CLOSE: close_block(s, node, object); break;
	case ACT_WAKE: wake(s, node, object, a); break;
	case ACT_TIMER: sim_schedule(s, &e, us_before((uint32_t)s->now, a->at) ? a->at - (uint32_t)s->now : 0); break;
	case ACT_BLAME: sim_fail(s, object, "node %u is blamed", a->node);
	case ACT_LAND:
	case ACT_WAIT:
	case ACT_REPLY:
	case ACT_FETCH:
	case ACT_WAKE_ALL: break; /* the caller of the step wakes threads */
	}
}

/* Send at once. The first action that changes protection or contents may be delayed, with all that follow. */
static void carry_on(struct sim *s, uint16_t node, uint32_t object, const struct actions *acts, unsigned int i,
		     uint32_t data)
{
	unsigned int start = i;

	for (; i < acts->n; i++) {
		const struct action *a = &acts->v[i];
		bool hard = a->type == ACT_DATA || a->type == ACT_OPEN || a->type == ACT_CLOSE;
		struct event e = {
			.kind = EV_ACTIONS, .node = node, .data = data, .from = i, .msg = { .object = object }
		};

		if (hard && !s->o.unit_delay && !s->o.net && (i != start || !i) && sim_random(s, 2)) {
			e.rest = malloc(sizeof(*e.rest));
			*e.rest = *acts;
			sim_schedule(s, &e, 1 + sim_random(s, 15));
			return;
		}
		act(s, node, object, a, data);
	}
}

void sim_carry_out(struct sim *s, uint16_t node, uint32_t object, const struct actions *acts, uint32_t data)
{
	unsigned int i;

	if (acts->n >= ACTIONS_MAX)
		sim_fail(s, object, "%u actions", acts->n);
	for (i = 0; i < acts->n; i++)
		if (acts->v[i].type == ACT_DATA)
			s->leaves[sim_at(s, node, object)]++;
	carry_on(s, node, object, acts, 0, data);
}

/* ---- steps ------------------------------------------------------------------------------------ */

static void step_page(struct sim *s, uint16_t node, enum page_event ev, const struct msg *m, struct actions *out)
{
	struct page_ctx ctx = {
		.me = node, .nnodes = (uint16_t)s->o.nodes, .now = (uint32_t)s->now, .hold_us = s->o.hold_us
	};
	struct copy *p = &s->pages[sim_at(s, node, m->object)];
	uint8_t before_state = p->state;

	s->st.steps++;
	if (page_step(&ctx, p, ev, m, out))
		sim_fail(s, m->object, "node %u: page %s does not expect %s", node, page_state_name(before_state),
			 page_event_name(ev));
	sim_note(s, node, m->object, "%s --%s--> %s", page_state_name(before_state), page_event_name(ev),
		 page_state_name(p->state));
}

/* A local event, with flags; `home` is asked if no home is known. */
static void local(struct sim *s, uint16_t node, uint32_t block, enum page_event ev, uint16_t slot, uint16_t home,
		  uint8_t flags)
{
	struct msg m = { .version = WIRE_VERSION,
			 .object = block,
			 .src = node,
			 .req_node = node,
			 .req_slot = slot,
			 .home = home,
			 .flags = flags };
	struct thread *t = slot < s->o.threads ? sim_thread(s, node, slot) : NULL;
	bool asks = ev == PE_READ || ev == PE_WRITE;
	struct actions out;
	unsigned int i;

	step_page(s, node, ev, &m, &out);
	for (i = 0; i < out.n; i++) {
		struct action *a = &out.v[i];

		if (a->type == ACT_WAIT && a->slot == slot) {
			s->slots[(size_t)node * s->nslots + slot] = 1;
			if (t)
				t->pc = PC_WAIT;
			else
				s->async_block[(size_t)node * s->async + slot - s->o.threads] = block + 1;
		} else if (a->type == ACT_WAIT && t) {
			t->pc = PC_JOIN;
			t->joined = a->slot;
		} else if (a->type == ACT_OPEN && a->from == OPEN_AGAIN) {
			const struct copy *p = &s->pages[sim_at(s, node, block)];

			/* The caller holds the lock. */
			protect(s, node, block, page_writable(p) ? PROT_RW : PROT_RO);
			out.n = 0;
		} else if (a->type == ACT_CLOSE && ev == PE_DROP) {
			close_block(s, node, block);
			out.n = 0;
		}
	}
	if (ev == PE_USED)
		for (i = 0; i < s->o.threads; i++)
			if (sim_thread(s, node, i)->pc == PC_JOIN && sim_thread(s, node, i)->joined == slot)
				thread_wake(s, node, i);
	if (asks && t && t->pc == PC_TRY)
		thread_wake(s, node, slot);
	sim_carry_out(s, node, block, &out, 0);
}

/* A local event. After PE_READ or PE_WRITE, a thread waits, has joined a request, or must retry. */
void sim_local(struct sim *s, uint16_t node, uint32_t block, enum page_event ev, uint16_t slot)
{
	local(s, node, block, ev, slot, sim_manager(s, block), s->o.first_touch ? MSGF_FIRST_TOUCH : 0);
}

/* Request a block that comes back, or is placed here, as a thread would. */
static void fetch(struct sim *s, const struct action *a)
{
	unsigned int i;

	for (i = 0; i < s->async; i++)
		if (!s->async_block[(size_t)a->msg.dst * s->async + i]) {
			local(s, a->msg.dst, a->msg.object, a->prot == PROT_RW ? PE_WRITE : PE_READ,
			      (uint16_t)(s->o.threads + i), a->msg.home, a->msg.flags);
			return;
		}
}

void sim_step(struct sim *s, const struct msg *m, struct actions *out)
{
	struct dispatch d = { .me = m->dst,
			      .nnodes = (uint16_t)s->o.nodes,
			      .now = (uint32_t)s->now,
			      .hold_us = s->o.hold_us,
			      .follow = (uint8_t)s->o.follow,
			      .pushes = (uint8_t)s->o.pushes,
			      .queue = { s->nodes + (size_t)m->dst * s->o.nodes * s->nslots, s->nslots, NULL },
			      .combine = sync_combine };
	const struct objects all = objects_of(s, m->dst);
	struct sync before = { 0 };
	uint32_t number, missing;
	enum target target = dispatch_target(m, &number);
	int err;

	switch (target) {
	case TARGET_BLOCK:
		d.manager = sim_manager(s, number);
		d.page = &s->pages[sim_at(s, m->dst, number)];
		d.dir = &s->dirs[sim_at(s, m->dst, number)];
		break;
	case TARGET_CREATE: number = d.index = objects_take(&all, &missing); __attribute__((__fallthrough__));
	case TARGET_OBJECT:
		d.objects = &all;
		d.object = objects_at(&all, number);
		if (d.object)
			before = *d.object;
		break;
	case TARGET_HOLD: d.hold = sim_hold(s, m->dst, number); break;
	case TARGET_BARRIER: d.bar = &s->bars[m->dst]; break;
	case TARGET_SLOT: d.ask = &s->asks[(size_t)m->dst * s->nslots + number]; break;
	default: break;
	}
	s->st.steps++;
	err = dispatch_step(&d, m, out);
	if (err)
		sim_fail(s, m->object, "node %u does not expect %s of %u (%s): page %s, directory %s %s", m->dst,
			 wire_name(m->type), m->src, err == -ESTALE ? "not asked for" : "bad",
			 d.page ? page_state_name(d.page->state) : "-", d.dir ? dir_state_name(d.dir->state) : "-",
			 d.dir ? dir_phase_name(d.dir->phase) : "-");
	if (target == TARGET_CREATE || target == TARGET_OBJECT)
		objects_judge(s, m, &before, out);
	if (d.page)
		sim_note(s, m->dst, m->object, "page %s, directory %s %s, owner %u", page_state_name(d.page->state),
			 dir_state_name(d.dir->state), dir_phase_name(d.dir->phase), d.dir->owner);
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
			 .req_node = grant->dst };

	if (!sim_random(s, 4))
		return;
	s->st.pushes++;
	sim_send(s, &m, 0);
}

static void deliver(struct sim *s, const struct event *e)
{
	const struct msg *m = &e->msg;
	struct actions out;
	char text[80];
	unsigned int i;
	uint32_t number;
	enum target target = dispatch_target(m, &number);

	if (!s->o.replay)
		sim_note(s, m->dst, target == TARGET_CREATE ? OBJECT : m->object, "takes %s",
			 show_msg(m, text, sizeof(text)));
	if (target != TARGET_BLOCK) {
		sync_message(s, m);
		return;
	}
	sim_step(s, m, &out);
	for (i = 0; i < out.n; i++) {
		if (out.v[i].type == ACT_LAND) /* the caller holds the lock */
			s->version[sim_at(s, m->dst, m->object)] = e->data;
		if (out.v[i].type == ACT_FETCH)
			fetch(s, &out.v[i]);
	}
	if (m->type == MSG_GRANT && m->flags & MSGF_PUSH)
		push(s, m);
	if (m->type != MSG_RELEASE) /* no thread here waits for the answer */
		sim_carry_out(s, m->dst, m->object, &out, e->data);
}

static void async_used(struct sim *s, uint16_t node, uint16_t slot)
{
	uint32_t *block = &s->async_block[(size_t)node * s->async + slot - s->o.threads];

	sim_local(s, node, *block - 1, PE_USED, slot);
	*block = 0;
}

/* The message has arrived. The receiver takes it when it has finished earlier ones. */
static void arrive(struct sim *s, struct event *e)
{
	if (!s->o.net || e->thread || e->msg.src == e->msg.dst) {
		deliver(s, e);
		return;
	}
	e->thread = 1;
	sim_schedule(s, e, loggp_receive(s, e->msg.dst, bytes_of(s, &e->msg)));
}

void sim_run(struct sim *s)
{
	while (s->nheap && !s->stop) {
		struct event e = sim_next(s);

		s->now = e.at;
		s->st.events++;
		switch ((enum kind)e.kind) {
		case EV_MSG: arrive(s, &e); break;
		case EV_ACTIONS:
			carry_on(s, e.node, e.msg.object, e.rest, e.from, e.data);
			free(e.rest);
			break;
		case EV_THREAD:
			if (e.thread >= s->o.threads) {
				async_used(s, e.node, e.thread);
				break;
			}
			sim_thread(s, e.node, e.thread)->scheduled = 0;
			thread_run(s, e.node, e.thread);
			break;
		case EV_TIMER: sim_local(s, e.node, e.msg.object, PE_REPLAY, s->nslots); break;
		case EV_TIMEOUT: sync_timeout(s, e.node, e.thread, e.data); break;
		}
	}
}

/* ---- at rest ---------------------------------------------------------------------------------- */

static void check_copy(struct sim *s, uint32_t b, uint16_t home, const struct dir *d, uint16_t r)
{
	const struct copy *p = &s->pages[sim_at(s, r, b)];
	bool owner = (d->state == DIR_SHARED || d->state == DIR_EXCLUSIVE) && d->owner == r;

	if (p->state != PG_INVALID && p->state != PG_READ && p->state != PG_WRITE)
		sim_fail(s, b, "in the end node %u block %u is %s", r, b, page_state_name(p->state));
	if (p->held || p->pins_read || p->pins_write)
		sim_fail(s, b, "in the end node %u block %u is held or pinned", r, b);
	if (owner != !!(p->flags & PAGE_OWNER))
		sim_fail(s, b, "in the end node %u and the directory disagree on who owns block %u", r, b);
	if (owner && p->state != (d->state == DIR_EXCLUSIVE ? PG_WRITE : PG_READ))
		sim_fail(s, b, "in the end block %u is %s, but its owner has %s", b, dir_state_name(d->state),
			 page_state_name(p->state));
	if (p->state != PG_INVALID &&
	    (!set_has(d->copyset, r, set_granule((uint16_t)s->o.nodes)) || (d->state == DIR_EXCLUSIVE && !owner)))
		sim_fail(s, b, "in the end node %u has a copy of block %u that the directory does not know", r, b);
	if (p->home && p->home != home + 1 && p->state != PG_INVALID)
		sim_fail(s, b, "in the end node %u takes %u for the home of block %u", r, p->home - 1, b);
}

void sim_check_rest(struct sim *s)
{
	uint32_t b;
	uint16_t r, home;
	unsigned int t;

	for (r = 0; r < s->o.nodes; r++)
		for (t = 0; t < s->o.threads; t++) {
			const struct thread *th = sim_thread(s, r, t);

			if (th->pc != PC_DONE)
				sim_fail(s,
					 th->op < OP_LOCK               ? th->block
						 : th->op == OP_BARRIER ? OBJECT
									: (uint32_t)sim_made(s, th)->name,
					 "nothing happens any more, but thread %u.%u is not done: pc %u op %u", r, t,
					 th->pc, th->op);
		}
	for (b = 0; b < s->o.blocks; b++) {
		const struct dir *d = &s->dirs[sim_at(s, sim_manager(s, b), b)];

		home = d->state == DIR_MOVED ? d->owner : sim_manager(s, b);
		if (!dir_quiet(d) || d->tail)
			sim_fail(s, b, "in the end the manager of block %u is busy", b);
		d = &s->dirs[sim_at(s, home, b)];
		if (!dir_quiet(d) || d->tail)
			sim_fail(s, b, "in the end the home of block %u is busy", b);
		for (r = 0; r < s->o.nodes; r++)
			check_copy(s, b, home, d, r);
	}
	sync_check_rest(s);
}

/* ---- creation --------------------------------------------------------------------------------- */

struct sim *sim_create(const struct options *o)
{
	size_t n = (size_t)o->nodes * o->blocks, t = (size_t)o->nodes * o->threads;
	struct sim *s = zeroed(1, sizeof(*s));
	unsigned int i;

	s->o = *o;
	s->rng = o->seed * 0x9e3779b97f4a7c15ULL | 1;
	for (i = 0; i < 8; i++)
		sim_random(s, 0);
	s->async = o->async ? o->async : ASYNC;
	s->nobjects = o->objects ? o->objects : OBJECTS;
	s->nholds = o->replay ? s->nobjects : o->threads;
	s->nslots = (uint16_t)(o->threads + s->async);
	s->loggp = o->net ? loggp_create(o->nodes) : NULL;
	s->pages = zeroed(n, sizeof(*s->pages));
	s->dirs = zeroed(n, sizeof(*s->dirs));
	s->hw = zeroed(n, 1);
	s->version = zeroed(n, sizeof(*s->version));
	s->leaves = zeroed(n, sizeof(*s->leaves));
	s->nodes = zeroed((size_t)o->nodes * o->nodes * s->nslots, sizeof(*s->nodes));
	s->asks = zeroed((size_t)o->nodes * s->nslots, sizeof(*s->asks));
	s->slots = zeroed((size_t)o->nodes * s->nslots, 1);
	s->async_block = zeroed((size_t)o->nodes * s->async, sizeof(*s->async_block));
	s->last = o->fifo ? zeroed((size_t)o->nodes * o->nodes, sizeof(*s->last)) : NULL;
	s->threads = zeroed(t, sizeof(*s->threads));
	s->holds = zeroed((size_t)o->nodes * s->nholds, sizeof(*s->holds));
	s->bars = zeroed(o->nodes, sizeof(*s->bars));
	s->trees = zeroed(o->nodes, sizeof(*s->trees));
	s->newest = zeroed(o->blocks, sizeof(*s->newest));
	s->readers = zeroed(o->blocks, sizeof(*s->readers));
	s->writers = zeroed(o->blocks, sizeof(*s->writers));
	s->arrived = zeroed(o->ops + 1, sizeof(*s->arrived));
	s->trace = zeroed(TRACE, sizeof(*s->trace));
	for (i = 0; i < n; i++)
		s->version[i] = NO_VERSION;
	for (i = 0; i < o->nodes; i++)
		bar_tree(0, (uint16_t)o->nodes, (uint16_t)i, &s->trees[i]);
	objects_create(s);
	return s;
}

void sim_destroy(struct sim *s)
{
	void *all[] = { s->heap,        s->pages,   s->dirs,    s->hw,      s->version, s->nodes, s->slots,
			s->async_block, s->asks,    s->last,    s->threads, s->holds,   s->bars,  s->trees,
			s->newest,      s->readers, s->writers, s->arrived, s->trace,   s->loggp, s->leaves };
	size_t i;

	for (i = 0; i < s->nheap; i++)
		free(s->heap[i].rest);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	objects_destroy(s);
	free(s);
}
