// SPDX-License-Identifier: GPL-2.0
/*
 * run.c - delivers messages: to peers by conn.c, to ranks of this kernel by a queue per processor,
 * which avoids recursion. A worker does what softirq cannot finish.
 */
#include <linux/cpuhotplug.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "run.h"
#include "../base/account.h"
#include "../net/conn.h"
#include "../base/debug.h"
#include "fault.h"
#include "host.h"
#include "inject.h"
#include "../net/lane.h"
#include "main.h"
#include "../base/pool.h"
#include "rank.h"
#include "region.h"
#include "step.h"
#include "table.h"
#include "../base/test.h"
#include "../base/trace.h"
#include "../base/work.h"

TEST_PARAM(uint, test_runq, 0,
	   "places in a processor's queue of messages for ranks of this kernel");

/*
 * Each request of the rank and of its peers may cause several messages. They come only once those
 * that they follow are handled.
 */
#define LATER_MAX(r) ((int)(4 * BLOCK_SLOTS * (r)->size))

struct later {
	struct delayed_work work;
	struct rank *rank;
	bool fetch; /* of ACT_FETCH (MSG_RELEASE, MSG_SETTLE): request the block of m */
	bool again; /* memory ran out before */
	struct msg m;
};

/*
 * A processor's queue of messages for ranks of this kernel, from each other and from other hosts. A
 * prefetch of 128 blocks causes about 500. The thread that runs the queue (running) takes up to
 * BUDGET messages, all threads of a run of softirq together no more (work.h), and leaves the rest
 * to a worker. If memory is short, it leaves all. So no peer can keep a processor in softirq.
 *
 * A message holds no reference to its rank: rank_stop() calls run_forget() to remove its messages.
 */
#define RUNQ 4096u
#define BUDGET SOFTIRQ_BUDGET
struct runq {
	spinlock_t lock; /* nothing inside; bottom halves are off */
	u32 head, tail;
	bool running;
	struct work_struct rest;
	struct {
		struct rank *to; /* NULL: the rank has gone */
		struct msg m;
	} items[RUNQ];
};

static struct runq **runqs; /* of each processor that has been online */
/* of CPU hotplug, in which a processor gets its queue; 0: not registered */
static int runqs_state;
static struct pool laters;

static void push(struct rank *to, const struct msg *m)
{
	struct runq *q = runqs[smp_processor_id()];
	u32 at, n;

	if (READ_ONCE(to->dead))
		return;
	spin_lock(&q->lock);
	n = q->tail - q->head;
	if (n < RUNQ && (!test_value(test_runq) || n < test_value(test_runq))) {
		at = q->tail++ % RUNQ;
		q->items[at].to = to;
		q->items[at].m = *m;
		n = 0;
	}
	spin_unlock(&q->lock);
	if (n)
		run_later(to, m);
}

void run_route(struct rank *r, const struct msg *m)
{
	struct rank *to = READ_ONCE(r->here[m->dst]);

	if (READ_ONCE(r->dead))
		return;
	if (ask_is(m->type) && m->src == r->me)
		ask_note(&slot_at(r, m->req_slot)->ask, m);
	trace_dsm_message_out(r->me, m);
	if (!to) {
		count(r->messages_out, 1);
		if (r->conn)
			lane_send_to(r->conn, m->dst, m);
		else
			inject_sent(r, m);
		return;
	}
	/* The other rank must know this rank, too: knowing its number and the key is not enough. */
	if (READ_ONCE(to->here[r->me]) == r)
		push(to, m);
	else
		debug_count(COUNT_UNSENT, 1);
}

void run_send(struct rank *r, const struct msg *m)
{
	struct msg copy = *m;

	copy.version = WIRE_VERSION;
	run_route(r, &copy);
	run_queued();
}

/*
 * One message of each kind waits per block: the worker handles it for all that arrive before it
 * begins. So a peer that repeats itself takes no more memory. If the block has moved to another
 * rank meanwhile, that rank's message is lost: giving a block back is a hint, and a rank that
 * leaves the block repeats it. NULL: the range has been forgotten. The caller holds the RCU read
 * lock.
 */
static unsigned long *fetches_of(struct rank *r, const struct msg *m)
{
	struct state *st = READ_ONCE(r->states[block_page(m->object) / CHUNK_PAGES]);

	return st ? st->fetches[m->type == MSG_SETTLE ? FETCH_SETTLE : m->op] : NULL;
}

/* False: one waits already, or the state of the block is gone. */
static bool fetch_waits(struct rank *r, const struct msg *m)
{
	unsigned long *waits;
	bool is;

	rcu_read_lock();
	waits = fetches_of(r, m);
	is = waits && !test_and_set_bit(block_page(m->object) % CHUNK_PAGES, waits);
	rcu_read_unlock();
	return is;
}

/*
 * From here on another message may wait. All allocations have been made before: until then this
 * worker may sleep, and so might a worker for each later message.
 */
