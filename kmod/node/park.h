/* SPDX-License-Identifier: GPL-2.0 */
/* park.h - calls interrupted by a signal, kept until their threads repeat them. All functions
 * sleep. */
#ifndef KMOD_PARK_H
#define KMOD_PARK_H

#include "dsm_uapi.h"

struct call;
struct mm_struct;
struct range_call;
struct rank;
struct seq_file;

void park_init(struct rank *r);
/* Keep a call that its thread will repeat: a signal interrupts it, or it is a cancellation point.
 * False: no memory, or too many calls of this thread are parked. */
bool park_call(struct rank *r, const struct call *c, void __user *arg);
bool park_range(struct rank *r, const struct range_call *c, void __user *arg);
/* The thread makes a call. True: it repeats a parked one, now in *c. Other calls that the thread
 * has left are given up. */
bool park_take(struct rank *r, const struct dsm_ioc_call *in, void __user *arg, struct call *c);
bool park_take_range(struct rank *r, const struct dsm_ioc_range *in, void __user *arg,
		     struct range_call *c);
/* The thread is cancelled: unpark its call with this argument. False: no such call waits at a
 * cancellation point. */
bool park_take_point(struct rank *r, const void __user *arg, struct call *c);
/* The thread gives up its wait for a lock. When the lock arrives, a worker unlocks it. False: no
 * memory. */
bool park_quit(struct rank *r, const struct call *c);
/* no thread uses mm any more: give up its calls */
void park_leave(struct rank *r, const struct mm_struct *mm);
/* stop the check for ended threads; nobody is inside */
void park_stop(struct rank *r);
void park_free(struct rank *r); /* free all calls, after park_stop() */
void park_show(struct seq_file *f, struct rank *r);

#endif
