// SPDX-License-Identifier: GPL-2.0
/* rank.c - a rank: how it joins a job, its statistics, and how it ends. */
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "rank.h"
#include "../base/account.h"
#include "../net/conn.h"
#include "../net/cq.h"
#include "../base/debug.h"
#include "../net/egress.h"
#include "host.h"
#include "inject.h"
#include "job.h"
#include "park.h"
#include "../base/pool.h"
#include "../net/recv.h"
#include "region.h"
#include "run.h"
#include "table.h"
#include "../net/vectors.h"

DEFINE_MUTEX(ranks_lock);
LIST_HEAD(ranks);

/* ---- statistics ------------------------------------------------------------------------------ */

static void copy_stats(struct dsm_ioc_stats *from, struct dsm_ioc_stats *to, bool reset)
{
	*to = *from;
	if (reset)
		memset(from, 0, sizeof(*from));
}

long rank_stats(struct view *v, void *in, void __user *arg)
{
	const struct dsm_ioc_stats *asked = in; /* the head of the argument */
	const u32 region = asked->region;
	const bool reset = asked->flags & DSM_STATS_RESET;
	struct rank *r = v->ctx->rank;
	struct dsm_ioc_stats *s;
	long err = 0;

	s = kzalloc(sizeof(*s), GFP_CTX);
	if (!s)
		return -ENOMEM;
	mutex_lock(&r->region_lock);
	if (region != DSM_STATS_RANK && !r->regions[region])
		err = -ENOENT;
	else if (region != DSM_STATS_RANK)
		copy_stats(&r->regions[region]->stats, s, reset);
	mutex_unlock(&r->region_lock);
	s->region = region;
	s->messages_in = READ_ONCE(r->messages_in);
	s->messages_out = READ_ONCE(r->messages_out);
	s->steps = READ_ONCE(r->steps);
	if (region == DSM_STATS_RANK && reset)
		r->messages_in = r->messages_out = r->steps = 0;
	if (!err && copy_to_user(arg, s, sizeof(*s)))
		err = -EFAULT;
	kfree(s);
	return err;
}

/* Has any block of this unit changed ranks? RCU: the unit's state may be freed meanwhile. */
static bool copy_transfers(struct rank *r, u32 unit, u32 *to)
{
	const struct state *st;
	u32 i, any = 0;

	rcu_read_lock();
	st = READ_ONCE(r->states[unit]);
	for (i = 0; st && i < CHUNK_PAGES; i++) {
		to[i] = READ_ONCE(st->transfers[i]);
		any |= to[i];
	}
	rcu_read_unlock();
	return any;
}

long rank_hot(struct view *v, void *in, void __user *arg)
{
	struct dsm_ioc_hot *h = in;
	struct rank *r = v->ctx->rank;
	const u32 end = r->ctx->pages / CHUNK_PAGES;
	u32 *transfers = kmalloc_array(CHUNK_PAGES, sizeof(*transfers), GFP_CTX), unit;
	long err = -ENOENT;

	BUILD_BUG_ON(DSM_UNIT_PAGES != CHUNK_PAGES);
	if (!transfers)
		return -ENOMEM;
	for (unit = h->page / CHUNK_PAGES; unit < end && !copy_transfers(r, unit, transfers);
	     unit++) {
		cond_resched();
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			goto free;
		}
	}
	if (unit == end)
		goto free;
	h->page = unit * CHUNK_PAGES;
	err = 0;
	if (copy_to_user(u64_to_user_ptr(h->transfers), transfers,
			 CHUNK_PAGES * sizeof(*transfers)) ||
	    copy_to_user(arg, h, sizeof(*h)))
		err = -EFAULT;
free:
	kfree(transfers);
	return err;
}

/* ---- for debugfs: what a rank waits for ------------------------------------------------------ */

