/* SPDX-License-Identifier: BSD-2-Clause */
/* msg.h - sending and receiving messages over UCX. */
#ifndef NET_UCX_MSG_H
#define NET_UCX_MSG_H

#include "net/ucx/ucx.h"

/*
 * As net_ops.send, also -ENOMEM, and errors of peer_ready(). Never progresses UCX, and so never
 * delivers.
 */
int ucx_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size);
/*
 * Before unlocking net.lock: make sure that a sleeper wakes for the messages, and the unfinished
 * work, that are left.
 */
void ucx_kick(struct net *n, int unfinished);
/*
 * Progress UCX until it has no more, but no longer once `budget` messages may have come. Under
 * net.lock. Returns what it did.
 */
unsigned int ucx_progress(struct net *n, unsigned int budget);
/* As net_ops.poll. */
int ucx_poll(struct net *n, unsigned int budget);
/*
 * UCX's callback for each message, inside UCX, under net.lock: checks it and queues it.
 * UCS_INPROGRESS: data is freed later.
 */
ucs_status_t ucx_received(void *arg, const void *header, size_t header_size, void *data,
			  size_t size, const ucp_am_recv_param_t *param);

#endif
