// SPDX-License-Identifier: GPL-2.0
/*
 * run.c - messages on their way: to peers by conn.c, to ranks of this kernel by a queue of the processor, so that nothing
 * recurses, and what softirq cannot finish to a worker.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "host.h"
#include "pool.h"
#include "trace.h"

struct later {
	struct work_struct work;
	struct rank *rank;
	struct msg m;
};

/* Messages for ranks of this kernel, by processor. A thread of a prefetch of 128 blocks causes some 500. */
#define RUNQ 4096u
struct runq {
	u32 head, tail;
	bool running;
	struct {
		struct rank *to;
		struct msg m;
	} items[RUNQ];
};

static struct runq **runqs; /* by processor */
static struct pool laters;

void host_route(struct rank *r, const struct msg *m)
{
	struct rank *to = READ_ONCE(r->here[m->dst]);
	struct runq *q;

	if (READ_ONCE(r->dead))
		return;
	trace_dsm_message_out(r->me, m);
	if (!to) {
		count(r->messages_out, 1);
		if (r->conn)
			conn_send(r->conn, m->dst, m);
		return;
	}
	q = runqs[smp_processor_id()];
	if (q->tail - q->head == RUNQ || (dsm_test_runq && q->tail - q->head >= dsm_test_runq)) {
		host_later(to, m);
		return;
	}
	q->items[q->tail % RUNQ].to = to;
	q->items[q->tail++ % RUNQ].m = *m;
}

void host_send(struct rank *r, const struct msg *m)
{
	struct msg copy = *m;

	copy.version = WIRE_VERSION;
	host_route(r, &copy);
	host_run();
}

/*
 * A block comes back to its home, this rank, which may have left the region, or never been there: then the message says how
 * many frames to make (aux).
 */
static void take_back(struct rank *r, const struct msg *m)
{
	u32 page = block_page(m->object), frames = frames_wanted(r, page);
	int err;

	if (!frames)
		frames = m->aux;
	if (!step_block_ok(r, m->object) || frames > CHUNK_PAGES || page % CHUNK_PAGES + block_pages(m->object) > frames) {
		host_bad(r, m);
		return;
	}
	err = prepare_block(r, page, frames);
	if (err) {
		pr_warn_ratelimited("dsm: rank %u: no frames for a block that comes back (%d)\n", r->me, err);
		rank_peer_lost(r, r->me, err);
		return;
	}
	local_bh_disable();
	start_prefetch(r, m->object, m->op == RELEASE_EVICT, 0, r->me);
	host_run();
	local_bh_enable();
}

static void later_work(struct work_struct *work)
{
	struct later *l = container_of(work, struct later, work);
	struct rank *r = l->rank;

	debug_count(COUNT_PROCESS, 1);
	if (l->m.type == MSG_RELEASE) {
		take_back(r, &l->m);
	} else if (step_is_of_block(&l->m) && !rank_state(r, block_page(l->m.object), GFP_KERNEL)) {
		host_no_memory(r);
	} else {
		local_bh_disable();
		host_message(r, &l->m);
		local_bh_enable();
	}
	pool_put(&laters, l);
	atomic_dec(&r->later);
	rank_exit(r);
}

void host_later(struct rank *r, const struct msg *m)
{
	struct later *l = pool_get(&laters);

	debug_count(COUNT_LATER, 1);
	if (!l)
		host_no_memory(r);
	if (!l || !rank_enter(r)) {
		pool_put(&laters, l);
		return;
	}
	INIT_WORK(&l->work, later_work);
	l->rank = r;
	l->m = *m;
	atomic_inc(&r->later);
	queue_work(dsm_wq, &l->work);
}

static void deliver(struct rank *r, const struct msg *m)
{
	struct actions acts __uninitialized;
	int err;

	trace_dsm_message_in(r->me, m);
	count(r->steps, 1);
	err = step_message(r, m, &acts);
	if (err == -EAGAIN) {
		host_later(r, m);
		/* The releaser may leave the region once nothing of it is under way. */
		if (m->type == MSG_RELEASE) {
			acts.n = 0;
			step_refuse(r, m, 0, &acts);
			host_carry_out(r, &acts, 0, m);
		}
	} else if (err) {
		host_bad(r, m);
	} else {
		host_carry_out(r, &acts, 0, m);
	}
}

void host_run(void)
{
	struct runq *q = runqs[smp_processor_id()];

	if (q->running)
		return; /* the loop below, further up this stack, will get to it */
	q->running = true;
	while (q->head != q->tail) {
		struct rank *to = q->items[q->head % RUNQ].to;
		struct msg m = q->items[q->head++ % RUNQ].m;

		if (!READ_ONCE(to->dead))
			deliver(to, &m);
	}
	q->running = false;
}

void host_message(struct rank *r, const struct msg *m)
{
	if (READ_ONCE(r->dead))
		return;
	deliver(r, m);
	host_run();
}

static bool make_runqs(void)
{
	int cpu;

	runqs = kcalloc(nr_cpu_ids, sizeof(*runqs), GFP_KERNEL);
	if (!runqs)
		return false;
	for_each_possible_cpu(cpu) {
		runqs[cpu] = vzalloc(sizeof(**runqs));
		if (!runqs[cpu])
			return false;
	}
	return true;
}

int run_start(void)
{
	int err = pool_create(&laters, "dsm_later", sizeof(struct later), __alignof__(struct later));

	return err ? err : make_runqs() ? 0 : -ENOMEM;
}

void run_stop(void)
{
	int cpu;

	pool_destroy(&laters);
	if (!runqs)
		return;
	for_each_possible_cpu(cpu)
		vfree(runqs[cpu]);
	kfree(runqs);
}
