// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_world.c - a job of honest ranks and one faulty rank, with all its state: libFuzzer target.
 *
 * The input is a sequence of records. Each record is one event. A thread of an honest rank touches
 * a block, locks, arrives at a barrier, waits for a condition, a semaphore or a reader-writer lock,
 * with or without a time limit, cancels its wait, or creates or destroys an object. Or one of the
 * messages in flight is delivered. Or the faulty rank sends a message: the answer of a correct
 * rank, a received message with another type, or any message of the table of core/wire.h with
 * fields at and beyond their bounds. An input that reaches a deep state is kept, and extended.
 *
 * What must hold: no memory outside the world is accessed, and action lists stay within bounds. The
 * faulty rank takes part in a block or an object if it is its home, or if one of its requests for
 * it was accepted, or one of the answers that may come from any rank. For all other blocks and
 * objects, whatever the faulty rank has sent: contents are those of the last write, there is one
 * writer or there are readers, locks exclude each other, and a barrier ends when all have arrived.
 * No message of an honest rank is refused.
 *
 * At the end all messages are delivered. Then no thread waits for a block in which the faulty rank
 * does not take part, for the answer to a request that cannot block, or in the queue of a destroyed
 * object. Threads may still wait for a lock, a semaphore or a condition, or at a barrier, because
 * nobody may have released them. A thread that waits for a semaphore, a condition or a
 * reader-writer lock is in the queue of that object, and its wait ends when it is cancelled.
 *
 * Queues (line.c), whichever ranks take part in the object: only the first in the queue can be
 * woken. If it can be woken, it is woken at once or by MSG_RESUME. A signal counts one waiter that
 * no other signal has counted, if there is one; a broadcast counts all. Nobody is in a queue twice.
 * SOP_CANCEL removes a waiter from the queue, and loses no signal. A wait ends once.
 *
 * Objects have generations (core/objects.h). Honest ranks use and destroy the newest object in a
 * place and earlier ones, whose handles they all keep. A message that names a destroyed or missing
 * object changes nothing at its home, and is answered with an error (MSG_UNLOCK: as if the lock had
 * been passed on); nobody holds a lock by such a name. No name is given out twice. An object is
 * destroyed only if no honest rank holds it, keeps it, or waits in its queue. The faulty rank takes
 * part in one generation, not in a place: in objects that it has created, and in the living object
 * that one of its requests has named (also SOP_DESTROY), but not in later objects in the same
 * place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../wire_values.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct total {
	unsigned long records, messages, others, refused;
} total;
static bool aloud; /* every message */

struct input {
	const uint8_t *at, *end;
};

static uint8_t byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

/* ---- a message comes ------------------------------------------------------------------------ */

static bool about_block(uint8_t type)
{
	return wire_class(type) <= CLASS_DATA;
}

/*
 * Does the faulty rank take part in the object of the message? A message to a hold record or a slot
 * has 8 bits of the object's generation, and MSG_LOCKED does not always come from the home.
 */
static bool takes_part(uint16_t me, const struct msg *m)
{
	const uint16_t home = m->type == MSG_RECALL ? m->src : me;
	unsigned int at;

	if (about_block(m->type))
		return m->object >= BLOCKS || w->part[m->object];
	if (m->type == MSG_ARRIVE || m->type == MSG_DEPART)
		return false;
	if (wire_rule_of(m->type, WF_req_node) == RULE_GEN) {
		const int named = world_made(home, world_name(m->object, m->req_node));

		return named >= 0 && w->part_made[named];
	}
	for (at = 0; at < w->nmade; at++)
		if (w->part_made[at] && (uint32_t)w->made[at].name == m->object &&
		    (m->type == MSG_LOCKED || w->made[at].home == m->src))
			return true;
	return m->type == MSG_REPLY && m->object < BLOCKS && w->part[m->object];
}

static void joins_object(int at)
{
	if (at >= 0)
		w->part_made[at] = true;
}