static void show_block(struct seq_file *f, struct rank *r, u32 object)
{
	u32 page = block_page(object);
	struct state *st;

	if (!object || page >= r->ctx->pages)
		return;
	rcu_read_lock();
	st = READ_ONCE(r->states[page / CHUNK_PAGES]);
	if (st) {
		const struct copy *p = &st->copies[page % CHUNK_PAGES];
		const struct dir *d = &st->dirs[page % CHUNK_PAGES];

		seq_printf(
			f,
			", %s, acks %d, home %d, held %u of %u, pins %u %u; directory %s, %s, owner %u, served %u",
			page_state_name(p->state), p->acks, p->home - 1, p->held, p->held_node,
			p->pins_read, p->pins_write, dir_state_name(d->state),
			dir_phase_name(d->phase), d->owner, d->served);
	}
	rcu_read_unlock();
}

static void show_busy(struct seq_file *f, struct rank *r)
{
	u32 u, i;

	for (u = 0; u < r->ctx->pages / CHUNK_PAGES; u++) {
		for (i = 0; READ_ONCE(r->states[u]) && i < CHUNK_PAGES; i++) {
			struct state *st;
			bool busy;

			rcu_read_lock();
			st = READ_ONCE(r->states[u]);
			busy = st && (!dir_quiet(&st->dirs[i]) || st->copies[i].held);
			rcu_read_unlock();
			if (busy) {
				seq_printf(f, "  page %#x", u * CHUNK_PAGES + i);
				show_block(f, r, block_id(u * CHUNK_PAGES + i, 1));
				seq_putc(f, '\n');
			}
		}
		cond_resched();
	}
}

static void show_slots(struct seq_file *f, struct rank *r)
{
	unsigned long i;

	for_each_set_bit(i, r->slot_used, ALL_SLOTS) {
		const struct slot *s = slot_at(r, i);
		const u32 object = s ? READ_ONCE(s->object) : 0;

		if (!s)
			continue;
		seq_printf(f, "  slot %lu%s", i, READ_ONCE(s->nobody) ? " (nobody waits)" : "");
		if (object) {
			seq_printf(f, ", object %#x", object);
			show_block(f, r, object);
		} else {
			seq_puts(f, ", synchronisation");
		}
		seq_putc(f, '\n');
	}
}

int ranks_show(struct seq_file *f, void *unused)
{
	struct rank *r;

	mutex_lock(&ranks_lock);
	list_for_each_entry(r, &ranks, list) {
		seq_printf(f, "rank %u of %u, job %x%s, %d for a worker\n", r->me, r->size, r->job,
			   r->dead ? ", dead" : "", atomic_read(&r->later));
		show_slots(f, r);
		park_show(f, r);
		show_busy(f, r);
		if (!mutex_trylock(&r->stop_lock)) {
			seq_puts(f, "  is being stopped\n");
			continue;
		}
		if (r->conn)
			conn_show(f, r->conn);
		mutex_unlock(&r->stop_lock);
	}
	mutex_unlock(&ranks_lock);
	return 0;
}

/* ---- lost peers ----------------------------------------------------------------------------- */

void rank_peer_lost(struct rank *r, u16 peer, int err)
{
	unsigned long flags;
	unsigned int i;

	if (peer != r->me)
		set_bit(peer, r->gone);
	spin_lock_irqsave(&r->lost_lock, flags);
	for (i = 0; i < r->lost_n && r->lost[i] != (s16)peer; i++)
		;
	if (peer == r->me)
		r->err = err;
	if (i == r->lost_n && r->lost_n < DSM_RANKS_MAX) {
		r->lost[r->lost_n++] = (s16)peer;
		debug_count(COUNT_LOST, 1);
	}
	spin_unlock_irqrestore(&r->lost_lock, flags);
	wake_up_all(&r->lost_wait);
}

/* Every view is told of every lost rank. */
long rank_lost(struct view *v, void *in, void __user *arg)
{
	struct dsm_ioc_lost l = { .rank = -1 };
	struct rank *r = v->ctx->rank;

	spin_lock_irq(&r->lost_lock);
	if (v->lost_told < r->lost_n) {
		l.rank = r->lost[v->lost_told++];
		l.err = l.rank == r->me ? r->err : -EPIPE;
	}
	spin_unlock_irq(&r->lost_lock);
	return copy_to_user(arg, &l, sizeof(l)) ? -EFAULT : 0;
}

