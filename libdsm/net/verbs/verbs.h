/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs.h - the structs of the transport over RDMA verbs, and its locks. verbs.c opens and closes;
 * dev.c has devices and their queues, mem.c registered memory, conn.c, ud.c and qp.c connections
 * and their repair, send.c and recv.c sending and receiving, arrivals.c the queue of received
 * completions, wait.c sleeping and threads; frame.c, set.c and gid.c are pure. The functions of
 * each file are in its header.
 *
 * A lane is a connection (an RC queue pair) to a peer for one class of messages. It carries frames,
 * numbered from 1. The sender keeps a frame in the lane's ring until a completion shows that the
 * peer's device has it. The receiver counts the frames that it accepted. A broken lane gets a new
 * queue pair: the receiver reports its count, and the sender sends the rest again. So no frame is
 * lost or delivered twice, and the layers above do not notice.
 *
 * Each queue of a device (struct queue) is a completion queue with its event channel and thread.
 * There is one per CQ group.
 *
 * A thread in a miss may have interrupted malloc(), so nothing that it does, or waits for,
 * allocates from the C library. The verbs libraries allocate from net/own.h (net/redirect.h). Only
 * ibv_create_ah() cannot: providers look up neighbours and interfaces by functions of the C
 * library. So address handles (struct route) are created when a peer is connected. The thread that
 * serves descriptors (the service thread) creates them again, with no lock held.
 *
 * Locks, in this order; none is held while handlers run or memory of the caller is accessed:
 *   net.conn     handshakes and their timers, creation and destruction of queue pairs
 *   lane.lock    the lane's state, ring, backlog and fetches; posting
 *   queue.lock   polling completions, one batch per acquisition (arrivals.h); the receiving side of
 *                the lanes (rx_*)
 *   leaves       net.leaf, dev.mem
 */
#ifndef NET_VERBS_H
#define NET_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cqgroup.h"
#include "net/check.h"
#include "net/net.h"
#include "net/own.h"
#include "net/verbs/arrivals.h"
#include "net/verbs/frame.h"
#include "net/verbs/set.h"

#define BUF_MIN_SHIFT 12
#define BUF_SIZES 11 /* 4 KiB to 4 MiB */

/* ---- memory --------------------------------------------------------------------------------- */

/* Registered memory for a payload that the peer, or this rank, reads by RDMA. */
struct buf {
	struct buf *next;
	char *at;
	struct ibv_mr *mr;
	uint32_t id, size; /* of the payload that is lent */
	uint8_t order;     /* size: 1 << (BUF_MIN_SHIFT + order) */
	uint8_t single;    /* at and mr belong to this buffer only */
};

struct area {
	struct area *next;
	char *at;
	size_t size, used;
	struct ibv_mr *mr;
};

/*
 * A frame to send, in registered memory: filled without a lock, posted without a copy, kept until
 * the peer has it.
 */
struct out {
	struct out *next;
	uint32_t bytes, lkey;
	uint8_t big;
	_Alignas(16) char data[]; /* struct frame and its contents */
};

/* ---- queues and devices --------------------------------------------------------------------- */

struct queue {
	struct net *net;
	struct dev *dev;
	struct cqgroup *group;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int vector;
	pthread_mutex_t lock;
	struct arrivals inbox;                 /* polled from the device, not handled yet */
	struct arrival batch[VERBS_BATCH_MAX]; /* being sorted; under lock */
	/* an event is due or pending: enum arming; written under lock to arm */
	atomic_int armed;
	_Atomic uint64_t events, completions;
	/* acquisitions of the lock to poll; of these, without completions */
	_Atomic uint64_t locks, idle_locks;
	pthread_t thread;
	bool has_thread;
};

struct ud {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char *mem;
	uint32_t lkey, qkey;
	bool broken;         /* a send failed: the queue pair must be set up again */
	unsigned int posted; /* outstanding sends */
	unsigned int next;   /* send buffer */
	bool armed;
};

struct dev {
	struct net *net;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	char name[64];
	uint8_t port;
	struct ibv_device_attr attr;
	struct ibv_port_attr pattr;
	union ibv_gid gid;
	uint32_t gid_type;
	uint8_t gid_index;
	bool odp; /* on-demand paging: registered memory need not be pinned */
	uint32_t inlined;
	struct ibv_mr *landing;
	struct ibv_srq *srq[CLASS_MAX];
	char *recv[CLASS_MAX];
	uint32_t recv_lkey[CLASS_MAX], recv_n[CLASS_MAX];
	struct cqgroup_table *groups;
	struct queue queues[CQGROUP_CLASSES];
	unsigned int nqueues;
	uint8_t queue_of[CLASS_MAX];
	struct ud ud;
	/* by queue pair number: [high 12 bits][low 12 bits] */
	_Atomic(_Atomic(struct lane *) *) lanes[4096];

	pthread_mutex_t mem;
	struct area *areas[2]; /* private; read by peers */
	struct buf *bufs[BUF_SIZES];
	size_t cached;       /* bytes of single buffers among them */
	struct out *outs[2]; /* free: small, big */
};

/* ---- peers and lanes ------------------------------------------------------------------------ */

enum lane_state {
	LANE_IDLE = 0, /* nothing sent yet */
	LANE_BROKEN,   /* needs a connection, or is broken */
	LANE_ASKED,    /* a request was sent to the peer */
	LANE_ANSWERED, /* the peer sent a request: can receive, may not send yet */
	LANE_READY,
	LANE_DEAD
};

