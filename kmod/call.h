/* SPDX-License-Identifier: GPL-2.0 */
/* call.h - the other calls of threads: ranges, and access to a block for the kernel's own use. */
#ifndef KMOD_CALL_H
#define KMOD_CALL_H

#include "rank.h"

long call_sync(struct view *v, void *in, void __user *arg);
long call_range(struct view *v, void *in, void __user *arg);
void call_range_undo(struct rank *r,
		     struct range_call *c); /* it ends before its end: its pins, and what it has asked */
/* Get the block around a page and keep it until call_access_end(). Sleeps, mmap_lock may be held. 0, -errno. */
int call_access(struct rank *r, u32 page, bool write, u32 *object);
void call_access_end(struct rank *r, u32 object, bool write);

#endif
