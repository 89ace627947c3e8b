/* SPDX-License-Identifier: GPL-2.0 */
/* park.h - calls that a signal has interrupted, until their threads make them again. All sleep. */
#ifndef KMOD_PARK_H
#define KMOD_PARK_H

#include "dsm_uapi.h"

struct call;
struct mm_struct;
struct range_call;
struct rank;
struct seq_file;

void park_init(struct rank *r);
/* A call that its thread will make again: a signal interrupts it, or it is a cancellation point. False: no memory, or too many
 * of this thread. */
bool park(struct rank *r, const struct call *c, void __user *arg);
bool park_range(struct rank *r, const struct range_call *c, void __user *arg);
/* The thread makes a call: the one that it was making? Others that it has left are given up. */
bool park_take(struct rank *r, const struct dsm_ioc_call *in, void __user *arg, struct call *c);
bool park_take_range(struct rank *r, const struct dsm_ioc_range *in, void __user *arg, struct range_call *c);
/* The thread takes back the call with this argument, if it has parked that, and waits there as at a cancellation point. */
bool park_take_point(struct rank *r, const void __user *arg, struct call *c);
/* The thread gives up its wait for a lock. When the lock arrives, a worker unlocks it. False: no memory. */
bool park_quit(struct rank *r, const struct call *c);
void park_leave(struct rank *r, const struct mm_struct *mm); /* nobody runs in that memory any more */
void park_stop(struct rank *r);                              /* nobody is inside any more */
void park_free(struct rank *r);                              /* then */
void park_show(struct seq_file *f, struct rank *r);

#endif
