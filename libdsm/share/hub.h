/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hub.h - the connections of a node: operations and frames in; posts, frames and completions out.
 *
 * One thread, the owner's. No verbs, socket or clock: the wire below is two functions. What comes from shared memory is
 * copied once and then checked; what comes from a peer is checked by rs_frame_parse() and against the connection.
 *
 * Life of a connection:
 *
 *   opening ---- OPENED ----> open ---- rs_conn_close() ----> closing ---- CLOSED ----> ended ---- release ----> (free)
 *      |                       |  \                              |                       ^
 *      +------ REFUSED --------+---+-- CLOSE, RESET, lost peer --+-----------------------+
 */
#ifndef SHARE_HUB_H
#define SHARE_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "share/fifo.h"
#include "share/schedule.h"
#include "share/segment.h"

#define RS_CTL_SLOTS 16 /* posts of the strict lane for frames without payload, beside the scheduler's */
#define RS_BATCH 16     /* posts in one chain */
#define RS_MESSAGE_MAX (1u << 30)

struct rs_hub;
struct rs_peer;
struct rs_conn;
struct rs_client;

/* What the owner provides. None may call the hub. */
struct rs_wire {
	/* Post n in order; n more completions of the lane will come, in order, or rs_peer_stop() or rs_peer_lost(). */
	void (*post)(struct rs_peer *p, enum rs_lane lane, const struct rs_post *v, unsigned int n);
	void (*wake)(struct rs_conn *c);       /* its client sleeps on the eventfd */
	void (*wake_set)(struct rs_client *c); /* the client sleeps on that of its set */
	void (*freed)(struct rs_conn *c);      /* its record goes, its eventfd with it */
	void (*log)(const char *text);
};

struct rs_hub_stats {
	uint64_t posts, chains, frames_in, unknown, malformed, forged, refused, resent;
};

struct rs_hub {
	const struct rs_wire *wire;
	struct rs_conn **conn; /* by slot */
	uint16_t *generation;
	uint32_t nconn, live;
	uint32_t next; /* where the search for a free slot begins */
	struct rs_conn *listeners;
	struct rs_conn *untold; /* with events since rs_hub_tell() */
	struct rs_hub_stats stats;
};

/* An answer that belongs to no connection. */
struct rs_loose {
	uint8_t kind;
	uint32_t to, total;
};

/* A node at the other end, with its two lanes. */
struct rs_peer {
	struct rs_hub *hub;
	struct rs_sched sched;
	struct rs_fifo lane[RS_LANES];
	struct rs_conn *conns; /* all of this peer */
	struct rs_conn *owing; /* those that owe a frame */
	struct rs_conn **owing_end;
	struct rs_loose *loose;
	uint32_t nloose, loose_size, loose_at;
	uint32_t unanswered; /* connections whose OPEN has no answer */
	uint32_t chunk, ctl;
	bool ready; /* posts are possible */
	void *link; /* the owner's */
	char name[64];
};

/* A process of this node. */
struct rs_client {
	struct rs_hub *hub;
	struct rs_layout layout;
	char *base;
	uint32_t lkey, rkey;
	struct rs_conn **conn; /* by index */
	uint32_t next, live;
	uint32_t outstanding; /* chunks on the wire that read or write the pool */
	bool refusing;        /* connections of peers, for lack of something; said once */
	int fd;               /* eventfd of the set, -1: none */
};

enum rs_conn_state { RS_LISTENING, RS_OPENING, RS_OPEN, RS_CLOSING, RS_ENDED };

struct rs_conn_stats {
	uint64_t messages_sent, bytes_sent, messages_received, bytes_received, chunks_sent, chunks_received, stalls;
};

struct rs_buffer {
	uint64_t cookie, offset;
	uint32_t len;
};

