// SPDX-License-Identifier: BSD-2-Clause
/*
 * run.c - carries the core's actions out.
 *
 * A message for this node is an item in the thread's own queue: the thread that caused it steps the receiver, and nobody is
 * woken. A message for another node goes to the transport.
 *
 * Everything here runs on any thread, also inside the fault handler.
 */
#include "engine/run.h"

#include <string.h>

#include "engine/block.h"
#include "engine/job.h"
#include "engine/lost.h"
#include "engine/memory.h"
#include "engine/sharing.h"
#include "engine/slot.h"
#include "engine/step.h"
#include "engine/work.h"
#include "fault/fault.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

static void peer_failed(uint16_t rank, int err)
{
	if (err == -ESRCH)
		lost_rank(rank, "its process is gone");
	lost_connection(rank, err);
}

/* Locks, objects, barriers; the parts of collectives are counted where they are sent, in chunk.c. */
static bool may_wake(uint8_t type)
{
	return type >= MSG_LOCK && type <= MSG_DEPART;
}

static void route(const struct msg *m)
{
	int err;

	if (ask_is(m->type) && m->src == job.node)
		ask_note(&job.me->slots[m->req_slot].ask, m);
	if (m->dst == job.node) {
		work_push(m);
		return;
	}
	count(&job.mine->stats.messages_out, 1);
	if (may_wake(m->type))
		count(&job.mine->sync_out, 1);
	err = job.netops->send(job.net, job.pair[m->dst], m, NULL, 0);
	if (err)
		peer_failed(job.pair[m->dst], err);
}

static struct region_stats *stats_of(uint32_t object)
{
	struct dsm_region *r = region_at(block_off(object));

	return &job.mine->region_stats[r ? r->id : 0];
}

static void blame(uint16_t node)
{
	if (node != job.node)
		job.netops->drop(job.net, job.pair[node]);
	lost_rank(job.first[node], "it broke the protocol");
}

#define STRAYS_SAID 8 /* more say nothing new */

/* -ESTALE: of no use, and nobody's fault that could be known (core/dispatch.h). */
static void bad(const struct msg *m, int err)
{
	static uint32_t strays;

	if (err != -ESTALE) {
		log_line("node %d sent %s for object %#x, which no correct node could", m->src, wire_name(m->type),
			 m->object);
		blame(m->src);
	} else if (__atomic_fetch_add(&strays, 1, __ATOMIC_RELAXED) < STRAYS_SAID) {
		log_line("node %d sent %s for object %#x, which was not asked for: ignored", m->src, wire_name(m->type),
			 m->object);
	}
}

static void protect_failed(int err)
{
	log_line("shared blocks cannot be mapped: %s", dsm_strerror(err));
	lost_abort(70, "out of memory for shared blocks");
}

static void open_block(const struct action *a, const struct msg *m, const void *data)
{
	size_t off = block_off(m->object), len = block_bytes(m->object);
	unsigned int who = job.me->slots[m->req_slot].by;
	int err = 0;
	char *landed;

	switch ((enum open_from)a->from) {
	case OPEN_DATA: err = job.fault->fill(who, off, len, data, a->prot); break;
	case OPEN_LANDED:
		landed = memory_stage(m->req_slot, len);
		err = job.fault->fill(who, off, len, landed, a->prot);
		memory_unstage(m->req_slot, landed, len, true);
		break;
	case OPEN_UPGRADE: err = job.fault->raise(who, off, len); break;
	case OPEN_ZERO: err = job.fault->zero(who, off, len); break;
	case OPEN_AGAIN: /* done under the lock by run_page() */ break;
	}
	if (err)
		protect_failed(err);
}

static void arrived(const struct msg *m, const struct action *a)
{
	struct region_stats *s = stats_of(m->object);

	if (a->from == OPEN_DATA || a->from == OPEN_LANDED) {
		count(&s->blocks_in, 1);
		count(&s->bytes_in, block_bytes(m->object));
	} else if (a->from == OPEN_ZERO) {
		count(&s->local_faults, 1);
	}
}

static void woken(const struct msg *m, const struct action *a)
{
	if (slot_woken(a->slot)) {
		slot_complete(a->slot, a->status, a->mask);
		return;
	}
	/* Nobody waits: the grant counts as used, and may be taken away at once. */
	run_page(PE_USED, &(struct msg){ .object = m->object, .src = job.node, .dst = job.node }, NULL, NULL);
	slot_complete(a->slot, 0, 0);
	slot_put(a->slot);
}

