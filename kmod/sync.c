// SPDX-License-Identifier: GPL-2.0
/* sync.c - synchronisation that a thread asks for by ioctl(2). */
#include <linux/hash.h>
#include <linux/nospec.h>
#include <linux/uaccess.h>

#include "host.h"
#include "rank.h"

void sync_send(struct rank *r, const struct msg *m)
{
	host_begin();
	host_send(r, m);
	local_bh_enable();
}

/* Wait for answer n of a request; a killed thread leaves its slot to the answers. */
static int answer(struct rank *r, struct dsm_ioc_call *p, int *slot, u32 seq, u32 n, u64 ns)
{
	int err;

	p->waited |= smp_load_acquire(&slot_at(r, *slot)->seq) - seq < n;
	err = slot_wait(r, *slot, seq, n, ns);
	if ((err == -EINTR || err == -EIO) && slot_abandon(r, *slot, smp_load_acquire(&slot_at(r, *slot)->seq)))
		*slot = -1;
	return err;
}

/* "In line" has come: wait for the turn, or give up (libdsm/sync/object.c, sync_turn()). */
static int turn(struct rank *r, struct dsm_ioc_call *p, struct msg *m, int *slot, u32 seq)
{
	int err = answer(r, p, slot, seq, 2, p->ns);

	if (err != -ETIMEDOUT)
		return err;
	m->op = SOP_CANCEL;
	sync_send(r, m);
	err = answer(r, p, slot, seq, 2, 0);
	if (err || slot_at(r, *slot)->status == -ETIMEDOUT)
		return err ? err : -ETIMEDOUT;
	return answer(r, p, slot, seq, 3, 0);
}

/* What its home would refuse, and take this rank for a liar, is not for a process to send. */
static bool may_send(const struct rank *r, struct msg *m)
{
	struct wire_limits there = r->limits;

	there.me = m->dst;
	m->version = WIRE_VERSION;
	return !wire_check(m, &there);
}

static int do_sync(struct rank *r, struct dsm_ioc_call *p)
{
	struct msg m = { .type = MSG_SYNC,
			 .op = p->op,
			 .src = r->me,
			 .dst = p->home,
			 .object = p->object,
			 .req_rank = (u16)p->gen,
			 .value2 = p->value2,
			 .value = p->value,
			 .flags = p->ns ? MSGF_TIMED : 0 };
	bool twice = p->op == SOP_ENQUEUE || (p->ns && p->op == SOP_WAIT);
	int slot, err;
	u32 seq;

	if (!may_send(r, &m))
		return -EINVAL;
	slot = slot_get(r, op_lasts(p->op) ? SLOT_LASTING : SLOT_BRIEF);
	if (slot < 0)
		return slot;
	m.req_slot = (u16)slot;
	seq = smp_load_acquire(&slot_at(r, slot)->seq);
	sync_send(r, &m);
	err = answer(r, p, &slot, seq, 1, 0);
	if (!err)
		p->status = slot_at(r, slot)->status;
	if (!err && !p->status && twice) {
		if (p->mutex) {
			host_begin();
			host_held(r, (u16)array_index_nospec(p->mutex - 1, HOLDS), HE_UNLOCK, NULL);
			local_bh_enable();
		}
		err = turn(r, p, &m, &slot, seq);
		if (err == -ETIMEDOUT) {
			p->status = -ETIMEDOUT;
			err = 0;
		}
	}
	if (slot >= 0) {
		p->result = slot_at(r, slot)->value;
		slot_put(r, slot);
	}
	return err;
}

/* ---- locks that stay with this rank ----------------------------------------------------------
 *
 * A lock that nobody else asks for stays in its last holder's record (core/lock.h). Where it is, says a table by hash: a
 * hint, as the record is looked at under its stripe and may have another lock by then.
 */

static u16 *kept_place(struct rank *r, const struct msg *m)
{
	return &r->kept_at[hash_64((u64)m->object << 32 | (u32)m->req_rank << 16 | m->dst, ilog2(KEPT_PLACES))];
}

static bool is_kept(struct rank *r, u32 hold)
{
	const struct hold *h = hold_at(r, hold);

	return h && READ_ONCE(h->state) == HOLD_KEPT;
}

/* The record, in which the lock is held now; -1: it is not kept here. */
static int take_kept(struct rank *r, const struct msg *m)
{
	const u16 at = READ_ONCE(*kept_place(r, m));
	int err;

	if (!at || !is_kept(r, at - 1))
		return -1;
	host_begin();
	err = host_held(r, at - 1, HE_TAKE, m);
	local_bh_enable();
	return err ? -1 : at - 1;
}

#define GIVE_LOOK 16 /* records at once */

