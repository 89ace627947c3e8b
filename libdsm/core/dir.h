/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * dir.h - the directory entry of a block at its home: who holds it, whose request is served, who waits.
 *
 * One request of a block is served at a time: from the first message the home sends until the requester's MSG_DONE
 * the entry is busy, and later requests queue first come first served. So nothing that belongs to an earlier request
 * can overtake anything that belongs to a later one, whatever the channels do. Zeroed memory is the start: untouched,
 * contents zero.
 */
#ifndef CORE_DIR_H
#define CORE_DIR_H

#include "core/action.h"
#include "core/queue.h"
#include "core/set.h"

enum dir_state {
	DIR_UNTOUCHED = 0, /* contents zero, no copy anywhere */
	DIR_PLACED,        /* untouched, and this rank stays the home */
	DIR_SHARED,        /* copies at the ranks of the copyset; requests for data go to the owner */
	DIR_EXCLUSIVE,     /* one copy, at the owner, who may write */
	DIR_MOVED,         /* the home is `owner`; this rank only manages */
	DIR_STATES
};

enum dir_phase {
	DIR_IDLE = 0,
	DIR_BUSY,   /* serving a request, until its MSG_DONE */
	DIR_HOMING, /* a rank is becoming the home, until its MSG_HOME_ACK */
	DIR_TURN,   /* idle, waiters queue, ACT_RESUME is out */
	DIR_PHASES
};

struct dir {
	uint64_t copyset;
	uint16_t owner;
	uint16_t served;   /* whose request that is */
	uint32_t tail : 22;     /* waiting requests */
	uint32_t phase : 2;
	uint32_t state : 3;
	uint32_t migratory : 1; /* readers write next: a read gets the whole block at once */
	uint32_t sample : 4;    /* but now and then only a copy, to see whether that is still so */
};
CORE_ASSERT_SIZE(struct dir, 16);

struct dir_ctx {
	uint16_t me;
	uint16_t nranks;
	struct qpool queue;
};

/* One step with a message for the home. 0 or -EBADMSG (as page_step). */
int dir_step(const struct dir_ctx *ctx, struct dir *d, const struct msg *m, struct actions *out);

const char *dir_state_name(unsigned int state);
const char *dir_phase_name(unsigned int phase);
const char *dir_rule_name(unsigned int state, unsigned int type); /* what serving a request of that type does */

#endif
