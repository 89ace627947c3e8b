// SPDX-License-Identifier: GPL-2.0
/*
 * call.c - ioctl(2) calls on ranges of blocks: fetch, give back, pin, place, leave. Other calls are
 * in sync.c.
 */
#include <linux/delay.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "call.h"
#include "../net/conn.h"
#include "fault.h"
#include "host.h"
#include "../net/lane.h"
#include "park.h"
#include "../base/pool.h"
#include "rank.h"
#include "region.h"
#include "run.h"
#include "slot.h"
#include "sync.h"
#include "table.h"

/* ---- ranges --------------------------------------------------------------------------------- */

/* The state of a block at this rank; it may change at any time. */
static struct copy copy_read(struct rank *r, u32 page)
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
		copy.held = READ_ONCE(p->held);
	}
	rcu_read_unlock();
	return copy;
}

static bool range_may(struct rank *r, u32 page, bool write)
{
	struct copy p = copy_read(r, page);

	return write ? page_writable(&p) : page_readable(&p);
}

#define PAUSE_US 20 /* the first pause; later ones are longer */

/* Sleep without a slot, twice as long each time. */
static int pause_a_little(struct rank *r, unsigned int *us, bool killable)
{
	if (killable ? fatal_signal_pending(current) : signal_pending(current))
		return signal_err();
	if (READ_ONCE(r->dead))
		return -EIO;
	usleep_range(*us, *us * 2);
	*us = min(*us * 2, 1000u);
	return 0;
}

static int fetch_ahead(struct rank *r, const struct region *g, u32 page, bool write)
{
	struct msg ask = fault_request(r, g, page, 0);
	int err = fault_prepare(r, page, fault_frames(r, page));

	if (err)
		return err;
	pool_begin();
	fault_prefetch(r, ask.object, write, ask.flags, ask.home, false);
	run_queued();
	local_bh_enable();
	return 0;
}

/*
 * Get the block that `ask` names and wait for it. The block must be prepared. ns limits the wait
 * for the block, and excludes a wait for a slot; 0: no limit. A signal ends the wait unless it is
 * killable: the request continues without the thread, which joins it when it repeats the call.
 * If `pinned` is not NULL, pin the block before run_queued() tells the home that the block was
 * used. Otherwise a home in this kernel would take the block away at once for the next rank, and
 * ranks that pin it would take it from each other forever.
 */
static int acquire_prepared(struct rank *r, struct msg ask, bool write, u64 ns, bool killable,
			    bool *pinned)
{
	int slot = ns ? slot_now(r) : slot_get(r, SLOT_BLOCK, killable), err = 0;
	struct core_waiter t = { .wait = -1 };
	bool open;

	if (slot < 0)
		return slot;
	ask.req_slot = (u16)slot;
	WRITE_ONCE(slot_at(r, slot)->object, ask.object);
	do {
		t.wait = -1;
		pool_begin();
		open = host_page(r, write ? PE_WRITE : PE_READ, &ask, &t);
		run_queued();
		local_bh_enable();
		if (open)
			break;
		err = t.wait < 0 ? -EIO : slot_wait(r, t.wait, t.seq, 1, ns, killable);
		if (t.wait != slot)
			continue;
		if (err && slot_abandon(r, slot, t.seq))
			return err;
		err = 0; /* the answer has arrived all the same */
		pool_begin();
		host_page(r, PE_USED, &ask, &t);
		if (pinned)
			*pinned = !host_pin(r, ask.object, write);
		slot_complete(r, slot, 0, 0);
		run_queued();
		local_bh_enable();
		break;
	} while (!err);
	slot_put(r, slot);
	return err;
}

static int range_acquire(struct rank *r, const struct region *g, u32 page, bool write,
			 bool killable, bool *pinned)
{
	int err = fault_prepare(r, page, fault_frames(r, page));

	return err ? err
		   : acquire_prepared(r, fault_request(r, g, page, 0), write, 0, killable, pinned);
}

#define ACCESS_PATIENCE NSEC_PER_SEC

/*
 * Access for a debugger, in its context, with the process's mmap_lock held. So it must not wait for
 * anything that takes mmap_lock for writing, nor without limit. The block is pinned while the
 * debugger examines it.
 */