/* A request. It does nothing to what is not there. */
static void joins_living(uint16_t home, const struct msg *m)
{
	const int at = world_made(home, world_name(m->object, m->req_node));

	joins_object(at >= 0 && w->made[at].alive ? at : -1);
}

/*
 * By a request; or by what may come from any rank, for only the home, or the manager, knows from
 * whom: a block, a grant, a lock.
 */
static void joins(uint16_t me, const struct msg *m)
{
	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
	case MSG_PLACE:
	case MSG_SETTLE:
	case MSG_CLAIM:
	case MSG_RELEASE:
	case MSG_GRANT:
	case MSG_DATA:
	case MSG_INV_ACK:
		if (m->object < BLOCKS)
			w->part[m->object] = true;
		break;
	case MSG_SYNC:
		if (m->op != SOP_CREATE) /* else world_make() */
			joins_living(me, m);
		break;
	case MSG_LOCK:
	case MSG_TRYLOCK:
	case MSG_UNLOCK:
	case MSG_RECALLED: joins_living(me, m); break;
	case MSG_LOCKED:
		if (m->aux < HOLDS) {
			const struct hold *h = &w->r[me].holds[m->aux];

			joins_object(world_made(h->home, world_name(h->object, h->gen)));
		}
		break;
	default: break;
	}
}

static struct wire_limits limits(uint16_t me)
{
	return (struct wire_limits){ .me = me,
				     .nnodes = RANKS,
				     .ranks = RANKS,
				     .host = HOST_LIBRARY,
				     .calls = 4,
				     .block_slots = BLOCK_SLOTS,
				     .slots = SLOTS,
				     .holds = HOLDS,
				     .barriers = BARRIERS,
				     .pages = BLOCKS };
}

/*
 * Does the slot of a request wait in me's line for a block in which the other rank takes part? It
 * has ended that request by an answer of its own, or made it; so this one is refused, though the
 * rank that asks is in good order, and is not answered.
 */
static bool in_line(uint16_t me, const struct msg *m)
{
	const struct qpool queue = { .entries = w->r[me].nodes, .nslots = BLOCK_SLOTS };
	const uint32_t node = queue_number(&queue, m->req_node, m->req_slot);
	unsigned int b;

	if (m->type != MSG_READ_REQ && m->type != MSG_WRITE_REQ)
		return false;
	for (b = 0; b < BLOCKS; b++) {
		const uint32_t tail = w->r[me].dirs[b].tail;

		if (w->part[b] && queue_position(&queue, tail, node) < queue_length(&queue, tail))
			return w->part[m->object] = true;
	}
	return false;
}

static void deliver(unsigned int i)
{
	struct letter l = w->way[i];
	const uint16_t me = l.m.dst;
	const struct wire_limits lim = limits(me);
	bool part[BLOCKS], part_made[MADE];
	int err;

	memmove(&w->way[i], &w->way[i + 1], (w->n - i - 1) * sizeof(l));
	w->n--;
	if (l.from == OTHER && w->r[me].cut)
		return;
	err = l.from == me ? 0 : l.m.src != l.from ? -EBADMSG : wire_check(&l.m, &lim);
	memcpy(part, w->part, sizeof(part));
	memcpy(part_made, w->part_made, sizeof(part_made));
	/*
	 * A lock in which it takes part may come to a record of another home's with as much of its
	 * name.
	 */
	if (!err && (l.from == OTHER || (l.m.type == MSG_LOCKED && takes_part(me, &l.m))))
		joins(me, &l.m);
	if (!err)
		err = world_dispatch(me, &l.m, l.data);
	if (err) { /* nothing has changed */
		memcpy(w->part, part, sizeof(part));
		memcpy(w->part_made, part_made, sizeof(part_made));
	}
	must(!err || err == -EBADMSG || err == -ESTALE);
	if (aloud) /* of one input, to see what it does */
		fprintf(stderr,
			"%s %u -> %u object %u req %u.%u home %u count %d aux %u value %llu: %d\n",
			wire_name(l.m.type), l.from, me, l.m.object, l.m.req_node, l.m.req_slot,
			l.m.home, l.m.count, l.m.aux, (unsigned long long)l.m.value, err);
	total.messages++;
	total.others += l.from == OTHER;
	total.refused += err && l.from == OTHER;
	if (err == -EBADMSG && l.from == OTHER)
		w->r[me].cut = true;
	else if (err && l.from != OTHER)
		must(takes_part(me, &l.m) || in_line(me, &l.m)); /* else an honest rank is blamed */
}