static void fetch_begins(struct rank *r, const struct msg *m)
{
	unsigned long *waits;

	rcu_read_lock();
	waits = fetches_of(r, m);
	if (waits)
		clear_bit(block_page(m->object) % CHUNK_PAGES, waits);
	rcu_read_unlock();
	/*
	 * pairs with test_and_set_bit(): the worker sees what preceded a message that did not wait
	 */
	smp_mb();
}

/*
 * The owner of a block whose home is this rank, maybe outdated; -1: none, or this rank is not the
 * home.
 */
static int owner_of(struct rank *r, u32 page)
{
	struct state *st;
	int owner = -1;

	rcu_read_lock();
	st = READ_ONCE(r->states[page / CHUNK_PAGES]);
	if (st) {
		const struct dir *d = &st->dirs[page % CHUNK_PAGES];

		if (d->state == DIR_SHARED || d->state == DIR_EXCLUSIVE)
			owner = d->owner;
	}
	rcu_read_unlock();
	return owner;
}

/*
 * Prepare for a block that is placed at this rank. False: this rank may have left the region; the
 * rank that places it asks again.
 */
static bool over_ready(struct rank *r, const struct msg *m)
{
	const u32 page = block_page(m->object);

	return step_block_ok(r, m->object) && !fault_prepare(r, page, fault_frames(r, page));
}

/*
 * Prepare for a block that comes back to this rank, its home. This rank may have left the region,
 * or never added it; then the message gives the number of frames (aux). 1: ready; 0: refused;
 * -EAGAIN: out of memory.
 */
static int back_ready(struct rank *r, const struct msg *m)
{
	u32 page = block_page(m->object), frames = fault_frames(r, page);
	int err;

	if (!frames)
		frames = m->aux;
	if (!step_block_ok(r, m->object) || frames > CHUNK_PAGES ||
	    page % CHUNK_PAGES + block_pages(m->object) > frames) {
		host_bad(r, m);
		return 0;
	}
	if (owner_of(r, page) != m->src)
		return 0; /* the sender has lost the block since the message was checked */
	if (!region_foreign_take(r, page, m->src))
		return 0;
	err = fault_prepare(r, page, frames);
	if (err == -ENOMEM)
		return -EAGAIN;
	if (err) {
		pr_warn_ratelimited("dsm: rank %u: no frames for a block that is given back (%d)\n",
				    r->me, err);
		rank_peer_lost(r, r->me, err);
	}
	return !err;
}

/* False: out of memory. */
static bool fetch(struct rank *r, const struct msg *m)
{
	const bool back = m->type == MSG_RELEASE;
	const int ready = back ? back_ready(r, m) : over_ready(r, m);

	if (ready < 0)
		return false;
	fetch_begins(r, m);
	if (!ready)
		return true;
	pool_begin();
	fault_prefetch(r, m->object, !back || m->op == RELEASE_EVICT, m->flags, m->home, back);
	run_queued();
	local_bh_enable();
	return true;
}

/* Handle a message for which softirq had no memory. False: there is still none. */
static bool late_step(struct rank *r, const struct msg *m)
{
	const unsigned int refused = account_refused(r->ctx);

	if (step_prepare(r, m)) {
		pool_begin();
		run_message(r, m);
		local_bh_enable();
	} else if (account_refused(r->ctx) == refused) {
		return false;
	} else {
		host_no_memory(r);
	}
	return true;
}

#define AGAIN_AFTER (HZ / 50)

/* A worker must not wait for memory: others need the worker, also those of other users. */
static void try_again(struct later *l)
{
	debug_count(COUNT_AGAIN, 1);
	if (!l->again)
		pr_warn_ratelimited(
			"dsm: rank %u: no memory for %s of rank %u, which is tried again\n",
			l->rank->me, wire_name(l->m.type), l->m.src);
	l->again = true;
	queue_delayed_work(dsm_waiting_wq, &l->work, AGAIN_AFTER);
}

static void later_work(struct work_struct *work)
{
	struct later *l = container_of(to_delayed_work(work), struct later, work);
	struct mem_cgroup *before = account_memcg_begin(l->rank->ctx);
	struct rank *r = l->rank;
	bool done;

	debug_count(COUNT_PROCESS, 1);
	done = l->fetch ? fetch(r, &l->m) : late_step(r, &l->m);
	account_memcg_end(before);
	if (!done && !READ_ONCE(r->dead) && !test_bit(l->m.src, r->gone)) {
		try_again(l);
		return;
	}
	if (!done && l->fetch)
		fetch_begins(r, &l->m);
	pool_put(&laters, l);
	account_uncharge_bytes(r->ctx, sizeof(*l));
	atomic_dec(&r->later);
	rank_exit(r);
	dsm_test_stay();
}

/* NULL: too many messages wait, or the user may not lock more. */
static struct later *later_new(struct rank *r)
{
	struct later *l;

	if (atomic_read(&r->later) > LATER_MAX(r) || !account_charge_bytes(r->ctx, sizeof(*l)))
		return NULL;
	l = pool_get(&laters);
	if (!l)
		account_uncharge_bytes(r->ctx, sizeof(*l));
	return l;
}

