// SPDX-License-Identifier: GPL-2.0
/*
 * host.c - the rank as a host of the core (core/host.h): what its actions do here, and the requests
 * of this rank's threads. libdsm/miss/run.c does the same in a process. Changes of access are in
 * txn.c.
 */
#include <linux/delay.h>
#include <linux/slab.h>

#include "host.h"
#include "../net/conn.h"
#include "core/word.h"
#include "../base/debug.h"
#include "inject.h"
#include "../net/key.h"
#include "../base/pool.h"
#include "rank.h"
#include "region.h"
#include "run.h"
#include "slot.h"
#include "step.h"
#include "table.h"
#include "../base/test.h"
#include "timer.h"
#include "txn.h"

TEST_PARAM(uint, test_slow_free, 0,
	   "milliseconds between the end of a key and that of its frames, at most");
TEST_PARAM(
	uint, test_pause_grant, 0,
	"1: pause the next block that arrives before its thread is woken, and set this to 2, until it is 0; at most 2 s");

void host_bad(struct rank *r, const struct msg *m)
{
	debug_count(COUNT_BAD, 1);
	pr_info_ratelimited(
		"dsm: rank %u: rank %u sent %s for object %#x, which no correct rank could\n",
		r->me, m->src, wire_name(m->type), m->object);
	host_blame(r, m->src);
}

void host_blame(struct rank *r, u16 peer)
{
	if (peer == r->me)
		return;
	rank_peer_lost(r, peer, -EBADMSG);
	if (r->conn && !READ_ONCE(r->here[peer]))
		conn_drop(r->conn, peer);
}

/* No memory in the middle of a step: the rank cannot continue. */
void host_no_memory(struct rank *r)
{
	const bool over = READ_ONCE(r->ctx->over);

	pr_warn_ratelimited("dsm: rank %u: %s\n", r->me,
			    over ? "it and its peers need more memory than its user may lock"
				 : "no memory for a transaction");
	rank_peer_lost(r, r->me, over ? -EDQUOT : -ENOMEM);
}

/* ---- callbacks of core/host.h ---------------------------------------------------------------- */

static void stripe_lock(struct core_host *h, u32 key)
{
	spin_lock(stripe_of(host_rank(h), key));
}

static void stripe_unlock(struct core_host *h, u32 key)
{
	spin_unlock(stripe_of(host_rank(h), key));
}

static u32 host_now(struct core_host *h)
{
	return now_us();
}

/* An entry that lags behind the protection of its page follows in a fault: pte_apply(). */
static bool host_again(struct core_host *h, u32 object, u8 prot)
{
	return false;
}

static u32 host_answers(struct core_host *h, u16 slot)
{
	return smp_load_acquire(&slot_at(host_rank(h), slot)->seq);
}

static void host_drop(struct core_host *h, u32 object)
{
	txn_drop_now(host_rank(h), object);
}

static void host_freed(struct core_host *h, u32 index, struct hold *hold)
{
	clear_bit(index, host_rank(h)->hold_used);
}

/*
 * -EAGAIN: step_place() had no memory in this context, and nothing has changed: a worker handles
 * the message from its start.
 */
static void host_stepped(struct core_host *h, const struct msg *m, int err,
			 const struct actions *acts)
{
	struct rank *r = host_rank(h);

	inject_stepped(r, m, err);
	if (err == -EAGAIN)
		run_later(r, m);
	else if (err == -ESTALE)
		debug_count(COUNT_STRAY, 1); /* core/dispatch.h */
	else if (err)
		host_bad(r, m);
	else if (m->type == MSG_ADOPT)
		count(stats_of(r, m->object)->homes_in, 1);
}

/* No correct peer sends such a delayed message. */
static void host_damaged(struct core_host *h, const struct msg *about, enum page_event ev, u8 state)
{
	struct rank *r = host_rank(h);

	debug_count(COUNT_BAD, 1);
	pr_info_ratelimited("dsm: rank %u: object %#x does not expect %s in its state\n", r->me,
			    about->object, page_event_name(ev));
	rank_peer_lost(r, r->me, -EBADMSG);
}

static void host_send(struct core_host *h, const struct msg *m)
{
	run_route(host_rank(h), m);
}

static void host_send_block(struct core_host *h, const struct msg *m, const void *contents)
{
	txn_send_block(host_rank(h), m);
}

static bool host_lower(struct core_host *h, const struct core_leave *l)
{
	return txn_lower(host_rank(h), l);
}