/* ---- honest ranks --------------------------------------------------------------------------- */

static void touch(uint16_t me, unsigned int thread, uint32_t block, bool write)
{
	struct rank *r = &w->r[me];
	struct slot *s = &r->slots[thread];

	if (s->busy && !s->woken)
		return;
	if (s->busy) { /* its block has come: use it */
		block = s->block - 1u;
		write = s->write;
		s->busy = s->woken = 0;
		world_local_page(me, block, PE_USED, thread);
	}
	if (r->prot[block] < (write ? PROT_RW : PROT_RO))
		world_local_page(me, block, write ? PE_WRITE : PE_READ, thread);
	if (r->prot[block] >= (write ? PROT_RW : PROT_RO))
		world_access(r, block, write);
}

static void give_back(uint16_t me, uint32_t block, uint8_t how)
{
	const struct copy *p = &w->r[me].pages[block];
	struct msg m = { .type = MSG_RELEASE,
			 .op = how & 1,
			 .src = me,
			 .object = block,
			 .req_node = me,
			 .aux = 1 };
	const unsigned int slot = ASYNC;

	if (how & 2) {
		world_local_page(me, block, PE_DROP, ASYNC);
	} else if (p->flags & PAGE_OWNER && p->home && p->home - 1 != me) {
		if (w->r[me].slots[slot].busy)
			return;
		m.dst = (uint16_t)(p->home - 1);
		m.req_slot = (uint16_t)slot;
		w->r[me].slots[slot] = (struct slot){ .busy = 1, .home = (uint8_t)block };
		ask_note(&w->r[me].asks[slot], &m);
		world_post(me, &m, 0);
	}
}

static void timer(uint16_t me, uint32_t block)
{
	if (w->r[me].timer[block]) {
		w->r[me].timer[block] = 0;
		w->now += 20;
		world_local_page(me, block, PE_REPLAY, ASYNC);
	}
}

/* A free slot of synchronisation, or SLOTS. */
static unsigned int sync_slot(struct rank *r)
{
	unsigned int s;

	for (s = BLOCK_SLOTS; s < SLOTS; s++) {
		if (r->slots[s].woken)
			r->slots[s] = (struct slot){ 0 };
		if (!r->slots[s].busy)
			break;
	}
	return s;
}

/*
 * A handle: of the newest object in a place, or of one before it. -1: the honest ranks have none.
 */
static int handle(struct input *in)
{
	static const uint8_t before[] = { 0, 0, 1, 2 };
	const uint8_t a = byte(in);
	const int at = world_newest(a % HONEST, 1u + (a >> 2) % (OBJECTS - 1), before[a >> 6]);

	return at >= 0 && w->made[at].known ? at : -1;
}

static void lock(uint16_t me, unsigned int index, int at, uint8_t how)
{
	struct rank *r = &w->r[me];
	const struct hold_ctx ctx = { .me = me };
	struct hold *h = &r->holds[index];
	struct msg m = { .type = how & 1 ? MSG_TRYLOCK : MSG_LOCK, .src = me, .aux = index };
	unsigned int slot = sync_slot(r);
	struct actions out;

	if (h->state == HOLD_FREE && slot < SLOTS && at >= 0 && w->made[at].kind == SYNC_MUTEX) {
		object_address(&m, w->made[at].name);
		r->slots[slot] = (struct slot){ .busy = 1, .op = SYNC_OPS };
		m.dst = w->made[at].home;
		m.req_slot = (uint16_t)slot;
		hold_begin(h, &m);
		world_post(me, &m, 0);
	} else if (h->state == HOLD_HELD || h->state == HOLD_HELD_NEXT) {
		must(!hold_thread(&ctx, index, h, HE_UNLOCK, NULL, &out));
		world_carry_out(me, 0, &out, 0);
	} else if (h->state == HOLD_CACHED) {
		must(!hold_thread(&ctx, index, h, how & 2 ? HE_TAKE : HE_GIVE, NULL, &out));
		world_carry_out(me, 0, &out, 0);
	}
}

