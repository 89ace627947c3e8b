/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * dispatch.h - from a message to the machine it is for. Every host of the core does it in the same way:
 *
 *   1. wire_check(), if the message is a peer's: each field is in its range;
 *   2. dispatch_target() says what kind of object the message addresses, and its number;
 *   3. the host finds that object, puts it into struct dispatch, and holds its lock;
 *   4. dispatch_step() asks who may say this now, steps the machine, and lists the actions;
 *   5. the host drops the lock and carries the actions out.
 *
 * Who may say what: only the manager of a block forwards, makes homes, and places; only the home of a copy takes it away; an
 * answer comes from whom was asked, about what was asked, in the slot and the record that asked.
 */
#ifndef CORE_DISPATCH_H
#define CORE_DISPATCH_H

#include "core/ask.h"
#include "core/barrier.h"
#include "core/dir.h"
#include "core/lock.h"
#include "core/objects.h"
#include "core/page.h"

enum target {
	TARGET_NONE = 0, /* no machine takes it */
	TARGET_BLOCK,    /* number: the block. page and dir, of one lock */
	TARGET_CREATE, /* an object that is to be made: the host takes a place (objects_take()) and fills in object and index */
	TARGET_OBJECT,  /* number: the place in the table of objects */
	TARGET_HOLD,    /* number: the hold record */
	TARGET_BARRIER, /* number: the barrier */
	TARGET_SLOT,    /* number: the slot; no lock */
	TARGET_HOST     /* the host's own business, which asks dispatch_answer() of a MSG_RETURN */
};

/* What the host knows and has found. */
struct dispatch {
	uint16_t me, nnodes;
	uint16_t manager;      /* TARGET_BLOCK: of the block; SET_NOBODY: this node does not know its region */
	uint8_t follow;        /* TARGET_BLOCK: DIR_FOLLOW, or less for tests */
	uint8_t pushes;        /* TARGET_BLOCK: PUSH_AFTER, or less for tests; 0: nothing is pushed */
	uint32_t now, hold_us; /* TARGET_BLOCK */
	struct qpool
		queue; /* TARGET_BLOCK: nodes of blocks; TARGET_OBJECT: of objects; TARGET_HOLD: of this node's threads */
	struct copy *page;
	struct dir *dir;
	const struct objects *objects;
	struct sync *object; /* NULL: there is none in this place */
	uint32_t index;      /* TARGET_CREATE: its place; 0: there is no room */
	struct hold *hold;
	bool lends; /* TARGET_HOLD: struct hold_ctx */
	struct bar *bar;
	struct bar_part *part;       /* TARGET_BARRIER, an own thread: of its rank; NULL where a node has one */
	const struct bar_tree *tree; /* TARGET_BARRIER: this node's place, for tests; NULL: as bar_tree() has it */
	/* TARGET_BARRIER, an own thread: what it says of the group; NULL: what bar->mask says */
	const struct bar_group *group;
	bar_combine combine;
	uint64_t *ask; /* TARGET_SLOT */
};

enum target dispatch_target(const struct msg *m, uint32_t *number);

/* Does it matter who the block's manager is? Else the host need not look, and says SET_NOBODY. */
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
 * 0, or
 * -EBADMSG: no correct node in m->src's place sends it: drop m->src;
 * -ESTALE:  nobody asked for it, but m->src may be honest: another node's lie can have caused it (DATA, INV_ACK, LOCKED,
 *           and requests that a manager has forwarded). To be ignored, and counted.
 * Nothing has changed then.
 */
int dispatch_step(const struct dispatch *d, const struct msg *m, struct actions *out);

/* Is m, MSG_REPLY or MSG_RETURN, what its slot has asked for? 0 or -EBADMSG; *last: no other answer follows. */
int dispatch_answer(uint64_t *ask, const struct msg *m, bool *last);

#endif
