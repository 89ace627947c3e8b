// SPDX-License-Identifier: GPL-2.0
/*
 * park.c - calls whose threads run a signal handler. The kernel makes the thread repeat the system
 * call when its handler has returned (-ERESTARTNOINTR); meanwhile the request is under way, and
 * what its thread waits for is kept here, by thread.
 *
 * A thread that can be cancelled while it waits (DSM_SYNC_POINT) parks its call before it sleeps,
 * and once more when the C library's signal for cancellation comes. It makes the call again itself,
 * or takes it back: then it waits here for the outcome.
 *
 * A thread may also leave its handler by siglongjmp(3), and make another call, or end. Its request
 * is then given up: what comes of it, a lock or a turn, is given back by a worker; the pins of a
 * range that it has not pinned to the end go at once. The end of a process calls park_leave().
 * Modules are not told of the end of a single thread: while calls are parked, a worker checks for
 * it.
 *
 * The handler itself may make calls. A wait for a lock is then given up as well, and begins anew
 * when the handler has returned. Other requests must not be made twice: an arrival at a barrier, an
 * addition, a wait for a condition, which has unlocked its mutex. They stay parked if the new call
 * may be the handler's: its stack pointer is below that of the parked call, or on the thread's
 * signal stack. If the thread has left such a request and makes its next call from deeper on its
 * stack, a later call gives the request up. A thread that has PARKED_MAX calls parked parks no
 * more: the next signal waits until its call ends.
 *
 * A call that is given up counts as inside its rank until its last answer has come, or the rank
 * dies. Its entry in the slot's queue queues the work once (`queued`), under the queue's lock; the
 * worker takes the entry out, under that lock, before it does anything.
 */
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "park.h"
#include "../base/account.h"
#include "call.h"
#include "host.h"
#include "main.h"
#include "../base/pool.h"
#include "rank.h"
#include "slot.h"
#include "sync.h"
#include "table.h"
#include "../base/test.h"
#include "../base/work.h"

TEST_PARAM(uint, test_slow_await, 0,
	   "milliseconds until a call that is given up checks for its answer");

struct parked {
	struct list_head list;
	struct rank *r;
	struct pid *thread;
	const struct mm_struct *mm; /* identifies the process; never dereferenced */
	void __user *arg;
	unsigned long sp; /* the thread's stack pointer at the call */
	bool is_range;
	union {
		struct call call;
		struct range_call range;
	};
	u32 awaited; /* given up: wait for this answer */
	wait_queue_entry_t entry;
	struct work_struct work;
	int queued;
};

#define PARKED_BYTES kmalloc_size_roundup(sizeof(struct parked))

static void parked_forget(struct parked *p)
{
	put_pid(p->thread);
	account_uncharge_bytes(p->r->ctx, PARKED_BYTES);
	WRITE_ONCE(p->r, NULL); /* makes a use after free visible */
	kfree(p);
}

/* ---- calls that are given up ---------------------------------------------------------------- */

static bool parked_has_come(const struct parked *p)
{
	return slot_answered_by(slot_at(p->r, p->call.slot), p->call.seq, p->awaited) ||
		READ_ONCE(p->r->dead);
}

static void queue_once(struct parked *p)
{
	if (parked_has_come(p) && !xchg(&p->queued, 1))
		queue_work(dsm_wq, &p->work);
}

/* Runs under the slot's wait.lock, in any context. */
static int parked_wakes(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	queue_once(container_of(entry, struct parked, entry));
	return 0;
}

/*
 * The answer may come between the entry and the check. The call is the worker's from when its work
 * is queued; under the queue's lock it can queue the work, but not go on:
 *
 *   parked_await()                      answer                       worker
 *   takes wait.lock, adds entry
 *                                waits for wait.lock
 *   checks, drops wait.lock
 *                                takes it: queues the work
 *                                                             takes wait.lock, removes the entry,
 *                                                             forgets the call
 */
static void parked_await(struct parked *p, u32 n)
{
	wait_queue_head_t *queue = &slot_at(p->r, p->call.slot)->wait;

	p->awaited = n;
	WRITE_ONCE(p->queued, 0);
	spin_lock_irq(&queue->lock);
	__add_wait_queue(queue, &p->entry);
	test_delay_atomic(test_slow_await);
	queue_once(p);
	spin_unlock_irq(&queue->lock);
}

/* Set the operation that undoes a granted one. */
static bool undo(u8 op, struct msg *m)
{
	switch (op) {
	case SOP_RDLOCK:
	case SOP_TRYRDLOCK: m->op = SOP_RDUNLOCK; break;
	case SOP_WRLOCK:
	case SOP_TRYWRLOCK: m->op = SOP_WRUNLOCK; break;
	case SOP_WAIT:
	case SOP_TRYWAIT: m->op = SOP_POST; break;
	case SOP_ENQUEUE: m->op = SOP_SIGNAL; break; /* another thread must get the signal */
	default: return false;
	}
	m->flags = 0;
	m->value = m->op == SOP_POST;
	return true;
}