/* In a free slot; s says what comes of the answer. */
static void ask(uint16_t me, unsigned int slot, struct msg *m, const struct slot *s)
{
	struct rank *r = &w->r[me];

	m->src = me;
	m->req_slot = (uint16_t)slot;
	r->slots[slot] = *s;
	r->slots[slot].busy = 1;
	r->slots[slot].op = m->op;
	r->slots[slot].flags = m->flags;
	ask_note(&r->asks[slot], m);
	world_post(me, m, 0);
}

static void synchronise(uint16_t me, int at, uint8_t op)
{
	static const uint8_t
		first[SYNC_KINDS] = { [SYNC_SEM] = SOP_WAIT,
				      [SYNC_COND] = SOP_ENQUEUE,
				      [SYNC_ATOMIC] = SOP_LOAD },
		n[SYNC_KINDS] = {
			[SYNC_RWLOCK] = 1, [SYNC_SEM] = 3, [SYNC_COND] = 3, [SYNC_ATOMIC] = 4
		};
	struct rank *r = &w->r[me];
	unsigned int slot = sync_slot(r);
	struct msg m = { .type = MSG_SYNC, .value = 1 };
	struct slot s = { 0 };
	uint8_t kind;

	if (slot == SLOTS || at < 0)
		return;
	kind = w->made[at].kind;
	if (!n[kind] || (kind == SYNC_RWLOCK && r->rw[at] == 3))
		return;
	object_address(&m, w->made[at].name);
	m.dst = w->made[at].home;
	m.op = (uint8_t)(first[kind] + op % n[kind]);
	s.made = (uint8_t)(at + 1);
	if (kind == SYNC_COND && op & 4) {
		m.op = SOP_MEET;
		m.value = 2;
	}
	if (kind == SYNC_RWLOCK && r->rw[at]) { /* nobody gives back what he has not got */
		m.op = r->rw[at] == 1 ? SOP_RDUNLOCK : SOP_WRUNLOCK;
		r->rw[at] = 0;
	} else if (kind == SYNC_RWLOCK) {
		m.op = (uint8_t)(op & 1           ? (op & 2 ? SOP_TRYRDLOCK : SOP_RDLOCK)
					 : op & 2 ? SOP_TRYWRLOCK
						  : SOP_WRLOCK);
		s.gets = op & 1 ? 1 : 2;
		r->rw[at] = 3;
	}
	if (op & 8 && sync_waits(m.op) && m.op != SOP_ENQUEUE)
		m.flags = MSGF_TIMED;
	ask(me, slot, &m, &s);
}

/*
 * A wait is taken back, as libdsm/sync/cancel.c does: when one of two answers has come, once;
 * without "in line" at any time, and again as long as the home has not had the request.
 */
static void take_back(uint16_t me, unsigned int slot)
{
	struct rank *r = &w->r[me];
	struct slot *s = &r->slots[slot];
	const bool twice = sync_twice(s->op, s->flags);
	struct msg m = {
		.type = MSG_SYNC, .op = SOP_CANCEL, .src = me, .req_slot = (uint16_t)slot
	};

	if (!s->busy || s->woken || !s->made || !sync_waits(s->op) || s->cancels)
		return;
	if (twice ? !s->told || s->told & TOLD_LATE : s->told & ~TOLD_LATE)
		return;
	object_address(&m, w->made[s->made - 1].name);
	m.dst = w->made[s->made - 1].home;
	s->cancels = true;
	ask_note(&r->asks[slot], &m);
	world_post(me, &m, 0);
}