/* Bytes that a lane lends at a time: a close may have more than may be locked in memory, here and
 * at the peer. A payload that is larger goes alone. */
#define PAYLOADS_MAX (4u << 20)

/* A payload that is being read from the peer. */
struct fetch {
	struct fetch *next;
	struct buf *buf;
	struct msg m;
	struct remote from;
	uint32_t size, id;
	uint32_t asked, got; /* pieces */
};

/* A message whose payload will be lent when the peer has read others. */
struct later {
	struct later *next;
	struct msg m;
	size_t size;
	char payload[];
};

struct lane {
	pthread_mutex_t lock;
	struct peer *peer;
	struct dev *dev;
	struct queue *queue;
	uint8_t class;
	uint8_t remote_dev;
	uint8_t fruitless;     /* consecutive repairs without progress */
	_Atomic uint8_t state; /* written under lock */
	bool wanted;           /* on the list of conn_want(); under net.leaf */
	bool queued;           /* on the send thread's list; under net.leaf */
	struct lane *next_wanted, *next_queued, *next_transit;

	/* sending; under lock */
	struct ibv_qp *qp;
	uint32_t inlined;  /* maximum bytes of inline data */
	struct out **ring; /* depth of them: frame number i in ring[i % depth] */
	uint32_t depth;
	/* frames posted; frames that the peer has. The ring holds those between */
	uint32_t sent, done;
	uint32_t signalled;            /* the last frame that reports its completion */
	struct out *head, **tail;      /* backlog */
	struct buf *lent, **lent_tail; /* payloads that the peer will read */
	size_t lending;                /* bytes of them */
	struct later *later, **later_tail;
	struct fetch *fetches, **fetches_tail;
	unsigned int reads;
	uint32_t next_id;
	uint64_t landing; /* address of the peer's landing slots */
	uint32_t landing_rkey;
	bool quitting;
	bool due;             /* waits for a completion of a send or a read; counted in net.due */
	struct net_work work; /* written under lock */

	/* receiving; under queue->lock */
	uint32_t rx_qpn; /* 0: nothing is accepted */
	uint32_t rx_seq;

	/* handshake; under net.conn */
	struct route *route;
	uint32_t epoch, psn, peer_qpn, peer_psn, last_rx;
	bool in_transit;
	uint64_t tried_at, began_at;
	uint32_t interval, waited; /* ms */
};

/* Route of datagrams over a link to a peer. Under net.conn. */
struct route {
	struct ibv_ah *ah;
	bool stale; /* conn_serve() with all must create ah again */
};

enum peer_state { PEER_NONE = 0, PEER_KNOWN, PEER_LOST, PEER_DROPPED };

struct peer {
	struct net *net;
	_Atomic uint8_t state;
	_Atomic uint8_t left; /* it has sent QUIT */
	uint8_t complained;   /* something about it was logged; under net.conn */
	uint16_t rank;
	int err;
	struct peer *next_lost;
	struct blob *at;
	struct route routes[VERBS_DEVICES]; /* by link */
	struct lane lanes[CLASS_MAX];
};

struct net {
	struct net_config cfg;
	struct verbs_set set;
	uint64_t key;
	struct dev *devs;
	unsigned int ndevs;
	uint8_t owner[CLASS_MAX]; /* number of the device that owns the class, plus 1; 0: none */
	char *landing;
	size_t landing_bytes, landing_stride;
	_Atomic uint64_t registered;
	bool threads; /* have been started */
	atomic_bool closing;

	pthread_mutex_t conn;
	struct lane *transit;
	uint64_t timer_at;
	int epfd, timer, kick;
	atomic_int busy;  /* lanes in transit, or about to be */
	atomic_int again; /* work was left for the thread that holds conn */
	_Atomic unsigned int polled;

	pthread_mutex_t leaf; /* lists */
	struct lane *wanted;
	struct peer *lost, *to_bury;
	struct self {
		struct self *next;
		struct msg m;
		size_t size;
		char data[];
	} * self, **self_tail;
	atomic_int pending; /* losses and messages to this rank itself */

	atomic_int pollers; /* waiting threads that poll */
	atomic_int waiters;
	atomic_int due; /* lanes */
	int stop;       /* eventfd: stops the threads */
	pthread_t sender;
	pthread_cond_t send_more;
	struct lane *send_head, **send_tail;
	bool has_sender, send_stop;

	_Atomic uint64_t posts, breaks;
	struct net_counters count;
	struct net_lane sent[CLASS_MAX]; /* messages and bytes */
	struct peer peers[];
};

enum wr_kind { WR_SEND = 1, WR_READ, WR_RECV };

static inline uint64_t wr_make(enum wr_kind kind, uint64_t what)
{
	return (uint64_t)kind << 56 | (what & 0xffffffffffffffull);
}

static inline void verbs_count(uint64_t *c, uint64_t by)
{
	__atomic_fetch_add(c, by, __ATOMIC_RELAXED);
}

/* Add to a counter of a lane's work: one writer at a time, readers at any time. */
static inline void verbs_did(uint64_t *c, uint64_t by)
{
	__atomic_store_n(c, *c + by, __ATOMIC_RELAXED);
}

static inline bool verbs_peer_well(const struct peer *p)
{
	return atomic_load_explicit(&p->state, memory_order_acquire) == PEER_KNOWN;
}

#endif