/* ---- completion queues ----------------------------------------------------------------------- */

long rank_queues(struct view *v, void *in, void __user *arg)
{
	struct rank *r = v->ctx->rank;
	struct dsm_ioc_queues q = {};

	if (mutex_lock_killable(&r->stop_lock))
		return -EINTR;
	if (r->conn)
		conn_queues(r->conn, &q);
	mutex_unlock(&r->stop_lock);
	return copy_to_user(arg, &q, sizeof(q)) ? -EFAULT : 0;
}

/* The caller holds stop_lock. r has connections. */
static void show_queues(struct seq_file *f, const struct rank *r)
{
	static const char *const modes[] = { "softirq", "workqueue", "poll" };
	struct dsm_ioc_queues q = {};
	unsigned int i;

	conn_queues(r->conn, &q);
	seq_printf(
		f,
		"rank %u of %u, job %x, %s, %s\n  class      vector  processor     events    softirq  ksoftirqd    process       sent   received\n",
		r->me, r->size, r->job, q.device, modes[q.mode]);
	for (i = 0; i < CLASS_MAX; i++)
		seq_printf(f, "  %-9s %7d %10d %10llu %10llu %10llu %10llu %10llu %10llu\n",
			   class_names[i], q.of[i].vector, q.of[i].cpu, q.of[i].events,
			   q.of[i].softirq, q.of[i].ksoftirqd, q.of[i].process, q.of[i].sent,
			   q.of[i].received);
	recv_show(f, r->conn);
	egress_show(f, r->conn);
}

int queues_show(struct seq_file *f, void *unused)
{
	struct rank *r;

	mutex_lock(&ranks_lock);
	list_for_each_entry(r, &ranks, list) {
		if (!mutex_trylock(&r->stop_lock))
			continue; /* the rank is being stopped */
		if (r->conn)
			show_queues(f, r);
		mutex_unlock(&r->stop_lock);
	}
	mutex_unlock(&ranks_lock);
	return 0;
}

/* ---- joining and leaving -------------------------------------------------------------------- */

static void free_tables(struct rank *r)
{
	table_free(r);
	kvfree(r->units);
	kvfree(r->here);
	kvfree(r->foreign);
	kvfree(r->foreign_n);
	inject_end(r);
	account_uncharge(r->ctx, r->charged);
	memzero_explicit(&r->key, sizeof(r->key));
	job_check_wiped(&r->key, sizeof(r->key));
	kvfree(r);
	debug_count(GAUGE_RANKS, -1);
}

/*
 * Pages of memory that a rank of this job has from the start; the share of the drivers' queues is
 * estimated.
 */
static long tables_charge(const struct ctx *c, const struct dsm_ioc_join *j)
{
	const size_t chunks = c->pages / CHUNK_PAGES;
	size_t bytes =
		sizeof(struct rank) + chunks * 2 * sizeof(u16) + table_bytes(j->size, chunks);

	if (strcmp(j->device, "none"))
		bytes += (j->size - 1u) * conn_peer_bytes(chunks);
	return account_pages(bytes);
}

static struct rank *make_tables(struct ctx *c, const struct dsm_ioc_join *j)
{
	struct rank *r = kvzalloc(sizeof(*r), GFP_CTX);
	u32 chunks = c->pages / CHUNK_PAGES, i;

