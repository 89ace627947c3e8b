/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h - the peers of a transport over UCX, the inbox, and the pools of what travels. All under net.lock; none blocks. */
#ifndef NET_UCX_PEER_H
#define NET_UCX_PEER_H

#include "net/ucx/ucx.h"

/* An empty item of the pool. NULL: no memory. */
struct item *item_get(struct net *n);
/* Return an item, and free its data. The loss of a peer, which is the peer's own, stays. */
void item_put(struct net *n, struct item *it);
/* Append an item to the inbox, which owns it now. */
void inbox_add(struct net *n, struct item *it);
/* The first item of the inbox, which is the caller's now. NULL: the inbox is empty. */
struct item *inbox_take(struct net *n);
/* A copy with room for a payload of OUT_SMALL bytes. NULL: no memory. */
struct out *out_get(struct net *n);
/* Return a copy: to the pool, or, if it was not of the pool, free it. */
void out_put(struct net *n, struct out *o);

/* The first error of a peer: the inbox reports the loss with err. Later errors change nothing. May be called inside UCX: the
 * endpoint is closed by the next peers_reap(). */
void peer_fail(struct net *n, struct peer *p, int err);
/* Make sure that the peer has an endpoint. Not inside UCX. -EPIPE: it is lost. -ENOTCONN: its address is not known. -EMFILE,
 * -EHOSTUNREACH: there is no endpoint; the peer is lost, with the same error. */
int peer_ready(struct net *n, struct peer *p);
/* Close the peer's endpoint at once, if it has one that can be closed without the peer. Not inside UCX. */
void peer_close(struct net *n, struct peer *p);
/* Close the endpoints of peers that failed. Not inside UCX. */
void peers_reap(struct net *n);

/* Can this process open fewer than `wanted` more descriptors? Needs no lock. */
int out_of_descriptors(unsigned int wanted);

#endif
