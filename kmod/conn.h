/* SPDX-License-Identifier: GPL-2.0 */
/*
 * conn.h - the connections of a rank: conn.c makes queue pairs and connects them, lane.c sends and receives over them, egress.c
 * has what waits to be sent to a peer, recv.c has the receive buffers, key.c makes the keys by which blocks are written. They know
 * nothing of who uses them but struct conn_ops.
 *
 * Locks: egress->lock, of all lanes to a peer, and peer_keys->lock; neither inside the other, bottom halves off. Inside the first:
 * the driver's (posting), a timer is started. Nobody holds those of two peers. Before them key_mutex, then modify, in processes and
 * workers that may sleep.
 */
#ifndef KMOD_CONN_H
#define KMOD_CONN_H

#include <linux/hrtimer.h>
#include <linux/scatterlist.h>
#include <linux/siphash.h>
#include <rdma/ib_verbs.h>

#include "core/wire.h"
#include "cq.h"
#include "ctx.h"
#include "share/schedule.h"

#define DEPTH 128u /* sends of a lane, at most: CREDITS, and those that have ended and nobody has been told of */
#define DEPTH_LEAST 64u
#define SENDS_MORE 8u /* that are not counted: keys */
#define CREDITS 64u   /* sends of a lane that its peer has buffers for; rxe has no more packets under way */
#define PACK 4u       /* messages of one send, at most */
#define SIGNAL_EVERY 16u
#define SENDS_LEAST (SIGNAL_EVERY + 2) /* fewer places would never come back */

/* What the connections of a rank call. Bottom halves are off, and there is memory for what one event takes (pool.h). */
struct conn_ops {
	/*
	 * Messages of one packet, over a lane of that class, of a peer that has proved that it belongs to the job. The
	 * connection has looked at nothing in them. False: no correct peer sends one of them.
	 */
	bool (*messages)(void *arg, u16 peer, unsigned int class, const struct msg *m, unsigned int n);
	/* A block has come into its frames, and 32 bits with it: what imm() has given at the peer. */
	void (*landed)(void *arg, u16 peer, u32 imm);
	u32 (*imm)(const struct msg *m);                 /* 0: 32 bits are too few, and m is sent after the block */
	bool (*is_block)(void *arg, u32 object);         /* is there such a block, as far as this rank knows? */
	unsigned int (*priority)(void *arg, u32 object); /* of the block's region: enum dsm_region_priority */
	/* A peer is gone, or sends what it may not; or this rank itself cannot go on. Any context, with any lock of conn.h held. */
	void (*lost)(void *arg, u16 peer, int err);
};

struct conn_config {
	struct ctx *ctx; /* whose frames, and who is charged */
	u16 me, size;
	const siphash_key_t *key;         /* of the job; set before the first conn_connect() */
	const struct wire_limits *limits; /* of what peers may send */
	unsigned int waiting_max;         /* more messages than ever wait for a peer that takes what it is sent */
	const struct conn_ops *ops;
	void *arg;
};

enum wr_kind { WR_RECEIVE = 1, WR_SEND, WR_KEY };

struct waiting {
	struct list_head list;
	struct msg m;
	bool block;
	bool own; /* a flow's, not of the pool */
};

enum flow_kind { FLOW_COHERENCE, FLOW_SYNC, FLOW_BULK, FLOW_DATA, FLOWS = FLOW_DATA + DSM_REGION_PRIORITIES };

/* What waits and takes turns together; of FLOW_DATA on, blocks by the priority of their region. */
struct flow {
	struct rs_flow turns;
	struct lane *lane;
	struct list_head waiting;
	struct waiting
		own; /* the first of them, if that is a block: one that is larger than the window takes no memory */
};

/* All that goes to a peer (egress.c). */
struct egress {
	spinlock_t lock; /* of this, and of the peer's lanes */
	unsigned int nwaiting;
	unsigned int nstrict; /* of them, messages that blocks wait for */
	u32 most;             /* bytes of blocks that were on their way at a time */
	struct rs_sched sched;
	struct flow flows[FLOWS];
};

