// SPDX-License-Identifier: GPL-2.0
/* call.c - what a thread asks for by ioctl(2): ranges to fetch, give back, pin, place, leave; sync.c has the rest. */
#include <linux/delay.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "rank.h"

/* ---- ranges --------------------------------------------------------------------------------- */

/* What this rank has of a block, or had a moment ago. */
static struct copy look(struct rank *r, u32 page)
{
	struct copy copy = { .state = PG_INVALID };
	struct state *st;

	rcu_read_lock();
	st = READ_ONCE(r->states[page / CHUNK_PAGES]);
	if (st) {
		const struct copy *p = &st->copies[page % CHUNK_PAGES];

		copy.state = smp_load_acquire(&p->state);
		copy.flags = READ_ONCE(p->flags);
		copy.home = READ_ONCE(p->home);
		copy.pins_read = READ_ONCE(p->pins_read);
		copy.pins_write = READ_ONCE(p->pins_write);
	}
	rcu_read_unlock();
	return copy;
}

static bool may(struct rank *r, u32 page, bool write)
{
	struct copy p = look(r, page);

	return write ? page_writable(&p) : page_readable(&p);
}

#define PAUSE_US 20 /* at first */

/* Wait a little for what has no slot of ours, longer each time. */
static int pause_a_little(struct rank *r, unsigned int *us)
{
	if (signal_pending(current))
		return signal_err();
	if (READ_ONCE(r->dead))
		return -EIO;
	usleep_range(*us, *us * 2);
	*us = min(*us * 2, 1000u);
	return 0;
}

static int fetch_ahead(struct rank *r, const struct region *g, u32 page, bool write)
{
	struct msg ask = ask_for(r, g, page, 0);
	int err = prepare_block(r, page, frames_wanted(r, page));

	if (err)
		return err;
	host_begin();
	start_prefetch(r, ask.object, write, ask.flags, ask.home, false);
	host_run();
	local_bh_enable();
	return 0;
}

/*
 * Get the block that `ask` names, which is prepared, and wait for it; for so long at most (then nor for a slot), 0: without limit.
 * A signal ends the wait unless it is killable: the request goes on without the thread, which comes again and joins it.
 * Where a pin is wanted (pinned is no null pointer) it comes before host_run() tells the home that the block is used: a home of
 * this kernel would have it taken away at once for the next rank, and ranks that pin it would take it from each other for ever.
 */
static int acquire_prepared(struct rank *r, struct msg ask, bool write, u64 ns, bool killable, bool *pinned)
{
	int slot = ns ? slot_now(r) : slot_get(r, SLOT_BLOCK), wait, err = 0;
	bool open;
	u32 seq = 0;

	if (slot < 0)
		return slot;
	ask.req_slot = (u16)slot;
	WRITE_ONCE(r->slots[slot].object, ask.object);
	do {
		wait = -1;
		host_begin();
		open = host_page(r, write ? PE_WRITE : PE_READ, &ask, &wait, &seq);
		host_run();
		local_bh_enable();
		if (open)
			break;
		err = wait < 0 ? -EIO : slot_wait(r, wait, seq, 1, ns, killable);
		if (wait != slot)
			continue;
		if (err && slot_abandon(r, slot, seq))
			return err;
		err = 0; /* the answer has come all the same */
		host_begin();
		host_page(r, PE_USED, &ask, &wait, &seq);
		if (pinned)
			*pinned = !host_pin(r, ask.object, write);
		slot_complete(r, slot, 0, 0);
		host_run();
		local_bh_enable();
		break;
	} while (!err);
	slot_put(r, slot);
	return err;
}

static int acquire(struct rank *r, const struct region *g, u32 page, bool write, bool killable, bool *pinned)
{
	int err = prepare_block(r, page, frames_wanted(r, page));

	return err ? err : acquire_prepared(r, ask_for(r, g, page, 0), write, 0, killable, pinned);
}

#define ACCESS_PATIENCE NSEC_PER_SEC

/*
 * For a debugger, in its context, with the process's mmap_lock: nothing may be waited for that needs it for writing, and nothing
 * for ever. Pinned, the block stays for as long as it is looked at.
 */
int call_access(struct rank *r, u32 page, bool write, u32 *object)
{
	const u64 end = ktime_get_ns() + ACCESS_PATIENCE;
	bool pinned = false;
	struct msg ask;
	int err;

	if (!rank_enter(r))
		return -EIO;
	err = ask_around(r, page, &ask) ? prepare_in_fault(r, block_page(ask.object)) : -EFAULT;
	while (!err && !pinned && (err = host_pin(r, ask.object, write)) == -EAGAIN) {
		const s64 left = end - ktime_get_ns();

		err = left > 0 ? acquire_prepared(r, ask, write, left, true, &pinned) : -ETIMEDOUT;
	}
	if (err)
		rank_exit(r);
	else
		*object = ask.object;
	return err;
}

