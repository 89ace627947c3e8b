/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * action.h - the actions that a step returns. core/host.c carries them out in order, after it has
 * dropped the object's lock.
 *
 * The host is an engine in user space, the kernel module, the simulator or the model checker.
 */
#ifndef CORE_ACTION_H
#define CORE_ACTION_H

#include "core/wire.h"

enum act {
	ACT_SEND = 1, /* send msg to msg.dst */
	/* send msg to every node in mask (see set.h) except msg.req_node and `except` */
	ACT_MCAST,
	/*
	 * lower this node's protection to prot, then send msg to msg.dst with the block; of a
	 * release block that has a twin by then, with the twin's contents
	 */
	ACT_DATA,
	/*
	 * the data that came with the event is needed; ACT_OPEN with OPEN_LANDED follows in a later
	 * step
	 */
	ACT_LAND,
	ACT_OPEN, /* let this node's threads use the block: prot, from */
	/* revoke all access, before the ACT_SEND that follows (PE_DROP: none follows) */
	ACT_CLOSE,
	ACT_WAKE, /* slot has its answer: status, value */
	/* the caller waits for slot (its own, or that of an earlier request), then steps again */
	ACT_WAIT,
	ACT_TIMER, /* call the step with PE_REPLAY at time at (us), not before */
	/*
	 * call the step with MSG_RESUME soon; node, slot: the next request; SET_NOBODY: unspecified
	 */
	ACT_RESUME,
	/* barrier: wake all threads of this node that wait for the episode that ended */
	ACT_WAKE_ALL,
	/*
	 * answer to a request that is not for a block: slot, status, value; prot: it is the last
	 * answer
	 */
	ACT_REPLY,
	/*
	 * request the block of msg (MSG_RELEASE, MSG_SETTLE) as a prefetch: prot, msg.home,
	 * msg.flags
	 */
	ACT_FETCH,
	ACT_BLAME, /* `node` broke the protocol earlier, which is detected only now: drop it */
	/* Release blocks. With the block's lock held: */
	ACT_TWIN,   /* make a twin of the block */
	ACT_UNTWIN, /* the twin is not needed any more */
	/*
	 * store the bytes of the diff that came, and no others, in the block, and in its twin if
	 * there is one
	 */
	ACT_MERGE,
	/* After the lock is dropped: */
	/*
	 * add a notice for the block to the NOTE of each node in mask except `except` and this node
	 */
	ACT_NOTICE,
	/*
	 * the same, with the diff that was merged, or that the block has from its twin
	 */
	ACT_TELL,
	ACT_GATHER,  /* a close begins: look at all open blocks (core_gather()) */
	ACT_AFTER,   /* send msg to msg.dst inside MSG_AFTER; mask: the close, prot: AFTER_* */
	ACT_DELIVER, /* msg, which was held back, may be delivered to this node */
	ACT_DRAIN,   /* step CE_DRAIN soon: there is more to do */
};

enum open_from {
	/* contents and state are in place: only the hardware protection may lag behind */
	OPEN_AGAIN = 0,
	OPEN_DATA,    /* contents came with this event */
	OPEN_LANDED,  /* contents came before */
	OPEN_UPGRADE, /* contents are the read copy in place */
	OPEN_ZERO     /* contents are zero */
};

enum prot { PROT_CLOSED = 0, PROT_RO, PROT_RW };

struct action {
	uint8_t type; /* enum act */
	uint8_t prot; /* enum prot */
	uint8_t from; /* enum open_from */
	uint8_t pad;
	uint16_t node;
	uint16_t slot;
	uint16_t except;
	int16_t status;
	uint32_t at;
	uint64_t mask; /* ACT_WAKE, ACT_REPLY: value */
	struct msg msg;
};

#define ACTIONS_MAX 19 /* the largest list has 18 (barrier.c) */
struct actions {
	unsigned int n;
	struct action v[ACTIONS_MAX];
};

/*
 * Append a zeroed action. A step appends at most ACTIONS_MAX; tests/unit checks this over all
 * states and events.
 */
static inline struct action *act_add(struct actions *out, uint8_t type)
{
	struct action *a = &out->v[out->n < ACTIONS_MAX ? out->n++ : ACTIONS_MAX - 1];

	memset(a, 0, sizeof(*a));
	a->type = type;
	a->msg.version = WIRE_VERSION;
	return a;
}

#endif
