/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h - a node at the other end, with its two lanes. The owner's thread only; nothing blocks. */
#ifndef SHARE_PEER_H
#define SHARE_PEER_H

#include "share/hub.h"

/* slots: chunks outstanding of a lane; a power of two. *p is zeroed, or was initialised before. -ENOMEM. */
int rs_peer_init(struct rs_peer *p, struct rs_hub *h, uint32_t chunk, const uint32_t window[RS_LANES], uint32_t slots);
/* The queue pairs are connected: post. chunk: bytes, at most, that both sides take. */
void rs_peer_ready(struct rs_peer *p, uint32_t chunk);
/* The peer is no more, and nothing of it is in flight: its connections end with status. The peer may be initialised again. */
void rs_peer_lost(struct rs_peer *p, int status);
/* A second has passed: connections whose OPEN has gone so many without an answer end with -ETIMEDOUT. Returns how many. */
uint32_t rs_peer_tick(struct rs_peer *p, uint32_t seconds);

/* Hand to the wire what may go now. Returns the number of posts. */
unsigned int rs_peer_pump(struct rs_peer *p);
/* Are posts on the wire? */
bool rs_peer_busy(const struct rs_peer *p);
/* The oldest n posts of a lane have completed. */
void rs_peer_sent(struct rs_peer *p, enum rs_lane lane, unsigned int n);
/* A frame that belongs to no connection, for the next rs_peer_pump(). -ENOBUFS: too many are waiting. -ENOMEM. */
int rs_peer_loose(struct rs_peer *p, enum rs_frame_kind kind, uint32_t to, uint32_t total);

/* The queue pairs broke: post nothing until rs_peer_resume(). */
void rs_peer_stop(struct rs_peer *p);
/* What the peer says it has received by each lane; called once between rs_peer_stop() and rs_peer_resume(). Returns how many posts that completes. -EBADMSG:
 * it cannot have received so much, or so little, and must be dropped. */
int rs_peer_arrived(struct rs_peer *p, const uint32_t received[RS_LANES]);
/* There are new queue pairs: post again what has not arrived, and go on. */
void rs_peer_resume(struct rs_peer *p);

/* The one function of receive.c. A message has arrived by a lane. The peer must be dropped: -EBADMSG: it breaks the
 * protocol. -ENOMEM: there is no memory for an answer that it waits for. -ENOBUFS: it does not take answers. */
int rs_peer_receive(struct rs_peer *p, enum rs_lane lane, const void *data, uint32_t bytes);

#endif
