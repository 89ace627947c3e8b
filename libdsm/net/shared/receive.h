/* SPDX-License-Identifier: BSD-2-Clause */
/* receive.h - messages on their way in: connections of peers, the inbox, delivery. */
#ifndef NET_SHARED_RECEIVE_H
#define NET_SHARED_RECEIVE_H

#include "net/shared/shared.h"

/* As net_ops.poll. */
int shared_poll(struct net *n, unsigned int budget);
/* As net_ops.arm. Waits for net.lock. */
int shared_arm(struct net *n);

/* Append an item to the inbox, which owns it now, and wake a sleeping transport. Takes net.leaf: any other lock may be held. */
void inbox_put(struct net *n, struct item *it);
/* Free what is left in the inbox, and begin the reads that waited for its buffers. When the transport closes, by its only
 * thread. */
void inbox_drop(struct net *n);

/* Take what has come by a connection. Under net.lock; does not block. arm: as in lane_serve(). */
void in_serve(struct in *in, bool arm);
/* Free a connection's record; the connection itself is the caller's. No other thread uses it, nor does the device. */
void in_free(struct in *in);
/* Free a list of fetches that are not being read any more. */
void fetches_free(struct fetch *f);

#endif
