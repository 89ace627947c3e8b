/* SPDX-License-Identifier: GPL-2.0 */
/*
 * conn.h - the connections of a rank: conn.c creates and connects queue pairs, lane.c sends and
 * receives over them, egress.c queues what waits to be sent to a peer, recv.c has the receive
 * buffers, key.c makes the keys for RDMA writes of blocks. They call their user only by struct
 * conn_ops.
 *
 * Locks: egress->lock protects all lanes to a peer. It and peer_keys->lock are taken with bottom
 * halves off, never one inside the other, and never those of two peers. The driver's locks and
 * those of timers nest inside egress->lock. key_mutex, then modify, are taken before them, in
 * processes and workers that may sleep.
 */
#ifndef KMOD_CONN_H
#define KMOD_CONN_H

#include <linux/siphash.h>
#include <rdma/ib_verbs.h>

#include "core/wire.h"
#include "cq.h"
#include "../base/ctx.h"
#include "recv.h"

struct chunk_key;
struct egress;
struct lane;
struct peer_keys;

/* sends of a lane, at most: CREDITS, and those whose completion is still to be handled */
#define DEPTH 128u
#define DEPTH_LEAST 64u
#define SENDS_MORE 8u /* requests that do not count in the depth: keys */
/* sends of a lane that its peer has buffers for; rxe has no more packets in flight */
#define CREDITS 64u
#define PACK 4u /* messages per send, at most */
#define SIGNAL_EVERY 16u
/* with fewer entries, no request would be signalled, and none freed */
#define SENDS_LEAST (SIGNAL_EVERY + 2)

/*
 * The callbacks of connections. Bottom halves are off, and there is memory for one event (pool.h).
 */
struct conn_ops {
	/*
	 * Handle the messages of one packet, over a lane of that class, from a peer that has proved
	 * that it belongs to the job. The connection has checked nothing in them. False: no correct
	 * peer sends one of them.
	 */
	bool (*messages)(void *arg, u16 peer, unsigned int class, const struct msg *m,
			 unsigned int n);
	/*
	 * A block has been written to its frames. imm: the immediate data that imm() returned at
	 * the peer.
	 */
	void (*landed)(void *arg, u16 peer, u32 imm);
	/* 0: m does not fit in 32 bits, and is sent after the block */
	u32 (*imm)(const struct msg *m);
	/* can this be a block, as far as this rank knows? */
	bool (*is_block)(void *arg, u32 object);
	/* of the block's region: enum dsm_region_priority */
	unsigned int (*priority)(void *arg, u32 object);
	/*
	 * A peer is lost or violates the protocol, or this rank (peer: me) cannot continue. Any
	 * context, any lock of conn.h.
	 */
	void (*lost)(void *arg, u16 peer, int err);
};

struct conn_config {
	struct ctx *ctx; /* has the frames, and is charged */
	u16 me, size;
	const siphash_key_t *key;         /* of the job; set before the first conn_connect() */
	const struct wire_limits *limits; /* on messages from peers */
	/* limit of waiting messages; a peer that receives never reaches it */
	unsigned int waiting_max;
	const struct conn_ops *ops;
	void *arg;
};

struct conn {
	struct conn_config cfg;
	struct ib_device *dev;
	u32 port;
	const struct ib_gid_attr *gid;
	u8 mtu;
	u16 lid, pkey; /* pkey: the index of its partition */
	struct ib_pd *pd;
	struct cq *cqs[CLASS_MAX];
	unsigned int depth; /* sends of each lane */
	struct receives receives[CLASS_MAX];
	struct lane *lanes;    /* size * CLASS_MAX */
	struct egress *egress; /* one per peer */
	struct peer_keys *keys;
	struct mutex key_mutex; /* held while a key is made */
	/* held while states of queue pairs change; nests inside key_mutex */
	struct mutex modify;
	struct chunk_key *making;
	/* how long a MSG_DONE may wait for another message; 0: not at all */
	u32 late_us;
	bool failed;             /* a queue has failed */
	struct work_struct drop; /* ends the queue pairs to `dropped` */
	DECLARE_BITMAP(dropped, DSM_RANKS_MAX);
	bool closing; /* set under modify: later connects fail, and errors are not reported */
};

struct ib_device *conn_device(const struct conn *c);
size_t conn_peer_bytes(size_t chunks); /* memory per peer, for a window of so many chunks */
/*
 * Open the device and create the queue pairs; *size bytes of *address are for the peers. Sleeps.
 * ERR_PTR: -ENOMEM; -E2BIG: the device's queues are too short; those of caps_check();
 * -EADDRNOTAVAIL: no GID; -ENODEV: no device, or all GIDs are of other network namespaces;
 * -ENETDOWN; those of cq_create() and of the device.
 */
struct conn *conn_open(const struct conn_config *cfg, const struct dsm_ioc_join *j, void *address,
		       u32 *size);
/*
 * Stop sending and receiving; posted requests complete, so that threads waiting for them continue.
 * Sleeps; idempotent.
 */
void conn_stop(struct conn *c);
void conn_close(struct conn *c);
/* stop sending to and receiving from a peer; any context */
void conn_drop(struct conn *c, u16 peer);
/*
 * Connect to a peer. -EINVAL: not its address; -EIO: closing; -EEXIST: all queue pairs are
 * connected. After -ENOMEM or another error of the device, the caller may retry with the same
 * address: connected queue pairs are kept. Sleeps.
 */
int conn_connect(struct conn *c, u16 peer, void *address, u32 size);
void conn_show(struct seq_file *f, struct conn *c); /* for debugfs: lanes with pending work */
/* the device may have lost messages; any context */
void conn_failed(struct conn *c, const char *queue);
void conn_queues(const struct conn *c, struct dsm_ioc_queues *out);
int conn_init(device_gone_fn gone);
void conn_exit(void);

/* caps.c: can a rank use a device? */

/*
 * Check what connections and keys need of a device and its port, and choose the partition: *pkey is
 * its index. Sleeps. -EOPNOTSUPP: the device cannot do it, and the log says what; -EACCES: it is a
 * full member of no partition; -ENOMEM.
 */
int caps_check(struct ib_device *dev, u32 port, u16 *pkey);

u8 caps_service_level(void); /* of all connections */

#endif