static void create(uint16_t me, uint16_t home, uint8_t kind)
{
	static const uint8_t kinds[] = { SYNC_MUTEX, SYNC_RWLOCK, SYNC_SEM, SYNC_COND,
					 SYNC_ATOMIC };
	const unsigned int slot = sync_slot(&w->r[me]);
	struct msg m = {
		.type = MSG_SYNC, .op = SOP_CREATE, .dst = home, .aux = kinds[kind % sizeof(kinds)]
	};

	m.value = m.aux == SYNC_SEM;
	if (slot < SLOTS)
		ask(me, slot, &m, &(struct slot){ .home = (uint8_t)home });
}

static void destroy(uint16_t me, int at)
{
	const unsigned int slot = sync_slot(&w->r[me]);
	struct msg m = { .type = MSG_SYNC, .op = SOP_DESTROY };

	if (slot == SLOTS || at < 0)
		return;
	object_address(&m, w->made[at].name);
	m.dst = w->made[at].home;
	ask(me, slot, &m, &(struct slot){ .made = (uint8_t)(at + 1) });
}

/* Generation of the second barrier; the other rank may send those before and after it. */
#define LIFE 2

static void arrive(uint16_t me, uint8_t object)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_ARRIVE,
			 .src = me,
			 .dst = me,
			 .req_node = me,
			 .object = object,
			 .aux = 1,
			 .value = me };
	struct rank *r = &w->r[me];

	if (r->bars[object].threads)
		return; /* it waits there */
	bar_set_life(&m, object * LIFE);
	r->came[object] = r->bars[object].gen + 1;
	must(!world_dispatch(me, &m, 0));
}

/* ---- the other rank ------------------------------------------------------------------------- */

static void say(struct msg *m, uint16_t to)
{
	struct letter *l = &w->way[w->n];

	if (w->n >= UNDER_WAY / 4 || w->r[to].cut)
		return;
	*l = (struct letter){ .m = *m, .from = OTHER, .data = 0xdead };
	l->m.dst = to;
	w->n++;
}

/* What a rank in good order changes in a message that it answers. */
static const struct reply {
	uint8_t type; /* MSG_NONE: as the request */
	bool clears_op, clears_value, sets_home;
	uint16_t home;
} replies[MSG_TYPES] = {
	[MSG_INV] = { MSG_INV_ACK, false, false, true, 0 },
	[MSG_GRANT] = { MSG_DONE, true, true, true, 0 },
	[MSG_DATA] = { MSG_DONE, true, true, true, 0 },
	[MSG_HOME] = { MSG_HOME_ACK, true, false, true, OTHER },
	[MSG_ADOPT] = { MSG_HOME_ACK, false, true, true, OTHER },
	[MSG_MOVE] = { MSG_MOVE_ACK, false, true, true, 0 },
	[MSG_LOCK] = { .type = MSG_LOCKED },
	[MSG_TRYLOCK] = { .type = MSG_LOCKED },
	[MSG_UNLOCK] = { .type = MSG_FREED },
	[MSG_RECALLED] = { .type = MSG_FREED },
	[MSG_RECALL] = { .type = MSG_RECALLED },
};

/* The answer to a message that asks for a block, or takes one away; `how` chooses between two. */
static void answer_block(const struct msg *to, bool how, struct msg *m)
{
	if (to->type == MSG_READ_REQ || to->type == MSG_WRITE_REQ) {
		m->type = how ? MSG_GRANT : MSG_DATA;
		m->flags = how ? MSGF_ZERO : 0;
		m->op = how || to->type == MSG_WRITE_REQ ? GRANT_WRITE : GRANT_READ;
		m->home = OTHER;
	} else if (to->type == MSG_FWD_MIGRATE && how) {
		m->type = MSG_KEPT;
		m->home = 0;
	} else {
		m->type = MSG_DATA;
		m->op = to->type == MSG_FWD_READ ? GRANT_READ : GRANT_WRITE;
	}
}

