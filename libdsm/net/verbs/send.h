/* SPDX-License-Identifier: BSD-2-Clause */
/* send.h - sending frames. The lane_ functions need the lane's lock and do not block. */
#ifndef NET_VERBS_SEND_H
#define NET_VERBS_SEND_H

#include "net/verbs/verbs.h"

/* As net_ops.send. Never waits for a connection or for room in the ring: the frame goes to the
 * lane's backlog. Also -ENOMEM. */
int verbs_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size);

/* Send a frame, or put it into the backlog until the lane is ready and its ring has room. The lane
 * takes ownership; a dead lane frees it. An idle lane requests a connection: conn_want(). */
void lane_put(struct lane *l, struct out *o);
/* Post frames from the backlog while the ring has room. */
void lane_flush(struct lane *l);
/* Free the frames up to number seq, which the peer has. Numbers that are not outstanding change
 * nothing. */
void lane_retire(struct lane *l, uint32_t seq);
/* Lend payloads that have waited, as far as PAYLOADS_MAX allows. Without the lane's lock. -ENOMEM,
 * -EPIPE: a message is lost. */
int lane_lend_more(struct lane *l);
/* Post the reads of the lane's fetches, at most READS at a time. */
void lane_fetch(struct lane *l);

/* Handle a failed queue pair: the lane waits for another, and requests it unless the peer has
 * closed. */
void verbs_lane_broken(struct lane *l);
/* Start a connected queue pair: post the frames after peer_rx, which the peer received, and all
 * reads again. -EBADMSG: it cannot have received that many; the lane is unchanged. */
int lane_ready(struct lane *l, uint32_t peer_rx);
/* Update net.due: does the lane wait for completions of sends or reads? Call after a change of its
 * state, backlog or reads. */
void lane_due(struct lane *l);

/* Start the thread that posts for all others (DSM_VERBS direct=0), before the transport is used.
 * -errno of pthread_create(). */
int send_thread_start(struct net *n);
/* Stop and join it, if there is one. Call without locks. */
void send_thread_stop(struct net *n);

#endif