	if (!r)
		return ERR_PTR(-ENOMEM);
	r->charged = tables_charge(c, j);
	if (!account_charge(c, r->charged)) {
		kvfree(r);
		return ERR_PTR(-EDQUOT);
	}
	debug_count(GAUGE_RANKS, 1);
	r->ctx = c;
	r->me = j->rank;
	r->size = j->size;
	r->core = (struct core_host){
		.ops = &host_core_ops,
		.me = r->me,
		.nnodes = r->size,
		.follow = DIR_FOLLOW,
		/* only the library's threads push, at barriers, between nodes of the library */
		.pushes = 0,
		.passes = LOCK_PASSES,
		.fast = false, /* no thread takes a lock by the record's word */
		.hold_us = j->hold_us,
	};
	r->spin_us = j->spin_us;
	r->readahead = j->readahead;
	r->limits = (struct wire_limits){
		.me = r->me,
		.nnodes = r->size, /* .ranks is only for BYE, which the kernel does not accept */
		.host = HOST_KERNEL,
		.block_slots = BLOCK_SLOTS,
		.slots = ALL_SLOTS,
		.holds = HOLDS,
		.barriers = (u32)r->size * BARRIERS,
		.pages = c->pages,
		.block_pages = CHUNK_PAGES,
	};
	INIT_LIST_HEAD(&r->list);
	atomic_set(&r->inside, 1);
	init_waitqueue_head(&r->empty);
	init_waitqueue_head(&r->slot_free);
	init_waitqueue_head(&r->brief_free);
	init_waitqueue_head(&r->bar_wait);
	init_waitqueue_head(&r->lost_wait);
	mutex_init(&r->region_lock);
	spin_lock_init(&r->foreign_lock);
	mutex_init(&r->stop_lock);
	spin_lock_init(&r->lost_lock);
	park_init(r);
	for (i = 0; i < STRIPES; i++)
		spin_lock_init(&r->stripes[i]);
	r->units = kvcalloc(chunks, sizeof(*r->units), GFP_CTX);
	r->here = kvcalloc(r->size, sizeof(*r->here), GFP_CTX);
	r->foreign = kvcalloc(chunks, sizeof(*r->foreign), GFP_CTX);
	r->foreign_n = kvcalloc(r->size, sizeof(*r->foreign_n), GFP_CTX);
	if (!table_make(r) && r->units && r->here && r->foreign && r->foreign_n) {
		r->here[r->me] = r;
		return r;
	}
	free_tables(r);
	return ERR_PTR(-ENOMEM);
}

/* The caller has a reference to the context, and no lock. */
static void lose_device(struct rank *r)
{
	pr_info_ratelimited("dsm: rank %u: its device was removed\n", r->me);
	rank_stop(r);
	rank_peer_lost(r, r->me, -ENODEV);
}

static struct conn *rank_conn_open(struct rank *r, struct dsm_ioc_join *j, void *address)
{
	const struct conn_config cfg = {
		.ctx = r->ctx,
		.me = r->me,
		.size = r->size,
		.key = &r->key,
		.limits = &r->limits,
		/*
		 * Two messages for each request of a peer or of this rank, and other ranks'
		 * requests, which are forwarded to the peer.
		 */
		.waiting_max = (r->size + 2u) * BLOCK_SLOTS + 2u * ALL_SLOTS,
		.ops = &host_conn_ops,
		.arg = r,
	};

	return conn_open(&cfg, j, address, &j->address_size);
}

/* -EBUSY: a PROTECT has made frames since JOIN began. */
static int rank_publish(struct ctx *c, struct rank *r)
{
	int err = -EBUSY;

	down_write(&c->frames_sem);
	if (!atomic_long_read(&c->frames)) {
		c->free_rank = rank_free;
		smp_store_release(&c->units, r->units);
		smp_store_release(&c->rank, r);
		err = 0;
	}
	up_write(&c->frames_sem);
	return err;
}

