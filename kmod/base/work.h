/* SPDX-License-Identifier: GPL-2.0 */
/*
 * work.h - the workqueues of the module.
 *
 * If no worker can be created, the rescuer of a workqueue runs everything that is queued in it, one
 * item after the other. An item must therefore not be queued behind another item that waits for it:
 *   dsm_wq            its items wait for memory at most: completions, messages
 *   ctx->entries_wq   its items wait for mmap_lock. Each context has its own, because its processes
 *                     may keep that lock for as long as they like
 *   dsm_waiting_wq    its items wait for both, through keys, frames_sem and SRCU; it has no rescuer
 */
#ifndef KMOD_WORK_H
#define KMOD_WORK_H

#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>

extern struct workqueue_struct *dsm_wq, *dsm_waiting_wq;

/*
 * How many messages this processor has handled in the current run of softirq: between two of its
 * tasklets, or in one tick for code that is no tasklet. After SOFTIRQ_BUDGET, the rest goes to a
 * worker, or to the next run, so that the processor can do other work in between. Bottom halves are
 * off.
 */
#define SOFTIRQ_BUDGET 512u
struct softirq_run {
	unsigned int spent;
	unsigned long tick; /* in which it began */
};
DECLARE_PER_CPU(struct softirq_run, softirq_run);

static inline void softirq_run_begin(void)
{
	__this_cpu_write(softirq_run.spent, 0);
	__this_cpu_write(softirq_run.tick, jiffies);
}

static inline void softirq_run_join(void) /* begin if the last run began in another tick */
{
	if (__this_cpu_read(softirq_run.tick) != jiffies)
		softirq_run_begin();
}

bool softirq_run_over(void);  /* the budget is spent */
void softirq_run_spend(void); /* one message is handled, if this is softirq */

int workqueue_start(void); /* -ENOMEM */
void workqueue_stop(void); /* sleeps: runs what is queued, then destroys the queues */

#endif
