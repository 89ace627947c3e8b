// SPDX-License-Identifier: GPL-2.0
/* sync.c - synchronisation calls by ioctl(2). */
#include <linux/hash.h>
#include <linux/nospec.h>
#include <linux/uaccess.h>

#include "sync.h"
#include "host.h"
#include "park.h"
#include "../base/pool.h"
#include "rank.h"
#include "run.h"
#include "slot.h"
#include "step.h"
#include "table.h"

void sync_send(struct rank *r, const struct msg *m)
{
	pool_begin();
	run_send(r, m);
	local_bh_enable();
}

bool sync_is_point(const struct dsm_ioc_call *in)
{
	return in->call == DSM_CALL_SYNC && in->hold & DSM_SYNC_POINT;
}

/* The end of the time limit; 0: none. */
static u64 limit_of(const struct dsm_ioc_call *in)
{
	return in->ns ? ktime_get_ns() + min_t(u64, in->ns, S64_MAX) : 0;
}

/* Nanoseconds left; 0: no limit. */
static u64 left_of(const struct call *c)
{
	const u64 now = ktime_get_ns();

	return !c->end ? 0 : c->end > now ? c->end - now : 1;
}

/*
 * Wait for answer n of a request. If the thread is killed, the answers free the slot. The wait for
 * "in line" is no cancellation point, because that answer depends on no other thread.
 */
static int sync_call_answer(struct rank *r, struct call *c, u32 n, u64 ns)
{
	int err;

	c->out.waited |= !slot_answered_by(slot_at(r, c->slot), c->seq, n);
	if (c->brief && (n > 1 || !sync_lines_up(c)))
		return slot_spin(r, c->slot, c->seq, n, NULL) ? 0 : -EINPROGRESS;
	err = slot_wait(r, c->slot, c->seq, n, ns, c->killable);
	if ((err == -EINTR || err == -EIO) && slot_leave(r, c->slot))
		c->slot = -1;
	return err;
}

/*
 * "In line" has come: wait for the turn, or give up (libdsm/sync/cancel.c, sync_turn()). Of the
 * answers of SOP_CANCEL, only -ETIMEDOUT means that the turn will not come. The object is destroyed
 * only when no request is in line, so a refusal means that SOP_CANCEL and the turn have crossed.
 */
static int sync_take_turn(struct rank *r, struct call *c)
{
	int err;

	if (c->stage == STAGE_TURN) {
		err = sync_call_answer(r, c, 2, left_of(c));
		if (err != -ETIMEDOUT)
			return err;
		sync_take_back(r, c);
	}
	if (c->stage == STAGE_CANCEL) {
		err = sync_call_answer(r, c, 2, 0);
		if (err || slot_at(r, c->slot)->status == -ETIMEDOUT)
			return err ? err : -ETIMEDOUT;
		c->stage = STAGE_GRANT;
	}
	return sync_call_answer(r, c, 3, 0);
}

void sync_take_back(struct rank *r, struct call *c)
{
	c->m.op = SOP_CANCEL;
	c->stage = STAGE_CANCEL;
	WRITE_ONCE(slot_at(r, c->slot)->over, false); /* SOP_CANCEL has an answer of its own */
	sync_send(r, &c->m);
}

/* False for a message that its home would refuse: the home would take this rank for a liar. */
static bool may_send(const struct rank *r, struct msg *m)
{
	struct wire_limits there = r->limits;

	there.me = m->dst;
	m->version = WIRE_VERSION;
	return !wire_check(m, &there);
}

bool sync_lines_up(const struct call *c)
{
	return sync_twice(c->in.op, c->in.ns ? MSGF_TIMED : 0);
}

/* The begin_ functions begin a call. 1: the thread must wait; else 0 or -errno. */
static int begin_sync(struct rank *r, struct call *c)
{
	const struct dsm_ioc_call *p = &c->in;

	c->m = (struct msg){ .type = MSG_SYNC,
			     .op = p->op,
			     .src = r->me,
			     .dst = p->home,
			     .object = p->object,
			     .req_node = (u16)p->gen,
			     .value2 = p->value2,
			     .value = p->value,
			     .flags = p->ns ? MSGF_TIMED : 0 };
	if (!may_send(r, &c->m))
		return -EINVAL;
	c->slot = slot_get(r, sync_waits(p->op) ? SLOT_LASTING : SLOT_BRIEF, false);
	if (c->slot < 0)
		return c->slot;
	c->m.req_slot = (u16)c->slot;
	c->seq = smp_load_acquire(&slot_at(r, c->slot)->seq);
	sync_send(r, &c->m);
	return 1;
}

