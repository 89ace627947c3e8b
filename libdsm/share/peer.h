/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h - a remote node, with its two lanes. One thread at a time (hub.h); no function blocks. */
#ifndef SHARE_PEER_H
#define SHARE_PEER_H

#include "share/hub.h"

/* Initialise a peer. slots: maximum outstanding chunks per lane, a power of two. *p is zeroed or
 * was initialised before. -ENOMEM. */
int rs_peer_init(struct rs_peer *p, struct rs_hub *h, uint32_t chunk,
		 const uint32_t window[RS_LANES], uint32_t slots);
/* Start posting: the queue pairs are connected. chunk: maximum bytes of a chunk that both sides
 * accept. */
void rs_peer_ready(struct rs_peer *p, uint32_t chunk);
/* End the connections of a lost peer with status. Nothing of it may be in flight. The peer may be
 * initialised again. */
void rs_peer_lost(struct rs_peer *p, int status);
/* Call once per second. End connections whose OPEN was unanswered for `seconds`, with -ETIMEDOUT.
 * Return their number. */
uint32_t rs_peer_tick(struct rs_peer *p, uint32_t seconds);

/* Post what may be sent now, but a long chunk alone while short messages are about (schedule.h):
 * the caller polls the rings before and after it. A credit waits for the next call,
 * whatever this one returns, since an answer that the program sends now takes it along. Return the
 * number of posts. */
unsigned int rs_peer_pump(struct rs_peer *p);
/* Post what may be sent now on the strict lane: one chain. The only function that posts while
 * post_long() of the wire works. Return the number of posts. */
unsigned int rs_peer_pump_strict(struct rs_peer *p);
/* True if posts are outstanding. */
bool rs_peer_busy(const struct rs_peer *p);
/* Complete the oldest n posts of a lane. */
void rs_peer_sent(struct rs_peer *p, enum rs_lane lane, unsigned int n);
/* The peer's device has refused a write or a read on a lane, for its key or its range, and the
 * queue pair broke; `before` posts on it were executed before. End its connection with
 * -EKEYREJECTED. The caller repairs the queue pair. False: that post is no write or read. */
bool rs_peer_refused(struct rs_peer *p, enum rs_lane lane, unsigned int before);
/* Queue a frame that belongs to no connection for the next rs_peer_pump(). -ENOBUFS: too many are
 * queued. -ENOMEM. */
int rs_peer_loose(struct rs_peer *p, enum rs_frame_kind kind, uint32_t to, uint32_t total);
/* The same for any frame. Its version and its number are filled in when it is posted. */
int rs_peer_reply(struct rs_peer *p, const struct rs_frame *f);

/* Stop posting until rs_peer_resume(), because the queue pairs broke. */
void rs_peer_stop(struct rs_peer *p);
/* Record how many sends the peer received on each lane. Call once between rs_peer_stop() and
 * rs_peer_resume(). Return how many posts that completes. -EBADMSG: the numbers are impossible; the
 * peer must be dropped. */
int rs_peer_arrived(struct rs_peer *p, const uint32_t received[RS_LANES]);
/* Resume on new queue pairs: post again what has not arrived, then continue. */
void rs_peer_resume(struct rs_peer *p);

/* Handle a message that arrived on a lane. The only function of receive.c. After an error the peer
 * must be dropped. -EBADMSG: it violates the protocol. -ENOMEM: no memory for a response that it
 * waits for. -ENOBUFS: it does not accept responses. */
int rs_peer_receive(struct rs_peer *p, enum rs_lane lane, const void *data, uint32_t bytes);

#endif
