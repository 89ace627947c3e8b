/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared.h - the structs of the transport over librshare, its threads and locks. All ranks of a
 * node send over the same two queue pairs per pair of nodes, one for urgent classes and one for the
 * others. shared.c opens and closes, lane.c sends, receive.c receives and delivers, frame.c checks
 * incoming data by rules.h, conns.c is the thread that opens connections. The functions of each
 * file are declared in its header, those of shared.c here.
 *
 * The node's first rank is the owner of librshare: a thread of its process holds the device. A lane
 * is a connection to another rank for one kind of messages. The first message opens it; the
 * receiver accepts it (struct in). Each class of messages is one kind, except that block data has
 * one kind per region priority. Payloads travel
 *
 *   with the message               if they fit the receive buffers of its kind
 *   by RDMA write, before it       blocks up to SHARED_LANDING bytes, to the landing buffer of
 *                                  their request in the receiver's pool. A connection keeps order,
 *                                  so the block is there when the message arrives
 *   by RDMA read                   all others: the receiver reads them from the sender's pool and
 *                                  then releases them
 *
 * A message that a lane cannot accept, because the peer is slow or memory is short, stays in the
 * lane's backlog. No thread waits.
 *
 * Locks, in this order; none is held while handlers run or bytes of the caller are touched, except
 * the first by the thread of conns.c, which calls no handler:
 *   net.lock     the receiving side: all of struct in, fetches, the list of lanes
 *   lane.lock    the lane
 *   net.leaf     the inbox, the list of wanted lanes
 */
#ifndef NET_SHARED_H
#define NET_SHARED_H

#include <pthread.h>
#include <rshare.h>
#include <stdatomic.h>

#include "net/check.h"
#include "net/net.h"
#include "net/own.h"
#include "net/shared/frame.h"

#define DEPTH 32u /* outstanding operations of a connection, per direction */
/* the default block size; room of a receive buffer, if messages have payloads */
#define INLINE_MAX 4096u
#define FETCHES 2u  /* concurrent reads of payloads, from all peers */
#define LENT_MAX 2u /* payloads of a lane that the peer may be reading */
#define RELEASES 8u /* receive buffers for their releases */
#define LENT_ROOM (2 * NET_PAYLOAD_MAX)

enum lane_kind {
	KIND_COHERENCE,
	KIND_SYNC,
	KIND_BULK,
	KIND_DATA, /* in the order of enum net_priority */
	KIND_DATA_LOW,
	KIND_DATA_HIGH,
	KIND_DATA_URGENT,
	KINDS
};

struct lane_kind_row {
	const char *name;
	uint8_t class;
	uint8_t priority, weight; /* of a connection; priority 0: weighted */
	uint8_t receives;         /* posted by the other end */
	uint16_t room;            /* of each of them, after the frame */
};
extern const struct lane_kind_row lane_kinds[KINDS];

/* An item to deliver: a message or, if err is set, the loss of a peer. */
struct item {
	struct item *next;
	struct in *in; /* source of a received message */
	struct fetch *fetch;
	const void *payload;
	size_t size;
	struct msg m;
	int err;
	uint16_t rank;
	uint16_t buffer; /* of in */
	bool self;       /* allocated alone */
};

/* ---- sending -------------------------------------------------------------------------------- */

struct out {
	struct out *next;
	struct shared_frame f;
	/* frame and payload in the pool, for the device; NULL: not there yet, the payload is in
	 * data */
	char *pool;
	uint8_t users; /* references: until it is sent and, for FETCH, read */
	char data[];
};

enum lane_state { LANE_IDLE = 0, LANE_WANTED, LANE_OPEN, LANE_DEAD };

struct lane {
	pthread_mutex_t lock;
	struct lane *next, *next_wanted; /* under net.lock; net.leaf */
	struct peer *peer;
	struct rshare_conn *conn;
	_Atomic uint8_t state; /* written under lock */
	uint8_t kind;
	bool watched;                  /* the transport's fd reports its completions */
	bool wanted;                   /* on the list for the thread of conns.c; under net.leaf */
	struct out *head, **tail;      /* backlog */
	_Atomic uint32_t backlog;      /* messages in it; written under lock */
	struct out *ring[DEPTH];       /* submitted; NULL: the write of the next frame's block */
	uint32_t first, end;           /* of the ring */
	struct out *lent, **lent_tail; /* being read by the peer */
	uint32_t nlent;
	uint64_t id;
	char *releases; /* receive buffers */
};

enum peer_state { PEER_NONE = 0, PEER_KNOWN, PEER_LOST, PEER_DROPPED };

struct peer {
	struct net *net;
	_Atomic uint8_t state;
	atomic_bool left; /* it has closed, which is not a loss */
	uint16_t rank;
	uint32_t nslots;
	char node[sizeof(((struct rshare_info *)0)->address)];
	struct rshare_remote landing;
	struct item lost;
	struct lane lanes[KINDS];
};

/* ---- receiving ------------------------------------------------------------------------------ */

/* A payload to read from the peer. */
struct fetch {
	struct fetch *next;
	struct rshare_remote from;
	uint64_t id;
	char *buffer;
	struct item item;
};

struct in {
	struct in *next;
	struct net *net;
	struct rshare_conn *conn;
	int32_t rank; /* -1: nothing received yet */
	uint8_t kind;
	bool ended;
	uint32_t buffers, stride;
	char *memory;                       /* of buffers, and of the frame below */
	struct fetch *reading, **reads_end; /* in order */
	uint64_t asked;                     /* id of the last fetch received */
	/* id of the last fetch read; of the last reported to the peer */
	uint64_t read, told;
	bool telling;
	struct item items[];
};

/* Source of an epoll event. */
union source {
	void *ptr;
	uint64_t word;
};
#define SOURCE_LANE 1ull /* else a struct in; 0: the kick */

struct net {
	struct net_config cfg;
	struct rshare *r;
	bool owner;
	atomic_bool dead;    /* the owner is gone */
	atomic_bool starved; /* a lane waits for memory */
	char *landing;
	uint16_t local, locals;

	pthread_mutex_t lock;
	struct in *ins;
	struct lane *lanes; /* open ones */
	struct fetch *waiting[KINDS], **waiting_end[KINDS];
	uint64_t turn[KINDS], turn_now; /* order in which payloads are read: receive.c */
	char *fetch_free[FETCHES];
	unsigned int nfree;

	pthread_mutex_t leaf;
	struct item *inbox, **inbox_end;
	struct lane *wanted;
	atomic_bool armed;
	int epfd, kick;

	/* conns.c */
	struct rshare_listener *listeners[KINDS];
	pthread_t thread;
	bool has_thread;
	atomic_bool stopping;
	int wake;

	struct net_counters count;
	struct net_lane sent[KINDS];
	struct peer peers[];
};

/* In shared.c. Record the first error of a peer: the next poll reports the loss with err. Later
 * errors are ignored. Any thread; any lock but net.leaf may be held. */
void peer_gone(struct peer *p, int err);

static inline void shared_count(uint64_t *c, uint64_t by)
{
	__atomic_fetch_add(c, by, __ATOMIC_RELAXED);
}

static inline bool shared_peer_well(const struct peer *p)
{
	return atomic_load_explicit(&p->state, memory_order_acquire) == PEER_KNOWN;
}

#endif
