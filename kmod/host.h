/* SPDX-License-Identifier: GPL-2.0 */
/*
 * host.h - between the files that host the core: step.c runs its machines, host.c carries their actions out, run.c takes
 * messages from one to the other, txn.c ends access before it goes on, timer.c comes back later. Bottom halves are off.
 */
#ifndef KMOD_HOST_H
#define KMOD_HOST_H

#include "rank.h"

/* Large things on the stack are __uninitialized: kernels that zero all variables would do little else here. */

/* Counters are near enough: two processors may lose one. */
#define count(field, n) WRITE_ONCE(field, READ_ONCE(field) + (n))

static inline spinlock_t *stripe_of(struct rank *r, u32 object)
{
	return &r->stripes[(object * 0x9e3779b1u) >> 22];
}

static inline struct page_ctx page_ctx(const struct rank *r)
{
	return (struct page_ctx){ .me = r->me, .nranks = r->size, .now = now_us(), .hold_us = r->hold_us };
}

static inline struct dsm_ioc_stats *stats_of(struct rank *r, u32 object)
{
	struct region *g = rank_region_at(r, block_page(object));

	return g ? &g->stats : &r->none;
}

/* host.c */
void host_carry_out(struct rank *r, const struct actions *acts, unsigned int from, const struct msg *m);
void host_bad(struct rank *r, const struct msg *m); /* a message that no correct rank sends: its sender is lost, */
void host_blame(struct rank *r, u16 peer);          /* cut off: nothing of it is taken any more */
void host_no_memory(struct rank *r); /* in the middle of a step: the rank cannot go on as if nothing were */

/* step.c: is this a block, as far as this rank knows? */
bool step_block_ok(const struct rank *r, u32 object);
/* 0, -EBADMSG, -ESTALE (core/dispatch.h); step_message() also -EAGAIN: not in this context */
int step_message(struct rank *r, const struct msg *m, struct actions *acts);
bool step_prepare(struct rank *r,
		  const struct msg *m); /* sleeps: the memory that -EAGAIN was for; false: there is none */
/*
 * A thread here wants a block that nobody ever had, and this rank is its home: what messages to itself would do. True: the
 * zeroed block is to be opened as *open says, and used; step_first_used() goes on.
 */
bool step_is_first(struct rank *r, const struct msg *ask); /* may it be? looks without a lock */
bool step_first(struct rank *r, const struct msg *ask, bool write, struct action *open);
void step_first_used(struct rank *r, const struct msg *ask, struct actions *acts);
/* A free record begins to wait for the lock that `ask` asks for; others may look at it, who have known it by another. */
void step_hold_begin(struct rank *r, u32 index, const struct msg *ask);
/* An event of this rank's own; about: if the record is of the lock that this message names. */
int step_held(struct rank *r, u32 index, enum hold_event ev, const struct msg *about, struct actions *acts);
int step_barrier(struct rank *r, const struct msg *m, struct bar_part *part, struct actions *acts);

/* run.c */
void host_fetch(struct rank *r, const struct msg *m); /* in process context: ask for the block of a MSG_RELEASE */
void host_route(struct rank *r,
		const struct msg *m); /* from r to anybody; host_run() goes on with it where it is of this kernel */
int run_start(void);
void run_stop(void);

/* txn.c */
void txn_send_block(struct rank *r, const struct msg *m); /* the block as it is, and m */
/* then the actions from `at` on */
void txn_close(struct rank *r, const struct actions *acts, unsigned int at, const struct msg *m);
void txn_drop_now(struct rank *r, const struct msg *m); /* under the stripe; then, without it, */
void txn_follow_drop(struct rank *r, const struct msg *m);
void txn_lower(struct rank *r, const struct action *a); /* then send the block */
void txn_open(struct rank *r, const struct action *a, const struct msg *m,
	      u32 blocks); /* the block of m, and those behind it */
int txn_start(void);
void txn_stop(void);

/* timer.c */
void hold_timer_start(struct rank *r, u32 object, u32 at);
int hold_timer_init(void);
void hold_timer_exit(void);

#endif
