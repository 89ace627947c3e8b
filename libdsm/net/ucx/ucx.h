/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ucx.h - the structs of the transport over UCX, and its threads. ucx.c opens and closes, msg.c
 * sends and receives, frame.c checks incoming data by rules.h, peer.c manages peers, inbox and
 * buffers, bell.c wakes ranks of this host. The functions of each file are in its header.
 *
 * Threads. send takes the lock to pass a copy to UCX. It never progresses UCX, so it never
 * delivers, and may be called from handlers and fault handlers. poll tries the lock, progresses
 * UCX, removes one message at a time from the inbox and runs the handler with the lock released;
 * several threads may run handlers at once. UCX's callbacks (ucx_received, data_came, sent, failed)
 * run inside UCX calls, with the lock held, and only queue. UCX has its own thread that opens TCP
 * connections; that thread calls none of them.
 *
 * The caller's memory is never accessed with the lock held: send copies before it, handlers read
 * after it. UCX's own locks would be redundant, so the worker is created SERIALIZED.
 *
 * Sleeping. After an arm, a thread sleeps on fd and bell. If all peers ring (bell.h), UCX is not
 * armed, unless it has work of its own: then only UCX knows when that can go on. Another thread may
 * consume the event that would have woken it (it reads the socket and leaves a message in the
 * inbox), or create work that has no event (a send into a full queue). So a thread that leaves work
 * in an armed transport wakes the sleeper: ucx_kick().
 */
#ifndef NET_UCX_H
#define NET_UCX_H

#include <pthread.h>

#include "net/check.h"
#include "net/net.h"
#include "net/own.h"
#include "net/ucx/bell.h"
#include "net/ucx/frame.h"
#include "net/ucx/ucp_api.h"

#define UCX_AM_ID 0

enum peer_state { PEER_NONE = 0, PEER_KNOWN, PEER_LOST, PEER_DROPPED };
enum { DATA_NONE = 0, DATA_UCX, DATA_HEAP };

/* An item that poll delivers: a message or, if err is set, the loss of its sender. */
struct item {
	struct item *next;
	struct net *net;
	struct msg m;
	void *data;
	size_t size;
	int err;
	uint16_t rank;
	uint8_t owner; /* of data: DATA_* */
};

/* A copy of a message being sent; the payload follows. */
struct out {
	struct out *next;
	struct net *net;
	uint16_t rank;
	uint8_t pooled;
	struct msg m;
	char data[];
};

/* A thread sleeps, or is about to: UCX wakes it, or a peer by the bell. */
enum ucx_armed { ARMED_NOT = 0, ARMED_UCX, ARMED_BELL };

#define OUT_SMALL 4096 /* largest payload of a pooled copy: the default block size */

struct peer {
	struct net *net;
	void *address;
	ucp_ep_h ep;
	uint8_t state;
	uint8_t forceful; /* ep reports errors and may be closed without the peer */
	uint8_t reap;     /* ep must be closed */
	struct item lost;
	struct bell_rope rope;
};

struct chunk {
	struct chunk *next;
};

struct net {
	pthread_mutex_t lock;
	const struct ucp_api *ucp;
	struct net_config cfg;
	ucp_context_h context;
	ucp_worker_h worker;
	int fd;
	struct bell bell;
	bool ours; /* libdsm has chosen UCX's transports */

	/* under lock */
	struct item *head, **tail; /* inbox */
	struct item *items;        /* free */
	struct out *outs;          /* free, pooled */
	struct chunk *chunks;      /* memory of the two */
	unsigned int sends, recvs; /* not completed by UCX */
	enum ucx_armed armed;
	unsigned int idle_busy;    /* consecutive arms refused, without progress between them */
	int reap;                  /* some peer has reap set */
	int broken;                /* a peer was disconnected with messages in flight */
	struct net_counters count; /* written under the lock, read by any thread */
	struct net_lane lane;      /* the same */
	struct peer peers[];
};

/* Add to a counter. Counters are written under the lock and read by any thread. */
static inline void ucx_count(uint64_t *c, uint64_t n)
{
	__atomic_store_n(c, __atomic_load_n(c, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

#endif
