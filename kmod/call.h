/* SPDX-License-Identifier: GPL-2.0 */
/* call.h - calls for ranges of blocks (sync.h has those for synchronisation), and access to a block by the kernel itself. */
#ifndef KMOD_CALL_H
#define KMOD_CALL_H

#include "dsm_uapi.h"

struct rank;
struct view;

/* Whom a placement asks next: the manager of the block, the new home, or the home that the new one names (call.c). */
enum place_stage { PLACE_MANAGER = 0, PLACE_SETTLE, PLACE_CLAIM };

/* A call for a range, while it runs. Every page before `page` is done; a block has `step` pages. */
struct range_call {
	struct dsm_ioc_range in;
	u32 page, step;
	int slot; /* of PLACE and ECHO: the request for the block at `page`; -1: none */
	u32 seq;
	u8 stage;      /* enum place_stage, of the block at `page` */
	u16 home;      /* whom PLACE_CLAIM asks */
	u64 turn;      /* PIN: until then pins of others go first; 0: they need not */
	bool killable; /* as in struct call (sync.h) */
};

long call_sync(struct view *v, void *in, void __user *arg);
long call_range(struct view *v, void *in, void __user *arg);
void call_range_undo(struct rank *r,
		     struct range_call *c); /* it ends before its end: its pins, and what it has asked */
/* Get the block around a page and keep it until call_access_end(). Sleeps, mmap_lock may be held. 0, -errno. */
int call_access(struct rank *r, u32 page, bool write, u32 *object);
void call_access_end(struct rank *r, u32 object, bool write);

#endif