void call_access_end(struct rank *r, u32 object, bool write)
{
	host_unpin(r, object, write);
	rank_exit(r);
}

static int pin(struct rank *r, const struct region *g, u32 page, bool write, bool killable)
{
	int err = prepare_block(r, page, frames_wanted(r, page));
	bool pinned = false;

	while (!err && !pinned) {
		err = host_pin(r, block_id(page, 1u << g->order), write);
		if (err != -EAGAIN)
			return err == -ERANGE ? -EAGAIN : err;
		err = acquire(r, g, page, write, killable, &pinned);
	}
	return err;
}

static int release(struct rank *r, const struct region *g, u32 page, bool evict)
{
	struct msg m = ask_for(r, g, page, 0);
	struct copy p = look(r, page);
	unsigned int us = PAUSE_US;
	int slot, err;

	if (!(p.flags & PAGE_OWNER) || !p.home || p.home - 1 == r->me)
		return 0;
	m.type = MSG_RELEASE;
	m.flags = 0;
	m.home = 0;
	m.op = evict ? RELEASE_EVICT : RELEASE_KEEP;
	m.aux = frames_wanted(r, page);
	m.dst = (u16)(p.home - 1);
	if (m.dst >= r->size)
		return -EIO;
	while ((slot = slot_try(r, m.object, true)) < 0) {
		err = pause_a_little(r, &us);
		if (err)
			return err;
	}
	m.req_slot = (u16)slot;
	sync_send(r, &m);
	return 0;
}

static bool any_prefetch(struct rank *r, u32 page, u32 pages)
{
	unsigned int s;

	for (s = SYNC_SLOTS; s < SLOTS; s++)
		if (test_bit(s, r->slot_used) && block_page(READ_ONCE(r->slots[s].object)) - page < pages)
			return true;
	return false;
}

/* Drop a read copy, or give the newest copy to its home and wait until it has gone. -EBUSY: a pinned block goes nowhere. */
static int leave(struct rank *r, const struct region *g, u32 page)
{
	struct msg m = ask_for(r, g, page, 0);
	unsigned int us = PAUSE_US;
	struct copy p;
	int err = 0;

	while (!err && (p = look(r, page), p.state != PG_INVALID)) {
		if (p.pins_read || p.pins_write) {
			err = -EBUSY;
		} else if (!(p.flags & PAGE_OWNER)) {
			host_begin();
			host_page(r, PE_DROP, &m, NULL, NULL);
			host_run();
			local_bh_enable();
		} else if (p.home - 1 == r->me) {
			return 0; /* the home keeps it for the others */
		} else {
			err = release(r, g, page, true);
			while (!err && any_prefetch(r, page, 1u << g->order))
				err = pause_a_little(r, &us);
		}
		if (!err && look(r, page).state != PG_INVALID)
			err = pause_a_little(r, &us);
	}
	return err;
}

/* Ask dst about a block, and wait for the answer: its status, and what it brings. */
static int ask_of(struct rank *r, const struct region *g, u32 page, u8 type, u16 dst, u64 *value)
{
	int slot = slot_get(r, SLOT_BLOCK), err;
	struct msg m;
	u32 seq;

	if (slot < 0)
		return slot;
	m = ask_for(r, g, page, (u16)slot);
	seq = smp_load_acquire(&r->slots[slot].seq);
	m.type = type;
	m.dst = dst;
	m.flags = 0;
	m.home = 0;
	m.value = *value;
	sync_send(r, &m);
	err = slot_wait(r, slot, seq, 1, 0, true);
	if (err && slot_abandon(r, slot, seq))
		return err;
	if (!err) {
		err = r->slots[slot].status;
		*value = r->slots[slot].value;
	}
	slot_put(r, slot);
	return err;
}

/* As block_place() of the library. */
static int place(struct rank *r, const struct region *g, u32 page, u16 rank)
{
	u64 where = rank, home = 0;
	int err = ask_of(r, g, page, MSG_PLACE, rank_home(r, g, page), &where);

	if (err == -EBUSY)
		err = ask_of(r, g, page, MSG_SETTLE, rank, &home);
	where = rank;
	if (err != -EBUSY || !home || home > r->size)
		return err;
	err = ask_of(r, g, page, MSG_CLAIM, (u16)(home - 1), &where);
	return err ? err : -EBUSY;
}

