/* SPDX-License-Identifier: GPL-2.0 */
/* lane.h - sending and receiving over the queue pairs of a connection. */
#ifndef KMOD_LANE_H
#define KMOD_LANE_H

#include <linux/hrtimer.h>

#include "conn.h"

struct egress;
struct waiting;

/* One queue pair, to one peer, for one class of messages. */
struct lane {
	struct egress *egress;
	struct ib_qp *qp;
	struct conn *conn;
	u16 peer;
	u8 class;
	bool strict;
	u32 peer_qpn; /* the peer's queue pair; 0: not connected yet */
	/* the queue pair can receive (RTR); can also send (RTS); failed */
	bool receives, up, broken;
	/*
	 * The proof of the job's key was sent (greeted), was received (proved). Nothing else is
	 * sent or accepted before.
	 */
	bool greeted, proved;
	bool paused;           /* its flows wait for send queue entries or credit */
	unsigned int room;     /* free entries in the send queue */
	unsigned int credit;   /* sends that the peer has buffers for */
	unsigned int nwaiting; /* messages and blocks in its flows */
	unsigned int unsignalled;
	u32 unsignalled_bytes; /* bytes of blocks in unsignalled requests */
	u32 signal_bytes;      /* a request is signalled when there are so many */
	u32 taken;             /* receives; only the completion handler counts */
	u32 returned;          /* receives that were returned to the peer as credit */
	u64 sent, received;    /* messages and blocks */
	unsigned int pack;     /* messages per send, at most */
	/* conn->depth send buffers of `pack` messages; NULL: messages are sent inline */
	struct msg *out;
	u64 out_dma;
	unsigned int posted;           /* sends from `out` */
	struct msg deferred[PACK - 1]; /* sent with the next message, or when defer_timer expires */
	unsigned int ndeferred;
	ktime_t deferred_until;
	struct hrtimer defer_timer; /* running if `armed` */
	bool armed;
};

static inline struct lane *lane_of(struct conn *c, u16 peer, unsigned int class)
{
	return &c->lanes[peer * CLASS_MAX + class];
}

enum wr_kind { WR_RECEIVE = 1, WR_SEND, WR_KEY };

/*
 * The id of a work request: its kind, the send queue entries that its completion frees, and a
 * number.
 */
static inline u64 wr_id(enum wr_kind kind, u16 places, u32 number)
{
	return (u64)kind << 48 | (u64)places << 32 | number;
}

/*
 * One of the peer's buffers is reserved for returning credits. A block and its message take two
 * send queue entries.
 */
static inline bool lane_may_send(const struct lane *l)
{
	return l->room > 1 && l->credit > 1;
}

/* Bottom halves are off in these four. Send a message over the lane of its class. */
void lane_send_to(struct conn *c, u16 peer, const struct msg *m);
/* handle a completion for cq.c; arg: the conn */
void lane_completed(void *arg, const struct ib_wc *wc);
void lane_send(struct lane *l, const struct msg *m, bool block);
void lane_send_waiting(struct lane *l, struct waiting *w); /* takes over w */
/*
 * Post a message, or some bytes of a block; m is sent with its last bytes. Under egress->lock, if
 * lane_may_send().
 */
void lane_post_message(struct lane *l, const struct msg *m);
void lane_post_block(struct lane *l, const struct msg *m, u32 offset, u32 bytes);
/* initialise the lane of a new connection */
void lane_start(struct conn *c, u16 peer, unsigned int class);
void lane_stop(struct lane *l); /* cancel defer_timer; sleeps */
void lane_up(struct lane *l);   /* it is connected: sending is allowed; process context */
/* Report the peer as lost and drop it, once; how, status: for the log. Any context. */
void lane_broken(struct lane *l, const char *how, int status);
/* set IB_QPS_ERR: pending requests complete with an error; sleeps */
void lane_end(struct lane *l);
void lane_end_locked(struct lane *l); /* the same; the caller holds conn->modify */

enum lane_secret { SECRET_PSN = 'P', SECRET_HELLO = 'H' };
/* theirs: from the peer */
u64 lane_secret(const struct lane *l, enum lane_secret what, bool theirs);

#endif
