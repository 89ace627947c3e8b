/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - the life of a connection, and its operations. The owner's thread only; nothing blocks. */
#ifndef SHARE_CONN_H
#define SHARE_CONN_H

#include "share/hub.h"

/* ---- for the owner -------------------------------------------------------------------------- */

/* A listener for a service. -ENOSPC: all connections of the client or of the node are in use. -EADDRINUSE: the service has a
 * listener. -ENOMEM. */
int rs_conn_listen(struct rs_client *c, uint32_t service, struct rs_conn **out);
/* A connection to a service of a peer; its OPEN goes with the next rs_peer_pump(). An event says whether it was accepted.
 * -ENOSPC, -ENOMEM: as rs_conn_listen(). */
int rs_conn_connect(struct rs_client *c, struct rs_peer *p, uint32_t service, uint8_t priority, uint8_t weight,
		    struct rs_conn **out);
/* Change the priority of what it sends from now on. Nothing, once it has ended. */
void rs_conn_priority(struct rs_conn *c, uint8_t priority, uint8_t weight);
/* Into the set of the client, with the events that it has. */
void rs_conn_join(struct rs_conn *c);
/* Send all that was submitted, tell the peer, end. */
void rs_conn_close(struct rs_conn *c);
/* The client wants no more of it: end it at once if it has not ended, and free the record when the wire is done with it.
 * That may be now. */
void rs_conn_release(struct rs_conn *c);
/* Poll the submission rings of a client's connection. */
void rs_conn_kick(struct rs_conn *c);

/* ---- for peer.c, receive.c and hub.c -------------------------------------------------------- */

/* A frame for the peer, when the lane has room. Nothing, if the peer is lost. */
void conn_owe(struct rs_conn *c, enum rs_frame_kind kind);
/* It need not be sent any more. */
static inline void conn_forgive(struct rs_conn *c, enum rs_frame_kind kind)
{
	c->owes &= (uint16_t) ~(1u << kind);
}

/* An event for the client. Nothing, if it has released the connection, or has filled its ring by breaking the rules. */
void conn_event(struct rs_conn *c, uint32_t type, int status, uint64_t cookie, uint32_t len);
/* The oldest operation has completed. status: 0, or its error. */
void conn_complete(struct rs_conn *c, int status);
/* Tell the peer of receives that it does not know of: at once if it has used all others, else when there are many. */
void conn_grant(struct rs_conn *c);
/* Hand operations to the scheduler, as far as it takes them and the peer has receives for them. One that is against the
 * rules ends the connection: conn_forged(). */
void conn_load(struct rs_conn *c);
/* The answer to its OPEN is here, or is not waited for. */
void conn_answered(struct rs_conn *c);

/* End it. Operations that are left fail with status (0: -EPIPE). The last event comes when the wire has let go of all
 * buffers. May free it, as conn_progress(). */
void conn_end(struct rs_conn *c, int status);
/* The client breaks the rules of the shared memory: log it, reset the connection. */
void conn_forged(struct rs_conn *c, const char *what);
/* What is due after something has completed. Frees the connection if it was released and nothing is left of it. */
void conn_progress(struct rs_conn *c);

#endif
