/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * lock.h - mutual exclusion as a distributed queue (after Mellor-Crummey and Scott): the home knows only the last in line
 * and tells whoever was last before who comes next; the holder hands the lock straight to its successor.
 *
 * Two machines: struct sync (kind SYNC_MUTEX) at the home, stepped by lock_home_step(), and a hold record at each rank
 * that holds or awaits a lock, stepped by hold_step(). A record is free again only when no message can name it any more.
 */
#ifndef CORE_LOCK_H
#define CORE_LOCK_H

#include "core/action.h"
#include "core/sync.h"

enum hold_state {
	HOLD_FREE = 0,
	HOLD_WAITING,   /* asked, not yet granted */
	HOLD_WAIT_NEXT, /* not yet granted, and the successor is known already */
	HOLD_HELD,
	HOLD_HELD_NEXT, /* held, successor known */
	HOLD_LEAVING,   /* released; the home was told that nobody comes next */
	HOLD_LEAVING_NEXT, /* the home has answered that somebody does: MSG_NEXT is on its way */
	HOLD_LEFT,      /* handed on, but the home's answer is still to come: until then it may take us for the last in line */
	HOLD_STATES
};

enum hold_event {
	HE_UNLOCK = 0, HE_LOCKED, HE_NEXT,
	HE_FREED,   /* MSG_FREED, count 0 */
	HE_REFUSED, /* MSG_FREED, count -errno */
	HE_CROSSED, /* MSG_FREED, value 1: MSG_UNLOCK and MSG_NEXT crossed (hold_step() tells it from HE_FREED itself) */
	HE_EVENTS
};

struct hold {
	uint8_t state;
	uint8_t pad;
	uint16_t home;
	uint32_t object;
	uint16_t slot;      /* of the waiting request */
	uint16_t next_rank, next_slot, next_hold;
	uint64_t owner;     /* the host's name for the thread */
};
CORE_ASSERT_SIZE(struct hold, 24);

/* The home's side: MSG_LOCK, MSG_TRYLOCK, MSG_UNLOCK. 0 or -EBADMSG. */
int lock_home_step(uint16_t me, struct sync *s, const struct msg *m, struct actions *out);

/* The holder's side; index is the record's number at this rank. A record is taken by setting HOLD_WAITING, home, object, slot. */
int hold_step(uint16_t me, uint16_t index, struct hold *h, enum hold_event ev, const struct msg *m, struct actions *out);

const char *hold_state_name(unsigned int state);
const char *hold_event_name(unsigned int event);
const char *hold_rule_name(unsigned int state, unsigned int event);

#endif