static void replied(const struct action *a)
{
	if (!slot_is_prefetch(a->slot))
		slot_complete(a->slot, a->status, a->mask);
	else if (a->prot)
		slot_put(a->slot); /* of MSG_RELEASE: nobody waits */
}

static void wake_barrier(struct bar *b)
{
	/* gen has moved; a full barrier, which pairs with the sleeper's count in be_patient(). */
	if (__atomic_fetch_add(&b->sleepers, 0, __ATOMIC_SEQ_CST))
		futex_wake(&b->gen, 1 << 30);
}

static void close_block(uint32_t object)
{
	int err;

	sharing_lost(object, false);
	err = job.fault->shut(block_off(object), block_bytes(object));
	if (err)
		protect_failed(err);
	count(&stats_of(object)->invalidations, 1);
}

static void carry_out(const struct actions *acts, const struct msg *m, const void *data)
{
	unsigned int i;

	for (i = 0; i < acts->n; i++) {
		const struct action *a = &acts->v[i];
		struct msg copy;
		struct item *it;
		uint16_t g = set_granule(job.nodes), r;

		switch ((enum act)a->type) {
		case ACT_SEND: route(&a->msg); break;
		case ACT_MCAST:
			copy = a->msg;
			for (r = set_next(a->mask, 0, job.nodes, g, a->msg.req_rank, a->except); r < job.nodes;
			     r = set_next(a->mask, (uint16_t)(r + 1), job.nodes, g, a->msg.req_rank, a->except)) {
				copy.dst = r;
				route(&copy);
			}
			break;
		case ACT_DATA:
			it = work_push(&a->msg);
			it->data = 1;
			it->prot = a->prot;
			it->from = a->from;
			break;
		case ACT_LAND: break; /* step_block() has */
		case ACT_OPEN:
			open_block(a, m, data);
			arrived(m, a);
			break;
		case ACT_CLOSE: close_block(m->object); break;
		case ACT_WAKE: woken(m, a); break;
		case ACT_WAIT: break; /* run_page() tells its caller */
		case ACT_TIMER: work_timer(m->object, a->at); break;
		case ACT_RESUME: work_push(&a->msg); break;
		case ACT_WAKE_ALL: wake_barrier(&job.mem.bars[m->object]); break;
		case ACT_REPLY: replied(a); break;
		case ACT_FETCH: /* a block that is placed here may stand behind pinned ones */
			block_start_prefetch(a->msg.object, a->prot == PROT_RW, a->msg.flags, a->msg.home,
					     a->msg.type == MSG_RELEASE ? SLOT_BACK : SLOT_AHEAD);
			break;
		case ACT_BLAME: blame(a->rank); break;
		}
	}
}

/* ---- one message ------------------------------------------------------------------------------ */

static void deliver(const struct msg *m, const void *payload, size_t size)
{
	struct actions acts;
	int err;

	HOOK("step");
	count(&job.mine->stats.steps, 1);
	err = step_message(m, payload, size, &acts);
	if (err)
		bad(m, err);
	else
		carry_out(&acts, m, payload);
	if (!err && m->type == MSG_ADOPT)
		count(&stats_of(m->object)->homes_in, 1);
}

/* ---- blocks on their way out ---------------------------------------------------------------------- */

/* Lower the protection of a block and send what it held. */
static void send_block(struct work *w, const struct item *it)
{
	struct region_stats *s = stats_of(it->m.object);
	size_t off = block_off(it->m.object), len = block_bytes(it->m.object);
	bool writable = it->from == PROT_RW;
	int err = 0;

	if (it->prot == PROT_CLOSED || writable)
		sharing_lost(it->m.object, writable);
	if (it->prot == PROT_CLOSED) {
		const int *pipe = pipe_get();

		err = job.fault->take(off, len, w->buffer, writable, pipe);
		pipe_put(pipe);
		count(&s->invalidations, 1);
	} else {
		if (writable) {
			err = job.fault->lower(off, len);
			count(&s->downgrades, 1);
		}
		if (!err)
			err = frames_read(off, len, w->buffer);
	}
	step_left(it->m.object);
	if (err)
		protect_failed(err);
	count(&s->blocks_out, 1);
	count(&s->bytes_out, len);
	count(&job.mine->stats.messages_out, 1);
	err = job.netops->send(job.net, job.pair[it->m.dst], &it->m, w->buffer, len);
	if (err)
		peer_failed(job.pair[it->m.dst], err);
}