static bool host_open(struct core_host *h, const struct actions *acts, unsigned int at,
		      const struct msg *m, const void *data)
{
	txn_open(host_rank(h), &acts->v[at], m, 1);
	return true;
}

/*
 * A lock that arrives for a killed thread ends with its rank. Its message, or MSG_NONE
 * (core_hold_event()), names no block.
 */
static bool host_wake(struct core_host *h, const struct action *a, const struct msg *m)
{
	struct rank *r = host_rank(h);

	if (m->type == MSG_NONE || wire_class(m->type) > CLASS_DATA) {
		slot_complete(r, a->slot, a->status, a->mask);
		return true;
	}
	test_pause_atomic(test_pause_grant);
	return slot_granted(r, a->slot, a->status, a->mask);
}

static void host_unclaimed(struct core_host *h, const struct action *a)
{
	slot_complete(host_rank(h), a->slot, a->status, a->mask);
}

/* Without memory the rank is lost, and no timer matters. */
static bool host_timer(struct core_host *h, u32 object, u32 at)
{
	timer_replay(host_rank(h), object, at);
	return true;
}

static void host_wake_all(struct core_host *h, u32 barrier)
{
	wake_up_all(&host_rank(h)->bar_wait);
}

static void host_answer(struct core_host *h, const struct action *a)
{
	slot_answered(host_rank(h), a->slot, a->status, a->mask, a->prot);
}

static void host_fetch(struct core_host *h, const struct action *a)
{
	run_fetch(host_rank(h), &a->msg);
}

static void host_blame_node(struct core_host *h, u16 node)
{
	host_blame(host_rank(h), node);
}

const struct core_ops host_core_ops = {
	.find = step_place,
	.lock = stripe_lock,
	.unlock = stripe_unlock,
	.now = host_now,
	.again = host_again,
	.answers = host_answers,
	.leaves = NULL, /* the frame of a dropped copy keeps its contents (protocol.md) */
	.drop = host_drop,
	.freed = host_freed,
	/* the device, or the sender in this kernel, has written the block to its frame */
	.land = NULL,
	.stepped = host_stepped,
	.damaged = host_damaged,
	.send = host_send,
	.send_block = host_send_block,
	.lower = host_lower,
	.open = host_open,
	.wake = host_wake,
	.unclaimed = host_unclaimed,
	.timer = host_timer,
	.wake_all = host_wake_all,
	.answer = host_answer,
	.fetch = host_fetch,
	.blame = host_blame_node,
};

/* ---- events of threads ----------------------------------------------------------------------- */

bool host_page(struct rank *r, enum page_event ev, const struct msg *ask, struct core_waiter *t)
{
	const int page = core_page_event(&r->core, ev, ask, t);

	if (page == CORE_DROPPED)
		txn_follow_drop(r, ask->object);
	return page == CORE_OPEN;
}

u32 host_first(struct rank *r, const struct msg *ask, bool write, u32 most)
{
	struct actions acts __uninitialized;
	struct action open, next;
	struct msg m = *ask;
	u32 n, i;

	pool_begin();
	if (!step_first(r, &m, write, &open)) {
		local_bh_enable();
		return 0;
	}
	for (n = 1; n < most; n++) {
		m.object += block_pages(m.object) << 1;
		if (block_page(m.object) / CHUNK_PAGES != block_page(ask->object) / CHUNK_PAGES ||
		    !step_first(r, &m, write, &next))
			break;
	}
	/*
	 * The steps of all blocks are alike: their state machines start from nothing, with the same
	 * event.
	 */
	txn_open(r, &open, ask, n);
	for (i = 0, m.object = ask->object; i < n; i++, m.object += block_pages(m.object) << 1) {
		step_first_used(r, &m, &acts);
		core_carry_out(&r->core, &acts, 0, &m, NULL);
	}
	run_queued();
	local_bh_enable();
	return n;
}

int host_held(struct rank *r, u32 hold, enum hold_event ev, const struct msg *about)
{
	if (hold >= HOLDS || !test_bit(hold, r->hold_used) ||
	    core_hold_event(&r->core, hold, ev, about) < 0)
		return -EPERM;
	run_queued();
	return 0;
}

int host_arrive(struct rank *r, const struct msg *m, const struct bar_group *group,
		struct bar_part *part, u32 *gen)
{
	const int err = core_arrive(&r->core, m, group, part, gen);

	if (!err)
		run_queued();
	return err;
}

