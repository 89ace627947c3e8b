// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_crowd.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/barrier.h"
#include "core/sync.h"

#define ASKED 16u
#define BOX 1024u /* answers waiting to be sent */
#define MOVED 8u  /* blocks of which an honest rank is the home, because a liar said so */
#define NAMES 64u /* names of objects that are kept; also the number of hold records of a liar */

/* A block whose home is a liar, as far as honest ranks use it. */
struct line {
	_Atomic bool held; /* locked by a thread of an honest rank */
	bool busy;         /* a request is being served */
	uint8_t owner;     /* owner + 1; 0: no rank has touched the block */
	/* home + 1, an honest rank that is now the home; 0: the liar */
	uint8_t home;
	uint8_t sharers;               /* mask of ranks */
	struct msg pending[JOB_RANKS]; /* type 0: none */
};

struct box {
	_Atomic bool held;
	unsigned int head, tail;
	struct inject_message of[BOX];
};

/* Shared by the processes of the honest ranks. */
struct crowd {
	bool lies;
	_Atomic uint64_t names[NAMES]; /* home << 48 | generation << 32 | object */
	_Atomic unsigned long answers;
	struct box boxes[JOB_RANKS];
	struct line lines[JOB_PAGES];
	_Atomic uint32_t moved[JOB_RANKS][MOVED]; /* page of the block; 0: none */
};

/* This process. */
static struct crowd *shared;
static struct {
	const struct job *job;
	uint16_t me;
	uint64_t random;
	struct liar liars[CROWD_RANKS];
	struct msg asked[ASKED]; /* the last requests */
	unsigned int nasked;
} self;

struct crowd *crowd_new(void)
{
	return shared_memory(sizeof(struct crowd));
}

void crowd_begin(struct crowd *c, bool lies)
{
	const unsigned long answers = atomic_load(&c->answers);

	memset(c, 0, sizeof(*c));
	c->lies = lies;
	atomic_store(&c->answers, answers);
}

unsigned long crowd_answers(const struct crowd *c)
{
	return atomic_load(&c->answers);
}

void crowd_join(struct crowd *c, const struct job *j, uint16_t me, uint64_t seed)
{
	unsigned int p;

	shared = c;
	self.job = j;
	self.me = me;
	self.random = seed;
	for (p = 0; p < CROWD_RANKS; p++)
		self.liars[p] =
			(struct liar){ .ranks = CROWD_RANKS, .me = (uint16_t)p, .target = me };
}

uint16_t crowd_any(uint64_t *r)
{
	unsigned int rank;

	do
		rank = pick(r, CROWD_RANKS);
	while (crowd_is_honest(rank));
	return (uint16_t)rank;
}

struct liar *crowd_liar(uint16_t rank)
{
	return &self.liars[rank];
}

/* ---- waiting answers ------------------------------------------------------------------------- */

static void hold(_Atomic bool *held)
{
	while (atomic_exchange_explicit(held, true, memory_order_acquire))
		sched_yield();
}

static void release(_Atomic bool *held)
{
	atomic_store_explicit(held, false, memory_order_release);
}

/* Queue an answer for an honest rank; if the box is full, the oldest is dropped. */
static void post(uint16_t to, const struct inject_message *i)
{
	struct box *b;

	if (!crowd_is_honest(to))
		return;
	b = &shared->boxes[to];
	hold(&b->held);
	b->of[b->tail++ % BOX] = *i;
	if (b->tail - b->head > BOX)
		b->head++;
	release(&b->held);
	atomic_fetch_add(&shared->answers, 1);
}

static void say(const struct msg *m)
{
	post(m->dst,
	     &(struct inject_message){
		     .m = *m, .peer = m->src, .class = (uint8_t)wire_class(m->type) });
}

