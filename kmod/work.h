/* SPDX-License-Identifier: GPL-2.0 */
/*
 * work.h - the workqueues of the module.
 *
 * If no worker can be created, the rescuer of a workqueue runs everything that is queued in it, one item after the other. An item
 * must therefore not be queued behind another item that waits for it:
 *   dsm_wq            its items wait for memory at most: completions, messages
 *   ctx->entries_wq   its items wait for mmap_lock. Each context has its own, because its processes may keep that lock for as
 *                     long as they like
 *   dsm_waiting_wq    its items wait for both, through keys, frames_sem and SRCU; it has no rescuer
 */
#ifndef KMOD_WORK_H
#define KMOD_WORK_H

#include <linux/workqueue.h>

extern struct workqueue_struct *dsm_wq, *dsm_waiting_wq;

int work_start(void); /* -ENOMEM */
void work_stop(void); /* sleeps: runs what is queued, then destroys the queues */

#endif