static void put_off(struct rank *r, const struct msg *m, bool fetch)
{
	struct later *l;

	if (!rank_enter(r))
		return;
	if (fetch && !fetch_waits(r, m)) {
		rank_exit(r);
		return;
	}
	debug_count(COUNT_LATER, 1);
	l = later_new(r);
	if (!l) {
		host_no_memory(r);
		rank_exit(r);
		return;
	}
	INIT_DELAYED_WORK(&l->work, later_work);
	l->rank = r;
	l->fetch = fetch;
	l->again = false;
	l->m = *m;
	atomic_inc(&r->later);
	queue_delayed_work(dsm_waiting_wq, &l->work, 0);
}

void run_later(struct rank *r, const struct msg *m)
{
	put_off(r, m, false);
}

void run_fetch(struct rank *r, const struct msg *m)
{
	put_off(r, m, true);
}

static void deliver(struct rank *r, const struct msg *m)
{
	if (test_bit(m->src, r->gone))
		return;
	trace_dsm_message_in(r->me, m);
	count(r->steps, 1);
	core_deliver(&r->core, m, NULL);
}

/* Take the next message. If there is none, the queue is no longer running. */
static bool pop(struct runq *q, struct rank **to, struct msg *m)
{
	bool is;

	spin_lock(&q->lock);
	is = q->head != q->tail;
	if (is) {
		*to = q->items[q->head % RUNQ].to;
		*m = q->items[q->head++ % RUNQ].m;
	} else {
		q->running = false;
	}
	spin_unlock(&q->lock);
	return is;
}

/* True if the queue has messages and nobody runs it: then the caller runs it. */
static bool claim(struct runq *q)
{
	bool is;

	spin_lock(&q->lock);
	is = !q->running && q->head != q->tail;
	if (is)
		q->running = true;
	spin_unlock(&q->lock);
	return is;
}

/* Returns true if there are more messages. */
static bool run_some(struct runq *q)
{
	struct rank *to;
	struct msg m;
	unsigned int n;

	for (n = 0; n < BUDGET && pools_full() && !softirq_run_over(); n++) {
		if (!pop(q, &to, &m))
			return false;
		if (to && !READ_ONCE(to->dead))
			deliver(to, &m);
		softirq_run_spend();
	}
	debug_count(n < BUDGET && !softirq_run_over() ? COUNT_USED_UP : COUNT_OVER, 1);
	spin_lock(&q->lock);
	q->running = false;
	spin_unlock(&q->lock);
	return true;
}

/*
 * If the queue is already running, further up the stack or on another processor (rest()), that
 * thread handles the messages.
 */
void run_queued(void)
{
	struct runq *q = runqs[smp_processor_id()];

	if (claim(q) && run_some(q))
		queue_work(dsm_wq, &q->rest);
}

/* Runs on any processor; messages that it causes go to that processor's queue. */
static void rest(struct work_struct *work)
{
	struct runq *q = container_of(work, struct runq, rest);
	bool more;

	do {
		pool_begin();
		more = claim(q) && run_some(q);
		run_queued();
		local_bh_enable();
		cond_resched();
	} while (more);
}

void run_message(struct rank *r, const struct msg *m)
{
	push(r, m);
	run_queued();
}

/* No new message can come for the rank. After a grace period, no queue still handles an old one. */
void run_forget(struct rank *r)
{
	struct runq *q;
	u32 i;
	int cpu;

	for_each_possible_cpu(cpu) {
		q = READ_ONCE(runqs[cpu]);
		if (!q)
			continue;
		spin_lock_bh(&q->lock);
		for (i = q->head; i != q->tail; i++)
			if (q->items[i % RUNQ].to == r)
				q->items[i % RUNQ].to = NULL;
		spin_unlock_bh(&q->lock);
	}
}

/* Before a processor comes online, and for those that are. */
static int runq_make(unsigned int cpu)
{
	struct runq *q;

	if (runqs[cpu])
		return 0;
	q = vzalloc(sizeof(*q));
	if (!q)
		return -ENOMEM;
	spin_lock_init(&q->lock);
	INIT_WORK(&q->rest, rest);
	WRITE_ONCE(runqs[cpu], q);
	return 0;
}

int run_start(void)
{
	int err = pool_create(&laters, "dsm_later", sizeof(struct later), __alignof__(struct later),
			      KEEP_MESSAGES);

	if (err)
		return err;
	runqs = kvcalloc(nr_cpu_ids, sizeof(*runqs), GFP_KERNEL);
	if (!runqs)
		return -ENOMEM;
	err = cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "dsm:run", runq_make, NULL);
	runqs_state = max(err, 0);
	return min(err, 0);
}

void run_stop(void)
{
	int cpu;

	pool_destroy(&laters);
	if (runqs_state)
		cpuhp_remove_state_nocalls(runqs_state);
	if (!runqs)
		return;
	for_each_possible_cpu(cpu)
		vfree(runqs[cpu]);
	kvfree(runqs);
}
