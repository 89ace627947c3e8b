// SPDX-License-Identifier: GPL-2.0
/* work.c - the module's workqueues: see work.h. Each context has one more, for its page table entries (ctx.c). */
#include "work.h"

struct workqueue_struct *dsm_wq, *dsm_waiting_wq;

int work_start(void)
{
	dsm_wq = alloc_workqueue("dsm", WQ_HIGHPRI | WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	dsm_waiting_wq = alloc_workqueue("dsm-waiting", WQ_HIGHPRI | WQ_UNBOUND, WQ_UNBOUND_MAX_ACTIVE);
	if (dsm_wq && dsm_waiting_wq)
		return 0;
	work_stop();
	return -ENOMEM;
}

void work_stop(void)
{
	if (dsm_wq)
		destroy_workqueue(dsm_wq);
	if (dsm_waiting_wq)
		destroy_workqueue(dsm_waiting_wq);
}
