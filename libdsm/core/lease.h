/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * lease.h - a node's lease of a reader-writer lock: while it has one, its threads lock and unlock
 * it for reading without a message (core/sync.h is the home's part).
 *
 * A place has one lease at a time, so a lock may get none while another one has its place:
 *
 *   FREE    -- a thread asks for a lease with its request                 --> ASKED
 *   ASKED   -- that thread has the lock: with a lease                     --> HELD, one reader
 *                                        without one                      --> FREE
 *           -- revoked: the answer to the thread is still on its way      --> FREE, one reader told
 *   HELD    -- a thread enters, or leaves if there is a reader            --> HELD
 *           -- revoked                                                    --> FREE, its readers told
 *
 * A thread that cannot enter or leave here sends its request to the home. Threads are not told
 * apart: one that the home knows as a reader may leave here instead of another, which then leaves
 * there.
 *
 * The functions are called with the place's lock held. A thread has applied the notices that came
 * with its answer before it reports the lease: whoever enters after it sees what writers have
 * written.
 */
#ifndef CORE_LEASE_H
#define CORE_LEASE_H

#include "core/wire.h"

enum lease_state { LEASE_FREE = 0, LEASE_ASKED, LEASE_HELD };

#define LEASE_READERS 0xffffu /* at most; RULE_COUNT */

struct lease {
	uint64_t lock;    /* the lock's name, anything that tells locks apart */
	uint32_t readers; /* HELD */
	uint16_t asker;   /* ASKED: the slot of the request */
	uint8_t state;    /* enum lease_state */
	uint8_t pad;
};
CORE_ASSERT_SIZE(struct lease, 16);

/* Lock for reading. False: ask the home. */
bool lease_enter(struct lease *l, uint64_t lock);
/* Unlock. False: tell the home. */
bool lease_leave(struct lease *l, uint64_t lock);
/* May the request in this slot ask for a lease? Then lease_answered() must follow. */
bool lease_ask(struct lease *l, uint64_t lock, uint16_t slot);
/* The request has its answer. Other threads may have the place by now, if it was revoked. */
void lease_answered(struct lease *l, uint64_t lock, uint16_t slot, bool leased);
/*
 * MSG_REVOKE. Returns how many threads hold the lock, for MSG_REVOKED; -EBADMSG: it has no lease.
 */
int lease_revoke(struct lease *l, uint64_t lock);

#endif
