/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * dispatch.h - dispatch of a message to its state machine. Every host of the core follows the same
 * steps; core/host.c does 2 to 5:
 *
 *   1. For a message of a peer, the host calls wire_check(), which checks the range of each field.
 *   2. dispatch_target() returns the kind of object that the message addresses, and its number.
 *   3. The host finds that object, stores it in struct dispatch, and takes its lock.
 *   4. dispatch_step() checks that the sender may send this message now, steps the machine, and
 *      lists the actions.
 *   5. The host drops the lock and carries the actions out.
 *
 * Permitted senders: only the manager of a block forwards requests, makes homes, and places blocks.
 * Only the home of a copy takes it away. An answer must come from the node that was asked, for the
 * same object, and name the requesting slot or record.
 */
#ifndef CORE_DISPATCH_H
#define CORE_DISPATCH_H

#include "core/ask.h"
#include "core/barrier.h"
#include "core/closing.h"
#include "core/dir.h"
#include "core/lock.h"
#include "core/objects.h"
#include "core/page.h"
#include "core/release.h"

enum target {
	TARGET_NONE = 0, /* no machine accepts it */
	TARGET_BLOCK,    /* number: the block. page and dir, under one lock */
	/*
	 * create an object: the host allocates a place (objects_take()) and sets object and index
	 */
	TARGET_CREATE,
	TARGET_OBJECT,  /* number: the place in the object table */
	TARGET_HOLD,    /* number: the hold record */
	TARGET_BARRIER, /* number: the barrier */
	TARGET_SLOT,    /* number: the slot; no lock */
	TARGET_CLOSING, /* the closes of the node */
	/*
	 * handled by the host, which calls dispatch_answer() for MSG_RETURN, and
	 * core/host_release.h for others
	 */
	TARGET_HOST
};

/* Input of dispatch_step(), set by the host. */
struct dispatch {
	uint16_t me, nnodes;
	/* TARGET_BLOCK: of the block; SET_NOBODY: its region is unknown to this node */
	uint16_t manager;
	uint8_t follow;        /* TARGET_BLOCK: DIR_FOLLOW, or less for tests */
	uint8_t pushes;        /* TARGET_BLOCK: PUSH_AFTER, or less for tests; 0: pushing is off */
	bool brief;            /* TARGET_BLOCK: struct dir_ctx */
	uint32_t now, hold_us; /* TARGET_BLOCK */
	/*
	 * queue entries. TARGET_BLOCK: of blocks; TARGET_OBJECT: of objects; TARGET_HOLD: of this
	 * node's threads
	 */
	struct qpool queue;
	struct copy *page;
	struct dir *dir;
	/*
	 * TARGET_BLOCK: of a release block, which has neither page nor dir; NULL: the block is
	 * sequential
	 */
	struct rel *rel;
	const struct rel_ctx *rel_ctx;
	/*
	 * TARGET_CLOSING, and TARGET_BLOCK of a release block; NULL: this host has none, and
	 * refuses their messages
	 */
	struct closing *closing;
	const struct closing_ctx *closes;
	const struct objects *objects;
	struct sync *object; /* NULL: no object in this place */
	uint32_t index;      /* TARGET_CREATE: its place; 0: the table is full */
	struct hold *hold;
	bool fast;   /* TARGET_HOLD: struct hold_ctx */
	bool leases; /* TARGET_OBJECT: struct sync_ctx */
	struct bar *bar;
	/* TARGET_BARRIER, local arrival: of its rank; NULL if the node has one rank */
	struct bar_part *part;
	/* TARGET_BARRIER: position in the tree, for tests; NULL: computed by bar_tree() */
	const struct bar_tree *tree;
	/*
	 * TARGET_BARRIER, local arrival: the group that the thread names; NULL: the group in
	 * bar->mask
	 */
	const struct bar_group *group;
	bar_combine combine;
	uint64_t *ask; /* TARGET_SLOT */
};

enum target dispatch_target(const struct msg *m, uint32_t *number);

/*
 * Does dispatch_step() use the block's manager for this message? If not, the host may set
 * SET_NOBODY without a lookup.
 */
static inline bool dispatch_manager(const struct msg *m)
{
	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ: return m->flags & MSGF_FORWARDED || !(m->flags & MSGF_KNOWN);
	case MSG_DONE:
	case MSG_HOME:
	case MSG_MOVE:
	case MSG_MOVE_ACK:
	case MSG_ADOPT:
	case MSG_MOVED:
	case MSG_PLACE:
	case MSG_SETTLE:
	case MSG_CLAIM:
	case MSG_RELEASE: return true;
	default: return false;
	}
}

/*
 * Check the sender and step the machine. Returns 0. On an error nothing has changed:
 * -EBADMSG: no correct node sends this message in m->src's place; drop m->src.
 * -ESTALE:  the message was not requested, but m->src may be correct: a false message of another
 *           node may have caused it (DATA, INV_ACK, LOCKED, and requests that a manager has
 *           forwarded). Ignore and count it.
 */
int dispatch_step(const struct dispatch *d, const struct msg *m, struct actions *out);

/*
 * Check m, MSG_REPLY or MSG_RETURN, against its slot's outstanding request. 0 or -EBADMSG; *last:
 * no other answer follows.
 */
int dispatch_answer(uint64_t *ask, const struct msg *m, bool *last);

#endif