/* Wait for the first answer. 1: it is "in line"; else 0 or -errno. */
static int first_answer(struct rank *r, struct call *c)
{
	int err = sync_call_answer(r, c, 1, 0);

	if (err)
		return err;
	c->out.status = slot_at(r, c->slot)->status;
	if (c->out.status || !sync_lines_up(c))
		return 0;
	if (c->in.mutex) {
		pool_begin();
		host_held(r, (u16)array_index_nospec(c->in.mutex - 1, HOLDS), HE_UNLOCK, NULL);
		local_bh_enable();
	}
	c->stage = STAGE_TURN;
	c->end = limit_of(&c->in);
	return 1;
}

/* The wait_ functions wait, or continue an interrupted wait. */
static int wait_sync(struct rank *r, struct call *c)
{
	int err = c->stage == STAGE_ANSWER ? first_answer(r, c) : 1;

	if (err > 0)
		err = sync_take_turn(r, c);
	if (err == -ETIMEDOUT) {
		c->out.status = -ETIMEDOUT;
		err = 0;
	}
	return err;
}

/*
 * ---- locks that stay with this rank ----------------------------------------------------------
 *
 * The last holder's record keeps a lock that no other rank requests (core/lock.h). A hash table
 * maps locks to records. It is only a hint: the record is checked under its stripe, and may have
 * another lock by then.
 */

static u16 *sync_cached_place(struct rank *r, const struct msg *m)
{
	return &r->cached_at[hash_64((u64)m->object << 32 | (u32)m->req_node << 16 | m->dst,
				     ilog2(CACHED_PLACES))];
}

static bool sync_is_cached(struct rank *r, u32 hold)
{
	const struct hold *h = hold_at(r, hold);

	return h && READ_ONCE(h->state) == HOLD_CACHED;
}

/* Take the lock that is cached in a record. Returns the record, or -1: no record has it. */
static int sync_take_cached(struct rank *r, const struct msg *m)
{
	const u16 at = READ_ONCE(*sync_cached_place(r, m));
	int err;

	if (!at || !sync_is_cached(r, at - 1))
		return -1;
	pool_begin();
	err = host_held(r, at - 1, HE_TAKE, m);
	local_bh_enable();
	return err ? -1 : at - 1;
}

#define GIVE_SCAN 16 /* records to check at once */

/* Give back some cached locks, because records run short. */
static void give_some_cached(struct rank *r)
{
	unsigned int i;

	pool_begin();
	for (i = 0; i < GIVE_SCAN; i++) {
		const u32 at = (u32)atomic_inc_return(&r->cached_hand) % HOLDS;

		if (sync_is_cached(r, at))
			host_held(r, at, HE_GIVE, NULL);
	}
	local_bh_enable();
}

/*
 * Queue for a lock, behind a thread of this rank or at its home. Returns the hold record that will
 * have it, or -errno.
 */
static int sync_get_in_line(struct rank *r, struct msg *m)
{
	const u16 at = READ_ONCE(*sync_cached_place(r, m));
	int hold, err;

	if (at && m->type == MSG_LOCK && table_line(r, m->req_slot)) {
		pool_begin();
		err = host_held(r, at - 1, HE_JOIN, m);
		local_bh_enable();
		if (!err)
			return at - 1;
	}
	hold = table_hold(r);
	if (hold >= CACHED || hold == -EAGAIN)
		give_some_cached(r);
	if (hold < 0)
		return hold;
	m->aux = (u32)hold;
	pool_begin();
	core_hold_begin(&r->core, (u32)hold, m);
	local_bh_enable();
	if (m->type == MSG_LOCK)
		WRITE_ONCE(*sync_cached_place(r, m), (u16)(hold + 1));
	sync_send(r, m);
	return hold;
}

static int begin_lock(struct rank *r, struct call *c)
{
	const struct dsm_ioc_call *p = &c->in;
	int hold;

	c->m = (struct msg){ .type = p->call == DSM_CALL_LOCK ? MSG_LOCK : MSG_TRYLOCK,
			     .src = r->me,
			     .dst = p->home,
			     .object = p->object,
			     .req_node = (u16)p->gen };
	if (!may_send(r, &c->m))
		return -EINVAL;
	hold = sync_take_cached(r, &c->m);
	if (hold >= 0) {
		c->out.hold = (u16)hold;
		return 0;
	}
	c->slot = slot_get(r, c->m.type == MSG_LOCK ? SLOT_LASTING : SLOT_BRIEF, false);
	if (c->slot < 0)
		return c->slot;
	c->m.req_slot = (u16)c->slot;
	c->seq = smp_load_acquire(&slot_at(r, c->slot)->seq);
	hold = sync_get_in_line(r, &c->m);
	if (hold < 0)
		return hold;
	c->hold = (u16)hold;
	c->end = limit_of(p);
	return 1;
}

