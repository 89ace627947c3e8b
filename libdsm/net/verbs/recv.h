/* SPDX-License-Identifier: BSD-2-Clause */
/* recv.h - completions: taken from a queue, sorted, delivered. */
#ifndef NET_VERBS_RECV_H
#define NET_VERBS_RECV_H

#include "net/verbs/verbs.h"

/* As net_ops.poll. Also delivers losses and messages to this rank itself, and serves connections. */
int verbs_poll(struct net *n, unsigned int budget);

/* Take at most budget completions of a queue and handle them. Under no lock: handlers run, and may wait. Several threads may
 * serve a queue at once. wait: wait for the queue's lock; otherwise, while another thread holds it, take only what the inbox
 * has. Returns how many completions; adds messages delivered to *delivered. */
int queue_serve(struct queue *q, unsigned int budget, bool wait, unsigned int *delivered);
/* Take nothing more from the lane's queue pair, and count all that it has acknowledged. Under net.conn and the lane's lock;
 * takes queue.lock, and sleeps 200 us. Without memory for what is found, the peer is lost. */
void queue_freeze(struct lane *l);

#endif
