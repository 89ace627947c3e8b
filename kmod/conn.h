/* SPDX-License-Identifier: GPL-2.0 */
/*
 * conn.h - between the files of a rank's RDMA: conn.c makes queue pairs and connects them, lane.c sends and receives over
 * them, key.c makes the keys by which blocks are written.
 *
 * Locks: lane->lock, peer_keys->lock; neither inside the other, bottom halves off. The first is held when a timer is started.
 * Before them key_mutex, then modify, in processes and workers that may sleep.
 */
#ifndef KMOD_CONN_H
#define KMOD_CONN_H

#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

#include "cq.h"
#include "rank.h"

#define DEPTH 512u /* receives of a lane, and sends, where the device's queues have room for them */
#define DEPTH_LEAST 64u
#define SENDS_MORE 8u /* that are not counted: keys */
#define PACK 4u       /* messages of one send, at most */
#define SIGNAL_EVERY 16u
#define SENDS_LEAST (SIGNAL_EVERY + 2) /* fewer places would never come back */

/* More than ever wait for a peer that takes what it is sent: what its requests cause, and everybody's forwarded to it. */
#define WAITING_MAX(c) (4u * SLOTS * (c)->rank->size + 2u * ALL_SLOTS)

enum wr_kind { WR_RECEIVE = 1, WR_SEND, WR_KEY };

struct waiting {
	struct list_head list;
	struct msg m;
	bool block;
};

struct lane {
	spinlock_t lock;
	struct ib_qp *qp;
	struct conn *conn;
	u16 peer;
	u8 class;
	u32 peer_qpn; /* the peer's queue pair; 0: not connected yet */
	bool up, broken;
	bool greeted,
		proved; /* the proof of the job's key is sent, has come; before that nothing else goes, or is taken */
	unsigned int room;     /* places in the send queue */
	unsigned int nwaiting; /* of `waiting` */
	unsigned int unsignalled;
	struct list_head waiting;
	u64 sent, received;  /* messages and blocks */
	unsigned int pack;   /* messages that a buffer has room for */
	struct msg *buffers; /* conn->depth of them */
	u64 dma;
	struct msg *out; /* as many to send from; NULL: messages go inline */
	u64 out_dma;
	unsigned int posted;       /* sends, from out */
	struct msg held[PACK - 1]; /* they go with the next message, or when held_timer says so */
	unsigned int nheld;
	ktime_t held_until;
	struct hrtimer held_timer; /* runs: armed */
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

struct conn {
	struct rank *rank;
	struct ib_device *dev;
	u32 port;
	const struct ib_gid_attr *gid;
	u8 mtu;
	u16 lid;
	struct ib_pd *pd;
	struct cq *cqs[CLASS_MAX];
	unsigned int depth; /* receives and sends of each lane */
	struct lane *lanes; /* size * CLASS_MAX */
	struct peer_keys *keys;
	struct mutex key_mutex; /* one key is made at a time */
	struct mutex modify;    /* states of queue pairs are changed one by one; inside key_mutex */
	struct chunk_key *making;
	u32 late_us;             /* how long a MSG_DONE may wait for company; 0: not at all */
	bool failed;             /* a completion queue has */
	struct work_struct drop; /* ends the queue pairs to `dropped` */
	DECLARE_BITMAP(dropped, DSM_RANKS_MAX);
	bool closing; /* set under modify: no queue pair comes up any more, and that they break is no news */
};

static inline struct lane *lane_of(struct conn *c, u16 peer, unsigned int class)
{
	return &c->lanes[peer * CLASS_MAX + class];
}

/* A work request's name: what it is, of which lane, and a number. */
static inline u64 wr_id(enum wr_kind kind, const struct lane *l, u32 index)
{
	return (u64)kind << 56 | (u64)l->class << 48 | (u64)l->peer << 32 | index;
}

/* conn.c */
enum lane_secret { SECRET_PSN = 'P', SECRET_HELLO = 'H' };
u64 lane_secret(const struct lane *l, enum lane_secret what, bool theirs);
void lane_end(struct lane *l); /* sleeps: all that is posted comes back, as failed if not done */

/* lane.c */
int lane_init(void);
void lane_exit(void);
struct waiting *waiting_new(const struct msg *m, bool block);
void waiting_put(struct waiting *w);
void lane_completed(void *arg, const struct ib_wc *wc); /* of a conn; from cq.c, bottom halves are off */
/* A message of a peer that has proved itself, over a lane of that class. False: no correct peer sends it. */
bool lane_message(struct rank *r, u16 peer, unsigned int class, const struct msg *m);
void lane_send(struct lane *l, const struct msg *m, bool block);
void lane_send_waiting(struct lane *l, struct waiting *w); /* which is this lane's then */
void lane_start(struct lane *l);
void lane_stop(struct lane *l);              /* nothing is held any more; sleeps */
int lane_receive(struct lane *l, u32 index); /* post a buffer */
void lane_broken(struct lane *l, const char *how, int status);

/* key.c */
int key_message(struct conn *c, u16 peer, const struct msg *m); /* MSG_KEY_*, MSG_ECHO; -EBADMSG */
bool key_of_ours(const struct chunk *k, u32 page,
		 struct ib_sge *sge); /* where to send a page from; false: no key yet */
void key_made(struct conn *c, const struct ib_wc *wc);
void key_free_all(struct conn *c);

#endif