bool sync_leave_line(struct rank *r, struct call *c)
{
	bool left;

	if (c->in.call != DSM_CALL_LOCK)
		return false;
	local_bh_disable();
	left = core_hold_leave(&r->core, c->hold, (u16)c->slot);
	local_bh_enable();
	if (left)
		slot_put(r, c->slot);
	return left;
}

/*
 * The limit has passed. A thread behind another thread of its rank leaves that line. A request in
 * the line of ranks cannot leave: it is given up (park.c), and a worker unlocks the lock when it
 * arrives. Until then, threads of the rank queue behind the request, so a rank has at most one such
 * request per record. False: no memory for that now.
 */
static bool quit_lock(struct rank *r, struct call *c)
{
	if (!sync_leave_line(r, c) && !park_quit(r, c))
		return false;
	c->slot = -1;
	return true;
}

static int wait_lock(struct rank *r, struct call *c)
{
	int err = sync_call_answer(r, c, 1, left_of(c));

	while (err == -ETIMEDOUT && !quit_lock(r, c))
		err = sync_call_answer(r, c, 1, NSEC_PER_MSEC);
	if (err == -ETIMEDOUT) {
		c->out.status = -ETIMEDOUT;
		err = 0;
	}
	if (c->slot >= 0 && err != -ERESTARTNOINTR) {
		c->out.status = slot_at(r, c->slot)->status;
		c->out.hold = c->hold;
		if (!c->out.status && c->m.type == MSG_TRYLOCK)
			WRITE_ONCE(*sync_cached_place(r, &c->m), (u16)(c->hold + 1));
	}
	return err;
}

static int begin_barrier(struct rank *r, struct call *c)
{
	const struct dsm_ioc_call *p = &c->in;
	const struct bar_group group = { .mask = p->value2 };
	struct bar_part part = { .all = 1 };
	struct bar *b;
	int err;

	c->m = (struct msg){ .version = WIRE_VERSION,
			     .type = MSG_ARRIVE,
			     .op = p->op,
			     .src = r->me,
			     .dst = r->me,
			     .req_node = r->me,
			     .object = p->object,
			     .aux = p->threads,
			     .count = p->hold & DSM_BARRIER_DIFFER ? -EINVAL : 0,
			     .value = p->value };
	bar_set_life(&c->m, p->gen);
	if (p->threads && !table_ready(r, &c->m, GFP_CTX))
		return -ENOMEM;
	b = bar_at(r, p->object);
	if (!p->threads) {
		c->out.status =
			b && READ_ONCE(b->threads) && READ_ONCE(b->life) == p->gen ? -EBUSY : 0;
		return 0;
	}
	c->stage = STAGE_BARRIER;
	pool_begin();
	err = host_arrive(r, &c->m, &group, p->hold & DSM_BARRIER_ALL ? &part : NULL, &c->seq);
	local_bh_enable();
	if (err)
		return -EINVAL;
	c->out.waited = smp_load_acquire(&b->gen) == c->seq;
	return 1;
}

static int wait_barrier(struct rank *r, struct call *c)
{
	const u64 until = ktime_get_ns() + (u64)r->spin_us * NSEC_PER_USEC;
	struct bar *b = bar_at(r, c->in.object);
	int err;

	while (smp_load_acquire(&b->gen) == c->seq && !need_resched() && ktime_get_ns() < until)
		cpu_relax();
	if (c->killable)
		err = wait_event_killable(
			r->bar_wait, smp_load_acquire(&b->gen) != c->seq || READ_ONCE(r->dead));
	else
		err = wait_event_interruptible(
			r->bar_wait, smp_load_acquire(&b->gen) != c->seq || READ_ONCE(r->dead));
	if (err)
		return signal_err();
	if (smp_load_acquire(&b->gen) == c->seq)
		return -EIO;
	c->out.status = bar_ended(b, c->in.gen, &c->out.result);
	return 0;
}

