/* SPDX-License-Identifier: GPL-2.0 */
/* lane.h - sending and receiving over the queue pairs of a connection. */
#ifndef KMOD_LANE_H
#define KMOD_LANE_H

#include <linux/hrtimer.h>

#include "conn.h"

struct egress;
struct waiting;

/* One queue pair: to a peer, for a class of messages. */
struct lane {
	struct egress *egress;
	struct ib_qp *qp;
	struct conn *conn;
	u16 peer;
	u8 class;
	bool strict;
	u32 peer_qpn;              /* the peer's queue pair; 0: not connected yet */
	bool receives, up, broken; /* its queue pair receives (RTR); and sends, too */
	/* The proof of the key of the job was sent; it was received. Before that, nothing else is sent, or accepted. */
	bool greeted, proved;
	bool paused;           /* its flows wait for places or credit */
	unsigned int room;     /* places in the send queue */
	unsigned int credit;   /* sends that the peer has buffers for */
	unsigned int nwaiting; /* of its flows */
	unsigned int unsignalled;
	u32 unsignalled_bytes; /* of blocks */
	u32 signal_bytes;      /* when they are so many, a request is signalled */
	u32 taken;             /* receives; its handler counts */
	u32 returned;          /* of them the peer has heard of */
	u64 sent, received;    /* messages and blocks */
	unsigned int pack;     /* messages that a send may have */
	struct msg *out;       /* conn->depth of as many to send from; NULL: messages go inline */
	u64 out_dma;
	unsigned int posted;           /* sends, from out */
	struct msg deferred[PACK - 1]; /* they go with the next message, or when defer_timer says so */
	unsigned int ndeferred;
	ktime_t deferred_until;
	struct hrtimer defer_timer; /* runs: armed */
	bool armed;
};

static inline struct lane *lane_of(struct conn *c, u16 peer, unsigned int class)
{
	return &c->lanes[peer * CLASS_MAX + class];
}

enum wr_kind { WR_RECEIVE = 1, WR_SEND, WR_KEY };

/* A work request's name: what it is, places of the send queue that its completion gives back, and a number. */
static inline u64 wr_id(enum wr_kind kind, u16 places, u32 number)
{
	return (u64)kind << 48 | (u64)places << 32 | number;
}

/* Of the peer's buffers one is kept to return credits with. A block and its message take two places. */
static inline bool lane_may_send(const struct lane *l)
{
	return l->room > 1 && l->credit > 1;
}

void lane_send_to(struct conn *c, u16 peer, const struct msg *m);

void lane_completed(void *arg, const struct ib_wc *wc); /* of a conn; from cq.c, bottom halves are off */
void lane_send(struct lane *l, const struct msg *m, bool block);
void lane_send_waiting(struct lane *l, struct waiting *w); /* which is this lane's then */
/* Under egress->lock, while lane_may_send(): a message, and some bytes of a block, with which m goes if they are its last. */
void lane_post_message(struct lane *l, const struct msg *m);
void lane_post_block(struct lane *l, const struct msg *m, u32 offset, u32 bytes);
void lane_start(struct conn *c, u16 peer, unsigned int class); /* of a new connection */
void lane_stop(struct lane *l);                                /* nothing is deferred any more; sleeps */
void lane_up(struct lane *l);                                  /* it is connected */
void lane_broken(struct lane *l, const char *how, int status);
void lane_end(struct lane *l);        /* sleeps: all that is posted completes, with an error if it is not done */
void lane_end_locked(struct lane *l); /* the same under conn->modify */

enum lane_secret { SECRET_PSN = 'P', SECRET_HELLO = 'H' };
u64 lane_secret(const struct lane *l, enum lane_secret what, bool theirs); /* theirs: of the other direction */

#endif