unsigned int crowd_answered(struct inject_message *out, unsigned int room)
{
	struct box *b = &shared->boxes[self.me];
	unsigned int n = 0;

	hold(&b->held);
	while (n < room && b->head != b->tail)
		out[n++] = b->of[b->head++ % BOX];
	release(&b->held);
	return n;
}

/* ---- liars as homes -------------------------------------------------------------------------- */

static struct msg about(const struct msg *m, uint8_t type, uint16_t from, uint16_t to)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = from,
			     .dst = to,
			     .object = m->object,
			     .req_node = m->req_node,
			     .req_slot = m->req_slot };
}

static void invalidate(const struct msg *m, uint16_t home, unsigned int ranks)
{
	uint16_t p;

	for (p = 0; p < JOB_RANKS; p++)
		if (ranks >> p & 1) {
			struct msg inv = about(m, MSG_INV, home, p);

			inv.home = home;
			say(&inv);
		}
}

/* The caller holds the line's lock. */
static void serve(struct line *l, const struct msg *m)
{
	const uint16_t home = m->dst, who = m->req_node;
	const unsigned int others = l->sharers & ~(1u << who);
	const bool has = l->sharers >> who & 1;
	struct msg a = about(m, MSG_GRANT, home, who);

	if (shared->lies && !pick(&self.random, 16)) /* then two ranks may own the block */
		l->owner = l->sharers = 0;
	l->busy = true;
	a.home = home;
	if (m->flags & MSGF_KNOWN && !pick(&self.random, 3)) {
		a.type = MSG_MOVED;
		a.value = home;
		l->busy = false;
	} else if (l->home) {
		a = about(m, m->type, home, (uint16_t)(l->home - 1));
		a.flags = (uint8_t)((m->flags & MSGF_HAS) | MSGF_FORWARDED);
		l->busy = false;
	} else if (!l->owner && m->flags & MSGF_FIRST_TOUCH && pick(&self.random, 2)) {
		a.type = MSG_HOME;
		a.op = m->type;
		l->home = (uint8_t)(who + 1);
		atomic_store(&shared->moved[who][pick(&self.random, MOVED)], m->object >> 1);
	} else if (!l->owner) {
		a.op = GRANT_WRITE;
		a.flags = MSGF_ZERO;
	} else if (m->type == MSG_READ_REQ) {
		a.type = MSG_FWD_READ;
		a.dst = (uint16_t)(l->owner - 1);
		l->sharers |= (uint8_t)(1u << who);
	} else {
		const unsigned int lose = has ? others : others & ~(1u << (l->owner - 1));

		invalidate(m, home, lose);
		a.type = has ? MSG_GRANT : MSG_FWD_WRITE;
		a.dst = has ? who : (uint16_t)(l->owner - 1);
		a.op = GRANT_WRITE;
		a.count = (int16_t)__builtin_popcount(lose);
	}
	if (a.type == MSG_GRANT || a.type == MSG_FWD_WRITE) {
		l->owner = (uint8_t)(who + 1);
		l->sharers = (uint8_t)(1u << who);
	}
	say(&a);
}

static struct line *line_of(const struct msg *m)
{
	return &shared->lines[((m->object & (m->object - 1)) >> 1) % JOB_PAGES];
}

static void requested(const struct msg *m)
{
	struct line *l = line_of(m);

	if (!crowd_is_honest(m->req_node))
		return;
	hold(&l->held);
	if (l->busy)
		l->pending[m->req_node] = *m;
	else
		serve(l, m);
	release(&l->held);
}

static void served(const struct msg *m)
{
	struct line *l = line_of(m);
	unsigned int p;

	hold(&l->held);
	l->busy = false;
	for (p = 0; p < JOB_RANKS && !l->busy; p++)
		if (l->pending[p].type) {
			const struct msg next_one = l->pending[p];

			l->pending[p].type = 0;
			serve(l, &next_one);
		}
	release(&l->held);
}

/* ---- answers of liars ----------------------------------------------------------------------- */