static void parked_give_back(struct rank *r, struct call *c)
{
	struct slot *s = slot_at(r, c->slot);

	if (s->status) {
		slot_put(r, c->slot);
	} else if (c->in.call != DSM_CALL_SYNC) {
		pool_begin();
		host_held(r, c->hold, HE_UNLOCK, NULL);
		local_bh_enable();
		slot_put(r, c->slot);
	} else if (undo(c->in.op, &c->m)) {
		WRITE_ONCE(s->nobody, 1); /* the answer frees the slot */
		sync_send(r, &c->m);
	} else {
		slot_put(r, c->slot);
	}
}

static void parked_come(struct work_struct *work)
{
	struct parked *p = container_of(work, struct parked, work);
	struct call *c = &p->call;
	struct rank *r = p->r;
	struct slot *s = slot_at(r, c->slot);

	remove_wait_queue(&s->wait, &p->entry);
	if (READ_ONCE(r->dead)) {
		slot_put(r, c->slot);
	} else if (c->stage == STAGE_ANSWER && c->in.call == DSM_CALL_SYNC && sync_lines_up(c) &&
		   !s->status) {
		sync_take_back(r, c);
		parked_await(p, 2);
		return;
	} else if (c->stage == STAGE_CANCEL && s->status != -ETIMEDOUT) {
		c->stage = STAGE_GRANT;
		parked_await(p, 3);
		return;
	} else {
		if (c->stage == STAGE_GRANT)
			s->status = 0; /* the last answer may be that of SOP_CANCEL */
		parked_give_back(r, c);
	}
	parked_forget(p);
	rank_exit(r);
	dsm_test_stay();
}

/* The thread will not repeat the call. */
static void parked_give_up(struct parked *p)
{
	struct call *c = &p->call;

	if (p->is_range) {
		call_range_undo(p->r, &p->range);
		parked_forget(p);
		return;
	}
	/*
	 * An arrival at a barrier cannot be undone; a thread that left a local line has no request
	 * at any home.
	 */
	if (c->stage == STAGE_BARRIER || sync_leave_line(p->r, c)) {
		parked_forget(p);
		return;
	}
	rank_enter(p->r); /* succeeds: the caller is inside */
	init_waitqueue_func_entry(&p->entry, parked_wakes);
	INIT_WORK(&p->work, parked_come);
	if (c->stage == STAGE_TURN)
		sync_take_back(p->r, c);
	parked_await(p, c->stage == STAGE_ANSWER ? 1 : c->stage == STAGE_CANCEL ? 2 : 3);
}

static void give_up_all(struct list_head *calls)
{
	struct parked *p, *next;

	list_for_each_entry_safe(p, next, calls, list)
		parked_give_up(p);
}

/* ---- calls that are made again --------------------------------------------------------------- */

#define PARKED_MAX 8u /* per thread; its handlers may be interrupted, too */
#define CHECK_EVERY (HZ / 10)

/* The first thread of a process remains as a zombie until the last thread has ended. */
static bool parked_has_ended(const struct parked *p)
{
	const struct task_struct *t;
	bool has;

	rcu_read_lock();
	t = pid_task(p->thread, PIDTYPE_PID);
	has = !t || READ_ONCE(t->exit_state);
	rcu_read_unlock();
	return has;
}

static void check_ended(struct work_struct *work)
{
	struct rank *r = container_of(to_delayed_work(work), struct rank, parked_check);
	struct parked *p, *next;
	LIST_HEAD(left);

	if (!rank_enter(r))
		return;
	spin_lock(&r->parked_lock);
	list_for_each_entry_safe(p, next, &r->parked, list)
		if (parked_has_ended(p))
			list_move(&p->list, &left);
	if (!list_empty(&r->parked))
		queue_delayed_work(dsm_wq, &r->parked_check, CHECK_EVERY);
	spin_unlock(&r->parked_lock);
	give_up_all(&left);
	rank_exit(r);
}

/* NULL: out of memory, or over the user's limit; then the signal waits. */
static struct parked *parked_new(struct rank *r, void __user *arg)
{
	struct parked *p;

	if (!account_charge_bytes(r->ctx, PARKED_BYTES))
		return NULL;
	p = kmalloc(sizeof(*p), GFP_CTX);
	if (!p) {
		account_uncharge_bytes(r->ctx, PARKED_BYTES);
		return NULL;
	}
	*p = (struct parked){ .r = r,
			      .thread = get_pid(task_pid(current)),
			      .mm = current->mm,
			      .arg = arg,
			      .sp = user_stack_pointer(current_pt_regs()) };
	return p;
}

static bool list_it(struct rank *r, struct parked *p)
{
	const struct parked *other;
	unsigned int mine = 0;

	spin_lock(&r->parked_lock);
	list_for_each_entry(other, &r->parked, list)
		mine += other->thread == p->thread;
	if (mine < PARKED_MAX) {
		list_add(&p->list, &r->parked);
		queue_delayed_work(dsm_wq, &r->parked_check, CHECK_EVERY);
	}
	spin_unlock(&r->parked_lock);
	if (mine >= PARKED_MAX)
		parked_forget(p);
	return mine < PARKED_MAX;
}

