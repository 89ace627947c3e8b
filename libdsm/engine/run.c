// SPDX-License-Identifier: BSD-2-Clause
/*
 * run.c - carries out the core's actions.
 *
 * A message for this node is an item in the thread's own queue: the thread that caused it steps the receiver, and no other thread
 * is woken. A message for another node goes to the transport.
 *
 * Everything here may run on any thread, also inside the fault handler.
 */
#include "engine/run.h"

#include <string.h>

#include "engine/block.h"
#include "engine/job.h"
#include "engine/lost.h"
#include "engine/memory.h"
#include "engine/push.h"
#include "engine/sharing.h"
#include "engine/slot.h"
#include "engine/step.h"
#include "engine/wait.h"
#include "engine/work.h"
#include "fault/fault.h"
#include "fault/frames.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/hook.h"
#include "util/log.h"

static void send_failed(uint16_t rank, int err)
{
	if (err == -ESRCH)
		lost_rank(rank, "its process is gone");
	lost_connection(rank, err);
}

/* Counts messages of locks, objects and barriers; chunk.c counts those of collectives when it sends them. */
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
		work_push(WORK_STEP, m);
		return;
	}
	count(&job.mine->stats.messages_out, 1);
	if (may_wake(m->type))
		count(&job.mine->sync_out, 1);
	err = job.netops->send(job.net, job.pair[m->dst], m, NULL, 0);
	if (err)
		send_failed(job.pair[m->dst], err);
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

#define STRAYS_SAID 8 /* more messages would say nothing new */

void run_refuse(const struct msg *m, int err)
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
	case OPEN_AGAIN: /* run_page() does it under the lock */ break;
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
	if (slot_has_quit(a->slot)) {
		work_push(WORK_PASS, &(struct msg){ .req_slot = a->slot, .count = a->status });
		return;
	}
	/* No thread waits: the grant counts as used, and the block may be taken away at once. */
	run_page(PE_USED, &(struct msg){ .object = m->object, .src = job.node, .dst = job.node }, NULL, NULL);
	slot_complete(a->slot, 0, 0);
	slot_put(a->slot);
}

static void replied(const struct action *a)
{
	if (!slot_is_prefetch(a->slot)) {
		slot_complete(a->slot, a->status, a->mask);
	} else if (a->prot) { /* of MSG_RELEASE: no thread waits for its status */
		slot_complete(a->slot, 0, 0);
		slot_put(a->slot);
	}
}

static void wake_barrier(struct bar *b)
{
	wait_wake(&b->gen, &b->sleepers);
}

/* a->from is what this node gives up, a->prot what it keeps. */
static enum work_kind leaves_as(const struct action *a)
{
	if (a->prot == PROT_CLOSED)
		return a->from == PROT_RW ? WORK_TAKE_RW : WORK_TAKE_RO;
	return a->from == PROT_RW ? WORK_LOWER : WORK_COPY;
}

static void carry_out(const struct actions *acts, const struct msg *m, const void *data)
{
	unsigned int i;

	for (i = 0; i < acts->n; i++) {
		const struct action *a = &acts->v[i];
		struct msg copy;
		uint16_t g = set_granule(job.nodes), r;

		switch ((enum act)a->type) {
		case ACT_SEND: route(&a->msg); break;
		case ACT_MCAST:
			copy = a->msg;
			for (r = set_next(a->mask, 0, job.nodes, g, a->msg.req_node, a->except); r < job.nodes;
			     r = set_next(a->mask, (uint16_t)(r + 1), job.nodes, g, a->msg.req_node, a->except)) {
				copy.dst = r;
				route(&copy);
			}
			break;
		case ACT_DATA: work_push(leaves_as(a), &a->msg); break;
		case ACT_LAND: break; /* step_block() has */
		case ACT_OPEN:
			open_block(a, m, data);
			arrived(m, a);
			break;
		case ACT_CLOSE: work_push(WORK_DROP, &acts->v[++i].msg); break; /* its acknowledgement follows */
		case ACT_WAKE: woken(m, a); break;
		case ACT_WAIT: break; /* run_page() tells its caller */
		case ACT_TIMER: work_timer(m->object, a->at); break;
		case ACT_RESUME: work_push(WORK_STEP, &a->msg); break;
		case ACT_WAKE_ALL: wake_barrier(&job.mem.bars[m->object]); break;
		case ACT_REPLY: replied(a); break;
		case ACT_FETCH: /* a block that is placed here may have to wait for pinned ones */
			block_start_prefetch(a->msg.object, a->prot == PROT_RW, a->msg.flags, a->msg.home,
					     a->msg.type == MSG_RELEASE ? SLOT_BACK : SLOT_AHEAD);
			break;
		case ACT_BLAME: blame(a->node); break;
		}
	}
}

/* ---- one message ------------------------------------------------------------------------------ */