/* Send the block of m from rank `from` to the slot that asked; a liar needs no transfer. */
static void send_block(const struct msg *m, uint16_t from, bool write)
{
	const uint32_t slot = m->req_slot;

	if (crowd_is_honest(m->req_node)) {
		const struct word_KERNEL_BLOCK w = { .valid = 1,
						     .write = write,
						     .home = m->home,
						     .count = (uint32_t)m->count,
						     .slot_low = slot % 256,
						     .slot_high = slot / 256 };
		const struct inject_message i = { .imm = word_put_KERNEL_BLOCK(w), .peer = from };

		post(m->req_node, &i);
	} else {
		const struct msg done = about(m, MSG_DONE, m->req_node, m->home);

		say(&done);
	}
}

/* Keep the name of an object made by a liar; this may replace an older one. */
static void keep_name(uint16_t home, uint64_t name)
{
	atomic_store(&shared->names[pick(&self.random, NAMES)],
		     (uint64_t)home << 48 | (name & 0xffffffffffffull));
}

static void unlock(const struct msg *m)
{
	const uint64_t name = atomic_load(&shared->names[m->aux % NAMES]);
	struct msg a = about(m, MSG_UNLOCK, m->dst, (uint16_t)(name >> 48));

	a.req_node = (uint16_t)(name >> 32);
	a.aux = m->aux;
	say(&a);
}

static void answer_lock(const struct msg *m)
{
	static const int16_t is_idle[] = { 0, -EBUSY, -EINPROGRESS };
	struct msg a = about(m, MSG_NONE, m->dst, m->src);

	a.aux = m->aux;
	switch (m->type) {
	case MSG_LOCKED: unlock(m); return;
	case MSG_NEXT:
		a.type = MSG_LOCKED;
		a.dst = m->req_node;
		a.aux = (uint32_t)m->value;
		break;
	case MSG_RECALL:
		a.type = MSG_RECALLED;
		a.count = is_idle[pick(&self.random, 3)];
		break;
	default: /* MSG_UNLOCK, MSG_RECALLED */
		if (m->count)
			return;
		a.type = MSG_FREED;
		a.req_node = m->src;
		a.value = !pick(&self.random, 4);
	}
	say(&a);
}

static void answer(const struct msg *m)
{
	struct liar *l = &self.liars[m->dst];
	struct msg a = about(m, MSG_NONE, m->dst, m->src);

	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ: requested(m); return;
	case MSG_DONE:
	case MSG_HOME_ACK: served(m); return;
	case MSG_DATA: /* the answer to a liar's request */
		a.type = MSG_DONE;
		a.dst = m->home;
		break;
	case MSG_FWD_READ:
	case MSG_FWD_WRITE:
	case MSG_FWD_MIGRATE:
		if (m->type != MSG_FWD_MIGRATE || pick(&self.random, 4)) {
			send_block(m, m->dst, m->type != MSG_FWD_READ);
			return;
		}
		a.type = MSG_KEPT;
		break;
	case MSG_INV:
		a.type = MSG_INV_ACK;
		a.dst = m->req_node;
		break;
	case MSG_ADOPT:
		a.type = MSG_HOME_ACK;
		a.dst = (uint16_t)m->value;
		a.req_node = a.home = m->dst;
		break;
	case MSG_MOVE:
		a.type = MSG_MOVE_ACK;
		a.req_node = m->src;
		a.count = pick(&self.random, 3) ? 0 : -EBUSY;
		break;
	case MSG_REPLY:
		if (!m->count && m->value >> 32)
			keep_name(m->src, m->value);
		return;
	case MSG_LOCKED:
	case MSG_NEXT:
	case MSG_RECALL:
	case MSG_UNLOCK:
	case MSG_RECALLED: answer_lock(m); return;
	case MSG_ARRIVE:
		a.type = MSG_DEPART;
		a.req_node = m->dst;
		bar_set_life(&a, bar_life(m));
		break;
	case MSG_TRYLOCK:
		a.type = MSG_FREED;
		a.req_node = m->src;
		a.aux = m->aux;
		a.count = -EBUSY;
		break;
	default:
		if (!liar_answer(l, m, &a))
			return;
	}
	say(&a);
}

