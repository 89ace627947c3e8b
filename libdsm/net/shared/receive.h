/* SPDX-License-Identifier: BSD-2-Clause */
/* receive.h - receiving: connections from peers, the inbox, delivery. */
#ifndef NET_SHARED_RECEIVE_H
#define NET_SHARED_RECEIVE_H

#include "net/shared/shared.h"

/* As net_ops.poll. */
int shared_poll(struct net *n, unsigned int budget);
/* As net_ops.arm. Waits for net.lock. */
int shared_arm(struct net *n);

/*
 * Append an item to the inbox, which takes ownership, and wake a sleeping transport. Takes
 * net.leaf; any other lock may be held.
 */
void inbox_put(struct net *n, struct item *it);
/*
 * Free what is left in the inbox, and start the reads that waited for its buffers. Called on close,
 * by the only thread left.
 */
void inbox_drop(struct net *n);

/* Handle completions of a connection. Under net.lock; does not block. arm: as in lane_serve(). */
void in_serve(struct in *in, bool arm);
/*
 * Free a connection's record, but not the connection, which the caller owns. Neither the device nor
 * another thread may use it.
 */
void in_free(struct in *in);
/* Free a list of fetches. None may be in progress. */
void fetches_free(struct fetch *f);

#endif
