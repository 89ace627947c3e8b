/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h - peers, inbox and buffer pools of the transport over UCX. All functions need net.lock;
 * none blocks. */
#ifndef NET_UCX_PEER_H
#define NET_UCX_PEER_H

#include "net/ucx/ucx.h"

/* Get an empty item from the pool. NULL: no memory. */
struct item *item_get(struct net *n);
/* Return an item and free its data. The item that reports a peer's loss belongs to the peer and is
 * kept. */
void item_put(struct net *n, struct item *it);
/* Append an item to the inbox, which takes ownership. */
void inbox_add(struct net *n, struct item *it);
/* Remove the first item from the inbox; the caller owns it. NULL: the inbox is empty. */
struct item *ucx_inbox_take(struct net *n);
/* Get a send buffer with room for a payload of OUT_SMALL bytes. NULL: no memory. */
struct out *out_get(struct net *n);
/* Return a send buffer to the pool, or free it if it is not pooled. */
void ucx_out_put(struct net *n, struct out *o);

/* Record the first error of a peer: the inbox reports the loss with err. Later errors are ignored.
 * May be called inside UCX: the next peers_reap() closes the endpoint. */
void peer_fail(struct net *n, struct peer *p, int err);
/* Make sure that the peer has an endpoint. Not inside UCX. -EPIPE: the peer is lost. -ENOTCONN: its
 * address is unknown. -EMFILE, -EHOSTUNREACH: there is no endpoint; the peer is lost, with the same
 * error. */
int peer_ready(struct net *n, struct peer *p);
/* Close the peer's endpoint at once, if it has one and it can be closed without the peer. Not
 * inside UCX. */
void peer_close(struct net *n, struct peer *p);
/* Close the endpoints of peers that failed. Not inside UCX. */
void peers_reap(struct net *n);

/* True if this process cannot open `wanted` more descriptors. Needs no lock. */
int out_of_descriptors(unsigned int wanted);

#endif