/* ---- what threads ask of a range; all sleep ------------------------------------------------- */

int host_pin(struct rank *r, u32 object, bool write)
{
	spinlock_t *stripe = block_stripe(r, object);
	struct state *st;
	int err;

	local_bh_disable();
	st = READ_ONCE(r->states[block_page(object) / CHUNK_PAGES]);
	if (st) {
		spin_lock(stripe);
		err = page_pin(&st->copies[block_page(object) % CHUNK_PAGES], write ? 2 : 1);
		spin_unlock(stripe);
	} else {
		err = -EAGAIN;
	}
	local_bh_enable();
	return err;
}

int host_unpin(struct rank *r, u32 object, bool write)
{
	struct msg m = { .object = object, .src = r->me, .dst = r->me };
	spinlock_t *stripe = block_stripe(r, object);
	int due = -EINVAL;
	struct state *st;

	pool_begin();
	st = READ_ONCE(r->states[block_page(object) / CHUNK_PAGES]);
	if (st) {
		spin_lock(stripe);
		due = page_unpin(&st->copies[block_page(object) % CHUNK_PAGES], write ? 2 : 1);
		spin_unlock(stripe);
	}
	if (due > 0)
		host_page(r, PE_REPLAY, &m, NULL);
	run_queued();
	local_bh_enable();
	return due < 0 ? due : 0;
}

static bool quiet(const struct copy *p, const struct dir *d)
{
	return dir_quiet(d) && !p->held &&
		(p->state == PG_INVALID || p->state == PG_READ || p->state == PG_WRITE);
}

static bool quiet_unit(const struct state *st)
{
	unsigned int i;

	for (i = 0; st && i < CHUNK_PAGES; i++)
		if (!quiet(&st->copies[i], &st->dirs[i]))
			return false;
	return true;
}

int host_quiet(struct rank *r, u32 page, u32 pages)
{
	u32 u;
	bool is = !atomic_read(&r->later); /* work left for a worker may concern this range */

	for (u = page / CHUNK_PAGES; is && u < (page + pages) / CHUNK_PAGES; u++) {
		rcu_read_lock();
		is = quiet_unit(READ_ONCE(r->states[u]));
		rcu_read_unlock();
		cond_resched();
	}
	return is ? 0 : -EAGAIN;
}

/* For test_slow_free. A test may end the delay early. */
static void free_slowly(void)
{
	unsigned int ms;

	for (ms = 0; ms < test_value(test_slow_free); ms += 20)
		msleep(20);
}

/* False: a key of the frames outlives them, so they stay, and nobody may use them. */
static bool forget_frames(struct rank *r, u32 page, struct chunk *k)
{
	if (r->conn && !key_free(r->conn, k)) {
		ctx_keep_chunk(r->ctx, page, k);
		return false;
	}
	free_slowly();
	ctx_free_chunk(r->ctx, page, k);
	return true;
}

#define FORGET_UNITS 64u /* freed per grace period */

int host_forget(struct rank *r, u32 page, u32 pages)
{
	u32 u, i, n, end = (page + pages) / CHUNK_PAGES;
	int err = 0;

	for (u = page / CHUNK_PAGES; u < end; u += n) {
		struct state *states[FORGET_UNITS];
		struct chunk *chunks[FORGET_UNITS];
		bool any = false;

		n = min(end - u, FORGET_UNITS);
		for (i = 0; i < n; i++) {
			states[i] = xchg(&r->states[u + i], NULL);
			chunks[i] = ctx_unlink_chunk(r->ctx, (u + i) * CHUNK_PAGES);
			any |= states[i] || chunks[i];
			if (r->conn)
				key_forget(r->conn, u + i);
		}
		if (any)
			synchronize_rcu(); /* wait for faults and softirqs that found them */
		for (i = 0; i < n; i++) {
			table_free_state(r, states[i]);
			region_foreign_end(r, u + i);
			if (chunks[i] && !forget_frames(r, (u + i) * CHUNK_PAGES, chunks[i]))
				err = -EIO;
		}
		cond_resched();
	}
	return err;
}

/* ---- a block that has come by RDMA ---------------------------------------------------------- */

/*
 * The immediate data of a block (core/word.h) has all that a MSG_DATA has and the request has not.
 * It has room for the first slots only; for other slots, a MSG_DATA follows the block. The
 * immediate data of an echo has the slot that asked.
 */
#define SLOT_LOW 256u

