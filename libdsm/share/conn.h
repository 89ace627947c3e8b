/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - state changes and operations of a connection. One thread at a time (hub.h); no
 * function blocks. */
#ifndef SHARE_CONN_H
#define SHARE_CONN_H

#include "share/hub.h"

/* ---- for the owner -------------------------------------------------------------------------- */

/* Create a listener for a service. -ENOSPC: all connections of the client or of the node are in
 * use. -EADDRINUSE: the service has a listener already. -ENOMEM. */
int rs_conn_listen(struct rs_client *c, uint32_t service, struct rs_conn **out);
/* Create a connection to a service of a peer. The next rs_peer_pump() sends its OPEN. An event
 * reports whether it was accepted. -ENOSPC, -ENOMEM: as rs_conn_listen(). */
int rs_conn_connect(struct rs_client *c, struct rs_peer *p, uint32_t service, uint8_t priority,
		    uint8_t weight, struct rs_conn **out);
/* Change the priority of later chunks. No effect on a connection that has ended. */
void rs_conn_priority(struct rs_conn *c, uint8_t priority, uint8_t weight);
/* Add the connection, with its pending events, to the client's set. */
void rs_conn_join(struct rs_conn *c);
/* Send everything submitted, notify the peer, then end the connection. */
void rs_conn_close(struct rs_conn *c);
/* Release the client's reference. End the connection at once unless it has ended, and free the
 * record once the wire no longer uses it, possibly now. */
void rs_conn_release(struct rs_conn *c);
/* Poll the submission rings of a client's connection. */
void rs_conn_kick(struct rs_conn *c);

/* ---- for peer.c, receive.c and hub.c -------------------------------------------------------- */

/* Queue a frame other than CREDIT for the peer until the lane has room. No effect if the peer is
 * lost. */
void conn_owe(struct rs_conn *c, enum rs_frame_kind kind);
/* Queue CREDIT. The second pump from now sends it, if no data has taken the credit along before. */
void conn_owe_credit(struct rs_conn *c);
/* Cancel a queued frame. */
static inline void conn_forgive(struct rs_conn *c, enum rs_frame_kind kind)
{
	c->owes &= (uint16_t) ~(1u << kind);
}

/* Report an event to the client. No effect if it released the connection, or overfilled its ring in
 * violation of the rules. */
void conn_event(struct rs_conn *c, uint32_t type, int status, uint64_t cookie, uint32_t len);
/* The same for any event. */
void conn_report(struct rs_conn *c, const struct rs_cqe *e);
/* The last post of the oldest operation without acknowledgement has it now. */
void conn_acknowledged(struct rs_conn *c);
/* Mark the atomic operation whose frame was seq as answered, and return it; the caller then calls
 * conn_retire(). NULL: there is none. */
struct rs_work *conn_atomic_answered(struct rs_conn *c, uint32_t seq);
/* Return the number of operations that were taken from the ring and are not complete. */
uint32_t conn_pending(const struct rs_conn *c);
/* Complete the oldest operations, as far as they are acknowledged and answered. */
void conn_retire(struct rs_conn *c);
/* Grant credit for new receives to the peer: at once if it has used all others, else when there are
 * many. */
void conn_grant(struct rs_conn *c);
/* Pass operations to the scheduler while it accepts them and the peer has receives for them. An
 * invalid operation ends the connection: conn_forged(). */
void conn_load(struct rs_conn *c);
/* Record that the answer to the OPEN arrived, or is no longer awaited. */
void conn_answered(struct rs_conn *c);

/* End the connection. Remaining operations fail with status (0: -EPIPE). The last event follows
 * once the wire no longer uses any buffer. May free the connection, as conn_progress(). */
void conn_end(struct rs_conn *c, int status);
/* Log that the peer refuses an access to its memory, and reset the connection. */
void conn_refused(struct rs_conn *c);
/* Log that the client violates the rules of the shared memory, and reset the connection. */
void conn_forged(struct rs_conn *c, const char *what);
/* Do what is due after a completion. Frees the connection if it was released and has nothing
 * outstanding. */
void conn_progress(struct rs_conn *c);

#endif
