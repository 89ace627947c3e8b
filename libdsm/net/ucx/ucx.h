/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ucx.h - the structs of the transport over UCX, and its threads. ucx.c opens and closes, msg.c sends and receives, frame.c
 * checks what comes, by rules.h, peer.c keeps peers, inbox and buffers. The functions of each file are in its header.
 *
 * Threads. send takes the lock to hand a copy to UCX; it never progresses, so never delivers, and may be called from
 * handlers and fault handlers. poll takes the lock unless somebody has it, progresses UCX, takes one message at a time
 * out of the inbox and runs the handler with the lock released; several threads may be in handlers at once. UCX's
 * callbacks (ucx_received, data_came, sent, failed) run inside UCX calls, with the lock held: they only queue. UCX has
 * a thread of its own that makes TCP connections; it calls none of them.
 *
 * The lock is never held while bytes of the caller are touched: send copies before, handlers read after. UCX's own
 * locks would only come on top of ours, so the worker is a SERIALIZED one.
 *
 * Sleeping. After an arm somebody sleeps on fd. Another thread may now take away what would have woken the sleeper (it
 * reads the socket and leaves a message in the inbox) or make work that has no event (a send into a full queue). So who
 * leaves work behind in an armed transport signals the worker: ucx_kick().
 */
#ifndef NET_UCX_H
#define NET_UCX_H

#include <pthread.h>

#include "net/check.h"
#include "net/net.h"
#include "net/own.h"
#include "net/ucx/frame.h"
#include "net/ucx/ucp_api.h"

#define UCX_AM_ID 0

enum peer_state { PEER_NONE = 0, PEER_KNOWN, PEER_LOST, PEER_DROPPED };
enum { DATA_NONE = 0, DATA_UCX, DATA_HEAP };

/* What poll delivers: a message, or (err set) the loss of its sender. */
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

/* A copy of what is being sent; the payload follows. */
struct out {
	struct out *next;
	struct net *net;
	uint16_t rank;
	uint8_t pooled;
	struct msg m;
	char data[];
};

#define OUT_SMALL 4096 /* payloads up to it use pooled copies: the default block */

struct peer {
	struct net *net;
	void *address;
	ucp_ep_h ep;
	uint8_t state;
	uint8_t forceful; /* ep reports errors, and may be closed without the other side */
	uint8_t reap;     /* ep is to be closed */
	struct item lost;
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

	/* under lock */
	struct item *head, **tail; /* inbox */
	struct item *items;        /* free */
	struct out *outs;          /* free, pooled */
	struct chunk *chunks;      /* what the two are cut from */
	unsigned int sends, recvs; /* that UCX has not completed */
	int armed;                 /* somebody sleeps, or is about to */
	unsigned int idle_busy;    /* arms refused in a row, with nothing moved between them */
	int reap;                  /* some peer has it set */
	int broken;                /* a peer was cut off with messages under way */
	struct net_counters count; /* written under the lock, read by anybody */
	struct net_lane lane;      /* the same */
	struct peer peers[];
};

/* Counters: written under the lock, read by anybody. */
static inline void ucx_count(uint64_t *c, uint64_t n)
{
	__atomic_store_n(c, __atomic_load_n(c, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

#endif
