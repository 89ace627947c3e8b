/* SPDX-License-Identifier: GPL-2.0 */
/* sync.h - calls for locks, semaphores, conditions, barriers and atomic objects. */
#ifndef KMOD_SYNC_H
#define KMOD_SYNC_H

#include "core/wire.h"
#include "dsm_uapi.h"

struct rank;

/* What the thread of a request for synchronisation waits for next. */
enum call_stage {
	STAGE_ANSWER = 0, /* the first answer */
	STAGE_TURN,       /* in line: the turn, until `end` */
	STAGE_CANCEL,     /* taken back: whether the turn has come all the same */
	STAGE_GRANT,      /* then the turn's own answer */
	STAGE_BARRIER
};

/* A request for synchronisation under way. */
struct call {
	struct dsm_ioc_call in, out; /* the argument as the thread passed it; the result */
	struct msg m;
	u64 end; /* 0: none */
	u32 seq; /* slot->seq before the request; of a barrier: its generation */
	int slot;
	u16 hold;
	u8 stage;      /* enum call_stage */
	bool killable; /* it cannot be parked: only a fatal signal ends the wait */
	bool brief;    /* a cancellation point: instead of its first sleep, the thread returns to user space */
};

void sync_send(struct rank *r, const struct msg *m); /* of this rank's own; in process context */
void sync_take_back(struct rank *r, struct call *c); /* it is in line: SOP_CANCEL */
bool sync_is_point(const struct dsm_ioc_call *in);   /* its thread can be cancelled while it waits */
/* It waits for a lock behind another thread of its rank, and does so no more: the slot is free. False: it does not stand there. */
bool sync_leave_line(struct rank *r, struct call *c);
bool sync_lines_up(const struct call *c); /* its first answer says only that it is in line */
long sync_call(struct rank *r, void *in, void __user *arg);

#endif