/* Records run short. */
static void give_some(struct rank *r)
{
	unsigned int i;

	host_begin();
	for (i = 0; i < GIVE_LOOK; i++) {
		const u32 at = (u32)atomic_inc_return(&r->kept_hand) % HOLDS;

		if (is_kept(r, at))
			host_held(r, at, HE_GIVE, NULL);
	}
	local_bh_enable();
}

/* Stand in line for a lock, behind a thread of this rank or at its home. The hold record that will have it, or -errno. */
static int get_in_line(struct rank *r, struct msg *m)
{
	const u16 at = READ_ONCE(*kept_place(r, m));
	int hold, err;

	if (at && m->type == MSG_LOCK && table_line(r, m->req_slot)) {
		host_begin();
		err = host_held(r, at - 1, HE_JOIN, m);
		local_bh_enable();
		if (!err)
			return at - 1;
	}
	hold = table_hold(r);
	if (hold >= KEPT || hold == -EAGAIN)
		give_some(r);
	if (hold < 0)
		return hold;
	m->aux = (u32)hold;
	host_begin();
	step_hold_begin(r, (u32)hold, m);
	local_bh_enable();
	if (m->type == MSG_LOCK)
		WRITE_ONCE(*kept_place(r, m), (u16)(hold + 1));
	sync_send(r, m);
	return hold;
}

static int do_lock(struct rank *r, struct dsm_ioc_call *p)
{
	struct msg m = { .type = p->call == DSM_CALL_LOCK ? MSG_LOCK : MSG_TRYLOCK,
			 .src = r->me,
			 .dst = p->home,
			 .object = p->object,
			 .req_rank = (u16)p->gen };
	int slot, hold, err;
	u32 seq;

	if (!may_send(r, &m))
		return -EINVAL;
	hold = take_kept(r, &m);
	if (hold >= 0) {
		p->hold = (u16)hold;
		return 0;
	}
	slot = slot_get(r, m.type == MSG_LOCK ? SLOT_LASTING : SLOT_BRIEF);
	if (slot < 0)
		return slot;
	m.req_slot = (u16)slot;
	seq = smp_load_acquire(&slot_at(r, slot)->seq);
	hold = get_in_line(r, &m);
	if (hold < 0) {
		slot_put(r, slot);
		return hold;
	}
	err = answer(r, p, &slot, seq, 1, 0);
	if (slot >= 0) {
		p->status = slot_at(r, slot)->status;
		p->hold = (u16)hold;
		if (!p->status && m.type == MSG_TRYLOCK)
			WRITE_ONCE(*kept_place(r, &m), (u16)(hold + 1));
		slot_put(r, slot);
	}
	return err;
}

static int do_barrier(struct rank *r, struct dsm_ioc_call *p)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_ARRIVE,
			 .op = p->op,
			 .src = r->me,
			 .dst = r->me,
			 .req_rank = r->me,
			 .object = p->object,
			 .aux = p->threads,
			 .value = p->value };
	struct bar *b;
	u64 until;
	u32 gen;
	int err;

	if (p->threads && !table_ready(r, &m, GFP_KERNEL_ACCOUNT))
		return -ENOMEM;
	b = bar_at(r, p->object);
	if (b && READ_ONCE(b->threads) && READ_ONCE(b->mask) != p->value2)
		return -EINVAL; /* of one episode, one group */
	if (!p->threads) {
		p->status = b && READ_ONCE(b->threads) ? -EBUSY : 0;
		return 0;
	}
	WRITE_ONCE(b->mask, p->value2);
	gen = smp_load_acquire(&b->gen);
	host_begin();
	err = host_arrive(r, &m);
	local_bh_enable();
	if (err)
		return -EINVAL;
	p->waited = smp_load_acquire(&b->gen) == gen;
	until = ktime_get_ns() + (u64)r->spin_us * NSEC_PER_USEC;
	while (smp_load_acquire(&b->gen) == gen && !need_resched() && ktime_get_ns() < until)
		cpu_relax();
	if (wait_event_killable(r->bar_wait, smp_load_acquire(&b->gen) != gen || READ_ONCE(r->dead)))
		return -EINTR;
	if (smp_load_acquire(&b->gen) == gen)
		return -EIO;
	p->status = b->ended;
	p->result = b->result;
	return 0;
}

long sync_call(struct rank *r, void *in, void __user *arg)
{
	struct dsm_ioc_call *p = in;
	long err;

	switch ((enum dsm_call_op)p->call) {
	case DSM_CALL_SYNC: err = do_sync(r, p); break;
	case DSM_CALL_LOCK:
	case DSM_CALL_TRYLOCK: err = do_lock(r, p); break;
	case DSM_CALL_UNLOCK:
		host_begin();
		err = host_held(r, p->hold, HE_UNLOCK, NULL);
		local_bh_enable();
		break;
	case DSM_CALL_BARRIER: err = do_barrier(r, p); break;
	default: err = -EINVAL;
	}
	return !err && copy_to_user(arg, p, sizeof(*p)) ? -EFAULT : err;
}
