/* SPDX-License-Identifier: BSD-2-Clause */
/* conns.h - the thread that makes and accepts connections. */
#ifndef NET_SHARED_CONNS_H
#define NET_SHARED_CONNS_H

#include "net/shared/shared.h"

/* Listen for connections of all kinds, and start the thread. When the transport opens; waits for the owner of librshare.
 * Errors of rshare_listen() and pthread_create(). */
int conns_start(struct net *n);
/* End the thread and wait for its end; nothing if there is none. Listeners stay. Under no lock. */
void conns_stop(struct net *n);

/* Have the thread connect a lane in state LANE_WANTED, or watch an open one, so that the transport's fd tells of its
 * completions. Any thread; any lock but net.leaf may be held. Does not block. */
void conns_want(struct lane *l);

/* Bytes of the pool that the connections of one rank of a peer take, at most. Pure. */
uint64_t conns_memory(void);

#endif
