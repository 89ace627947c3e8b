/* SPDX-License-Identifier: GPL-2.0 */
/* sync.h - calls for locks, semaphores, conditions, barriers and atomic objects. */
#ifndef KMOD_SYNC_H
#define KMOD_SYNC_H

#include "rank.h"

void sync_send(struct rank *r, const struct msg *m); /* of this rank's own; in process context */
void sync_take_back(struct rank *r, struct call *c); /* it is in line: SOP_CANCEL */
bool sync_is_point(const struct dsm_ioc_call *in);   /* its thread can be cancelled while it waits */
/* It waits for a lock behind another thread of its rank, and does so no more: the slot is free. False: it does not stand there. */
bool sync_leave_line(struct rank *r, struct call *c);
bool sync_lines_up(const struct call *c); /* its first answer says only that it is in line */
long sync_call(struct rank *r, void *in, void __user *arg);

#endif