static int sync_call_begin(struct rank *r, struct call *c)
{
	int err;

	switch ((enum dsm_call_op)c->in.call) {
	case DSM_CALL_SYNC: return begin_sync(r, c);
	case DSM_CALL_LOCK:
	case DSM_CALL_TRYLOCK: return begin_lock(r, c);
	case DSM_CALL_UNLOCK:
		pool_begin();
		err = host_held(r, c->in.hold, HE_UNLOCK, NULL);
		local_bh_enable();
		return err;
	case DSM_CALL_BARRIER: return begin_barrier(r, c);
	default: return -EINVAL;
	}
}

static int sync_wait_for(struct rank *r, struct call *c)
{
	if (c->stage == STAGE_BARRIER)
		return wait_barrier(r, c);
	return c->in.call == DSM_CALL_SYNC ? wait_sync(r, c) : wait_lock(r, c);
}

static long sync_call_end(struct rank *r, struct call *c, struct sync_answer *answer, long err)
{
	if (c->slot >= 0) {
		if (c->in.call == DSM_CALL_SYNC)
			c->out.result = slot_at(r, c->slot)->value;
		slot_put(r, c->slot);
	}
	answer->out = c->out;
	return err;
}

/* time for a request to reach its home before SOP_CANCEL is repeated */
#define AGAIN_NS NSEC_PER_MSEC

/*
 * Take back a request before "in line" has come, as sync_take_back() of the library does
 * (libdsm/sync/cancel.c). SOP_CANCEL may overtake the request. So it is repeated until the answer
 * is -ETIMEDOUT, or the request's own answer has come. If the object was destroyed meanwhile, the
 * refusal of SOP_CANCEL may overtake that answer. Altogether there is one answer more than
 * SOP_CANCEL was sent.
 */
static int take_back_early(struct rank *r, struct call *c)
{
	const struct slot *s = slot_at(r, c->slot);
	u32 asked = 0;
	s16 status;
	int err;

	do {
		asked++;
		sync_take_back(r, c);
		err = sync_call_answer(r, c, asked, 0);
		status = READ_ONCE(s->status);
		if (err || status == -ETIMEDOUT)
			return err ? err : -ETIMEDOUT;
		err = sync_call_answer(r, c, asked + 1, status == -EALREADY ? AGAIN_NS : 0);
	} while (err == -ETIMEDOUT);
	if (!err) /* the last answer may be that of SOP_CANCEL, whose status is never 0 */
		c->out.status = s->granted ? 0 : s->status;
	return err;
}

/* The thread is cancelled: take the request back as at the end of its time limit. */
static int sync_call_take_back(struct rank *r, struct call *c)
{
	const bool first = c->stage == STAGE_ANSWER;
	int err;

	if (first && !sync_lines_up(c))
		return take_back_early(r, c);
	err = first ? first_answer(r, c) : 1;
	if (err <= 0)
		return err;
	if (c->stage == STAGE_TURN)
		sync_take_back(r, c);
	return sync_take_turn(r, c);
}

static long cancel_call(struct rank *r, const struct dsm_ioc_call *in, struct sync_answer *answer)
{
	struct call c;
	int err;

	answer->to = u64_to_user_ptr(in->value);
	if (!park_take_point(r, answer->to, &c))
		return -ENOENT;
	c.killable = true;
	c.brief = false; /* a handler may have interrupted the wait for "in line" */
	err = sync_call_take_back(r, &c);
	if (err == -ETIMEDOUT) {
		c.out.status = -ETIMEDOUT;
		err = 0;
	}
	return sync_call_end(r, &c, answer, err);
}

/*
 * If a signal arrives, its handler runs in user space; then the thread repeats this call, which
 * continues.
 */
long sync_call(struct rank *r, const struct dsm_ioc_call *in, void __user *arg,
	       struct sync_answer *answer)
{
	struct call c;
	long err = 1;

	answer->to = arg;
	if (in->call == DSM_CALL_CANCEL)
		return cancel_call(r, in, answer);
	if (!park_take(r, in, arg, &c)) {
		c = (struct call){ .slot = -1 };
		c.in = c.out = *in;
		c.brief = sync_is_point(&c.in);
		err = sync_call_begin(r, &c);
	}
	while (err > 0) {
		err = sync_wait_for(r, &c);
		if (err == -EINPROGRESS)
			c.brief = false;
		else if (err != -ERESTARTNOINTR)
			break;
		if (park_call(r, &c, arg))
			return err;
		c.killable = true;
		err = 1;
	}
	return sync_call_end(r, &c, answer, err);
}
