/* SPDX-License-Identifier: BSD-2-Clause */
/* conns.h - the thread that opens and accepts connections. */
#ifndef NET_SHARED_CONNS_H
#define NET_SHARED_CONNS_H

#include "net/shared/shared.h"

/* Listen for connections of all kinds and start the thread. Called on open; waits for the owner of
 * librshare. Errors of rshare_listen() and pthread_create(). */
int conns_start(struct net *n);
/* Stop and join the thread, if there is one. Listeners stay open. Call without locks. */
void conns_stop(struct net *n);

/* Make the thread connect a lane in state LANE_WANTED, or watch an open one, so that the
 * transport's fd reports its completions. Any thread; any lock but net.leaf may be held. Does not
 * block. */
void conns_want(struct lane *l);

/* Return the maximum pool memory of the connections with one rank of a peer, in bytes. Pure. */
uint64_t conns_memory(void);

#endif
