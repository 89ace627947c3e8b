/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * barrier.h - a combining tree over the ranks of a group: arrivals and their values go up, the departure with the
 * combined value comes down. Each rank has one node; its threads arrive there.
 */
#ifndef CORE_BARRIER_H
#define CORE_BARRIER_H

#include "core/action.h"

#define BAR_FANOUT 8

struct bar {
	uint32_t gen;      /* episodes that ended; waiters wait for it to move */
	uint32_t threads;  /* expected of this rank; 0: none of them has come yet in this episode */
	uint32_t expect;   /* threads a rank, as the first arrival said */
	uint32_t arrived;
	uint16_t children; /* that arrived */
	uint8_t any;       /* acc holds a value */
	uint8_t up;        /* this rank's arrival has been sent to the parent */
	int16_t status;    /* -errno of this episode */
	int16_t ended;     /* -errno of the last */
	uint64_t mask;     /* the group, as the first of this rank's threads named it */
	uint64_t acc;
	uint64_t result;   /* of the last episode */
	uint32_t sleepers; /* the host's: threads that sleep on gen */
	uint32_t pad;
};
CORE_ASSERT_SIZE(struct bar, 56);

/* A rank's place in the tree of a group (mask 0: all ranks). */
struct bar_tree {
	uint16_t parent; /* SET_NOBODY at the root */
	uint16_t nchildren;
	uint16_t child[BAR_FANOUT];
};

/* -EINVAL: me is not in the group. */
int bar_tree(uint64_t mask, uint16_t nranks, uint16_t me, struct bar_tree *t);

typedef uint64_t (*bar_combine)(uint8_t op, uint64_t a, uint64_t b);

/* A thread of this rank arrives (m: MSG_ARRIVE from me: object, op, value, aux threads), or MSG_ARRIVE of a child, or
 * MSG_DEPART of the parent. t may be NULL as long as none of this rank's threads has come. 0 or -EBADMSG. */
int bar_step(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b, const struct msg *m, struct actions *out);

#endif
