// SPDX-License-Identifier: GPL-2.0
/*
 * flush.c - translations: processors that may have stale ones of a batch are asked to forget them,
 * and acknowledge. Nobody waits: the last to acknowledge has a tasklet on its processor go on with
 * the batch.
 *
 * flush_ask() runs with interrupts off, acknowledgements in the interrupt of another processor.
 */
#include <linux/interrupt.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>

#include <asm/tlbflush.h>

#include "flush.h"
#include "debug.h"
#include "test.h"
#include "work.h"

TEST_PARAM(bool, test_no_remote_flush, false, "leave stale translations on other processors");
TEST_PARAM(int, test_hold_cpu, -1,
	   "this processor ends no batches; what it has to end waits until it goes");

/*
 * A processor, as one that others ask to flush, and as one that asks. One that asks, with its
 * batches in `asking`:
 *
 *   asks                                       is asked
 *   batch->cpus has the bit of the other       (interrupt)
 *   asking has the batch                       called = 0, full barrier
 *   sets its bit in the other's `askers`       takes the bits in `askers`
 *   called = 1, full barrier (xchg)            flushes for each batch of these processors whose
 *                                              cpus has its bit, then clears the
 *   if it was 0: sends the interrupt           bit. The last bit ends the batch
 *
 * If `called` was 1, its interrupt is still to come: either full barrier makes it see the bit. So a
 * processor needs one request, however many batches ask it, and a batch needs a bit per processor.
 */
struct flusher {
	call_single_data_t csd;
	int cpu;
	int called;
	/* held while its requests are answered: by it, or by another while it is offline */
	spinlock_t acknowledging;
	spinlock_t lock; /* of `asking`; nests inside the other; interrupts are off */
	struct list_head asking;
	/* batches whose last acknowledgement came here: `task` goes on with them */
	struct llist_head ended;
	struct tasklet_struct task;
	unsigned long askers[]; /* bitmap of processors */
};
static struct flusher __percpu *flushers;

static void forget(const struct batch *b)
{
	unsigned int i;

	if (b->nflush > FLUSH_PAGES) {
		__flush_tlb_local();
		return;
	}
	for (i = 0; i < b->nflush; i++)
		__flush_tlb_one_user(b->flush[i]);
}

void flush_unlist(struct batch *b)
{
	unsigned long flags;

	if (!b->asker)
		return;
	spin_lock_irqsave(&b->asker->lock, flags);
	list_del(&b->flight);
	spin_unlock_irqrestore(&b->asker->lock, flags);
	b->asker = NULL;
}

/*
 * A batch of the asker that waits for this processor. It stays until that has acknowledged. NULL:
 * none.
 */
static struct batch *asked_next(struct flusher *asker, int cpu)
{
	struct batch *b, *found = NULL;

	spin_lock(&asker->lock);
	list_for_each_entry(b, &asker->asking, flight) {
		if (cpumask_test_cpu(cpu, b->cpus)) {
			found = b;
			break;
		}
	}
	spin_unlock(&asker->lock);
	return found;
}

/*
 * The processor acknowledges all that it was asked for. It is this one, or is offline: then it
 * flushes everything when it comes back.
 */
static void acknowledge(struct flusher *f, bool here)
{
	struct flusher *asker, *me = this_cpu_ptr(flushers);
	struct batch *b;
	unsigned int from;

	spin_lock(&f->acknowledging);
	xchg(&f->called, 0);
	for_each_set_bit(from, f->askers, nr_cpu_ids) {
		clear_bit(from, f->askers);
		smp_mb__after_atomic(); /* the asker sets the bit after its batch is listed */
		asker = per_cpu_ptr(flushers, from);
		while ((b = asked_next(asker, f->cpu))) {
			if (here)
				forget(b);
			debug_count(COUNT_ACKS, here);
			cpumask_clear_cpu(f->cpu, b->cpus);
			if (atomic_dec_and_test(&b->acks)) {
				flush_unlist(b);
				llist_add(&b->ended, &me->ended);
				tasklet_schedule(&me->task);
			}
		}
	}
	spin_unlock(&f->acknowledging);
}

/* In the interrupt of another processor. */
static void forget_there(void *flusher)
{
	acknowledge(flusher, true);
}

void flush_gather(struct batch *b, struct mm_struct *mm)
{
	atomic64_inc_return(&mm->context.tlb_gen); /* a full barrier, too */
	cpumask_or(b->cpus, b->cpus, mm_cpumask(mm));
}

bool flush_here(struct mm_struct *mm, unsigned long addr)
{
	atomic64_inc_return(&mm->context.tlb_gen); /* a full barrier, too */
	if (!cpumask_equal(mm_cpumask(mm), cpumask_of(smp_processor_id())))
		return false;
	__flush_tlb_one_user(addr);
	return true;
}

static void ask(struct flusher *f, int here)
{
	int err;

	set_bit(here, f->askers);
	if (xchg(&f->called, 1))
		return;
	err = smp_call_function_single_async(f->cpu, &f->csd);
	WARN_ON_ONCE(err == -EBUSY); /* the kernel releases csd before it calls forget_there() */
	if (err == -ENXIO)
		acknowledge(f, false); /* offline since */
}

void flush_ask(struct batch *b)
{
	int cpu, n, here = smp_processor_id();

	debug_count(COUNT_SHOOTDOWNS, 1);
	cpumask_and(b->cpus, b->cpus, cpu_online_mask);
	if (cpumask_test_and_clear_cpu(here, b->cpus)) {
		forget(b);
		b->flushed++;
	}
	if (test_value(test_no_remote_flush))
		return;
	n = cpumask_weight(b->cpus);
	if (!n)
		return;
	b->flushed += n;
	atomic_add(n, &b->acks);
	b->asker = this_cpu_ptr(flushers);
	spin_lock(&b->asker->lock);
	list_add_tail(&b->flight, &b->asker->asking);
	spin_unlock(&b->asker->lock);
	for_each_cpu(cpu, b->cpus) /* those that have acknowledged are no longer in it */
		ask(per_cpu_ptr(flushers, cpu), here);
}

/*
 * Batches may free themselves. The list is the tasklet's, not that of this processor: when a
 * processor goes, the kernel runs its tasklets elsewhere.
 */
static void end_all(struct tasklet_struct *t)
{
	struct flusher *f = from_tasklet(f, t, task);
	struct batch *b, *next;

	if (unlikely(smp_processor_id() == test_value(test_hold_cpu))) {
		tasklet_schedule(t);
		return;
	}
	softirq_run_begin();
	llist_for_each_entry_safe(b, next, llist_reverse_order(llist_del_all(&f->ended)), ended) {
		if (softirq_run_over()) /* in the same order, in the next run */
			llist_add(&b->ended, &f->ended);
		else
			batch_end(b);
	}
	if (!llist_empty(&f->ended))
		tasklet_schedule(t);
}

int flush_start(void)
{
	int cpu;

	flushers = __alloc_percpu(struct_size_t(struct flusher, askers, BITS_TO_LONGS(nr_cpu_ids)),
				  __alignof__(struct flusher));
	if (!flushers)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct flusher *f = per_cpu_ptr(flushers, cpu);

		f->cpu = cpu;
		INIT_CSD(&f->csd, forget_there, f);
		spin_lock_init(&f->acknowledging);
		spin_lock_init(&f->lock);
		INIT_LIST_HEAD(&f->asking);
		init_llist_head(&f->ended);
		tasklet_setup(&f->task, end_all);
	}
	return 0;
}

void flush_stop(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(flushers, cpu)->task);
	free_percpu(flushers);
}