/* What a rank in good order would say to what has come, more or less. */
static void answer(const struct msg *to, uint8_t how)
{
	const struct reply *r = &replies[to->type < MSG_TYPES ? to->type : MSG_NONE];
	uint16_t dst = to->src < HONEST ? to->src : 0;
	struct msg m = *to;

	m.src = m.dst = OTHER;
	m.version = WIRE_VERSION;
	m.flags = 0;
	switch (to->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
	case MSG_FWD_READ:
	case MSG_FWD_WRITE:
	case MSG_FWD_MIGRATE: answer_block(to, how & 1, &m); break;
	case MSG_SYNC:
		m = (struct msg){ .version = WIRE_VERSION,
				  .type = MSG_REPLY,
				  .src = OTHER,
				  .object = to->object,
				  .req_slot = to->req_slot };
		break;
	default:
		m.type = r->type ? r->type : to->type;
		m.op = r->clears_op ? 0 : m.op;
		m.value = r->clears_value ? 0 : m.value;
		m.home = r->sets_home ? r->home : m.home;
		m.count = r->type == MSG_DONE ? 0 : m.count;
	}
	m.req_node = r->type == MSG_DONE || r->type == MSG_HOME_ACK ? OTHER
		: to->type == MSG_MOVE                              ? to->src
								    : to->req_node;
	if (m.type == MSG_INV_ACK ||
	    (m.type == MSG_DATA && to->type != MSG_READ_REQ && to->type != MSG_WRITE_REQ))
		dst = (uint16_t)(to->req_node % HONEST);
	say(&m, dst);
}

/*
 * The object of a message: what its receiver has, had, or may have next; for a hold record, what
 * that is about.
 */
static void name_object(struct msg *m, uint16_t to, uint8_t object, bool other)
{
	const uint32_t index = object % OBJECTS;
	uint64_t name = object_name(index, 1);
	int at = world_newest(to, index, other && !(object & 32));

	if (at >= 0)
		name = w->made[at].name + (other && object & 32 ? object_name(0, 1) : 0);
	if (m->type == MSG_NEXT || m->type == MSG_LOCKED || m->type == MSG_FREED ||
	    m->type == MSG_RECALL) {
		const struct hold *h = &w->r[to].holds[m->aux];

		name = world_name(h->object, h->gen);
	}
	m->object = (uint32_t)name;
	if (wire_rule_of(m->type, WF_req_node) == RULE_GEN)
		m->req_node = (uint16_t)(name >> 32);
}

static void attack(struct input *in)
{
	const uint8_t how = byte(in), type = byte(in), object = byte(in);
	const uint16_t to = how % HONEST;
	const struct wire_limits lim = limits(to);
	int64_t values[WIRE_VALUES_MAX];
	unsigned int i, n;
	struct msg m;

	if (how & 64 && w->nseen) {
		m = w->seen[object % (w->nseen < SEEN ? w->nseen : SEEN)];
		if (how & 128) {
			answer(&m, type);
			return;
		}
		m.type = type % MSG_TYPES;
		m.src = OTHER;
		m.version = WIRE_VERSION;
	} else {
		m = wire_good(type % MSG_TYPES, OTHER, &lim);
		if (m.type == MSG_SYNC && type / MSG_TYPES) { /* not to create one */
			const uint8_t op = byte(in);

			m.op = (uint8_t)(1 + op % (SYNC_OPS - 1));
			m.flags = op & 128 && sync_waits(m.op) ? MSGF_TIMED : 0;
			m.aux = 0;
		}
		if (wire_rule_of(m.type, WF_req_slot) != RULE_ZERO)
			m.req_slot = (object >> 4) % SLOTS;
		if (wire_rule_of(m.type, WF_aux) == RULE_HOLD)
			m.aux = (object >> 6) % HOLDS;
		if (about_block(m.type))
			m.object = object % BLOCKS;
		else if (wire_rule_of(m.type, WF_object) == RULE_BARRIER)
			m.object = object % BARRIERS;
		else
			name_object(&m, to, object, how & 128);
	}
	for (i = 0; i < (how >> 4 & 3); i++) {
		enum wire_field f = (enum wire_field)(byte(in) % WIRE_FIELD_COUNT);
		uint8_t which = byte(in);

		n = wire_values(&m, f, &lim, values);
		wire_set(&m, f, which & 128 ? which & 127 : values[which % n]);
	}
	say(&m, to);
}

