/* SPDX-License-Identifier: BSD-2-Clause */
/* attach.h - the attachment of a process: requests to the owner, the table of its connections. Any thread. */
#ifndef SHARE_ATTACH_H
#define SHARE_ATTACH_H

#include "share/client.h"

/* Send one request and wait for the answer; takes r->lock. fds: gets up to two descriptors sent with the answer, -1: none; NULL:
 * expect none. Return the status of the answer, or -ECONNRESET: the owner is gone; -EMFILE: no free descriptor in this
 * process; -EPROTO: not an answer to this request. */
int rs_attach_request(struct rshare *r, struct rs_request *q, struct rs_answer *a, int fds[2]);
/* Handle a dead owner, or one that violates the rules of the shared memory: all later calls fail, and all fds become readable.
 * Takes r->lock. */
void rs_attach_owner_died(struct rshare *r);

/* Initialise a connection of this process and add it to the table. Takes r->lock. */
void rs_attach_enter(struct rshare *r, uint32_t index, struct rshare_conn *c);
/* Remove a connection from the table and close its fd. Takes r->lock. */
void rs_attach_leave(struct rshare_conn *c);

#endif
