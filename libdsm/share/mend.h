/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mend.h - repair of a link's queue pairs. Owner's thread only. A repair that is impossible, late
 * or violates the protocol ends the link: rs_link_fail().
 */
#ifndef SHARE_MEND_H
#define SHARE_MEND_H

#include "share/owner.h"

/*
 * Request the repair of a failed queue pair, by rs_mend_begin(). No effect if the link is not up,
 * or is under repair.
 */
void rs_mend_want(struct rs_link *l);
/*
 * Begin the repair of broken links. Sleeps 200 us for each and drains the CQ. Return their number.
 */
unsigned int rs_mend_begin(struct rs_owner *o);
/*
 * Read from the TCP connection of a link that is up: a repair message, or its end. Does not block.
 */
void rs_mend_hear(struct rs_owner *o, struct rs_link *l);
/*
 * Continue a repair: connect the queue pairs if the port is active again, and check the deadline.
 * Return ms until the next call.
 */
int rs_mend_tick(struct rs_owner *o, struct rs_link *l, uint64_t now);

#endif