static int echo(struct rank *r, const struct region *g, u32 page)
{
	struct msg m = ask_for(r, g, page, 0);
	int slot, err;
	u32 seq;

	if (!r->conn || m.home >= r->size || m.home == r->me || READ_ONCE(r->here[m.home]))
		return -EINVAL;
	if (look(r, page).state != PG_INVALID)
		return -EBUSY;
	err = prepare_block(r, page, frames_wanted(r, page));
	if (err)
		return err;
	slot = slot_get(r, SLOT_BLOCK);
	if (slot < 0)
		return slot;
	seq = smp_load_acquire(&r->slots[slot].seq);
	m.type = MSG_ECHO;
	m.dst = m.home;
	m.flags = 0;
	m.home = 0;
	m.req_slot = (u16)slot;
	WRITE_ONCE(r->slots[slot].echo, 1);
	ask_note(&r->slots[slot].ask, &m);
	host_begin();
	conn_send(r->conn, m.dst, &m);
	local_bh_enable();
	err = slot_wait(r, slot, seq, 1, 0, true);
	if (err && slot_abandon(r, slot, seq))
		return err;
	WRITE_ONCE(r->slots[slot].echo, 0);
	if (!err)
		err = r->slots[slot].status;
	slot_put(r, slot);
	return err;
}

static int one_block(struct rank *r, const struct region *g, u32 page, const struct dsm_ioc_range *p)
{
	switch ((enum dsm_range_op)p->op) {
	case DSM_RANGE_PREFETCH: return may(r, page, p->write) ? 0 : fetch_ahead(r, g, page, p->write);
	case DSM_RANGE_ACQUIRE: return may(r, page, p->write) ? 0 : acquire(r, g, page, p->write, false, NULL);
	case DSM_RANGE_RELEASE: return release(r, g, page, false);
	case DSM_RANGE_EVICT: return release(r, g, page, true);
	/* A range of which something is pinned is not begun again. */
	case DSM_RANGE_PIN: return pin(r, g, page, p->write, page != p->page);
	case DSM_RANGE_UNPIN: return host_unpin(r, block_id(page, 1u << g->order), p->write);
	case DSM_RANGE_PLACE: return place(r, g, page, (u16)p->write);
	case DSM_RANGE_LEAVE: return leave(r, g, page);
	case DSM_RANGE_ECHO: return echo(r, g, page);
	default: return -EINVAL;
	}
}

static bool nobody_here(struct rank *r, u32 page)
{
	return !READ_ONCE(r->states[page / CHUNK_PAGES]);
}

static int whole_units(struct rank *r, const struct dsm_ioc_range *p)
{
	struct rw_semaphore *sem = &r->ctx->frames_sem;
	int err;

	if (p->op == DSM_RANGE_QUIET)
		return host_quiet(r, p->page, p->pages);
	if (down_write_killable(sem))
		return -EINTR;
	err = host_forget(r, p->page, p->pages);
	up_write(sem);
	return err;
}

static long range(struct rank *r, void *in, void __user *arg)
{
	const struct dsm_ioc_range p = *(struct dsm_ioc_range *)in;
	struct region *g, copy;
	unsigned int us = PAUSE_US;
	u32 page, step;
	int err = 0;

	park_take(r, NULL, NULL, NULL);
	if (p.op >= DSM_RANGE_QUIET)
		return whole_units(r, &p);
	rcu_read_lock();
	g = rank_region_at(r, p.page);
	if (g)
		copy = *g;
	rcu_read_unlock();
	step = g ? 1u << copy.order : 1;
	if (!g || (p.page - copy.page) % step || p.pages % step || p.page - copy.page + p.pages > copy.pages)
		return -EINVAL;
	for (page = p.page; !err && page < p.page + p.pages; page += step) {
		/* Large parts of a region may never have been touched. */
		if ((p.op == DSM_RANGE_RELEASE || p.op == DSM_RANGE_EVICT || p.op == DSM_RANGE_LEAVE) &&
		    nobody_here(r, page))
			continue;
		err = one_block(r, &copy, page, &p);
		cond_resched();
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
	}
	while (!err && p.op == DSM_RANGE_LEAVE && any_prefetch(r, p.page, p.pages))
		err = pause_a_little(r, &us);
	return err == -EDQUOT ? -ENOMEM : err;
}

/* Whoever is inside is woken when the rank is stopped, and is waited for before its connections go. */
static long inside(struct view *v, void *in, void __user *arg, long (*fn)(struct rank *r, void *in, void __user *arg))
{
	struct rank *r = v->ctx->rank;
	long err;

	if (!rank_enter(r))
		return -EIO;
	err = fn(r, in, arg);
	rank_exit(r);
	return err;
}

long call_sync(struct view *v, void *in, void __user *arg)
{
	return inside(v, in, arg, sync_call);
}

long call_range(struct view *v, void *in, void __user *arg)
{
	return inside(v, in, arg, range);
}
