// SPDX-License-Identifier: BSD-2-Clause
/*
 * world.c - the simulated world: channels, the events of a run, what must be true when nothing is
 * left to do.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "../model/show.h"

/* ---- messages -------------------------------------------------------------------------------- */

uint16_t sim_manager(const struct sim *s, uint32_t block)
{
	return (uint16_t)(block % s->o.nodes);
}

/* The size of a message with its payload. */
static unsigned int bytes_of(const struct sim *s, const struct msg *m, const struct load *load)
{
	size_t bytes = sizeof(*m);

	if (load)
		bytes += load->used;
	else if (m->type == MSG_DATA)
		bytes += s->o.replay ? replay_block_bytes(s->o.replay, m->object) : 4096;
	return (unsigned int)bytes;
}

/*
 * What a home tells itself of a brief read never leaves it: the same but for the field that would
 * not be allowed on the wire.
 */
static struct msg as_on_the_wire(const struct sim *s, const struct msg *m)
{
	struct msg wire = *m;

	if (m->src == m->dst && m->type == MSG_FWD_READ && m->count == 1)
		wire.count = 0;
	if (m->src == m->dst && m->type == MSG_DONE && m->req_node < s->o.nodes)
		wire.req_node = m->src;
	return wire;
}

void sim_check_sent(struct sim *s, const struct msg *m)
{
	const struct wire_limits lim = { .me = m->dst,
					 .nnodes = (uint16_t)s->o.nodes,
					 .host = HOST_BOTH,
					 .block_slots = s->nslots,
					 .slots = s->nslots,
					 .holds = s->nholds,
					 .barriers = UINT32_MAX,
					 .pages = s->o.blocks + s->o.release };
	const struct msg wire = as_on_the_wire(s, m);

	if (m->dst >= s->o.nodes)
		sim_fail(s, m->object, "%s is sent to node %u", wire_name(m->type), m->dst);
	if (m->type != MSG_RESUME && wire_check(&wire, &lim))
		sim_fail(s, m->object, "node %u sends a %s that wire_check() refuses", m->src,
			 wire_name(m->type));
	if (ask_is(m->type) && m->type != MSG_RELEASE)
		ask_note(&s->asks[(size_t)m->src * s->nslots + m->req_slot], m);
}

static bool slow(const struct sim *s, const struct msg *m)
{
	return s->o.slow && m->src != m->dst && (m->src * 7u + m->dst * 13u + s->o.seed) % 4 == 0;
}

void sim_send_load(struct sim *s, const struct msg *m, uint32_t data, struct load *load)
{
	struct event e = { .kind = EV_MSG, .node = m->dst, .data = data, .msg = *m, .load = load };
	/* Delays are similar, with an occasional long one. */
	uint64_t delay = 1 + sim_random(s, sim_random(s, 16) ? 20 : 400) + (slow(s, m) ? SLOW : 0);
	uint64_t *last;

	sim_check_sent(s, m);
	if (m->src != m->dst) {
		s->st.messages[m->type]++;
		s->st.total++;
	}
	if (s->o.unit_delay)
		delay = m->src == m->dst ? 0 : UNIT;
	else if (s->o.net)
		delay = m->src == m->dst ? 0 : loggp_send(s, m, bytes_of(s, m, load), &e.joined);
	s->st.carried += m->src != m->dst && !e.joined;
	if (s->o.fifo) {
		last = &s->last[(size_t)m->src * s->o.nodes + m->dst];
		if (s->now + delay < *last)
			delay = *last - s->now;
		*last = s->now + delay;
	}
	sim_schedule(s, &e, delay);
}

void sim_send(struct sim *s, const struct msg *m, uint32_t data)
{
	sim_send_load(s, m, data, NULL);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void deliver(struct sim *s, struct event *e)
{
	const struct msg *m = &e->msg;
	char text[80];
	uint32_t number;

	if (!s->o.replay)
		sim_note(s, m->dst,
			 dispatch_target(m, &number) == TARGET_CREATE ? OBJECT : m->object,
			 "takes %s", show_msg(m, text, sizeof(text)));
	if (!release_arrives(s, e))
		sim_deliver(s, m, e->data, e->load);
	load_free(e->load);
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
	sim_schedule(s, e, loggp_receive(s, e->msg.dst, bytes_of(s, &e->msg, e->load), e->joined));
}

void sim_run(struct sim *s)
{
	while (s->nheap && !s->stop) {
		struct event e = sim_next(s);

		s->now = e.at;
		s->st.events++;
		switch ((enum kind)e.kind) {
		case EV_MSG: arrive(s, &e); break;
		case EV_LOWER: sim_lower_late(s, &e); break;
		case EV_OPEN:
			sim_open_late(s, &e);
			free(e.rest);
			load_free(e.load);
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
		case EV_GATHER: release_gather(s, &e); break;
		case EV_MERGE: release_merge(s, &e); break;
		}
	}
}

/* ---- at rest --------------------------------------------------------------------------------- */

static void check_copy(struct sim *s, uint32_t b, uint16_t home, const struct dir *d, uint16_t r)
{
	const struct copy *p = &s->pages[sim_at(s, r, b)];
	bool owner = (d->state == DIR_SHARED || d->state == DIR_EXCLUSIVE) && d->owner == r;

	if (p->state != PG_INVALID && p->state != PG_READ && p->state != PG_WRITE)
		sim_fail(s, b, "in the end node %u block %u is %s", r, b,
			 page_state_name(p->state));
	if (p->held || p->pins_read || p->pins_write)
		sim_fail(s, b, "in the end node %u block %u is held or pinned", r, b);
	if (owner != !!(p->flags & PAGE_OWNER))
		sim_fail(s, b, "in the end node %u and the directory disagree on who owns block %u",
			 r, b);
	if (owner && p->state != (d->state == DIR_EXCLUSIVE ? PG_WRITE : PG_READ))
		sim_fail(s, b, "in the end block %u is %s, but its owner has %s", b,
			 dir_state_name(d->state), page_state_name(p->state));
	if (p->state != PG_INVALID &&
	    (!set_has(d->copyset, r, set_granule((uint16_t)s->o.nodes)) ||
	     (d->state == DIR_EXCLUSIVE && !owner)))
		sim_fail(
			s, b,
			"in the end node %u has a copy of block %u that the directory does not know",
			r, b);
	if (p->home && p->home != home + 1 && p->state != PG_INVALID)
		sim_fail(s, b, "in the end node %u takes %u for the home of block %u", r,
			 p->home - 1, b);
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
				sim_fail(
					s,
					th->op < OP_LOCK ? th->block
						: th->op == OP_BARRIER
						? OBJECT
						: (uint32_t)sim_made(s, th)->name,
					"nothing happens any more, but thread %u.%u is not done: pc %u op %u",
					r, t, th->pc, th->op);
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
	release_check_rest(s);
}

/* ---- creation -------------------------------------------------------------------------------- */

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
	s->nslots = (uint16_t)(o->threads + s->async + 1);
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
	release_create(s);
	return s;
}

void sim_destroy(struct sim *s)
{
	void *all[] = { s->heap,  s->pages,       s->dirs,   s->hw,      s->version, s->nodes,
			s->slots, s->async_block, s->asks,   s->last,    s->threads, s->holds,
			s->bars,  s->trees,       s->newest, s->readers, s->writers, s->arrived,
			s->trace, s->loggp,       s->leaves };
	size_t i;

	for (i = 0; i < s->nheap; i++) {
		free(s->heap[i].rest);
		load_free(s->heap[i].load);
	}
	release_destroy(s);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	objects_destroy(s);
	free(s);
}
