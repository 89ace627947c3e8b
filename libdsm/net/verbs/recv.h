/* SPDX-License-Identifier: BSD-2-Clause */
/* recv.h - completions: polled from a queue, sorted, delivered. */
#ifndef NET_VERBS_RECV_H
#define NET_VERBS_RECV_H

#include "net/verbs/verbs.h"

/* As net_ops.poll. Also delivers losses and messages to this rank itself, and serves
 * connections. */
int verbs_poll(struct net *n, unsigned int budget);

/* Handle at most budget completions of a queue, and no more once they were as many messages. Call
 * without locks: handlers run, and may wait. Several threads may serve a queue at once. wait: wait
 * for the queue's lock; otherwise, while another thread holds it, handle only the inbox. Return the
 * number of completions; add the number of delivered messages to *delivered. */
int queue_serve(struct queue *q, unsigned int budget, bool wait, unsigned int *delivered);
/* Stop receiving from the lane's queue pair, and count all frames that it acknowledged. Under
 * net.conn and the lane's lock; takes queue.lock, and sleeps 200 us. Without memory for the
 * remaining completions, the peer is lost. */
void queue_freeze(struct lane *l);

#endif
