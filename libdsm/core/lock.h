/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * lock.h - mutual exclusion as a distributed queue (after Mellor-Crummey and Scott): the home knows only the last in line
 * and tells whoever was last before who comes next; the holder hands the lock straight to its successor.
 *
 * A lock that nobody else asks for stays where it was: its record is KEPT, and taking it again is a step in place. The
 * home takes a keeper for the last in line, as it is, and NEXT makes it hand on. Who wants to know whether the lock is
 * idle (a trylock, its destruction) makes the home ask the last in line: MSG_RECALL.
 *
 * Threads of one node that want the lock which their node has, or waits for, stand in line at its record (HE_JOIN), and get
 * it from each other without a message. While another node waits, they pass it on so many times at most.
 *
 * Two machines: struct sync (kind SYNC_MUTEX) at the home, stepped by lock_home_step(), and a hold record at each rank
 * that holds or awaits a lock, stepped by hold_step(). A record is free again only when no message can name it any more.
 */
#ifndef CORE_LOCK_H
#define CORE_LOCK_H

#include "core/action.h"
#include "core/queue.h"
#include "core/sync.h"

enum hold_state {
	HOLD_FREE = 0,
	HOLD_WAITING,   /* asked, not yet granted */
	HOLD_WAIT_NEXT, /* not yet granted, and the successor is known already */
	HOLD_HELD,
	HOLD_HELD_NEXT,    /* held, successor known */
	HOLD_KEPT,         /* released, and nobody is known to come next: the next to lock may be of this rank */
	HOLD_LEAVING,      /* given back; the home was told that nobody comes next */
	HOLD_LEAVING_NEXT, /* the home has answered that somebody does: MSG_NEXT is on its way */
	HOLD_LEFT, /* handed on, but the home's answer is still to come: until then it may take us for the last in line */
	HOLD_STATES
};

enum hold_event {
	HE_UNLOCK = 0,
	HE_TAKE, /* a thread of this node locks what the node keeps */
	HE_JOIN, /* a thread of this node waits for it here: m->req_slot */
	HE_GIVE, /* the rank needs the record for something else */
	HE_LOCKED,
	HE_NEXT,
	HE_FREED,   /* MSG_FREED, count 0 */
	HE_REFUSED, /* MSG_FREED, count -errno */
	HE_CROSSED, /* MSG_FREED, value 1: MSG_UNLOCK and MSG_NEXT crossed (hold_step() tells it from HE_FREED itself) */
	HE_RECALL,
	HE_EVENTS
};

struct hold {
	uint8_t state;
	uint8_t passed; /* so many times from thread to thread since another node waits */
	uint16_t home;
	uint32_t object;
	uint16_t slot; /* of the waiting request */
	uint16_t gen;  /* of the object: what `object` has no room for */
	uint16_t next_rank, next_slot;
	uint32_t next_hold;
	uint32_t line;  /* threads of this node that wait behind it (queue.h) */
	uint64_t owner; /* the host's name for the thread */
};
CORE_ASSERT_SIZE(struct hold, 32);

/*
 * The home's side: MSG_LOCK, MSG_TRYLOCK, MSG_UNLOCK, MSG_RECALLED. 0 or -EBADMSG. After MSG_RECALLED, *destroy says that
 * the answer was asked for by SOP_DESTROY (s->who, s->slot), which is to be tried again now.
 */
int lock_home_step(uint16_t me, struct sync *s, const struct msg *m, bool *destroy, struct actions *out);
/* m asks for a lock that has a last in line: is it idle there? One question at a time; false: one is out already. */
bool lock_home_recall(uint16_t me, struct sync *s, const struct msg *m, struct actions *out);

/* What a host of records knows. */
struct hold_ctx {
	uint16_t me;
	uint8_t passes;     /* from thread to thread while another node waits, at most */
	struct qpool queue; /* where threads of this node stand in line; all zero: none join */
};

/*
 * The holder's side; index is the record's number at this rank. A record is taken by setting HOLD_WAITING, home, object,
 * gen, slot. HE_RECALL: m may be about another lock than the record's; then it is not idle here.
 */
int hold_step(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev, const struct msg *m,
	      struct actions *out);

const char *hold_state_name(unsigned int state);
const char *hold_event_name(unsigned int event);
const char *hold_rule_name(unsigned int state, unsigned int event);

#endif
