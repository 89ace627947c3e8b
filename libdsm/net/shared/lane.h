/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.h - messages on their way out. Each function takes the lane's lock itself. None waits for a peer. */
#ifndef NET_SHARED_LANE_H
#define NET_SHARED_LANE_H

#include "net/shared/shared.h"

/* As net_ops.send, also -ENOMEM. Any thread, under no lock of the transport. */
int shared_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size);

/* Take the lane's completions, then submit its backlog as far as the connection takes it. net.lock may be held. arm: as
 * rshare_poll(), the fd is armed again; otherwise as rshare_poll_again(). */
void lane_serve(struct lane *l, bool arm);
/* The lane has a connection, which it owns: submit its backlog. By the thread of conns.c. */
void lane_opened(struct lane *l, struct rshare_conn *conn);
/* The lane cannot have a connection, or cannot be watched: it ends, and its peer is lost with err. By the thread of conns.c. */
void lane_fail(struct lane *l, int err);
/* Serve the lane; is all submitted, and no payload of it out for reading? When the transport closes. */
bool lane_idle(struct lane *l);
/* Free what the lane keeps. Its connection is gone, and with it the device's use of what was submitted. No other thread uses
 * it. */
void lane_free(struct lane *l);

#endif
