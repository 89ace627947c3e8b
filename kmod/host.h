/* SPDX-License-Identifier: GPL-2.0 */
/*
 * host.h - what hosts the core: carries out what steps ask for (host.c), for threads and for messages. Bottom halves are off
 * but where it says so. step.c runs the machines, run.c takes messages to them, txn.c ends access before it goes on.
 */
#ifndef KMOD_HOST_H
#define KMOD_HOST_H

#include "rank.h"
#include "region.h"
#include "timer.h"

struct conn_ops;

/* Large things on the stack are __uninitialized: kernels that zero all variables would do little else here. */

/* Counters are near enough: two processors may lose one. */
#define count(field, n) WRITE_ONCE(field, READ_ONCE(field) + (n))

static inline spinlock_t *stripe_of(struct rank *r, u32 object)
{
	return &r->stripes[(object * 0x9e3779b1u) >> 22];
}

/* By its first page, as its state is found: of a block of no region, two ranks may say different sizes. */
static inline spinlock_t *block_stripe(struct rank *r, u32 object)
{
	return stripe_of(r, block_page(object));
}

static inline struct page_ctx page_ctx(const struct rank *r)
{
	return (struct page_ctx){ .me = r->me, .nnodes = r->size, .now = now_us(), .hold_us = r->hold_us };
}

static inline struct dsm_ioc_stats *stats_of(struct rank *r, u32 object)
{
	struct region *g = region_at(r, block_page(object));

	return g ? &g->stats : &r->none;
}

/* A local event of a page; true: open already. Else *wait is the slot to wait for (or -1: nothing was asked). */
bool host_page(struct rank *r, enum page_event ev, const struct msg *ask, int *wait, u32 *seq);
int host_pin(struct rank *r, u32 object, bool write); /* 0, -EAGAIN (acquire first), -ERANGE; these sleep */
int host_unpin(struct rank *r, u32 object, bool write);
int host_quiet(struct rank *r, u32 page, u32 pages);  /* -EAGAIN: a request or an entry of the range is under way */
int host_forget(struct rank *r, u32 page, u32 pages); /* of all ranks before any of them uses the range again */
/*
 * Get a block that nobody ever had, at its home, and up to `most` in all with those behind it, of the same home and 2 MiB: done
 * at once; then slot_complete(), for those who joined. Returns how many; 0: ask for it.
 */
u32 host_first(struct rank *r, const struct msg *ask, bool write, u32 most);
int host_held(struct rank *r, u32 hold, enum hold_event ev, const struct msg *about);
/* An own thread, which waits for the end of episode *gen. group, part: core/barrier.h */
int host_arrive(struct rank *r, const struct msg *m, const struct bar_group *group, struct bar_part *part, u32 *gen);
void host_landed(struct rank *r, u16 from, u32 imm); /* a block has come by RDMA */
/* A message of a peer that has proved itself, over a lane of that class. False: no correct peer sends it. */
bool host_message(struct rank *r, u16 peer, unsigned int class, const struct msg *m);
extern const struct conn_ops host_conn_ops; /* of connections whose arg is the rank */
int host_start(void);
void host_stop(void);

void host_carry_out(struct rank *r, const struct actions *acts, unsigned int from, const struct msg *m);
void host_bad(struct rank *r, const struct msg *m); /* a message that no correct rank sends: its sender is lost, */
void host_blame(struct rank *r, u16 peer);          /* cut off: nothing of it is taken any more */
void host_no_memory(struct rank *r); /* in the middle of a step: the rank cannot go on as if nothing were */

#endif