bool park_call(struct rank *r, const struct call *c, void __user *arg)
{
	struct parked *p = parked_new(r, arg);

	if (!p)
		return false;
	p->call = *c;
	return list_it(r, p);
}

bool park_range(struct rank *r, const struct range_call *c, void __user *arg)
{
	struct parked *p = parked_new(r, arg);

	if (!p)
		return false;
	p->is_range = true;
	p->range = *c;
	return list_it(r, p);
}

bool park_quit(struct rank *r, const struct call *c)
{
	struct parked *p = parked_new(r, NULL);

	if (!p)
		return false;
	p->call = *c;
	parked_give_up(p);
	return true;
}

/* Can this call be given up and made again without harm? */
static bool can_be_repeated(const struct parked *p)
{
	const struct dsm_ioc_call *in = &p->call.in;

	return p->is_range || in->call == DSM_CALL_LOCK ||
		(in->call == DSM_CALL_SYNC &&
		 (in->op == SOP_RDLOCK || in->op == SOP_WRLOCK || in->op == SOP_WAIT));
}

/* May this thread's current call come from a handler that interrupted the parked call? */
static bool may_be_inside(const struct parked *p)
{
	const unsigned long sp = user_stack_pointer(current_pt_regs());

	return on_sig_stack(sp) == on_sig_stack(p->sp) ? sp < p->sp : on_sig_stack(sp);
}

/* A call at a cancellation point: its thread repeats it, or takes it back. */
static bool is_point(const struct parked *p)
{
	return !p->is_range && sync_is_point(&p->call.in);
}

static bool parked_is_same(const struct parked *p, bool is_range, const void *in,
			   const void __user *arg)
{
	return p->is_range == is_range && p->arg == arg &&
		(p->sp == user_stack_pointer(current_pt_regs()) || is_point(p)) &&
		(is_range ? !memcmp(&p->range.in, in, sizeof(p->range.in))
			  : !memcmp(&p->call.in, in, sizeof(p->call.in)));
}

/*
 * Return the parked call that this thread repeats, if any. Give up its other parked calls, which it
 * has left.
 */
static struct parked *take_mine(struct rank *r, bool is_range, const void *in,
				const void __user *arg)
{
	struct parked *p, *next, *mine = NULL;
	LIST_HEAD(left);

	if (list_empty_careful(&r->parked))
		return NULL;
	spin_lock(&r->parked_lock);
	list_for_each_entry_safe(p, next, &r->parked, list) {
		if (p->thread != task_pid(current))
			continue;
		if (!mine && parked_is_same(p, is_range, in, arg)) {
			mine = p;
			list_del(&p->list);
		} else if (can_be_repeated(p) || !may_be_inside(p)) {
			list_move(&p->list, &left);
		}
	}
	spin_unlock(&r->parked_lock);
	give_up_all(&left);
	return mine;
}

bool park_take(struct rank *r, const struct dsm_ioc_call *in, void __user *arg, struct call *c)
{
	struct parked *p = take_mine(r, false, in, arg);

	if (!p)
		return false;
	*c = p->call;
	parked_forget(p);
	return true;
}

bool park_take_range(struct rank *r, const struct dsm_ioc_range *in, void __user *arg,
		     struct range_call *c)
{
	struct parked *p = take_mine(r, true, in, arg);

	if (!p)
		return false;
	*c = p->range;
	parked_forget(p);
	return true;
}

bool park_take_point(struct rank *r, const void __user *arg, struct call *c)
{
	struct parked *p, *mine = NULL;

	spin_lock(&r->parked_lock);
	list_for_each_entry(p, &r->parked, list)
		if (p->thread == task_pid(current) && p->arg == arg && is_point(p)) {
			mine = p;
			list_del(&p->list);
			break;
		}
	spin_unlock(&r->parked_lock);
	if (!mine)
		return false;
	*c = mine->call;
	parked_forget(mine);
	return true;
}

void park_leave(struct rank *r, const struct mm_struct *mm)
{
	struct parked *p, *next;
	LIST_HEAD(left);

	if (!rank_enter(r))
		return;
	spin_lock(&r->parked_lock);
	list_for_each_entry_safe(p, next, &r->parked, list)
		if (p->mm == mm)
			list_move(&p->list, &left);
	spin_unlock(&r->parked_lock);
	give_up_all(&left);
	rank_exit(r);
}

void park_show(struct seq_file *f, struct rank *r)
{
	const struct parked *p;

	spin_lock(&r->parked_lock);
	list_for_each_entry(p, &r->parked, list)
		seq_printf(f, "  call of thread %d, parked\n", pid_nr(p->thread));
	spin_unlock(&r->parked_lock);
}

void park_init(struct rank *r)
{
	spin_lock_init(&r->parked_lock);
	INIT_LIST_HEAD(&r->parked);
	INIT_DELAYED_WORK(&r->parked_check, check_ended);
}

void park_stop(struct rank *r)
{
	cancel_delayed_work_sync(&r->parked_check);
}

void park_free(struct rank *r)
{
	struct parked *p, *next;

	list_for_each_entry_safe(p, next, &r->parked, list)
		parked_forget(p);
}
