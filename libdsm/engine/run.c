// SPDX-License-Identifier: BSD-2-Clause
/*
 * run.c - carries the core's actions out.
 *
 * A message for a rank of this host is an item in the thread's own queue: the thread that caused it steps the receiver in
 * shared memory, so a whole transaction between ranks of one host runs in the thread that needs it, and nobody is woken.
 * A message for another host goes to the transport, in the name of the rank whose object sent it.
 *
 * Everything here runs on any thread, also inside the fault handler.
 */
#include "engine/engine.h"

#include <string.h>

#include "engine/step.h"
#include "engine/work.h"
#include "util/futex.h"
#include "util/log.h"

static void peer_failed(uint16_t rank, int err)
{
	if (err == -ESRCH || err == -EPIPE)
		lost_rank(rank, "its process is gone");
	else
		lost_rank(rank, dsm_strerror(err));
}

static void route(const struct msg *m)
{
	int err;

	if (is_here(m->dst)) {
		work_push(m);
		return;
	}
	count(&job.me->stats.messages_out, 1);
	err = job.netops->send(job.net, m->dst, m, NULL, 0);
	if (err)
		peer_failed(m->dst, err);
}

static struct region_stats *stats_of(uint16_t rank, uint32_t object)
{
	struct dsm_region *r = region_at(block_off(object));

	return &peer_of(rank)->ctl->region_stats[r ? r->id : 0];
}

static void bad(const struct msg *m)
{
	log_line("rank %d sent %s for object %#x, which no correct rank could", m->src, wire_name(m->type), m->object);
	if (job.net && !is_here(m->src))
		job.netops->drop(job.net, m->src);
	lost_rank(m->src, "it broke the protocol");
}

static void protect_failed(uint16_t rank, int err)
{
	if (err == -ESRCH) {
		peer_failed(rank, err);
		return;
	}
	log_line("memory of rank %d cannot be mapped: %s", rank, dsm_strerror(err));
	lost_abort(70, "out of memory for shared blocks");
}

static void open_block(uint16_t rank, const struct action *a, const struct msg *m, const void *data)
{
	const struct frames *f = &peer_of(rank)->frames;
	size_t off = block_off(m->object), len = block_bytes(m->object);
	int err = 0;

	switch ((enum open_from)a->from) {
	case OPEN_DATA:
		err = job.fault->fill(f, off, len, data, a->prot);
		break;
	case OPEN_LANDED:
		err = job.fault->fill(f, off, len, stage_of(rank, m->req_slot), a->prot);
		break;
	case OPEN_UPGRADE:
		err = job.fault->raise(f, off, len);
		break;
	case OPEN_ZERO:
		err = job.fault->zero(f, off, len);
		break;
	case OPEN_AGAIN: /* done under the lock by run_page() */
		break;
	}
	if (err)
		protect_failed(rank, err);
}

static void arrived(uint16_t rank, const struct msg *m, const struct action *a)
{
	struct region_stats *s = stats_of(rank, m->object);

	if (a->from == OPEN_DATA || a->from == OPEN_LANDED) {
		count(&s->blocks_in, 1);
		count(&s->bytes_in, block_bytes(m->object));
	} else if (a->from == OPEN_ZERO) {
		count(&s->local_faults, 1);
	}
}

static void woken(uint16_t rank, const struct msg *m, const struct action *a)
{
	struct slot *s = &peer_of(rank)->ctl->slots[a->slot];

	if (!s->prefetch) {
		slot_complete(rank, a->slot, a->status, a->mask);
		return;
	}
	/* Nobody waits: the grant counts as used, and may be taken away at once. */
	run_page(rank, PE_USED, &(struct msg){ .object = m->object, .src = rank, .dst = rank }, NULL, NULL);
	slot_complete(rank, a->slot, 0, 0);
	slot_put(rank, a->slot);
}

