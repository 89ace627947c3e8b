/* SPDX-License-Identifier: GPL-2.0 */
/* sync.h - calls for locks, semaphores, conditions, barriers and atomic objects. */
#ifndef KMOD_SYNC_H
#define KMOD_SYNC_H

#include "core/wire.h"
#include "dsm_uapi.h"

struct rank;

/* What the thread of a synchronisation request waits for next. */
enum call_stage {
	STAGE_ANSWER = 0, /* the first answer */
	STAGE_TURN,       /* queued: its turn, until `end` */
	STAGE_CANCEL,     /* SOP_CANCEL sent: its answer tells whether the turn came first */
	STAGE_GRANT,      /* the turn came first: its answer */
	STAGE_BARRIER
};

/* A synchronisation request in progress. */
struct call {
	struct dsm_ioc_call in, out; /* the argument as the thread passed it; the result */
	struct msg m;
	u64 end; /* time limit, by ktime_get_ns(); 0: none */
	u32 seq; /* slot->seq before the request; for a barrier: its generation */
	int slot;
	u16 hold;
	u8 stage;      /* enum call_stage */
	bool killable; /* it cannot be parked: only a fatal signal ends the wait */
	/* a cancellation point: instead of its first sleep, the thread returns to user space */
	bool brief;
};

/* send a message of this rank; process context, sleeps */
void sync_send(struct rank *r, const struct msg *m);
void sync_take_back(struct rank *r, struct call *c); /* it is queued: send SOP_CANCEL; sleeps */
/* can its thread be cancelled while it waits? */
bool sync_is_point(const struct dsm_ioc_call *in);
/*
 * Stop waiting for a lock behind another thread of this rank, and free the slot. False: it does not
 * wait there.
 */
bool sync_leave_line(struct rank *r, struct call *c);
bool sync_lines_up(const struct call *c); /* does its first answer only say that it is queued? */
/* The answer of a call, which the caller copies to user space if the result is 0. */
struct sync_answer {
	void __user *to;
	struct dsm_ioc_call out;
};
/* Make the call, which has its argument at arg. It copies nothing to or from user space. */
long sync_call(struct rank *r, const struct dsm_ioc_call *in, void __user *arg,
	       struct sync_answer *answer);

#endif