/*
 * Repeat or delay an answer. Ranks that wait for the block are served, whether or not MSG_DONE has
 * come.
 */
void crowd_answer_again(const struct liar *l)
{
	const struct msg m = l->seen[pick(&self.random, LIAR_SEEN)];

	if (!m.type)
		return;
	if (pick(&self.random, 4))
		answer(&m);
	else
		served(&m);
}

void crowd_hear(const struct msg *m)
{
	if (m->dst >= CROWD_RANKS || crowd_is_honest(m->dst))
		return;
	liar_hear(&self.liars[m->dst], m);
	if (m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ || m->type == MSG_DONE ||
	    m->type == MSG_LOCK || m->type == MSG_TRYLOCK)
		self.asked[self.nasked++ % ASKED] = *m;
	if (pick(&self.random, shared->lies ? 100 : 1000))
		answer(m);
}

const struct msg *crowd_heard(uint64_t *r)
{
	const struct liar *l;

	if (pick(r, 2) && self.nasked)
		return &self.asked[pick(r, self.nasked < ASKED ? self.nasked : ASKED)];
	do
		l = &self.liars[crowd_any(r)];
	while (!l->nseen && pick(r, 64));
	return &l->seen[pick(r, l->nseen && l->nseen < LIAR_SEEN ? l->nseen : LIAR_SEEN)];
}

/* ---- requests of liars ----------------------------------------------------------------------- */

/* An operation on an object of the target, or on a lock. */
bool crowd_operate(const struct liar *l, struct msg *m)
{
	uint64_t *r = &self.random;
	const unsigned int i = pick(r, NAMES);
	const uint64_t name = atomic_load(&shared->names[i]);

	if (!name || name >> 48 != l->target)
		return false;
	*m = (struct msg){ .version = WIRE_VERSION,
			   .type = MSG_SYNC,
			   .op = (uint8_t)(1 + pick(r, SYNC_OPS - 1)),
			   .src = l->me,
			   .dst = l->target,
			   .object = (uint32_t)name,
			   .req_node = (uint16_t)(name >> 32),
			   .req_slot = (uint16_t)pick(r, 65536),
			   .value = pick(r, 4) };
	if (m->op == SOP_DESTROY && pick(r, 8))
		m->op = SOP_RDLOCK;
	if (pick(r, 3))
		return true;
	m->type = pick(r, 2) ? MSG_LOCK : pick(r, 4) ? MSG_TRYLOCK : MSG_UNLOCK;
	m->op = 0;
	m->value = 0;
	m->aux = i;
	return true;
}

/*
 * Act as a manager that forwards requests to the home it has appointed: of one writer and one
 * reader.
 */
bool crowd_forward(struct inject_message *i)
{
	uint64_t *r = &self.random;
	const uint32_t page = atomic_load(&shared->moved[self.me][pick(r, MOVED)]);
	const bool write = pick(r, 2);

	if (!page)
		return false;
	i->peer =
		self.job->home == DSM_REGION_CYCLIC ? page % CROWD_RANKS : page / 16 % CROWD_RANKS;
	i->m = (struct msg){ .version = WIRE_VERSION,
			     .type = write ? MSG_WRITE_REQ : MSG_READ_REQ,
			     .flags = (uint8_t)(MSGF_FORWARDED |
						(write && pick(r, 2) ? MSGF_HAS : 0)),
			     .src = i->peer,
			     .dst = self.me,
			     .object = page << 1 | 1,
			     .req_node = (uint16_t)(4 + (page + write) % (CROWD_RANKS - 4)),
			     .req_slot = (uint16_t)pick(r, LIAR_SLOTS) };
	return true;
}
