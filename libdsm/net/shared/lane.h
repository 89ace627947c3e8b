/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.h - sending messages. Each function takes the lane's lock itself. None waits for a peer. */
#ifndef NET_SHARED_LANE_H
#define NET_SHARED_LANE_H

#include "net/shared/shared.h"

/* As net_ops.send, also -ENOMEM. Any thread, without locks of the transport. */
int shared_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		size_t size);

/* Handle the lane's completions, then submit its backlog as far as the connection accepts it.
 * net.lock may be held. arm: arm the fd again, as rshare_poll(); otherwise as
 * rshare_poll_again(). */
void lane_serve(struct lane *l, bool arm);
/* Give the lane its connection, which it then owns, and submit its backlog. Called by the thread of
 * conns.c. */
void lane_opened(struct lane *l, struct rshare_conn *conn);
/* End a lane that cannot be connected or watched, and lose its peer with err. Called by the thread
 * of conns.c. */
void lane_fail(struct lane *l, int err);
/* Serve the lane. True if everything is submitted and the peer has no payload left to read. Called
 * on close. */
bool lane_idle(struct lane *l);
/* Free the lane's memory. Its connection must be closed, so that the device no longer uses
 * submitted buffers. No other thread may use the lane. */
void lane_free(struct lane *l);

#endif
