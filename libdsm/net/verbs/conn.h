/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - connection and repair of lanes: requests from other threads, and the thread that serves
 * them. Protocol: conn.c. */
#ifndef NET_VERBS_CONN_H
#define NET_VERBS_CONN_H

#include "net/verbs/verbs.h"

/* Request a connection for a lane in state LANE_BROKEN. Under its lock; takes net.leaf. The caller
 * calls conn_serve(n, false) after it has released the lock. */
void conn_want(struct lane *l);
/* Serve requests, datagrams and timers. Takes net.conn, so no lock may be held. all: also serve
 * descriptors and address handles, which allocates and may wait seconds for neighbour resolution,
 * so a thread in a miss must not set it. Without all, the call does not wait for net.conn: the
 * thread that holds it does the work. Repairing a lane calls qp_begin(), which sleeps. */
void conn_serve(struct net *n, bool all);
/* Wake the service thread. Any thread, any lock; does not block. */
void conn_kick(struct net *n);

/* Create the address handle of a lane's route in advance. Takes net.conn, so no lock may be held.
 * Allocates, and may wait seconds. On failure, the old handle stays and the route is created when
 * the lane is connected. */
void conn_route(struct lane *l);
/* Make the service thread create the address handle of a lane's route again. Under net.conn; does
 * not block. */
void conn_route_renew(struct lane *l);

/* End the lanes of a peer and notify it, unless the transport is closing. Takes net.conn, so no
 * lock may be held. */
void conn_forget(struct peer *p);
/* Record the first error of a peer: the next poll reports the loss with err. Later errors are
 * ignored. Any thread; any lock but net.leaf may be held. */
void conn_peer_lose(struct peer *p, int err);

/* Handle a datagram from a UD queue pair, of the given length as received. Under net.conn; takes
 * the lane's lock. A malformed datagram, or one from a stranger, is counted and otherwise ignored;
 * a stranger also gets a refusing datagram. */
void conn_received(struct dev *d, const void *data, size_t bytes, uint32_t src_qp);

/*
 * qp.c: the RC queue pair of a lane. All functions need net.conn; qp_begin(), qp_connect() and
 * qp_lane_end() also the lane's lock.
 */

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