long rank_join(struct view *v, void *in, void __user *arg)
{
	struct ctx *c = view_ctx(v);
	struct dsm_ioc_join *j = in;
	struct rank *r = NULL;
	void *address = NULL;
	long err;

	if (!c)
		return -EINVAL;
	if (mutex_lock_killable(&c->lock))
		return -EINTR;
	err = c->rank || atomic_long_read(&c->frames) ? -EBUSY : 0;
	if (err)
		goto unlock;
	if (j->mode == DSM_MODE_POLL && !c->pollers && strcmp(j->device, "none")) {
		err = account_take_pollers(c, CLASS_MAX);
		if (err)
			goto unlock;
	}
	err = -ENOMEM;
	address = kzalloc(DSM_ADDRESS_MAX, GFP_CTX);
	if (!address)
		goto free;
	r = make_tables(c, j);
	if (IS_ERR(r)) {
		err = PTR_ERR(r);
		r = NULL;
		goto free;
	}
	j->address_size = 0;
	if (strcmp(j->device, "none")) {
		r->conn = rank_conn_open(r, j, address);
		err = PTR_ERR_OR_ZERO(r->conn);
		if (err) {
			r->conn = NULL;
			goto free;
		}
	}
	r->device = r->conn ? conn_device(r->conn) : NULL;
	err = rank_publish(c, r);
	if (err)
		goto close;
	mutex_lock(&ranks_lock);
	list_add(&r->list, &ranks);
	mutex_unlock(&ranks_lock);
	mutex_unlock(&c->lock);
	/*
	 * If the device was removed before the rank was on the list, the removal missed this rank.
	 */
	if (r->device && !device_is_here(r->device))
		lose_device(r);
	/*
	 * Only now, when the removal of the device finds the rank and no lock is held: memory of
	 * the process may come as late as it, or another rank, likes.
	 */
	if (copy_to_user(u64_to_user_ptr(j->address), address, j->address_size) ||
	    copy_to_user(arg, j, sizeof(*j)))
		err = -EFAULT;
	kfree(address);
	return err;

close:
	if (r->conn)
		conn_close(r->conn);
free:
	if (r)
		free_tables(r);
	kfree(address);
unlock:
	mutex_unlock(&c->lock);
	return err;
}

void rank_exit(struct rank *r)
{
	/* the rank may be freed once it is empty; rank_stop() waits for this section */
	rcu_read_lock();
	if (atomic_dec_and_test(&r->inside))
		wake_up_all(&r->empty);
	rcu_read_unlock();
}

static void wake_everybody(struct rank *r)
{
	table_wake(r);
	wake_up_all(&r->slot_free);
	wake_up_all(&r->brief_free);
	wake_up_all(&r->bar_wait);
}

#define PATIENCE (HZ / 10)

void rank_stop(struct rank *r)
{
	mutex_lock(&r->stop_lock);
	if (!r->stopped) {
		WRITE_ONCE(r->dead, true);
		/* softirqs that saw the rank alive, and may have begun something */
		synchronize_rcu();
		run_forget(r);
		wake_everybody(r);
		rank_exit(r);
		/*
		 * Operations end in milliseconds, unless they wait for a dead peer: queue pairs
		 * repeat their requests for seconds.
		 */
		if (!wait_event_timeout(r->empty, !atomic_read(&r->inside), PATIENCE) && r->conn)
			conn_stop(r->conn);
		wait_event(r->empty, !atomic_read(&r->inside));
		park_stop(r);
		synchronize_rcu();
		if (r->conn)
			conn_close(r->conn);
		r->conn = NULL;
		r->stopped = true;
	}
	mutex_unlock(&r->stop_lock);
}

/*
 * Let the threads inside all ranks of the device go, and take a reference to each rank that is new
 * to this. A thread of one rank may wait for another. Returns the next rank, or NULL. A rank on the
 * list has a view, and so a reference.
 */
static struct rank *next_to_lose(const struct ib_device *dev)
{
	struct rank *r, *next = NULL;

	mutex_lock(&ranks_lock);
	list_for_each_entry(r, &ranks, list) {
		if (r->device != dev || r->losing)
			continue;
		WRITE_ONCE(r->dead, true);
		wake_everybody(r);
		if (next)
			continue;
		next = r;
		r->losing = true;
		kref_get(&r->ctx->ref);
	}
	mutex_unlock(&ranks_lock);
	return next;
}

void ranks_leave_device(struct ib_device *dev)
{
	struct rank *r;

	while ((r = next_to_lose(dev))) {
		lose_device(r);
		ctx_put(r->ctx);
	}
}

void rank_leave(struct rank *r)
{
	unsigned int i;

	mutex_lock(&ranks_lock);
	list_del_init(&r->list);
	mutex_unlock(&ranks_lock);
	rank_stop(r);
	for (i = 0; i < r->size; i++) {
		struct rank *other = r->here[i];

		r->here[i] = NULL;
		if (other && other != r)
			ctx_put(other->ctx);
	}
}

void rank_free(struct rank *r)
{
	park_free(r);
	free_tables(r);
}
