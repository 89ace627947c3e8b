/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - connecting lanes and mending them: requests of other threads, and the thread that serves them. Protocol: conn.c. */
#ifndef NET_VERBS_CONN_H
#define NET_VERBS_CONN_H

#include "net/verbs/verbs.h"

/* Request a connection for a lane in state LANE_BROKEN. Under its lock; takes net.leaf. The caller calls conn_serve(n,
 * false) after it has released the lock. */
void conn_want(struct lane *l);
/* Serve requests, datagrams and timers. Takes net.conn, so no lock may be held. all: also descriptors and address handles,
 * which allocates and may wait up to seconds for a neighbour, so it is not for a thread in a miss. Without it, net.conn is not
 * waited for: a thread that holds it does the work. Either way, to repair a lane takes qp_begin(), which sleeps. */
void conn_serve(struct net *n, bool all);
/* Wake the service thread. Any thread, any lock; does not block. */
void conn_kick(struct net *n);

/* Make the address handle of a lane's route before it is needed. Takes net.conn, so no lock may be held. Allocates, and may
 * wait up to seconds. Where that fails, the present handle stays and the route is made when the lane is connected. */
void conn_route(struct lane *l);
/* The address handle of a lane's route is made again, by the service thread. Under net.conn; does not block. */
void conn_route_renew(struct lane *l);

/* End the lanes of a peer, and tell it so unless the transport is closing. Takes net.conn, so no lock may be held. */
void conn_forget(struct peer *p);
/* The first error of a peer: the next poll reports the loss with err. Later errors change nothing. Any thread; any lock but
 * net.leaf may be held. */
void conn_peer_lose(struct peer *p, int err);

/* A datagram has come from a UD queue pair; bytes as the network says. Under net.conn. What is malformed, or from a
 * stranger, is counted; a stranger is also refused by a datagram. Nothing else changes. Takes the lane's lock. */
void conn_received(struct dev *d, const void *data, size_t bytes, uint32_t src_qp);

#endif
