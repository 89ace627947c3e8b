/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * action.h - what a step asks its host to do, in order, after the object's lock is dropped.
 *
 * The host is an engine in user space, the kernel module, the simulator or the model checker.
 */
#ifndef CORE_ACTION_H
#define CORE_ACTION_H

#include "core/wire.h"

enum act {
	ACT_SEND = 1, /* send msg to msg.dst */
	ACT_MCAST,    /* send msg to every node in mask (see set.h) but msg.req_node and `except` */
	ACT_DATA,     /* lower this node's protection to prot, then send msg to msg.dst with the block */
	ACT_LAND,     /* keep the data that came with the event; ACT_OPEN with OPEN_LANDED follows in a later step */
	ACT_OPEN,     /* let this node's threads use the block: prot, from */
	ACT_CLOSE,    /* no access any more; the next action, ACT_SEND, waits for it (PE_DROP: there is none) */
	ACT_WAKE,     /* slot has its answer: status, value */
	ACT_WAIT,     /* the caller waits for slot (its own, or one that asked before it), then asks again */
	ACT_TIMER,    /* call the step with PE_REPLAY at time at (us), not before */
	ACT_RESUME,   /* call the step with MSG_RESUME soon; node, slot: whose request is next; SET_NOBODY: not said */
	ACT_WAKE_ALL, /* barrier: everybody of this node who waits for the generation that ended */
	ACT_REPLY, /* a request other than for a block has an answer: slot, status, value; prot: it is the last one */
	ACT_FETCH, /* ask for the block of msg (MSG_RELEASE, MSG_SETTLE), as if nobody waited for it: prot, msg.home, msg.flags */
	ACT_BLAME, /* `node` has broken the protocol, as was found out only now: drop it */
};

enum open_from {
	OPEN_AGAIN = 0, /* contents and state are in place: only the hardware's protection may lag */
	OPEN_DATA,      /* contents came with this event */
	OPEN_LANDED,    /* contents came before */
	OPEN_UPGRADE,   /* contents are the read copy in place */
	OPEN_ZERO       /* contents are zero */
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

#define ACTIONS_MAX 19 /* most: 18, barrier.c */
struct actions {
	unsigned int n;
	struct action v[ACTIONS_MAX];
};

/* Append a zeroed action; every step appends at most ACTIONS_MAX (tests/unit proves it over all states and events). */
static inline struct action *act_add(struct actions *out, uint8_t type)
{
	struct action *a = &out->v[out->n < ACTIONS_MAX ? out->n++ : ACTIONS_MAX - 1];

	memset(a, 0, sizeof(*a));
	a->type = type;
	a->msg.version = WIRE_VERSION;
	return a;
}

#endif
