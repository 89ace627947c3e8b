/* SPDX-License-Identifier: GPL-2.0 */
/* egress.h - what waits to be sent to a peer, and whose turn it is. All under egress->lock but where it says so. */
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
	bool own; /* a flow's, not of the pool */
};

enum flow_kind { FLOW_COHERENCE, FLOW_SYNC, FLOW_BULK, FLOW_DATA, FLOWS = FLOW_DATA + DSM_REGION_PRIORITIES };

/* What waits and takes turns together. The flows from FLOW_DATA on are for blocks, by the priority of their region. */
struct flow {
	struct rs_flow turns;
	struct lane *lane;
	struct list_head waiting;
	/* The first of them, if it is a block: so a block that is larger than the window needs no memory. */
	struct waiting own;
};

/* All that goes to a peer. */
struct egress {
	spinlock_t lock; /* of this, and of the peer's lanes */
	unsigned int nwaiting;
	unsigned int nstrict; /* of them, messages that blocks wait for */
	u32 most;             /* bytes of blocks that were on their way at a time */
	struct rs_sched sched;
	struct flow flows[FLOWS];
};

int egress_init(void);
void egress_exit(void);
void egress_start(struct conn *c, u16 peer); /* of a new connection; before its lanes */

/*
 * Make an entry for a message of the lane, behind `waiting` others. NULL, and the lane is broken: the queue is at its limit (how
 * says what the peer does wrong), or the user may not lock more memory. Under any lock.
 */
struct waiting *waiting_new(struct lane *l, unsigned int waiting, const struct msg *m, bool block, const char *how);
void waiting_put(struct conn *c, struct waiting *w);
unsigned int waiting_put_all(struct conn *c, struct list_head *list); /* returns how many; sleeps */

/* May the lane send a block of so many bytes at once, or a message (0)? Nothing waits that it would pass. */
static inline bool egress_is_free(const struct lane *l, u32 bytes)
{
	const struct egress *e = l->egress;

	return lane_may_send(l) &&
		(l->strict ? !l->nwaiting : !e->nwaiting && rs_sched_fits(&e->sched, RS_WEIGHTED, bytes));
}

static inline void egress_note(struct egress *e)
{
	if (e->sched.lane[RS_WEIGHTED].bytes > e->most)
		e->most = e->sched.lane[RS_WEIGHTED].bytes;
}

void egress_wait(struct lane *l, const struct msg *m, bool block); /* it may not */
void egress_add(struct lane *l, struct waiting *w);                /* one that has waited for something else */
void egress_go_on(struct lane *l);
unsigned int egress_forget(struct lane *l); /* what waits for it is freed: how many; takes the lock itself, sleeps */
void egress_show(struct seq_file *f, struct conn *c); /* these two take the lock themselves */
void egress_list(struct seq_file *f, struct conn *c); /* peers for which something waits */

/* Places in the lane's queue, credit or bytes have come free. */
static inline void egress_come_free(struct lane *l)
{
	if (unlikely(l->egress->nwaiting))
		egress_go_on(l);
}

#endif