static u16 slot_of(const struct word_KERNEL_BLOCK *w)
{
	BUILD_BUG_ON(SLOTS != 4 * SLOT_LOW);
	return (u16)(w->slot_high * SLOT_LOW + w->slot_low);
}

static u32 imm_of(const struct msg *m)
{
	const struct word_KERNEL_ECHO echo = { .slot = m->req_slot, .echo = 1, .valid = 1 };
	struct word_KERNEL_BLOCK w = { .slot_low = m->req_slot % SLOT_LOW,
				       .slot_high = m->req_slot / SLOT_LOW,
				       .valid = 1 };

	if (m->type == MSG_ECHO)
		return word_put_KERNEL_ECHO(echo);
	if (m->req_slot >= SLOTS || m->home >= 1024 || m->count < 0 || m->count > 511 || m->flags ||
	    m->value)
		return 0;
	w.write = m->op == GRANT_WRITE;
	w.home = m->home;
	w.count = (u32)m->count;
	return word_put_KERNEL_BLOCK(w);
}

/* Accept an echo once, and only from the rank that was asked in this slot. */
static bool is_echo(struct slot *s, const struct msg *m)
{
	bool last;

	return ask_due(READ_ONCE(s->ask)) == MSG_ECHO && ask_answer(&s->ask, m, &last);
}

void host_landed(struct rank *r, u16 from, u32 imm)
{
	const struct word_KERNEL_BLOCK w = word_get_KERNEL_BLOCK(imm);
	const struct word_KERNEL_ECHO echo = word_get_KERNEL_ECHO(imm);
	const struct word_limits x = { .slots = BLOCK_SLOTS };
	struct msg m = {
		.version = WIRE_VERSION,
		.type = MSG_DATA,
		.op = w.write ? GRANT_WRITE : GRANT_READ,
		.src = from,
		.dst = r->me,
		.req_node = r->me,
		.req_slot = echo.echo ? (u16)echo.slot : slot_of(&w),
		.home = (u16)w.home,
		.count = (s16)w.count,
	};
	struct slot *s = slot_at(r, m.req_slot);
	const bool asked = s && test_bit(m.req_slot, r->slot_used);

	count(r->messages_in, 1);
	m.object = s ? READ_ONCE(s->object) : 0;
	if (asked && word_is_KERNEL_ECHO(&echo, &x) && is_echo(s, &m))
		slot_complete(r, m.req_slot, 0, 0);
	else if (!asked || !word_is_KERNEL_BLOCK(&w, &x) || wire_check(&m, &r->limits))
		host_bad(r, &m);
	else
		run_message(r, &m);
}

/* ---- what connections call (conn.h) ---------------------------------------------------------- */

bool host_message(struct rank *r, u16 peer, unsigned int class, const struct msg *m)
{
	count(r->messages_in, 1);
	if (m->src != peer || wire_check(m, &r->limits) || wire_class(m->type) != class)
		return false;
	switch (m->type) {
	case MSG_HELLO: /* only a peer's first message may be HELLO */ return false;
	case MSG_DATA:
		/* only after a block whose immediate data has no room for the slot: imm_of() */
		if (imm_of(m))
			return false;
		run_message(r, m);
		return true;
	case MSG_KEY_WANTED:
	case MSG_KEY:
	case MSG_ECHO: return r->conn && !key_message(r->conn, peer, m);
	default: run_message(r, m); return true;
	}
}

static bool messages(void *arg, u16 peer, unsigned int class, const struct msg *m, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!host_message(arg, peer, class, &m[i]))
			return false;
	return true;
}

static void landed(void *arg, u16 peer, u32 imm)
{
	host_landed(arg, peer, imm);
}

static bool is_block(void *arg, u32 object)
{
	return step_block_ok(arg, object);
}

static unsigned int priority(void *arg, u32 object)
{
	const struct region *g = region_at(arg, block_page(object));

	return g ? g->priority : DSM_REGION_NORMAL;
}

static void lost(void *arg, u16 peer, int err)
{
	rank_peer_lost(arg, peer, err);
}

const struct conn_ops host_conn_ops = {
	.messages = messages,
	.landed = landed,
	.imm = imm_of,
	.is_block = is_block,
	.priority = priority,
	.lost = lost,
};

/* ---- the module ----------------------------------------------------------------------------- */

int host_start(void)
{
	if (!run_start() && !txn_start() && !timer_start())
		return 0;
	host_stop();
	return -ENOMEM;
}

void host_stop(void)
{
	timer_stop();
	txn_stop();
	run_stop();
}
