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

#include <linux/siphash.h>
#include <rdma/ib_verbs.h>

#include "core/wire.h"
#include "cq.h"
#include "ctx.h"
#include "recv.h"

struct chunk_key;
struct egress;
struct lane;
struct peer_keys;

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
