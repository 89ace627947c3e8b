/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * dir.h - the directory entry of a block at its home: who holds it, whose request is served, who waits.
 *
 * Reads of a block that has read copies are served beside each other: the home counts them and knows each by the mark of
 * its queue node, until the requester's MSG_DONE. Every other request of the block is served alone: from the first message
 * the home sends until MSG_DONE the entry is busy, and it does not become busy before the last of those reads is done. What
 * cannot be served now queues, first come first served. So nothing that belongs to an earlier request can overtake anything
 * that belongs to a later one and conflicts with it, whatever the channels do. Zeroed memory is the start: untouched,
 * contents zero.
 */
#ifndef CORE_DIR_H
#define CORE_DIR_H

#include "core/action.h"
#include "core/push.h"
#include "core/queue.h"
#include "core/set.h"

enum dir_state {
	DIR_UNTOUCHED = 0, /* contents zero, no copy anywhere */
	DIR_PLACED,        /* untouched, and this node stays the home */
	DIR_SHARED,        /* copies at the nodes of the copyset; requests for data go to the owner */
	DIR_EXCLUSIVE,     /* one copy, at the owner, who may write */
	DIR_MOVED,         /* the home is `owner`; this node only manages */
	DIR_LEFT,          /* this node was the home, and asks for the manager, `owner`, to be asked */
	DIR_STATES
};

enum dir_phase {
	DIR_IDLE = 0, /* nothing is under way but reads of copies, if readers */
	DIR_BUSY,     /* serving a request, until its MSG_DONE */
	DIR_HANDING, /* the same, and then the requester becomes the home: it writes again and again, or is to have it (MSGF_PLACE) */
	DIR_MOVING, /* a home that hands over, until the manager's MSG_MOVE_ACK */
	DIR_HOMING, /* a node is becoming the home, until its MSG_HOME_ACK */
	DIR_TURN,   /* as idle, waiters queue, ACT_RESUME is out */
	DIR_PHASES
};

#define DIR_FOLLOW 3u    /* so many writes in a row after its first make a node the home */
#define DIR_STAYS 3u     /* uses: the home was chosen by dsm_place() */
#define DIR_READERS 511u /* copies that are on their way at a time; further reads queue */

struct dir {
	uint64_t copyset; /* MOVED: how many requests were forwarded to that home */
	uint32_t owner : 10;
	uint32_t served : 10; /* whose request that is, or whose was the last; MOVED: who moved it */
	uint32_t readers : 9; /* reads served beside each other, not done yet */
	uint32_t uses : 2;    /* writes in a row by one node, while the home used the block for nothing; or DIR_STAYS */
	uint32_t migratory : 1; /* readers write next: a read gets the whole block at once */
	uint32_t tail : 22;     /* waiting requests */
	uint32_t phase : 3;
	uint32_t state : 3;
	uint32_t sample : 4; /* of a block that migrates: now and then only a copy, to see whether that is still so */
};
CORE_ASSERT_SIZE(struct dir, 16);
_Static_assert(WIRE_MAX_NODES <= 1 << 10, "a node fits into owner and served");

struct dir_ctx {
	uint16_t me;
	uint16_t nnodes;
	uint16_t manager; /* of the block; SET_NOBODY: this node does not know its region */
	uint8_t follow;   /* DIR_FOLLOW or less; 0: homes stay where they are */
	uint8_t pushes;   /* PUSH_AFTER or less; 0: nothing is pushed, and `push` is not used */
	struct push *push;
	struct qpool queue;
	uint16_t *
		forwarded; /* requests that the manager has forwarded here and that were served since this node is the home */
};

/* One step with a message for the home. 0, -EBADMSG or -ESTALE (core/dispatch.h). */
int dir_step(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out);

/* Is this node the home, and not about to hand over? Then it stays the home: dsm_place() said so. */
bool dir_stay(struct dir *d);

/* Has the home nothing under way for this block? */
static inline bool dir_quiet(const struct dir *d)
{
	return d->phase == DIR_IDLE && !d->readers;
}

const char *dir_state_name(unsigned int state);
const char *dir_phase_name(unsigned int phase);
const char *dir_rule_name(unsigned int state, unsigned int type); /* what serving a request of that type does */

#endif
