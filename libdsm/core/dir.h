/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * dir.h - the directory entry of a block at its home: its holders, the request being served, and
 * the waiters.
 *
 * Reads of a block that has read copies are served concurrently. The home counts them, and marks
 * the queue entry of each, until MSG_DONE, which the requester sends, or the home itself (brief
 * reads, below). Every other request is served alone. The entry is busy from the first message that
 * the home sends until MSG_DONE, and it becomes busy only after the last of those reads is done.
 * Requests that cannot be served now queue in FIFO order. So no message of an earlier request but
 * the contents of a brief read can be overtaken by one of a later conflicting request, whatever
 * order the channels keep. Zeroed memory is the initial state: untouched, contents zero.
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
	DIR_SHARED,        /* copies at the nodes of the copyset; the owner sends the data */
	DIR_EXCLUSIVE,     /* one copy, at the owner, which may write */
	DIR_MOVED,         /* the home is `owner`; this node is only the manager */
	/* this node was the home, and redirects requesters to the manager, `owner` */
	DIR_LEFT,
	DIR_STATES
};

enum dir_phase {
	DIR_IDLE = 0, /* no request is active except `readers` reads of copies */
	DIR_BUSY,     /* serving a request, until MSG_DONE */
	/*
	 * the same; then the requester becomes the home, because it writes repeatedly or by
	 * MSGF_PLACE
	 */
	DIR_HANDING,
	DIR_MOVING, /* this home is handing over, until the manager's MSG_MOVE_ACK */
	DIR_HOMING, /* a node is becoming the home, until its MSG_HOME_ACK */
	DIR_TURN,   /* idle, but requests queue: ACT_RESUME is outstanding */
	DIR_PHASES
};

/* a node becomes the home after so many consecutive writes, its first not counted */
#define DIR_FOLLOW 3u
#define DIR_STAYS 3u     /* value of uses: dsm_place() chose the home */
#define DIR_READERS 511u /* most concurrent reads of copies; further reads queue */

struct dir {
	uint64_t copyset; /* MOVED: number of requests forwarded to that home */
	uint32_t owner : 10;
	/* requester of the current or last request; MOVED: the node that moved the block */
	uint32_t served : 10;
	uint32_t readers : 9; /* concurrent reads that are not done yet */
	/* consecutive writes by one node without a use by the home; or DIR_STAYS */
	uint32_t uses : 2;
	uint32_t migratory : 1; /* readers write next: a read gets the block for writing */
	uint32_t tail : 22;     /* waiting requests */
	uint32_t phase : 3;
	uint32_t state : 3;
	/* reads of a migratory block; each 16th gets a copy, to check that it still migrates */
	uint32_t sample : 4;
};
CORE_ASSERT_SIZE(struct dir, 16);
_Static_assert(WIRE_MAX_NODES <= 1 << 10, "a node fits into owner and served");

struct dir_ctx {
	uint16_t me;
	uint16_t nnodes;
	uint16_t manager; /* of the block; SET_NOBODY: its region is unknown to this node */
	uint8_t follow;   /* DIR_FOLLOW or less; 0: homes stay where they are */
	uint8_t pushes;   /* PUSH_AFTER or less; 0: pushing is off, and `push` is not used */
	/*
	 * Reads by other nodes are brief if this node sends the contents: a read ends when they
	 * have been sent, not when they have arrived. MSG_DATA says so by its count, 1.
	 */
	bool brief;
	struct push *push;
	struct qpool queue;
	/*
	 * forwarded requests of the manager that were served here since this node became the home
	 */
	uint16_t *forwarded;
};

/* Step the entry with a message for the home. Returns 0, -EBADMSG or -ESTALE (core/dispatch.h). */
int dir_step(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out);

/* Keep this node the home, for dsm_place(). False: it is not the home, or is about to hand over. */
bool dir_stay(struct dir *d);

/* Does the home have no active request for this block? */
static inline bool dir_quiet(const struct dir *d)
{
	return d->phase == DIR_IDLE && !d->readers;
}

const char *dir_state_name(unsigned int state);
const char *dir_phase_name(unsigned int phase);
/* the transition for a request of that type */
const char *dir_rule_name(unsigned int state, unsigned int type);

#endif