static void deliver(const struct msg *m, const void *payload, size_t size)
{
	struct actions acts;
	int err;

	HOOK(step);
	count(&job.mine->stats.steps, 1);
	err = step_message(m, payload, size, &acts);
	if (!err && m->type == MSG_GRANT && m->flags & MSGF_PUSH)
		push_note(m); /* before its thread is woken */
	if (err)
		run_refuse(m, err);
	else
		carry_out(&acts, m, payload);
	if (!err && m->type == MSG_ADOPT)
		count(&stats_of(m->object)->homes_in, 1);
}

/* ---- copies that leave this node: by run_work() alone, so that nothing here is entered twice -------- */

/* Lower the mappings of n neighbouring blocks. If copies are taken, the buffer then has their contents. */
static void close_run(struct work *w, const struct item *it, unsigned int n)
{
	const bool writable = it->kind == WORK_LOWER || it->kind == WORK_TAKE_RW;
	const size_t off = block_off(it->m.object), len = n * block_bytes(it->m.object);
	struct region_stats *s = stats_of(it->m.object);
	const int *pipe;
	unsigned int i;
	int err;

	for (i = 0; i < n; i++)
		sharing_lost(it[i].m.object, writable);
	if (it->kind == WORK_DROP) {
		err = job.fault->shut(off, len);
	} else if (it->kind == WORK_LOWER) {
		err = job.fault->lower(off, len);
	} else {
		pipe = pipe_get();
		err = job.fault->take(off, len, w->buffer, writable, pipe);
		pipe_put(pipe);
	}
	if (err)
		protect_failed(err);
	count(it->kind == WORK_LOWER ? &s->downgrades : &s->invalidations, n);
	count(&s->protect_calls, 1);
}

static void send_block(const struct msg *m, const void *contents)
{
	struct region_stats *s = stats_of(m->object);
	const size_t len = block_bytes(m->object);
	int err;

	step_left(m->object);
	count(&s->blocks_out, 1);
	count(&s->bytes_out, len);
	count(&job.mine->stats.messages_out, 1);
	err = job.netops->send(job.net, job.pair[m->dst], m, contents, len);
	if (err)
		send_failed(job.pair[m->dst], err);
}

static void send_copy(struct work *w, const struct msg *m)
{
	int err = frames_read(block_off(m->object), block_bytes(m->object), w->buffer);

	if (err)
		protect_failed(err);
	send_block(m, w->buffer);
}

/*
 * Lower neighbours first, in one call of the fault backend, then send their answers. No answer is sent before all mappings of its
 * block are lowered (core/map.h), and until then the protocol does nothing else with that block.
 */
static bool close_all(struct work *w)
{
	unsigned int at, i, n, all = w->closings;

	for (at = 0; at < all; at += n) {
		const struct item *it = &w->closing[at];

		n = work_run(it, all - at);
		close_run(w, it, n);
		for (i = 0; i < n; i++) {
			if (it->kind == WORK_DROP)
				route(&it[i].m);
			else if (it->kind == WORK_LOWER)
				send_copy(w, &it[i].m);
			else
				send_block(&it[i].m, w->buffer + i * block_bytes(it->m.object));
		}
	}
	w->closings = 0;
	return all;
}

/* On behalf of a thread that has given up (sync/lock.c): come if it is called, and release the lock if it gets it. */
static void pass_on(const struct msg *m)
{
	const uint32_t hold = slot_object(NULL, m->req_slot);
	const struct hold *h = &job.me->holds[hold];
	const struct msg about = {
		.dst = h->home, .object = h->object, .req_node = h->gen, .req_slot = m->req_slot, .aux = hold
	};

	if (m->count == -EAGAIN && !run_held(hold, HE_COME, &about))
		return; /* the lock comes next */
	if (!m->count)
		run_held(hold, HE_UNLOCK, NULL);
	slot_put(m->req_slot);
}

static void do_item(struct work *w, const struct item *it)
{
	switch ((enum work_kind)it->kind) {
	case WORK_STEP: deliver(&it->m, NULL, 0); break;
	case WORK_PASS: pass_on(&it->m); break;
	case WORK_COPY: send_copy(w, &it->m); break;
	case WORK_DROP:
	case WORK_LOWER:
	case WORK_TAKE_RO:
	case WORK_TAKE_RW:
		if (w->closings == WORK_CLOSINGS)
			close_all(w);
		work_closing(it);
		break;
	}
}

/* ---- what the other files use --------------------------------------------------------------------- */

void run_work(void)
{
	struct work *w = work_mine();
	struct item it;

	if (w->running)
		return; /* the loop below, further up this thread's stack, handles it */
	w->running = true;
	do {
		while (work_pop(&it))
			do_item(w, &it);
	} while (!w->more && close_all(w));
	w->running = false;
}

