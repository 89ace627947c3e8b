/* SPDX-License-Identifier: GPL-2.0 */
/*
 * egress.h - messages and blocks that wait to be sent to a peer, and their order. The caller holds
 * egress->lock unless noted.
 */
#ifndef KMOD_EGRESS_H
#define KMOD_EGRESS_H

#include "conn.h"
#include "lane.h"
#include "share/schedule.h"

/* A message or block that waits to be sent. */
struct waiting {
	struct list_head list;
	struct msg m;
	bool block;
	bool own; /* flow->own, not allocated from the pool */
};

enum flow_kind {
	FLOW_COHERENCE,
	FLOW_SYNC,
	FLOW_BULK,
	FLOW_DATA,
	FLOWS = FLOW_DATA + DSM_REGION_PRIORITIES
};

/* A queue of the scheduler. The flows from FLOW_DATA on are for blocks, one per region priority. */
struct flow {
	struct rs_flow turns;
	struct lane *lane;
	struct list_head waiting;
	/*
	 * The first entry, if it is a block: a block that is larger than the window needs no
	 * allocation.
	 */
	struct waiting own;
};

/* All traffic to a peer. */
struct egress {
	spinlock_t lock; /* protects this and the peer's lanes */
	unsigned int nwaiting;
	unsigned int nstrict; /* messages among them that are sent before all blocks */
	u32 most;             /* maximum of the bytes of blocks in flight */
	struct rs_sched sched;
	struct flow flows[FLOWS];
};

int egress_init(void);
void egress_exit(void);
void egress_start(struct conn *c, u16 peer); /* initialise a peer, before lane_start(); no lock */

/*
 * Allocate an entry for a message of the lane, behind `waiting` others. NULL: the lane is now
 * broken, because the queue is at its limit (how: for the log, what the peer does wrong), the user
 * may not lock more memory, or there is no memory. Under any lock.
 */
struct waiting *waiting_new(struct lane *l, unsigned int waiting, const struct msg *m, bool block,
			    const char *how);
void waiting_put(struct conn *c, struct waiting *w);
/* returns their number; sleeps, no lock */
unsigned int waiting_put_all(struct conn *c, struct list_head *list);

/*
 * May the lane send a block of so many bytes, or a message (0), now? True only if it overtakes no
 * waiting entry.
 */
static inline bool egress_is_free(const struct lane *l, u32 bytes)
{
	const struct egress *e = l->egress;

	return lane_may_send(l) &&
		(l->strict ? !l->nwaiting
			   : !e->nwaiting && rs_sched_fits(&e->sched, RS_WEIGHTED, bytes));
}

static inline void egress_note(struct egress *e)
{
	if (e->sched.lane[RS_WEIGHTED].bytes > e->most)
		e->most = e->sched.lane[RS_WEIGHTED].bytes;
}

/* queue it: egress_is_free() is false */
void egress_wait(struct lane *l, const struct msg *m, bool block);
/* queue an entry that has waited for a key */
void egress_add(struct lane *l, struct waiting *w);
/* send what may be sent; see egress_come_free() */
void egress_go_on(struct lane *l);
/* free all entries of the lane; takes the lock, sleeps */
unsigned int egress_forget(struct lane *l);
void egress_show(struct seq_file *f, struct conn *c); /* for debugfs; these two take the lock */
void egress_list(struct seq_file *f, struct conn *c); /* peers with waiting entries */

/* Send queue entries, credit or window bytes have become free: send waiting entries. */
static inline void egress_come_free(struct lane *l)
{
	if (unlikely(l->egress->nwaiting))
		egress_go_on(l);
}

#endif