/* ---- the target ----------------------------------------------------------------------------- */

static void record(struct input *in)
{
	const uint8_t what = byte(in), a = byte(in);
	const uint16_t me = a % HONEST;

	w->now += 5;
	total.records++;
	switch (what & 15) {
	case 0:
	case 1: touch(me, a >> 2 & 1, (a >> 3) % BLOCKS, what & 16); break;
	case 2:
	case 3:
	case 4:
	case 5:
	case 6:
		if (w->n)
			deliver(a % w->n);
		break;
	case 7:
	case 8:
	case 9: attack(in); break;
	case 10:
		if (what & 16)
			destroy(me, handle(in));
		else
			create(me, (a >> 2) % HONEST, what >> 5);
		break;
	case 11: timer(me, (a >> 2) % BLOCKS); break;
	case 12: lock(me, (a >> 2) % HOLDS, handle(in), what >> 4); break;
	case 13: synchronise(me, handle(in), what >> 4); break;
	case 14:
		if (what & 16)
			take_back(me, BLOCK_SLOTS + (a >> 2) % (SLOTS - BLOCK_SLOTS));
		else
			arrive(me, (a >> 2) % BARRIERS);
		break;
	default: give_back(me, (a >> 2) % BLOCKS, what >> 4); break;
	}
	world_check_blocks();
	world_check_objects();
}

static bool quiet(void)
{
	unsigned int r, i;
	bool is = !w->n;

	for (r = 0; r < HONEST; r++) {
		for (i = 0; i < BLOCKS; i++)
			is &= !w->r[r].timer[i];
		for (i = 0; i < BLOCK_SLOTS; i++)
			is &= !w->r[r].slots[i].busy;
	}
	return is;
}

/*
 * All messages in flight are delivered, and threads use the blocks that they get. Then nobody waits
 * for a block of the honest ranks.
 */
static void settle(void)
{
	unsigned int rounds, r, b, s, left;

	for (rounds = 0; rounds < 64 && !quiet(); rounds++) {
		for (left = 4 * UNDER_WAY; w->n && left; left--)
			deliver(0);
		for (r = 0; r < HONEST; r++) {
			for (b = 0; b < BLOCKS; b++)
				timer((uint16_t)r, b);
			for (s = 0; s < THREADS; s++)
				if (w->r[r].slots[s].busy)
					touch((uint16_t)r, s, 0, false);
		}
		world_check_blocks();
		world_check_objects();
	}
	for (r = 0; r < HONEST; r++)
		for (s = 0; s < BLOCK_SLOTS; s++)
			must(!w->r[r].slots[s].busy ||
			     w->part[w->r[r].slots[s].block ? w->r[r].slots[s].block - 1u
							    : w->r[r].slots[s].home]);
}

/*
 * Nor does anybody wait for the answer to a request that cannot block, or in the queue of a
 * destroyed object.
 */
static void settle_objects(void)
{
	unsigned int r, i;

	for (r = 0; r < HONEST; r++) {
		for (i = 0; i < HOLDS; i++) {
			const struct hold *h = &w->r[r].holds[i];
			const int at = world_made(h->home, world_name(h->object, h->gen));

			must((h->state != HOLD_WAITING && h->state != HOLD_WAIT_NEXT) ||
			     w->made[at].alive || w->part_made[at]);
		}
		for (i = BLOCK_SLOTS; i < SLOTS; i++) {
			const struct slot *s = &w->r[r].slots[i];

			if (!s->busy || s->woken || s->op == SYNC_OPS)
				continue;
			must(s->made && (sync_waits(s->op) || w->part_made[s->made - 1]));
			if (!sync_waits(s->op))
				continue;
			must(!s->cancels && w->made[s->made - 1].alive);
			must(line_find(&w->made[s->made - 1].line, (uint16_t)r, (uint16_t)i) >= 0);
		}
	}
}

