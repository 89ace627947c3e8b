/* SPDX-License-Identifier: BSD-2-Clause */
/* attach.h - the attachment of a process: requests to the owner, the table of its connections. Any
 * thread. */
#ifndef SHARE_ATTACH_H
#define SHARE_ATTACH_H

#include "share/client.h"

/* Send one request, whose answer has no descriptors, and wait for the answer; takes r->lock. Return
 * the status of the answer, or -ECONNRESET: the owner is gone; -EPROTO: not an answer to this
 * request. */
int rs_attach_request(struct rshare *r, struct rs_request *q, struct rs_answer *a);
/* Get the signal of a connection, unless it has one. Takes r->lock. As rs_attach_request();
 * -EMFILE: no free descriptor in this process, or in the owner. */
int rs_attach_signal(struct rshare_conn *c);
/* Handle a dead owner, or one that violates the rules of the shared memory: all later calls fail,
 * and all fds become readable. Takes r->lock. */
void rs_attach_owner_died(struct rshare *r);

/* Initialise a connection of this process and add it to the table. Takes r->lock. */
void rs_attach_enter(struct rshare *r, uint32_t index, struct rshare_conn *c);
/* Remove a connection from the table and close its fd. Takes r->lock. */
void rs_attach_leave(struct rshare_conn *c);

#endif