int call_access(struct rank *r, u32 page, bool write, u32 *object)
{
	const u64 end = ktime_get_ns() + ACCESS_PATIENCE;
	bool pinned = false;
	struct msg ask;
	int err;

	if (!rank_enter(r))
		return -EIO;
	err = fault_request_at(r, page, &ask) ? fault_prepare_now(r, block_page(ask.object))
					      : -EFAULT;
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

#define TURN_PATIENCE (10 * NSEC_PER_MSEC)

/*
 * As gives_way() of the library: overlapping pins of several threads would keep a block forever.
 * While another rank waits for the block, a thread without pins waits until the existing pins end.
 * The wait is bounded, because those pins may end only after the caller's own. The process knows
 * which threads have pins (DSM_PIN_TURNS); a thread that has pinned a part of this range has some.
 */
static int give_turn(struct rank *r, struct range_call *c)
{
	unsigned int us = PAUSE_US;
	struct copy p;
	int err = 0;

	if (!(c->in.write & DSM_PIN_TURNS) || c->page != c->in.page)
		return 0;
	while (!err && (p = copy_read(r, c->page), p.held && (p.pins_read || p.pins_write))) {
		if (!c->turn)
			c->turn = ktime_get_ns() + TURN_PATIENCE;
		if (ktime_get_ns() >= c->turn)
			break;
		err = pause_a_little(r, &us, c->killable);
	}
	return err;
}

static int pin(struct rank *r, const struct region *g, struct range_call *c)
{
	const bool write = c->in.write & DSM_PIN_WRITE;
	int err = fault_prepare(r, c->page, fault_frames(r, c->page));
	bool pinned = false;

	while (!err && !pinned) {
		err = give_turn(r, c);
		if (!err)
			err = host_pin(r, block_id(c->page, c->step), write);
		if (err != -EAGAIN)
			return err == -ERANGE ? -EAGAIN : err;
		err = range_acquire(r, g, c->page, write, c->killable, &pinned);
	}
	return err;
}

static int range_release(struct rank *r, const struct region *g, u32 page, bool evict,
			 bool killable)
{
	struct msg m = fault_request(r, g, page, 0);
	struct copy p = copy_read(r, page);
	unsigned int us = PAUSE_US;
	int slot, err;

	if (!(p.flags & PAGE_OWNER) || !p.home || p.home - 1 == r->me)
		return 0;
	m.type = MSG_RELEASE;
	m.flags = 0;
	m.home = 0;
	m.op = evict ? RELEASE_EVICT : RELEASE_KEEP;
	m.aux = fault_frames(r, page);
	m.dst = (u16)(p.home - 1);
	if (m.dst >= r->size)
		return -EIO;
	while ((slot = slot_try(r, m.object, true)) < 0) {
		err = pause_a_little(r, &us, killable);
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
		if (test_bit(s, r->slot_used) &&
		    block_page(READ_ONCE(r->slots[s].object)) - page < pages)
			return true;
	return false;
}

/*
 * Drop a read copy, or give the newest copy to its home and wait until it has left. -EBUSY: the
 * block is pinned.
 */
static int range_leave(struct rank *r, const struct region *g, u32 page, bool killable)
{
	struct msg m = fault_request(r, g, page, 0);
	unsigned int us = PAUSE_US;
	struct copy p;
	int err = 0;

	while (!err && (p = copy_read(r, page), p.state != PG_INVALID)) {
		if (p.pins_read || p.pins_write) {
			err = -EBUSY;
		} else if (!(p.flags & PAGE_OWNER)) {
			pool_begin();
			host_page(r, PE_DROP, &m, NULL);
			run_queued();
			local_bh_enable();
		} else if (p.home - 1 == r->me) {
			return 0; /* the home keeps the block for the other ranks */
		} else {
			err = range_release(r, g, page, true, killable);
			while (!err && any_prefetch(r, page, 1u << g->order))
				err = pause_a_little(r, &us, killable);
		}
		if (!err && copy_read(r, page).state != PG_INVALID)
			err = pause_a_little(r, &us, killable);
	}
	return err;
}

/* ---- questions about a block: the rank that is asked answers at once, unless it has left ---- */

/*
 * A peer must not set a status that has a meaning only inside the kernel (-ERESTARTSYS and beyond).
 */
static int status_of(const struct slot *s)
{
	return s->status <= -ERESTARTSYS ? -EIO : s->status;
}

static void question_end(struct rank *r, struct range_call *c)
{
	/* If the answer is still to come, it frees the slot. */
	if (c->slot >= 0 && !slot_abandon(r, c->slot, c->seq))
		slot_put(r, c->slot);
	c->slot = -1;
}

/*
 * 0: the answer is in the slot until question_end(). A call that is repeated waits for the question
 * it has already asked.
 */
static int question_wait(struct rank *r, struct range_call *c)
{
	int err = slot_wait(r, c->slot, c->seq, 1, 0, c->killable);

	if (err && err != -ERESTARTNOINTR)
		question_end(r, c);
	return err;
}

static int question_begin(struct rank *r, const struct region *g, struct range_call *c,
			  struct msg *m)
{
	const int slot = slot_get(r, SLOT_BRIEF, c->killable);

	if (slot < 0)
		return slot;
	c->slot = slot;
	c->seq = smp_load_acquire(&slot_at(r, slot)->seq);
	*m = fault_request(r, g, c->page, (u16)slot);
	m->flags = 0;
	WRITE_ONCE(slot_at(r, slot)->object, m->object);
	return 0;
}

/* Ask rank dst about the block; the answer is in *status and *value. */
static int range_ask_of(struct rank *r, const struct region *g, struct range_call *c, u8 type,
			u16 dst, int *status, u64 *value)
{
	struct msg m;
	int err = 0;

	if (c->slot < 0) {
		err = question_begin(r, g, c, &m);
		if (err)
			return err;
		m.type = type;
		m.dst = dst;
		m.home = 0;
		m.value = *value;
		sync_send(r, &m);
	}
	err = question_wait(r, c);
	if (err)
		return err;
	*status = status_of(slot_at(r, c->slot));
	*value = slot_at(r, c->slot)->value;
	question_end(r, c);
	return 0;
}

/* As block_place() of the library. */
static int range_place(struct rank *r, const struct region *g, struct range_call *c)
{
	const u16 rank = (u16)c->in.write;
	int status = -EBUSY, err = 0;
	u64 value = rank;

	if (c->stage == PLACE_MANAGER) {
		err = range_ask_of(r, g, c, MSG_PLACE, region_home(r, g, c->page), &status, &value);
		if (err || status != -EBUSY)
			return err ? err : status;
		c->stage = PLACE_SETTLE;
	}
	if (c->stage == PLACE_SETTLE) {
		value = 0;
		err = range_ask_of(r, g, c, MSG_SETTLE, rank, &status, &value);
		if (err || status != -EBUSY || !value || value > r->size)
			return err ? err : status;
		c->home = (u16)(value - 1);
		c->stage = PLACE_CLAIM;
	}
	value = rank;
	err = range_ask_of(r, g, c, MSG_CLAIM, c->home, &status, &value);
	return err || status ? err ? err : status : -EBUSY;
}

static int echo_begin(struct rank *r, const struct region *g, struct range_call *c)
{
	const u16 home = region_home(r, g, c->page);
	struct msg m;
	int err;

	if (!r->conn || home >= r->size || home == r->me || READ_ONCE(r->here[home]))
		return -EINVAL;
	if (copy_read(r, c->page).state != PG_INVALID)
		return -EBUSY;
	err = fault_prepare(r, c->page, fault_frames(r, c->page));
	if (!err)
		err = question_begin(r, g, c, &m);
	if (err)
		return err;
	m.type = MSG_ECHO;
	m.dst = home;
	m.home = 0;
	ask_note(&slot_at(r, c->slot)->ask, &m);
	pool_begin();
	lane_send_to(r->conn, m.dst, &m);
	local_bh_enable();
	return 0;
}

static int range_echo(struct rank *r, const struct region *g, struct range_call *c)
{
	int err = c->slot < 0 ? echo_begin(r, g, c) : 0;

	if (!err)
		err = question_wait(r, c);
	if (err)
		return err;
	err = status_of(slot_at(r, c->slot));
	question_end(r, c);
	return err;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static int one_block(struct rank *r, const struct region *g, struct range_call *c)
{
	const u32 write = c->in.write, page = c->page;

	switch ((enum dsm_range_op)c->in.op) {
	case DSM_RANGE_PREFETCH:
		return range_may(r, page, write) ? 0 : fetch_ahead(r, g, page, write);
	case DSM_RANGE_ACQUIRE:
		return range_may(r, page, write)
			? 0
			: range_acquire(r, g, page, write, c->killable, NULL);
	case DSM_RANGE_RELEASE: return range_release(r, g, page, false, c->killable);
	case DSM_RANGE_EVICT: return range_release(r, g, page, true, c->killable);
	case DSM_RANGE_PIN: return pin(r, g, c);
	case DSM_RANGE_UNPIN: return host_unpin(r, block_id(page, c->step), write);
	case DSM_RANGE_PLACE: return range_place(r, g, c);
	case DSM_RANGE_LEAVE: return range_leave(r, g, page, c->killable);
	case DSM_RANGE_ECHO: return range_echo(r, g, c);
	default: return -EINVAL;
	}
}

static bool nobody_here(struct rank *r, u32 page)
{
	return !READ_ONCE(r->states[page / CHUNK_PAGES]);
}

static int range_whole_units(struct rank *r, const struct dsm_ioc_range *p)
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

/* Skip blocks that this rank has never had: large parts of a region may be untouched. */
static bool nothing_to_give(struct rank *r, const struct range_call *c)
{
	return (c->in.op == DSM_RANGE_RELEASE || c->in.op == DSM_RANGE_EVICT ||
		c->in.op == DSM_RANGE_LEAVE) &&
		nobody_here(r, c->page);
}

void call_range_undo(struct rank *r, struct range_call *c)
{
	u32 page;

	question_end(r, c);
	for (page = c->in.page; c->in.op == DSM_RANGE_PIN && page < c->page; page += c->step)
		host_unpin(r, block_id(page, c->step), c->in.write & DSM_PIN_WRITE);
}

/*
 * Copy the region of the range, if the range consists of whole blocks of one region. The region and
 * its owners may be freed while the call waits, so copy also the owner for c->page.
 */
static bool range_region(struct rank *r, const struct range_call *c, struct region *copy,
			 struct dsm_owner *home)
{
	const struct dsm_ioc_range *p = &c->in;
	struct region *g;
	u32 step;

	rcu_read_lock();
	g = region_at(r, p->page);
	if (g)
		*copy = *g;
	if (g && g->home == DSM_REGION_PARTS) {
		home->rank = region_home(r, g, c->page);
		copy->owners = home;
		copy->parts = 1;
	}
	rcu_read_unlock();
	step = g ? 1u << copy->order : 1;
	return g && !((p->page - copy->page) % step) && !(p->pages % step) &&
		p->page - copy->page + p->pages <= copy->pages;
}

/* Starts at c->page, where an interrupted call stopped. */
static int walk(struct rank *r, struct range_call *c)
{
	const u32 end = c->in.page + c->in.pages;
	unsigned int us = PAUSE_US;
	struct region g;
	int err = 0;
	struct dsm_owner home;

	while (c->page < end) {
		if (!range_region(r, c, &g, &home))
			return -EINVAL;
		c->step = 1u << g.order;
		err = nothing_to_give(r, c) ? 0 : one_block(r, &g, c);
		if (err)
			return err;
		c->page += c->step;
		c->stage = PLACE_MANAGER;
		cond_resched();
		if (c->page < end &&
		    (c->killable ? fatal_signal_pending(current) : signal_pending(current)))
			return signal_err();
	}
	while (!err && c->in.op == DSM_RANGE_LEAVE && any_prefetch(r, c->in.page, c->in.pages))
		err = pause_a_little(r, &us, c->killable);
	return err;
}

static long range_run_call(struct rank *r, const struct dsm_ioc_range *in, void __user *arg)
{
	struct range_call c;
	int err = 0;

	if (!park_take_range(r, in, arg, &c)) {
		c = (struct range_call){ .slot = -1 };
		c.in = *in;
		c.page = c.in.page;
	}
	if (c.in.op >= DSM_RANGE_QUIET)
		return range_whole_units(r, &c.in);
	while (!err && (err = walk(r, &c)) == -ERESTARTNOINTR) {
		if (park_range(r, &c, arg))
			return err;
		c.killable = true;
		err = 0;
	}
	if (err)
		call_range_undo(r, &c);
	return err == -EDQUOT ? -ENOMEM : err;
}

/*
 * rank_stop() wakes the threads inside, and waits for them before it closes the connections. So
 * they do not touch user memory: that may be memory of another rank, which comes only when its
 * holder likes.
 */
long call_sync(struct view *v, void *in, void __user *arg)
{
	struct rank *r = v->ctx->rank;
	struct sync_answer answer;
	long err;

	if (!rank_enter(r))
		return -EIO;
	err = sync_call(r, in, arg, &answer);
	rank_exit(r);
	return !err && copy_to_user(answer.to, &answer.out, sizeof(answer.out)) ? -EFAULT : err;
}

long call_range(struct view *v, void *in, void __user *arg)
{
	struct rank *r = v->ctx->rank;
	long err;

	if (!rank_enter(r))
		return -EIO;
	err = range_run_call(r, in, arg);
	rank_exit(r);
	return err;
}