/* ---- what the other files use --------------------------------------------------------------------- */

void run_work(void)
{
	struct work *w = work_mine();
	struct item it;

	if (w->running)
		return; /* the loop below, further up this thread's stack, will get to it */
	w->running = true;
	while (work_pop(&it)) {
		if (it.data)
			send_block(w, &it);
		else
			deliver(&it.m, NULL, 0);
	}
	w->running = false;
}

void run_send(const struct msg *m)
{
	struct msg copy = *m;

	copy.version = WIRE_VERSION;
	route(&copy);
	run_work();
}

int run_held(uint32_t index, enum hold_event ev, const struct msg *about)
{
	struct msg none = { .dst = job.node };
	struct actions acts;

	if (step_held(index, ev, about, &acts))
		return -EPERM;
	if (acts.n) {
		carry_out(&acts, &none, NULL);
		run_work();
	}
	return 0;
}

int run_gather(const struct msg *m, bool alone, struct msg *up)
{
	struct actions acts;
	int err = step_gather(m, alone, &acts), all = 0;
	unsigned int i;

	for (i = 0; !err && i < acts.n; i++) {
		if (acts.v[i].type == ACT_SEND) {
			*up = acts.v[i].msg;
			all = 1;
		} else {
			wake_barrier(&job.mem.bars[m->object]);
		}
	}
	return err ? err : all;
}

int run_arrive(const struct msg *m)
{
	struct actions acts;
	int err = step_bar(m, &acts);

	if (err)
		return err;
	carry_out(&acts, m, NULL);
	run_work();
	return 0;
}

void run_net(void *arg, const struct msg *m, const void *payload, size_t size)
{
	(void)arg;
	count(&job.mine->stats.messages_in, 1);
	lost_alive(m->src);
	if (wire_check(m, &job.limits) ||
	    (wire_class(m->type) <= CLASS_DATA && size != (m->type == MSG_DATA ? block_bytes(m->object) : 0))) {
		bad(m, -EBADMSG);
		return;
	}
	deliver(m, payload, size);
	run_work();
	if (may_wake(m->type) || m->type == MSG_CHUNK)
		count(&job.mine->sync_in, 1); /* after the wake-ups: deadlock.c */
	work_timers(true);
}

/* also: what goes with the event, under the stripe; NULL: nothing. */
static enum run_page page_event(enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq,
				void (*also)(void *), void *arg)
{
	struct page_ctx ctx = step_ctx();
	struct copy *p = &job.mem.pages[block_page(ask->object)];
	uint32_t *stripe = stripe_of(ask->object);
	struct actions acts;
	enum run_page result = RUN_ASKED;
	unsigned int i;
	int err;

	if (ev == PE_USED && !wait)
		ctx.hold_us = 0;
	word_lock(stripe);
	if (ev == PE_DROP && step_any_leaves(ask->object)) {
		word_unlock(stripe);
		return RUN_ASKED;
	}
	err = page_step(&ctx, p, ev, ask, &acts);
	for (i = 0; !err && i < acts.n; i++) {
		const struct action *a = &acts.v[i];

		if (a->type == ACT_OPEN && a->from == OPEN_AGAIN) {
			result = job.fault->again(block_off(ask->object), block_bytes(ask->object), a->prot) > 0
				? RUN_FOLLOWED
				: RUN_OPEN;
		} else if (a->type == ACT_WAIT && wait) {
			*wait = a->slot;
			*seq = __atomic_load_n(&job.me->slots[a->slot].seq, __ATOMIC_ACQUIRE);
		} else if (a->type == ACT_CLOSE && ev == PE_DROP) {
			/* A dropped copy goes while the lock is held: the next request may already be on its way. */
			job.fault->shut(block_off(ask->object), block_bytes(ask->object));
			acts.n = 0;
		}
	}
	if (!err)
		step_leaves(ask->object, &acts);
	if (also)
		also(arg);
	word_unlock(stripe);
	if (err) {
		log_line("block %#x is in state %s, which event %s does not fit", ask->object,
			 page_state_name(p->state), page_event_name(ev));
		lost_abort(70, "the protocol's state is damaged");
	}
	carry_out(&acts, ask, NULL);
	return result;
}

enum run_page run_page(enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq)
{
	return page_event(ev, ask, wait, seq, NULL, NULL);
}

void run_used(const struct msg *ask, void (*also)(void *), void *arg)
{
	uint16_t wait;
	uint32_t seq;

	page_event(PE_USED, ask, &wait, &seq, also, arg);
}
