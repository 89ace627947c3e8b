/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hub.h - the connections of a node. Inputs are operations and frames; outputs are posts, frames
 * and completions. This header has the structs and the functions of hub.c: tables of connections,
 * and clients. conn.h has connections, peer.h the remote nodes.
 *
 * Only the owner's thread runs it, or one that helps it (rs_owner_help()). It uses no verbs, socket
 * or clock: the wire below is a table of functions. Data from shared memory is copied once and then
 * checked; data from a peer is checked by rs_frame_parse() and against the connection. No function
 * blocks.
 *
 * Life of a connection:
 *
 *   opening ---- OPENED ----> open ---- rs_conn_close() ----> closing ---- CLOSED ----> ended ----
 *       release ----> (free)
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

/* posts of the strict lane for frames without payload, in addition to the scheduler's */
#define RS_CTL_SLOTS 16
#define RS_BATCH 16 /* posts in one chain */
#define RS_MESSAGE_MAX (1u << 30)

struct rs_hub;
struct rs_peer;
struct rs_conn;
struct rs_client;

/* Functions provided by the owner. None may call the hub, except post_long. */
struct rs_wire {
	/* Post n in order. The lane gets n more completions, in order, or rs_peer_stop() or
	 * rs_peer_lost(). */
	void (*post)(struct rs_peer *p, enum rs_lane lane, const struct rs_post *v, unsigned int n);
	void (*wake)(struct rs_conn *c);       /* its client sleeps on the signal */
	void (*wake_set)(struct rs_client *c); /* the client sleeps on the signal of its set */
	void (*freed)(struct rs_conn *c);      /* the record and its signal are being freed */
	void (*log)(const char *text);
	/* NULL, or the same as `post`, for posts of the weighted lane of which some are long.
	 * Meanwhile the hub may be called, except rs_peer_pump() and what ends or repairs the peer:
	 * by another thread, with whatever lock serialises these calls. */
	void (*post_long)(struct rs_peer *p, const struct rs_post *v, unsigned int n);
};

struct rs_hub_stats {
	uint64_t posts, chains, frames_in, unknown, malformed, forged, refused, resent;
};

struct rs_hub {
	const struct rs_wire *wire;
	struct rs_conn **conn; /* by slot */
	uint16_t *generation;
	uint32_t nconn, live;
	uint32_t pieces; /* of an operation, that the device takes; at most RS_PIECES_MAX */
	uint32_t next;   /* where the search for a free slot begins */
	struct rs_client *clients;
	struct rs_conn *listeners;
	struct rs_conn *unnotified; /* with events since rs_hub_notify() */
	struct rs_hub_stats stats;
};

/* A remote node, with its two lanes. */
struct rs_peer {
	struct rs_hub *hub;
	struct rs_sched sched;
	struct rs_fifo lane[RS_LANES];
	struct rs_conn *conns; /* all of this peer */
	struct rs_conn *owing; /* those that owe a frame other than a credit */
	struct rs_conn **owing_end;
	struct rs_conn *granting; /* those that owed a credit; it may have left with data since */
	struct rs_conn **granting_end;
	struct rs_frame *loose; /* answers that may outlive their connections */
	uint32_t nloose, loose_size, loose_at;
	uint32_t unanswered; /* connections whose OPEN is unanswered */
	uint32_t chunk, ctl;
	bool late;  /* the credits owed now have waited for a pump */
	bool ready; /* posts are possible */
	void *link; /* the owner's */
	char name[64];
};

/* Bytes of the pool of a process that peers may access by a key of their own. */
struct rs_grant {
	struct rs_grant *next;
	void *mr; /* of the owner */
	uint64_t offset;
	uint32_t len, rkey;
	uint8_t access; /* enum rshare_access */
};

/* A process of this node. */
struct rs_client {
	struct rs_hub *hub;
	struct rs_client *sibling; /* in the list of the hub */
	struct rs_layout layout;
	char *base;
	uint32_t lkey, rkey;
	bool remote; /* peers may access the pool by rkey */
	struct rs_grant *grants;
	uint32_t ngrants;
	struct rs_conn **conn; /* by index */
	uint32_t next, live;
	uint32_t outstanding; /* chunks on the wire that read or write the pool */
	bool refusing;        /* refuses connections of peers for lack of resources; logged once */
	int fd;               /* signal of the set, -1: none */
};

enum rs_conn_state { RS_LISTENING, RS_OPENING, RS_OPEN, RS_CLOSING, RS_ENDED };

struct rs_conn_stats {
	uint64_t messages_sent, bytes_sent, messages_received, bytes_received, chunks_sent,
		chunks_received, stalls, writes, bytes_written, reads, bytes_read, atomics, written,
		fences;
};

