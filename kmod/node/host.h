/* SPDX-License-Identifier: GPL-2.0 */
/*
 * host.h - a rank as a host of the core (core/host.h), and what threads ask of it. Callers disable
 * bottom halves unless a comment says otherwise. core/host.c steps the state machines and decides
 * in which order their actions are carried out. host.c has the callbacks, step.c finds the state
 * machines, run.c delivers messages, and txn.c lowers access, which takes time.
 */
#ifndef KMOD_HOST_H
#define KMOD_HOST_H

#include "rank.h"
#include "region.h"
#include "timer.h"

struct conn_ops;

/*
 * Large variables on the stack are __uninitialized: a kernel that zeroes variables would spend most
 * of its time on them.
 */

/* Not atomic: if two processors count at once, one of the counts may be lost. */
#define count(field, n) WRITE_ONCE(field, READ_ONCE(field) + (n))

static inline struct rank *host_rank(struct core_host *h)
{
	return container_of(h, struct rank, core);
}

/* key: struct core_place, core_key_hold(), core_key_barrier() */
static inline spinlock_t *stripe_of(struct rank *r, u32 key)
{
	return &r->stripes[(key * 0x9e3779b1u) >> 22];
}

/*
 * Selected by the first page, like its state: two ranks may disagree on the size of a block outside
 * regions.
 */
static inline spinlock_t *block_stripe(struct rank *r, u32 object)
{
	return stripe_of(r, block_page(object));
}

static inline struct dsm_ioc_stats *stats_of(struct rank *r, u32 object)
{
	struct region *g = region_at(r, block_page(object));

	return g ? &g->stats : &r->none;
}

/*
 * core_page_event(); a dropped copy is closed in all views, later. True: the block is open already.
 */
bool host_page(struct rank *r, enum page_event ev, const struct msg *ask, struct core_waiter *t);
/* 0, -EAGAIN (acquire first), -ERANGE; these four sleep */
int host_pin(struct rank *r, u32 object, bool write);
int host_unpin(struct rank *r, u32 object, bool write);
/* -EAGAIN: requests for the range are pending */
int host_quiet(struct rank *r, u32 page, u32 pages);
/* free the range; all ranks do so before one uses it again */
int host_forget(struct rank *r, u32 page, u32 pages);
/*
 * Open a block at its home that no rank has used yet, and those behind it with the same home in the
 * same 2 MiB, up to `most` in all. Sends no request. The caller calls slot_complete() for threads
 * that joined. Returns how many; 0: request it. Sleeps.
 */
u32 host_first(struct rank *r, const struct msg *ask, bool write, u32 most);
int host_held(struct rank *r, u32 hold, enum hold_event ev, const struct msg *about);
/*
 * A thread of this rank arrives, and then waits for the end of episode *gen. group, part:
 * core/barrier.h
 */
int host_arrive(struct rank *r, const struct msg *m, const struct bar_group *group,
		struct bar_part *part, u32 *gen);
void host_landed(struct rank *r, u16 from, u32 imm); /* a block has arrived by RDMA */
/*
 * Handle a message of an authenticated peer, over a lane of that class. False: no correct peer
 * sends it.
 */
bool host_message(struct rank *r, u16 peer, unsigned int class, const struct msg *m);
extern const struct conn_ops host_conn_ops; /* for connections whose arg is the rank */
int host_start(void);
void host_stop(void);

extern const struct core_ops host_core_ops; /* of rank->core */
/* no correct rank sends m: log that, and call host_blame() */
void host_bad(struct rank *r, const struct msg *m);
/* the peer is lost: disconnect it, drop its messages */
void host_blame(struct rank *r, u16 peer);
/* no memory in the middle of a step: the rank cannot continue */
void host_no_memory(struct rank *r);

#endif
