/* SPDX-License-Identifier: BSD-2-Clause */
/* attach.h - the attachment of a process: requests to the owner, the table of its connections. Any thread. */
#ifndef SHARE_ATTACH_H
#define SHARE_ATTACH_H

#include "share/client.h"

/* Send one request and wait for its answer; takes r->lock. fds: up to two descriptors that came with it, -1: none; NULL: the
 * answer has none. The status of the answer, or -ECONNRESET: the owner is gone. -EMFILE: no descriptor is free here.
 * -EPROTO: it is no answer to this request. */
int rs_attach_request(struct rshare *r, struct rs_request *q, struct rs_answer *a, int fds[2]);
/* The owner is dead, or breaks the rules of the shared memory: all calls fail from now on, and all fds are readable. Takes
 * r->lock. */
void rs_attach_owner_died(struct rshare *r);

/* Initialise a connection of this side, and enter it into the table. Takes r->lock. */
void rs_attach_enter(struct rshare *r, uint32_t index, struct rshare_conn *c);
/* Take it from the table, and close its fd. Takes r->lock. */
void rs_attach_leave(struct rshare_conn *c);

#endif
