/* SPDX-License-Identifier: GPL-2.0 */
/* call.h - calls for ranges of blocks (sync.h has those for synchronisation), and access to a block
 * by the kernel. */
#ifndef KMOD_CALL_H
#define KMOD_CALL_H

#include "dsm_uapi.h"

struct rank;
struct view;

/* The rank that a placement asks next: the block's manager, the new home, or the home that the new
 * home names (call.c). */
enum place_stage { PLACE_MANAGER = 0, PLACE_SETTLE, PLACE_CLAIM };

/* A call for a range in progress. Every page before `page` is done; a block has `step` pages. */
struct range_call {
	struct dsm_ioc_range in;
	u32 page, step;
	int slot; /* of PLACE and ECHO: the request for the block at `page`; -1: none */
	u32 seq;
	u8 stage;      /* enum place_stage, of the block at `page` */
	u16 home;      /* the rank that PLACE_CLAIM asks */
	u64 turn;      /* PIN: until when it waits for other threads' pins; 0: no such wait yet */
	bool killable; /* as in struct call (sync.h) */
};

long call_sync(struct view *v, void *in, void __user *arg);
long call_range(struct view *v, void *in, void __user *arg);
/* The call ends early: release its pins, and abandon its pending request. */
void call_range_undo(struct rank *r, struct range_call *c);
/* Fetch and pin the block around a page until call_access_end(). Sleeps; mmap_lock may be held.
 * -EIO: the rank is stopped; -EFAULT: outside regions; -ETIMEDOUT; other -errno. */
int call_access(struct rank *r, u32 page, bool write, u32 *object);
void call_access_end(struct rank *r, u32 object, bool write);

#endif