struct rs_buffer {
	uint64_t cookie, offset;
	uint32_t len;
};

/* An operation that was taken from the ring. */
struct rs_work {
	struct rs_sqe e;
	union {
		uint8_t data[RS_INLINE_MAX];          /* with RSHARE_INLINE */
		struct rs_piece piece[RS_PIECES_MAX]; /* e.pieces of them */
	};
	bool whole;    /* its second entry, if it has one, was there */
	bool answered; /* by the peer's owner, or it needs no answer */
	uint32_t seq;  /* of its frame, which the answer repeats */
};

struct rs_conn {
	struct rs_flow flow; /* first: a chunk's flow is its connection */
	struct rs_client *client;
	struct rs_peer *peer;
	struct rs_conn *next, **link; /* of peer->conns, or of hub->listeners */
	struct rs_conn *next_owing, *next_granting;
	/* unnotified: NULL: it is not in the hub's list */
	struct rs_conn *next_unnotified, **unnotified;
	struct rs_seg_conn *seg;
	uint32_t id, remote, index, service;
	uint8_t state;
	uint16_t owes; /* a bit for each kind of frame */
	bool on_owing, on_granting, closed_sent, flushed, released, stalled, fenced;
	bool unanswered;                /* its OPEN is unanswered */
	uint32_t waited;                /* for the answer: s */
	bool joined;                    /* in the set of its client */
	int fd;                         /* its signal, -1: none */
	int status;                     /* reason for its end */
	uint32_t sq, rq, rq_seen, cq;   /* positions of the owner */
	struct rs_work op[RS_FLOW_OPS]; /* incomplete operations, at number % RS_FLOW_OPS */
	uint32_t op_first, op_posted;   /* the oldest; the oldest without acknowledgement */
	/* of them, reads and atomic operations; an operation with a fence waits for these */
	uint32_t reads;
	uint32_t quiet;      /* unsignalled operations that have completed */
	struct rs_work held; /* removed from the ring, waits for credit or for reads */
	bool has_held;
	uint32_t tx_granted, tx_started, tx_seq;
	uint32_t rx_told, rx_seq;
	bool rx_open;
	struct rs_buffer rx;
	uint32_t rx_total, rx_at;
	uint32_t rx_tagged, rx_immediate; /* of its event */
	bool close_seen;
	uint32_t close_at;
	struct rs_conn_stats stats;
};

/* wire: must live as long as the hub. The caller may lower h->pieces then. */
void rs_hub_init(struct rs_hub *h, const struct rs_wire *wire);
/* Free the tables. No connection may be left. */
void rs_hub_exit(struct rs_hub *h);
/* Wake each sleeping client that got events since the last call, once for all its events. */
void rs_hub_notify(struct rs_hub *h);

/* Initialise a client. base: its shared memory, of layout l. -ENOMEM. */
int rs_client_init(struct rs_client *c, struct rs_hub *h, const struct rs_layout *l, void *base);
/* Reset the connections of a process that is gone. The client may be freed once rs_client_idle() is
 * true. */
void rs_client_gone(struct rs_client *c);
/* True if the client has no connection and the wire does not use its memory. */
bool rs_client_idle(const struct rs_client *c);
/* Free the client's table. The client must be idle. */
void rs_client_exit(struct rs_client *c);
/* Poll the submission rings of the connections whose ready bits are set. Return their number. */
unsigned int rs_client_kick(struct rs_client *c);

/* For conn.c, peer.c and receive.c. Create a connection with an id and add it to the tables of the
 * hub and the client, and to the list of peer p, or of the listeners if p is NULL. -ENOMEM.
 * -ENOSPC: the client or the node is at its limit of connections. */
int hub_conn_create(struct rs_client *client, struct rs_peer *p, struct rs_conn **out);
/* Remove it from all tables and free it. It must have nothing on the wire. */
void hub_conn_destroy(struct rs_conn *c);
/* Remove it from the list of its peer. */
void hub_conn_unlink(struct rs_conn *c);
/* Return the connection with this id. NULL: there is none, or it was freed. */
struct rs_conn *hub_conn_find(struct rs_hub *h, uint32_t id);
/* Return the 8 bytes that peers know by a key and an address. NULL: they may not access them, or
 * the address is not aligned. */
uint64_t *hub_word_find(struct rs_hub *h, uint32_t rkey, uint64_t address);
/* Mark a connection that got events, so that rs_hub_notify() wakes its client. */
void hub_conn_unnotified(struct rs_conn *c);
/* Log `what` with the connection's index and its peer's name. */
void hub_conn_log(struct rs_conn *c, const char *what);

#endif
