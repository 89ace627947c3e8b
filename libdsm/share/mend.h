/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mend.h - repair of a link's queue pairs. The owner's thread only. A repair that is impossible, late or against the protocol
 * ends the link: rs_link_fail().
 */
#ifndef SHARE_MEND_H
#define SHARE_MEND_H

#include "share/owner.h"

/* A queue pair of a link has failed: rs_mend_begin() repairs it. Nothing, if the link is not up or under repair. */
void rs_mend_want(struct rs_link *l);
/* Begin the repair of those that are broken. Sleeps 200 us for each, and empties the CQ. Returns how many. */
unsigned int rs_mend_begin(struct rs_owner *o);
/* The TCP connection of a link that is up can be read: a repair message, or its end. Does not block. */
void rs_mend_hear(struct rs_owner *o, struct rs_link *l);
/* Continue a repair: connect the queue pairs if the port is there again, check the deadline. Returns ms until the next call. */
int rs_mend_tick(struct rs_owner *o, struct rs_link *l, uint64_t now);

#endif
