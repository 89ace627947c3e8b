/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - the RC queue pair of a lane. All functions need net.conn; qp_begin(), qp_connect() and
 * qp_lane_end() also the lane's lock. */
#ifndef NET_VERBS_QP_H
#define NET_VERBS_QP_H

#include "net/verbs/verbs.h"

/* Fill in the address of the lane's peer, for an address handle or a queue pair. */
void qp_address(const struct lane *l, struct ibv_ah_attr *ah);

/* Replace the lane's queue pair by a new one, not connected yet. First freeze the old one
 * (queue_freeze(), which sleeps 200 us); last_rx then counts all frames that it received. -ENOMEM;
 * -EIO: the device refuses the new one. Logged, except -ENOMEM of our own heap. */
int qp_begin(struct lane *l);
/* Connect the queue pair to the peer's, given by s, ready to receive and send. -errno of
 * ibv_modify_qp(), not logged. */
int qp_connect(struct lane *l, const struct shake *s);
/* End the lane for good: LANE_DEAD. Frees its queue pair, frames, buffers and fetches. Sleeps as
 * qp_begin() does. */
void qp_lane_end(struct lane *l);

#endif