/* Whoever is still in line takes that back. */
static void settle_lines(void)
{
	unsigned int r, i, left;

	for (r = 0; r < HONEST; r++)
		for (i = BLOCK_SLOTS; i < SLOTS; i++)
			take_back((uint16_t)r, i);
	for (left = 4 * UNDER_WAY; w->n && left; left--)
		deliver(0);
	world_check_objects();
	for (r = 0; r < HONEST && !w->n; r++)
		for (i = BLOCK_SLOTS; i < SLOTS; i++) {
			const struct slot *s = &w->r[r].slots[i];

			must(!s->busy || s->woken || s->op == SYNC_OPS || !sync_waits(s->op));
		}
}

static void *zeroed(size_t n, size_t each)
{
	void *p = calloc(n, each);

	must(p);
	return p;
}

static void begin(void)
{
	static const uint8_t kinds[OBJECTS] = { SYNC_NONE, SYNC_MUTEX, SYNC_RWLOCK,
						SYNC_SEM,  SYNC_COND,  SYNC_ATOMIC };
	/*
	 * The second outgrows the 8 bits of a message's object soon; those of the third are used
	 * up.
	 */
	static const uint32_t gens[HONEST] = { 0x40, 0xff, OBJECT_GEN_MAX - 1 };
	unsigned int i, k;

	w = zeroed(1, sizeof(*w));
	for (i = 0; i < HONEST; i++) {
		struct rank *r = &w->r[i];

		r->nodes = zeroed(RANKS * BLOCK_SLOTS, sizeof(*r->nodes));
		r->object_nodes = zeroed(RANKS * SLOTS, sizeof(*r->object_nodes));
		r->asks = zeroed(SLOTS, sizeof(*r->asks));
		r->dirs = zeroed(BLOCKS, sizeof(*r->dirs));
		r->pages = zeroed(BLOCKS, sizeof(*r->pages));
		r->objects = zeroed(OBJECTS, sizeof(*r->objects));
		r->holds = zeroed(HOLDS, sizeof(*r->holds));
		r->bars = zeroed(BARRIERS, sizeof(*r->bars));
		for (k = 1; k < OBJECTS; k++) {
			r->objects[k] = (struct sync){ .kind = kinds[k], .gen = gens[i] };
			world_make((uint16_t)i, object_name(k, gens[i]), kinds[k], false, true);
		}
		r->list.fresh = OBJECTS - 1; /* all in use; who destroys makes room */
		for (k = 0; k < BARRIERS; k++)
			r->bars[k].mask = (1u << HONEST) - 1;
	}
	for (i = 0; i < BLOCKS; i++)
		w->part[i] = world_manager(i) == OTHER;
}

static void end(void)
{
	unsigned int i;

	for (i = 0; i < HONEST; i++) {
		free(w->r[i].nodes);
		free(w->r[i].object_nodes);
		free(w->r[i].asks);
		free(w->r[i].dirs);
		free(w->r[i].pages);
		free(w->r[i].objects);
		free(w->r[i].holds);
		free(w->r[i].bars);
	}
	free(w);
}

static void say_total(void)
{
	fprintf(stderr,
		"fuzz_world: %lu records; %lu messages came, %lu of them of the other rank, %lu of those refused\n",
		total.records, total.messages, total.others, total.refused);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned int n = 0;

	if (!total.records++) {
		atexit(say_total);
		aloud = getenv("FUZZ_WORLD_SAY");
	}
	begin();
	while (in.at < in.end && n++ < 400)
		record(&in);
	settle();
	if (!w->n) {
		settle_objects();
		settle_lines();
	}
	end();
	return 0;
}