/* Nothing that belongs to the stored closings can follow any more. */
static void close_now(bool more)
{
	struct work *w = work_mine();

	w->more = false;
	if (w->closings)
		run_work();
	w->more = more;
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

int run_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen, struct msg *up)
{
	struct actions acts;
	int err = step_gather(m, alone, group, gen, &acts), all = 0;
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

int run_arrive(const struct msg *m, const struct bar_group *group, uint32_t *gen)
{
	struct actions acts;
	int err = step_bar(m, group, gen, &acts);

	if (err)
		return err;
	carry_out(&acts, m, NULL);
	run_work();
	return 0;
}

/* The home answers a release, then asks for the block. */
static bool is_of_blocks(const struct msg *m)
{
	return wire_class(m->type) == CLASS_COHERENCE || (m->type == MSG_REPLY && slot_is_block(m->req_slot));
}

void run_net(void *arg, const struct msg *m, const void *payload, size_t size)
{
	(void)arg;
	count(&job.mine->stats.messages_in, 1);
	lost_alive(m->src);
	if (wire_check(m, &job.limits) ||
	    (wire_class(m->type) <= CLASS_DATA && size != (m->type == MSG_DATA ? block_bytes(m->object) : 0))) {
		run_refuse(m, -EBADMSG);
		return;
	}
	if (!is_of_blocks(m))
		close_now(work_mine()->more);
	deliver(m, payload, size);
	run_work();
	if (may_wake(m->type) || m->type == MSG_CHUNK)
		count(&job.mine->sync_in, 1); /* after the wake-ups, as deadlock.c requires */
	work_timers(true);
}

int run_poll(unsigned int budget)
{
	struct work *w = work_mine();
	const bool before = w->more;
	int came;

	w->more = true;
	came = job.netops->poll(job.net, budget);
	close_now(before);
	return came;
}

static void damaged(uint32_t object, const struct copy *p, enum page_event ev)
{
	log_line("block %#x is in state %s, which event %s does not fit", object, page_state_name(p->state),
		 page_event_name(ev));
	lost_abort(70, "the protocol's state is damaged");
}

/* also: called with the event, under the stripe; may be NULL. */
static enum run_page page_event(enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq,
				void (*also)(void *), void *arg)
{
	struct page_ctx ctx = step_ctx();
	struct copy *p = &job.mem.pages[block_page(ask->object)];
	uint32_t *stripe = block_stripe(ask->object);
	struct actions acts;
	enum run_page result = RUN_ASKED;
	unsigned int i;
	int err;

	if (ev == PE_USED && !wait)
		ctx.hold_us = 0;
	word_lock(stripe);
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
		}
	}
	if (!err)
		step_leaves(ask->object, &acts);
	if (also)
		also(arg);
	word_unlock(stripe);
	if (err)
		damaged(ask->object, p, ev);
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

/* ---- copies that this node drops by itself ----------------------------------------------------------- */

/* In ascending order, so that threads that take several stripes do not wait for each other. */
static void each_stripe(const uint64_t *set, void (*fn)(uint32_t *))
{
	uint32_t w;
	uint64_t left;

	for (w = 0; w < CTL_STRIPES / 64; w++)
		for (left = set[w]; left; left &= left - 1)
			fn(&job.me->stripes[w * 64 + (uint32_t)__builtin_ctzll(left)]);
}

static bool drop(uint32_t object)
{
	const struct msg about = { .object = object, .src = job.node, .dst = job.node };
	struct copy *p = &job.mem.pages[block_page(object)];
	const struct page_ctx ctx = step_ctx();
	struct actions acts;

	if (step_any_leaves(object))
		return false;
	if (page_step(&ctx, p, PE_DROP, &about, &acts))
		damaged(object, p, PE_DROP);
	return acts.n;
}

static void close_dropped(size_t off, size_t end)
{
	int err;

	if (off == end)
		return;
	err = job.fault->shut(off, end - off);
	if (err)
		protect_failed(err);
	count(&stats_of(block_id(off, PAGE_BYTES))->protect_calls, 1);
}

void run_drop(size_t off, size_t block, unsigned int n)
{
	const size_t end = off + n * block;
	uint64_t stripes[CTL_STRIPES / 64] = { 0 }; /* one bit each, as several blocks may share a stripe */
	size_t at, from = off;                      /* [from, at) is dropped, and not closed yet */

	for (at = off; at < end; at += block) {
		const uint32_t i = stripe_index(block_page(block_id(at, block))); /* block_stripe() */

		stripes[i / 64] |= 1ull << i % 64;
	}
	each_stripe(stripes, word_lock);
	/* Close before the stripes are released: the next request for a block may already be on its way. */
	for (at = off; at < end; at += block)
		if (!drop(block_id(at, block))) {
			close_dropped(from, at);
			from = at + block;
		}
	close_dropped(from, end);
	each_stripe(stripes, word_unlock);
}
