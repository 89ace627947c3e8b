// SPDX-License-Identifier: GPL-2.0
/*
 * work.c - the module's workqueues: see work.h. Each context has one more, for its page table
 * entries (ctx.c).
 */
#include "work.h"
#include "debug.h"
#include "test.h"

TEST_PARAM(uint, test_softirq_budget, 0, "messages in one run of softirq, fewer than otherwise");

struct workqueue_struct *dsm_wq, *dsm_waiting_wq;
DEFINE_PER_CPU(struct softirq_run, softirq_run);

bool softirq_run_over(void)
{
	const unsigned int less = test_value(test_softirq_budget);

	return in_serving_softirq() &&
		__this_cpu_read(softirq_run.spent) >= (less ? less : SOFTIRQ_BUDGET);
}

void softirq_run_spend(void)
{
	if (in_serving_softirq())
		debug_most(MOST_RUN, this_cpu_inc_return(softirq_run.spent));
}

int workqueue_start(void)
{
	dsm_wq = alloc_workqueue("dsm", WQ_HIGHPRI | WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	dsm_waiting_wq =
		alloc_workqueue("dsm-waiting", WQ_HIGHPRI | WQ_UNBOUND, WQ_UNBOUND_MAX_ACTIVE);
	if (dsm_wq && dsm_waiting_wq)
		return 0;
	workqueue_stop();
	return -ENOMEM;
}

void workqueue_stop(void)
{
	if (dsm_wq)
		destroy_workqueue(dsm_wq);
	if (dsm_waiting_wq)
		destroy_workqueue(dsm_waiting_wq);
}