static void resume(const struct action *a)
{
	/* Best by the thread that waits for it: it has time, and the one that is here has its block to use. */
	if (a->rank != SET_NOBODY && is_here(a->rank) && a->slot < CTL_SYNC_SLOTS)
		slot_turn(a->rank, a->slot, a->msg.dst, a->msg.object);
	else
		work_push(&a->msg);
}

static void wake_barrier(struct bar *b)
{
	/* gen has moved; a full barrier, which pairs with the sleeper's count in be_patient(). */
	if (__atomic_fetch_add(&b->sleepers, 0, __ATOMIC_SEQ_CST))
		futex_wake(&b->gen, 1 << 30);
}

static void carry_out(uint16_t rank, const struct actions *acts, const struct msg *m, const void *data)
{
	unsigned int i;

	for (i = 0; i < acts->n; i++) {
		const struct action *a = &acts->v[i];
		struct msg copy;
		struct item *it;
		uint16_t g = set_granule(job.size), r;

		switch ((enum act)a->type) {
		case ACT_SEND:
			route(&a->msg);
			break;
		case ACT_MCAST:
			copy = a->msg;
			for (r = set_next(a->mask, 0, job.size, g, a->msg.req_rank, a->except); r < job.size;
			     r = set_next(a->mask, (uint16_t)(r + 1), job.size, g, a->msg.req_rank, a->except)) {
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
		case ACT_LAND:
			break; /* step_page() has */
		case ACT_OPEN:
			open_block(rank, a, m, data);
			arrived(rank, m, a);
			break;
		case ACT_CLOSE:
			count(&stats_of(rank, m->object)->invalidations, 1);
			if (favour_shut(rank, block_off(m->object), block_bytes(m->object)))
				peer_failed(rank, -ESRCH);
			break;
		case ACT_WAKE:
			woken(rank, m, a);
			break;
		case ACT_WAIT:
			break; /* run_page() tells its caller */
		case ACT_TIMER:
			work_timer(rank, m->object, a->at);
			break;
		case ACT_RESUME:
			resume(a);
			break;
		case ACT_WAKE_ALL:
			wake_barrier(&peer_of(rank)->bars[m->object]);
			break;
		}
	}
}

/* ---- one message ------------------------------------------------------------------------------ */

static void deliver(const struct msg *m, const void *payload, size_t size)
{
	struct actions acts;

	acts.n = 0;
	count(&job.me->stats.steps, 1);
	if (step_message(m, payload, size, &acts))
		bad(m);
	else
		carry_out(m->dst, &acts, m, payload);
}

/* ---- blocks under way --------------------------------------------------------------------------- */

static bool follows(const struct item *a, const struct item *b)
{
	return b->data && b->m.src == a->m.src && b->m.dst == a->m.dst && b->prot == a->prot && b->from == a->from &&
	       block_bytes(a->m.object) == block_bytes(b->m.object) &&
	       block_off(b->m.object) == block_off(a->m.object) + block_bytes(a->m.object);
}

/* Lower the sender's protection over a run of blocks and take their contents. */
static void take_run(struct work *w, const struct item *first, size_t len)
{
	const struct frames *f = &peer_of(first->m.src)->frames;
	struct region_stats *s = stats_of(first->m.src, first->m.object);
	size_t off = block_off(first->m.object), n = len / block_bytes(first->m.object);
	bool writable = first->from == PROT_RW;
	int err = 0;

	if (first->prot == PROT_CLOSED) {
		err = favour_take(first->m.src, off, len, w->buffer, writable, w->pipe);
		count(&s->invalidations, n);
	} else {
		if (writable) {
			err = favour_lower(first->m.src, off, len);
			count(&s->downgrades, n);
		}
		if (!err)
			err = frames_read(f, off, len, w->buffer);
	}
	if (err)
		protect_failed(first->m.src, err);
	count(&s->blocks_out, n);
	count(&s->bytes_out, len);
}

/* Hand a run of blocks to a rank of this host: all steps first, then the contents of neighbours in one piece. */
static void give_run(struct work *w, const struct item *run, unsigned int n)
{
	uint16_t dst = run[0].m.dst;
	size_t each = block_bytes(run[0].m.object);
	unsigned int i, k, joined;
	int err;

	for (i = 0; i < n; i++) {
		w->batch[i].n = 0;
		if (step_page(&run[i].m, w->buffer + i * each, &w->batch[i])) {
			bad(&run[i].m);
			w->batch[i].n = 0;
		}
	}
	count(&job.me->stats.steps, n);
	for (i = 0; i < n; i += joined) {
		struct action *a = &w->batch[i].v[0];

		joined = 1;
		if (!w->batch[i].n || a->type != ACT_OPEN || a->from != OPEN_DATA) {
			carry_out(dst, &w->batch[i], &run[i].m, w->buffer + i * each);
			continue;
		}
		while (i + joined < n && w->batch[i + joined].n && w->batch[i + joined].v[0].type == ACT_OPEN &&
		       w->batch[i + joined].v[0].from == OPEN_DATA && w->batch[i + joined].v[0].prot == a->prot)
			joined++;
		err = job.fault->fill(&peer_of(dst)->frames, block_off(run[i].m.object), joined * each, w->buffer + i * each, a->prot);
		if (err)
			protect_failed(dst, err);
		for (k = i; k < i + joined; k++) {
			arrived(dst, &run[k].m, &w->batch[k].v[0]);
			w->batch[k].v[0].from = OPEN_AGAIN; /* it is open */
			carry_out(dst, &w->batch[k], &run[k].m, NULL);
		}
	}
}

static bool follows_inv(const struct item *a, const struct item *b)
{
	return !b->data && b->m.type == MSG_INV && b->m.dst == a->m.dst && b->m.req_rank == a->m.req_rank &&
	       block_bytes(a->m.object) == block_bytes(b->m.object) &&
	       block_off(b->m.object) == block_off(a->m.object) + block_bytes(a->m.object);
}

/* Neighbours that one writer takes away from one reader: all steps first, then one closing for all. */
static void drop_blocks(struct work *w, const struct item *first)
{
	struct item run[RUN_BLOCKS];
	size_t each = block_bytes(first->m.object);
	unsigned int n = 1, i, k, joined;

	run[0] = *first;
	while (n < RUN_BLOCKS && w->head != w->tail && follows_inv(&run[n - 1], &w->items[w->head % WORK_ITEMS]))
		run[n++] = w->items[w->head++ % WORK_ITEMS];
	count(&job.me->stats.steps, n);
	for (i = 0; i < n; i++)
		if (step_page(&run[i].m, NULL, &w->batch[i])) {
			bad(&run[i].m);
			w->batch[i].n = 0;
		}
	for (i = 0; i < n; i += joined) {
		for (joined = 0; i + joined < n && w->batch[i + joined].n && w->batch[i + joined].v[0].type == ACT_CLOSE; joined++)
			;
		if (joined) {
			count(&stats_of(first->m.dst, run[i].m.object)->invalidations, joined);
			if (favour_shut(first->m.dst, block_off(run[i].m.object), joined * each))
				peer_failed(first->m.dst, -ESRCH);
		}
		for (k = i; k < i + joined; k++) {
			w->batch[k].v[0].type = ACT_WAIT; /* done */
			carry_out(first->m.dst, &w->batch[k], &run[k].m, NULL);
		}
		if (!joined) {
			carry_out(first->m.dst, &w->batch[i], &run[i].m, NULL);
			joined = 1;
		}
	}
}

static void move_blocks(struct work *w, const struct item *first)
{
	struct item run[RUN_BLOCKS];
	size_t each = block_bytes(first->m.object);
	unsigned int n = 1;
	int err;

	run[0] = *first;
	while (n < RUN_BLOCKS && (n + 1) * each <= sizeof(w->buffer) && w->head != w->tail && is_here(first->m.dst) &&
	       follows(&run[n - 1], &w->items[w->head % WORK_ITEMS]))
		run[n++] = w->items[w->head++ % WORK_ITEMS];
	take_run(w, &run[0], n * each);
	if (is_here(first->m.dst)) {
		give_run(w, run, n);
		return;
	}
	count(&job.me->stats.messages_out, 1);
	err = job.netops->send(job.net, first->m.dst, &first->m, w->buffer, each);
	if (err)
		peer_failed(first->m.dst, err);
}

/* ---- what the other files use --------------------------------------------------------------------- */

void run_work(void)
{
	struct work *w = work_mine();

	if (w->running)
		return; /* the loop below, further up this thread's stack, will get to it */
	w->running = true;
	while (w->head != w->tail) {
		struct item it = w->items[w->head++ % WORK_ITEMS];

		if (it.data)
			move_blocks(w, &it);
		else if (it.m.type == MSG_INV)
			drop_blocks(w, &it);
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

void run_message(const struct msg *m, const void *payload, size_t size)
{
	deliver(m, payload, size);
	run_work();
}

int run_unlock(uint16_t index)
{
	struct msg none = { .dst = job.rank };
	struct actions acts;
	int err = step_unlock(index, &acts);

	if (err)
		return -EPERM;
	carry_out(job.rank, &acts, &none, NULL);
	run_work();
	return 0;
}

int run_arrive(const struct msg *m)
{
	struct actions acts;
	int err = step_bar(m, &acts);

	if (err)
		return err;
	carry_out(m->dst, &acts, m, NULL);
	run_work();
	return 0;
}

static bool block_ok(const struct msg *m)
{
	return m->object && block_bytes(m->object) <= BLOCK_MAX && block_off(m->object) + block_bytes(m->object) <= job.set.space &&
	       block_off(m->object) % block_bytes(m->object) == 0;
}

void run_net(void *arg, const struct msg *m, const void *payload, size_t size)
{
	(void)arg;
	count(&job.me->stats.messages_in, 1);
	lost_alive(m->src);
	if (wire_class(m->type) <= CLASS_DATA && (!block_ok(m) || size != (m->type == MSG_DATA ? block_bytes(m->object) : 0))) {
		bad(m);
		return;
	}
	run_message(m, payload, size);
	run_timers(true);
}

bool run_page(uint16_t rank, enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq)
{
	struct page_ctx ctx = step_ctx(rank);
	struct copy *p = &peer_of(rank)->pages[block_page(ask->object)];
	uint32_t *stripe = stripe_of(rank, ask->object);
	struct actions acts;
	bool open = false;
	unsigned int i;
	int err;

	if (ev == PE_USED && !wait)
		ctx.hold_us = 0;
	word_lock(stripe);
	err = page_step(&ctx, p, ev, ask, &acts);
	for (i = 0; !err && i < acts.n; i++) {
		const struct action *a = &acts.v[i];

		if (a->type == ACT_OPEN && a->from == OPEN_AGAIN) {
			open = true;
			if (rank == job.rank)
				job.fault->again(&job.peers[rank].frames, block_off(ask->object), block_bytes(ask->object), a->prot);
		} else if (a->type == ACT_WAIT && wait) {
			*wait = a->slot;
			*seq = __atomic_load_n(&peer_of(rank)->ctl->slots[a->slot].seq, __ATOMIC_ACQUIRE);
		} else if (a->type == ACT_CLOSE && ev == PE_DROP) {
			/* A dropped copy goes while the lock is held: the next request may already be on its way. */
			job.fault->shut(&peer_of(rank)->frames, block_off(ask->object), block_bytes(ask->object));
			acts.n = 0;
		}
	}
	word_unlock(stripe);
	if (err) {
		log_line("block %#x of rank %d is in state %s, which event %s does not fit", ask->object, rank,
			 page_state_name(p->state), page_event_name(ev));
		lost_abort(70, "the protocol's state is damaged");
	}
	carry_out(rank, &acts, ask, NULL);
	return open;
}
