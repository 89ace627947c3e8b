/* SPDX-License-Identifier: GPL-2.0 */
/* lane.h - sending and receiving over the queue pairs of a connection. */
#ifndef KMOD_LANE_H
#define KMOD_LANE_H

#include "conn.h"

/* Of the peer's buffers one is kept to return credits with. A block and its message take two places. */
static inline bool lane_may_send(const struct lane *l)
{
	return l->room > 1 && l->credit > 1;
}

void lane_send_to(struct conn *c, u16 peer, const struct msg *m);

void lane_completed(void *arg, const struct ib_wc *wc); /* of a conn; from cq.c, bottom halves are off */
void lane_send(struct lane *l, const struct msg *m, bool block);
void lane_send_waiting(struct lane *l, struct waiting *w); /* which is this lane's then */
/* Under egress->lock, while lane_may_send(): a message, and some bytes of a block, with which m goes if they are its last. */
void lane_post_message(struct lane *l, const struct msg *m);
void lane_post_block(struct lane *l, const struct msg *m, u32 offset, u32 bytes);
void lane_start(struct conn *c, u16 peer, unsigned int class); /* of a new connection */
void lane_stop(struct lane *l);                                /* nothing is deferred any more; sleeps */
void lane_up(struct lane *l);                                  /* it is connected */
void lane_broken(struct lane *l, const char *how, int status);
void lane_end(struct lane *l);        /* sleeps: all that is posted completes, with an error if it is not done */
void lane_end_locked(struct lane *l); /* the same under conn->modify */

enum lane_secret { SECRET_PSN = 'P', SECRET_HELLO = 'H' };
u64 lane_secret(const struct lane *l, enum lane_secret what, bool theirs); /* theirs: of the other direction */

#endif
