/* SPDX-License-Identifier: BSD-2-Clause */
/* send.h - frames on their way out. The lane_ functions are called under the lane's lock and do not block. */
#ifndef NET_VERBS_SEND_H
#define NET_VERBS_SEND_H

#include "net/verbs/verbs.h"

/* As net_ops.send. Never waits for a connection or a full ring: the frame then waits in the lane's backlog. Also -ENOMEM. */
int verbs_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size);

/* Send a frame, or put it into the backlog until the lane is ready and its ring has room. The lane owns it from now on; a
 * dead lane frees it. A lane that was idle asks for a connection: conn_want(). */
void lane_put(struct lane *l, struct out *o);
/* Post what the backlog holds, as far as the ring has room. */
void lane_flush(struct lane *l);
/* The peer has all frames up to number seq: free them. Numbers that are not under way change nothing. */
void lane_retire(struct lane *l, uint32_t seq);
/* Post the reads of payloads that the lane has to fetch, at most READS at a time. */
void lane_fetch(struct lane *l);

/* The queue pair has failed: the lane waits for another, and asks for it unless the peer has closed. */
void lane_broken(struct lane *l);
/* A queue pair is connected, and the peer has received peer_rx frames: post the others again, and all reads. -EBADMSG: it
 * cannot have received so many; the lane is as before. */
int lane_ready(struct lane *l, uint32_t peer_rx);
/* Count in net.due whether the lane waits for completions of sends or reads. After a change of its state, backlog or reads. */
void lane_due(struct lane *l);

/* The thread that posts for all others (DSM_VERBS direct=0). Before the transport is used. -errno of pthread_create(). */
int send_thread_start(struct net *n);
/* End it and wait for its end; nothing if there is none. Under no lock. */
void send_thread_stop(struct net *n);

#endif