struct rs_conn {
	struct rs_flow flow; /* first: a chunk's flow is its connection */
	struct rs_client *client;
	struct rs_peer *peer;
	struct rs_conn *next, **link; /* of peer->conns, or of hub->listeners */
	struct rs_conn *next_owing;
	struct rs_conn *next_untold, **untold; /* untold: NULL: it is not in the hub's list */
	struct rs_seg_conn *seg;
	uint32_t id, remote, index, service;
	uint8_t state;
	uint16_t owes; /* a bit for each kind of frame */
	bool on_owing, closed_sent, flushed, released, stalled;
	bool unanswered;               /* its OPEN is */
	uint32_t waited;               /* for the answer: s */
	bool joined;                   /* it is in the set of its client */
	int fd;                        /* eventfd, -1: none */
	int status;                    /* why it ended */
	uint32_t sq, rq, rq_seen, cq;  /* positions of the owner */
	struct rs_sqe op[RS_FLOW_OPS]; /* those that are not complete, at number % RS_FLOW_OPS */
	uint32_t op_first;
	struct rs_sqe held; /* taken from the ring, waits for credit */
	bool has_held;
	uint32_t tx_granted, tx_started, tx_seq;
	uint32_t rx_told, rx_seq;
	bool rx_open;
	struct rs_buffer rx;
	uint32_t rx_total, rx_at;
	bool close_seen;
	uint32_t close_at;
	struct rs_conn_stats stats;
};

void rs_hub_init(struct rs_hub *h, const struct rs_wire *wire);
void rs_hub_exit(struct rs_hub *h);
/* Wake the clients that sleep and have got events since the last call: once, however many events. */
void rs_hub_tell(struct rs_hub *h);

/* -ENOMEM. slots: chunks outstanding of a lane; a power of two. */
int rs_peer_init(struct rs_peer *p, struct rs_hub *h, uint32_t chunk, const uint32_t window[RS_LANES], uint32_t slots);
void rs_peer_ready(struct rs_peer *p, uint32_t chunk);
/* The peer is no more, and nothing of it is in flight: its connections end with status. The peer may be initialised again. */
void rs_peer_lost(struct rs_peer *p, int status);

int rs_client_init(struct rs_client *c, struct rs_hub *h, const struct rs_layout *l, void *base);
/* The process is gone: its connections are reset. It may be freed when client_idle(). */
void rs_client_gone(struct rs_client *c);
bool rs_client_idle(const struct rs_client *c);
void rs_client_exit(struct rs_client *c);

/* -ENOSPC: all connections of the client or of the node are in use. -EADDRINUSE. -ENOMEM. */
int rs_conn_listen(struct rs_client *c, uint32_t service, struct rs_conn **out);
int rs_conn_connect(struct rs_client *c, struct rs_peer *p, uint32_t service, uint8_t priority, uint8_t weight,
		    struct rs_conn **out);
void rs_conn_priority(struct rs_conn *c, uint8_t priority, uint8_t weight);
/* Into the set of the client, with the events that it has. */
void rs_conn_join(struct rs_conn *c);
/* Send all that was submitted, tell the peer, end. */
void rs_conn_close(struct rs_conn *c);
/* The client wants no more of it: end it at once if it has not ended, and free the record when the wire is done with it. */
void rs_conn_release(struct rs_conn *c);

/* Poll the submission rings of a client's connection. */
void rs_conn_kick(struct rs_conn *c);
/* The connections whose ready bits are set. Returns how many. */
unsigned int rs_client_kick(struct rs_client *c);

/* Hand to the wire what may go now. Returns the number of posts. */
unsigned int rs_peer_pump(struct rs_peer *p);
/* Posts are on the wire. */
bool rs_peer_busy(const struct rs_peer *p);
/* The oldest n posts of a lane have completed. */
void rs_peer_sent(struct rs_peer *p, enum rs_lane lane, unsigned int n);
/* A message has arrived by a lane. The peer must be dropped: -EBADMSG: it breaks the protocol. -ENOMEM: there is no memory for
 * an answer that it waits for. -ENOBUFS: it does not take answers. */
int rs_peer_receive(struct rs_peer *p, enum rs_lane lane, const void *data, uint32_t bytes);

/* A second has passed: connections whose OPEN has gone so many without an answer end with -ETIMEDOUT. Returns how many. */
uint32_t rs_peer_tick(struct rs_peer *p, uint32_t seconds);

/* The queue pairs broke: post nothing until rs_peer_resume(). */
void rs_peer_stop(struct rs_peer *p);
/* What the peer says to have received by each lane, once between the two. Returns how many posts that completes.
 * -EBADMSG: it cannot have received so much, or so little, and must be dropped. */
int rs_peer_arrived(struct rs_peer *p, const uint32_t received[RS_LANES]);
/* There are new queue pairs: post again what has not arrived, and go on. */
void rs_peer_resume(struct rs_peer *p);

#endif
