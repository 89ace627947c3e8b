/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - what the files of the hub share: hub.c (tables), conn.c (life, sending), receive.c (frames). */
#ifndef SHARE_CONN_H
#define SHARE_CONN_H

#include "share/hub.h"

/* hub.c */
int conn_create(struct rs_client *client, struct rs_peer *p, struct rs_conn **out);
void conn_destroy(struct rs_conn *c);
void conn_log(struct rs_conn *c, const char *what);
struct rs_conn *conn_find(struct rs_hub *h, uint32_t id);
/* rs_hub_tell() is to tell its client. */
void conn_untold(struct rs_conn *c);

/* conn.c */
/* A frame for the peer, when the lane has room. */
void conn_owe(struct rs_conn *c, enum rs_frame_kind kind);
void conn_event(struct rs_conn *c, uint32_t type, int status, uint64_t cookie, uint32_t len);
/* Operations that are left fail with status (0: -EPIPE). The last event comes when the wire has let go of all buffers. */
void conn_end(struct rs_conn *c, int status);
/* The client breaks the rules of the shared memory. */
void conn_forged(struct rs_conn *c, const char *what);
/* Tell the peer of receives that it does not know of: at once if it has used all others, else when there are many. */
void conn_grant(struct rs_conn *c);
/* Hand operations to the scheduler, as far as it takes them and the peer has receives for them. */
void conn_load(struct rs_conn *c);
/* What is due after something has completed. Frees the connection if it was released and nothing is left of it. */
void conn_progress(struct rs_conn *c);
/* A frame that belongs to no connection. -ENOBUFS: too many are waiting. -ENOMEM. */
int peer_loose(struct rs_peer *p, enum rs_frame_kind kind, uint32_t to, uint32_t total);
/* The answer to its OPEN is here, or is not waited for. */
void conn_answered(struct rs_conn *c);

#endif