struct lane {
	struct egress *egress;
	struct ib_qp *qp;
	struct conn *conn;
	u16 peer;
	u8 class;
	bool strict;
	u32 peer_qpn;              /* the peer's queue pair; 0: not connected yet */
	bool receives, up, broken; /* its queue pair receives (RTR); and sends, too */
	bool greeted,
		proved; /* the proof of the job's key is sent, has come; before that nothing else goes, or is taken */
	bool paused;    /* its flows wait for places or credit */
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

struct peer_key {
	u32 rkey; /* 0: not known */
	bool asked;
	u64 at; /* remote address of the first page */
};

struct peer_keys {
	spinlock_t lock;
	struct peer_key *of;     /* by 2 MiB of the window */
	struct list_head blocks; /* struct waiting: until their key comes */
	unsigned int n;          /* of them */
};

/* The receive buffers of a class. */
struct receives {
	struct ib_srq *srq; /* NULL: each lane has CREDITS of them */
	unsigned int pack;  /* messages that a buffer has room for */
	u32 npieces;
	struct piece {
		struct msg *buffers; /* CREDITS of them */
		u64 dma;
	} * pieces;
};

struct conn {
	struct conn_config cfg;
	struct ib_device *dev;
	u32 port;
	const struct ib_gid_attr *gid;
	u8 mtu;
	u16 lid;
	struct ib_pd *pd;
	struct cq *cqs[CLASS_MAX];
	unsigned int depth; /* sends of each lane */
	struct receives receives[CLASS_MAX];
	struct lane *lanes;    /* size * CLASS_MAX */
	struct egress *egress; /* of each peer */
	struct peer_keys *keys;
	struct mutex key_mutex; /* one key is made at a time */
	struct mutex modify;    /* states of queue pairs are changed one by one; inside key_mutex */
	struct chunk_key *making;
	u32 late_us;             /* how long a MSG_DONE may wait for company; 0: not at all */
	bool failed;             /* a queue has */
	struct work_struct drop; /* ends the queue pairs to `dropped` */
	DECLARE_BITMAP(dropped, DSM_RANKS_MAX);
	bool closing; /* set under modify: no queue pair comes up any more, and that they break is no news */
};

static inline struct lane *lane_of(struct conn *c, u16 peer, unsigned int class)
{
	return &c->lanes[peer * CLASS_MAX + class];
}

/* A work request's name: what it is, places of the send queue that its completion gives back, and a number. */
static inline u64 wr_id(enum wr_kind kind, u16 places, u32 number)
{
	return (u64)kind << 48 | (u64)places << 32 | number;
}

struct ib_device *conn_device(const struct conn *c);
size_t conn_peer_bytes(size_t chunks); /* what the connection to a peer takes, in a window of so many 2 MiB */
struct conn *conn_open(const struct conn_config *cfg, const struct dsm_ioc_join *j, void *address, u32 *size);
/* Sleeps: nothing is sent or received any more, and whoever waits for what was posted goes on. May be repeated. */
void conn_stop(struct conn *c);
void conn_close(struct conn *c);
void conn_drop(struct conn *c, u16 peer); /* any context: nothing more is sent to it, or taken from it */
/* After -ENOMEM, and what else a device may say, it may be tried again by the same address: what is up stays. -EEXIST: all is. */
int conn_connect(struct conn *c, u16 peer, void *address, u32 size);
void conn_show(struct seq_file *f, struct conn *c);  /* lanes that are behind */
void conn_failed(struct conn *c, const char *queue); /* any context: the device has lost messages, or may have */
void conn_queues(const struct conn *c, struct dsm_ioc_queues *out);
int conn_init(device_gone_fn gone);
void conn_exit(void);

#endif
